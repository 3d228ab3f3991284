"""Processes that park, cancel and deliver are killed at any instruction: every message is delivered once, and never
early.
"""

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

from tests.integration.queue import delay_victims
from warren.message import Message

KILLS: Final = 50
ROLES: Final = ("parker", "parker", "mover", "mover")
ALIVE_S_MAX: Final = 0.25
START_S_MAX: Final = 30.0
DELIVER_S_MAX: Final = 60.0
READ_LIMIT: Final = 1_000_000

# A server that has everything imported forks a victim in milliseconds, and has no threads that a fork would lose.
FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.integration.queue.delay_victims"])


class Victims:
    """Processes at work on the store in `path`; each new one writes its own notes."""

    def __init__(self, path: Path, seed: int) -> None:
        self.store_path, self._notes = str(path / "store"), path / "notes"
        self._notes.mkdir()
        self._random = Random(seed)
        self._births = 0
        self._alive = [self._bear(role) for role in ROLES]

    def kill_one(self) -> None:
        """Lets them work for a moment, kills one, and starts another."""
        time.sleep(self._random.random() * ALIVE_S_MAX)
        place = self._random.randrange(len(ROLES))
        self._end(self._alive[place])
        self._alive[place] = self._bear(ROLES[place])

    def kill_all(self) -> None:
        for process in self._alive:
            self._end(process)
        self._alive = []

    def notes(self) -> Iterator[list[str]]:
        """Returns every complete line of the notes, split into words."""
        for path in sorted(self._notes.iterdir()):
            text = path.read_text()
            for line in text[: text.rfind("\n") + 1].splitlines():
                yield line.split()

    def _bear(self, role: str) -> BaseProcess:
        self._births += 1
        name, seed = f"{role}-{self._births}", self._random.getrandbits(32)
        target = delay_victims.park if role == "parker" else delay_victims.move
        process = FORKS.Process(target=target, args=(self.store_path, str(self._notes / name), name, seed))
        process.start()
        return process

    def _end(self, process: BaseProcess) -> None:
        process.kill()
        process.join(START_S_MAX)
        # A victim that ended without being killed met an error, and has printed it.
        assert process.exitcode == -9, f"{process} ended by itself"

    def end_rest(self) -> None:
        for process in self._alive:
            process.kill()
            process.join(START_S_MAX)


@pytest.fixture
def victims(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Victims]:
    seed = int(request.config.getoption("--hypothesis-seed") or 0)
    delay_victims.open_store(str(tmp_path / "store"), keeps=False).topic(delay_victims.TOPIC)
    born = Victims(tmp_path, seed)
    try:
        yield born
    finally:
        born.end_rest()


def test_every_message_is_delivered_once_and_never_early_over_kills(victims: Victims) -> None:
    for _ in range(KILLS):
        victims.kill_one()
    victims.kill_all()

    messages = _deliver_the_rest(victims.store_path)
    bodies = Counter(message.body.decode() for message in messages)
    dues: dict[str, int] = {}
    tried: set[str] = set()
    begun: set[str] = set()
    answers: dict[str, bool] = {}
    for kind, body, *values in victims.notes():
        if kind == "put":
            begun.add(body)
        elif kind == "parked":
            dues[body] = int(values[0])
        elif kind == "cancel":
            tried.add(body)
        else:
            answers[body] = values[0] == "1"

    assert [body for body, count in bodies.items() if count > 1] == [], "delivered twice"
    assert bodies.keys() <= begun, "these were never put"
    assert [body for body, answer in answers.items() if answer and body in bodies] == [], "cancelled and delivered"
    cancelled = {body for body in tried if answers.get(body, True)}
    assert dues.keys() - cancelled - bodies.keys() == set(), "lost"
    early = [m for m in messages if m.timestamp < dues.get(m.body.decode(), 0)]
    assert early == []
    assert len(dues) > KILLS, "the victims came to something"
    assert any(answers.values())


def _deliver_the_rest(path: str) -> list[Message]:
    """Returns the delivered messages when nothing is parked any more."""
    with delay_victims.open_store(path) as store:
        topic = store.topic(delay_victims.TOPIC)
        deadline_s = time.monotonic() + DELIVER_S_MAX
        while next(topic.scheduled(1), None) is not None:
            assert time.monotonic() < deadline_s, "what is due is not delivered"
            topic.partition(0).wait(topic.partition(0).end, 0.05)
        for log in topic.logs:
            log.verify()
        return [message for log in topic.logs for message in log.read(log.first, limit=READ_LIMIT)]
