"""Processes that share a queue group are killed at any instruction: nothing is lost, and no acknowledged message comes
again.
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

from tests.integration.queue import group_victims
from warren.queue.leases.queue_group import LOOK_S, QueueGroup

KILLS: Final = 40
ALIVE_S_MAX: Final = 0.4
END_S_MAX: Final = 30.0
ROLES: Final = ("putter-a", "worker-a", "worker-b", "worker-c")

# A server that has everything imported forks a victim in milliseconds, and has no threads that a fork would lose.
FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.integration.queue.group_victims"])


class Victims:
    """A putter and three workers of one group; each new one writes its own notes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.path, self._notes = str(folder / "data"), folder / "notes"
        self._notes.mkdir()
        self._random = Random(seed)
        self._born: Counter[str] = Counter()
        self._alive = {role: self._bear(role) for role in ROLES}

    def kill_one(self) -> None:
        """Lets them work for a moment, kills one, and starts another. The others continue."""
        time.sleep(self._random.random() * ALIVE_S_MAX)
        role = self._random.choice(ROLES)
        self._end(role)
        self._alive[role] = self._bear(role)

    def kill_all(self) -> None:
        for role in ROLES:
            self._end(role)

    def noted(self, kind: str) -> Counter[bytes]:
        """Returns the notes after this word, of all processes, in complete lines."""
        counts: Counter[bytes] = Counter()
        for path in sorted(self._notes.iterdir()):
            text = path.read_bytes()
            for line in text[: text.rfind(b"\n") + 1].splitlines():
                word, _, body = line.partition(b" ")
                if word == kind.encode():
                    counts[body] += 1
        return counts

    def _bear(self, role: str) -> BaseProcess:
        self._born[role] += 1
        name = f"{role}-{self._born[role]}"
        target = group_victims.put if role.startswith("putter") else group_victims.work
        arguments = (self.path, str(self._notes / name), name, self._random.getrandbits(32))
        process = FORKS.Process(target=target, args=arguments)
        process.start()
        return process

    def _end(self, role: str) -> None:
        process = self._alive[role]
        process.kill()
        process.join(END_S_MAX)
        # A victim that ended without being killed met an error, and has printed it.
        assert process.exitcode == -9, f"{role} ended by itself with {process.exitcode}"


def drained(group: QueueGroup) -> Counter[bytes]:
    """Returns all messages that can still be taken, dead letters included, each of them acknowledged."""
    counts: Counter[bytes] = Counter()
    wait_s = group_victims.LEASE_S + LOOK_S
    while (messages := group.take(100, wait=wait_s)) or group.redrive():
        counts.update(message.body for message in messages)
        group.ack_many(messages)
    return counts


def test_workers_that_are_killed_lose_nothing_and_repeat_nothing_that_was_acknowledged(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    victims = Victims(tmp_path, int(request.config.getoption("--hypothesis-seed") or 0))
    for _ in range(KILLS):
        victims.kill_one()
    victims.kill_all()
    topic = group_victims.open_topic(victims.path)
    remaining = drained(QueueGroup(topic, "workers", group_victims.SETTINGS))

    put, acknowledged = victims.noted("put"), victims.noted("done")
    unknown = victims.noted("try") - acknowledged - victims.noted("lost")
    assert len(acknowledged) > KILLS
    assert [body for body, times in (acknowledged + remaining).items() if times > 1] == []
    assert set(put) - set(acknowledged) - set(remaining) - set(unknown) == set()
    assert [body for body in victims.noted("take") + remaining if not body.startswith(b"putter")] == []
    assert topic.store.has_topic("orders.dead")
