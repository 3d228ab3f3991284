"""Processes that commit batches are killed at any instruction: each version exists once and
completely, or not at all.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.integration.transaction import batch_victims as victims
from warren.transaction.store import Store

KILLS: Final = 30
APPLICATIONS: Final = ("left", "right")
ALIVE_S_MAX: Final = 0.3
START_S_MAX: Final = 30.0

FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.integration.transaction.batch_victims"])


def test_batches_of_killed_processes_happen_wholly_or_not_at_all_and_once(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    random = Random(int(request.config.getoption("--hypothesis-seed") or 0))
    path = str(tmp_path / "store")
    victims.open_store(path).close()
    alive = {name: _bear(tmp_path, name, random) for name in APPLICATIONS}

    try:
        for _ in range(KILLS):
            name = random.choice(APPLICATIONS)
            if random.random() < 0.7:
                # The others are killed while they start, and finish interrupted work.
                _wait_for_answer(tmp_path / name, alive[name])
            time.sleep(random.random() * ALIVE_S_MAX)
            _end(alive[name])
            alive[name] = _bear(tmp_path, name, random)
    finally:
        for process in alive.values():
            process.kill()
            process.join(START_S_MAX)

    with victims.open_store(path) as store:
        reached = {name: store.last_version(name) for name in APPLICATIONS}
        counts = {topic: _bodies(store, topic) for topic, _, _ in victims.TOPICS}
    for name in APPLICATIONS:
        answered = {int(line) for line in (tmp_path / name).read_text().splitlines()}
        assert answered
        assert max(answered) <= (reached[name] or 0)
    expected = [
        f"{name}:{version}:{member}:{row}".encode()
        for name, last in reached.items()
        for version in range((last or 0) + 1)
        for member in range(victims.MEMBERS)
        for row in range(victims.ROWS)
    ]
    for bodies in counts.values():
        assert bodies == Counter(expected)


def _bear(path: Path, name: str, random: Random) -> BaseProcess:
    arguments = (str(path / "store"), str(path / name), name, random.getrandbits(32))
    process = FORKS.Process(target=victims.run, args=arguments)
    process.start()
    return process


def _wait_for_answer(notes: Path, process: BaseProcess) -> None:
    """Waits until something more is answered."""
    size = notes.stat().st_size if notes.exists() else 0
    deadline = time.monotonic() + START_S_MAX
    while (notes.stat().st_size if notes.exists() else 0) == size:
        assert process.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _end(process: BaseProcess) -> None:
    process.kill()
    process.join(START_S_MAX)
    # A victim that ended without being killed met an error, and has printed it.
    assert process.exitcode == -9, f"a victim ended by itself with {process.exitcode}"


def _bodies(store: Store, topic: str) -> Counter[bytes]:
    return Counter(message.body for log in store.topic(topic).logs for message in log.read(log.first, limit=1 << 20))
