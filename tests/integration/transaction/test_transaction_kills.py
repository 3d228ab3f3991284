"""Processes that work in transactions are killed at any instruction: each is applied exactly once or not at all."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.integration.transaction import transaction_victims as victims
from warren.transaction.store import Store

KILLS: Final = 40
ROLES: Final = ("mover", "mover", "worker", "worker", "coordinator", "coordinator")
ALIVE_S_MAX: Final = 0.5
START_S_MAX: Final = 30.0

FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.integration.transaction.transaction_victims"])


class Victims:
    """Processes at work on one store; each new one writes its own notes."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self._notes = str(path / "store"), path / "notes"
        self._notes.mkdir()
        self._random = Random(seed)
        self._born = 0
        self.alive = [self._bear(role) for role in ROLES]

    def _bear(self, role: str) -> BaseProcess:
        self._born += 1
        name = f"{role}-{self._born}"
        arguments = (self.path, str(self._notes / name), role, name, self._random.getrandbits(32))
        process = FORKS.Process(target=victims.run, args=arguments)
        process.start()
        return process

    def kill_one(self) -> None:
        """Lets them work for a moment, kills one, and starts another."""
        time.sleep(self._random.random() * ALIVE_S_MAX)
        place = self._random.randrange(len(ROLES))
        self._end(self.alive[place])
        self.alive[place] = self._bear(ROLES[place])

    def kill_all(self) -> None:
        for process in self.alive:
            self._end(process)

    @staticmethod
    def _end(process: BaseProcess) -> None:
        process.kill()
        process.join(START_S_MAX)
        # A victim that ended without being killed met an error, and has printed it.
        assert process.exitcode == -9, f"a victim ended by itself with {process.exitcode}"

    def notes(self) -> Iterator[tuple[str, str]]:
        """Returns the answers, and their transactions: complete lines only."""
        for path in sorted(self._notes.iterdir()):
            text = path.read_text()
            for line in text[: text.rfind("\n") + 1].splitlines():
                word, _, name = line.partition(" ")
                yield word, name


@pytest.fixture
def killed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Victims]:
    with victims.open_store(str(tmp_path / "store")) as store:
        for partition in (0, 1):
            numbers = [b"%d" % number for number in range(victims.SOURCE_COUNT)]
            store.topic("source").put_many(numbers, partition=partition)
        store.topic("jobs").put_many([b"%d" % number for number in range(victims.SOURCE_COUNT)])
    born = Victims(tmp_path, int(request.config.getoption("--hypothesis-seed") or 0))
    try:
        yield born
    finally:
        for process in born.alive:
            process.kill()
            process.join(START_S_MAX)


def test_transactions_of_killed_processes_happen_wholly_or_not_at_all_and_once(killed: Victims) -> None:
    for _ in range(KILLS):
        killed.kill_one()
    killed.kill_all()

    with victims.open_store(killed.path) as store:
        waiting = {each.id for each in store.recover()}
        counts = _everywhere(store)
        moved, results = _bodies(store, "moved"), _bodies(store, "results")
        positions = store.topic("source").group("movers").positions()
        remaining = _remaining(store)

    # Each transaction is in each partition of each topic, once, or in none.
    partition_count = sum(partitions for _, _, partitions in victims.OUTPUTS)
    assert {name: count for name, count in counts.items() if count != partition_count} == {}
    notes = Counter(killed.notes())
    committed = {name for word, name in notes if word == "done"}
    aborted = {name for word, name in notes if word == "aborted"}
    assert committed <= counts.keys()
    assert not aborted & counts.keys()
    assert not waiting & counts.keys()
    assert not committed & aborted
    # The position of a message is committed with its result, and with nothing else.
    expected = [b"%d:%d" % (partition, number) for partition, end in positions.items() for number in range(end)]
    assert sorted(moved) == sorted(expected)
    assert sorted(int(body) for body in results) == sorted(set(range(victims.SOURCE_COUNT)) - remaining)
    assert {word for word, _ in notes} == {"done", "aborted", "prepared"}
    assert moved
    assert results


def _everywhere(store: Store) -> Counter[str]:
    """Returns how many messages each transaction has, over all topics and partitions; each place counts once."""
    counts: Counter[str] = Counter()
    for topic, _, _ in victims.OUTPUTS:
        for log in store.topic(topic).logs:
            here = Counter(message.body.decode() for message in log.read(log.first, limit=1 << 20))
            assert max(here.values(), default=1) == 1
            counts.update(here.keys())
    return counts


def _bodies(store: Store, topic: str) -> list[bytes]:
    return [message.body for log in store.topic(topic).logs for message in log.read(log.first, limit=1 << 20)]


def _remaining(store: Store) -> set[int]:
    """Returns the jobs that are still to be done."""
    group = store.topic("jobs").group("workers", mode="queue")
    numbers: set[int] = set()
    while messages := group.take(1000, wait=1.0):
        numbers |= {message.number for message in messages}
    return numbers
