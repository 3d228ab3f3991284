"""Processes that share one log are killed at any instruction: the promises hold for the processes that continue."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.crash import victims
from warren.message import Message
from warren.storage import Log

KILLS: Final = 100
WRITERS: Final = ("commit", "os", "interval:20ms")
ALIVE_S_MAX: Final = 0.12
START_S_MAX: Final = 30.0
READ_LIMIT: Final = 10_000

# A server that has everything imported forks a victim in milliseconds, and has no threads that a fork would lose.
FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.crash.victims"])


class Victims:
    """Processes at work on the log in `path`, one for each role; each new one writes its own notes."""

    def __init__(self, path: Path, seed: int) -> None:
        self.log_path, self._notes = str(path / "log"), path / "notes"
        self._notes.mkdir()
        self._random = Random(seed)
        self._born: Counter[str] = Counter()
        self._roles: list[str] = [*(f"writer-{mode}" for mode in WRITERS), "follower", "consumer"]
        self._alive: dict[str, BaseProcess] = {role: self._bear(role) for role in self._roles}

    def kill_one(self) -> None:
        """Lets them work for a moment, kills one, and starts another."""
        time.sleep(self._random.random() * ALIVE_S_MAX)
        role = self._random.choice(self._roles)
        self._end(role)
        self._alive[role] = self._bear(role)

    def kill_all(self) -> None:
        for role in self._roles:
            self._end(role)

    def revive_all(self) -> None:
        self._alive = {role: self._bear(role) for role in self._roles}

    def notes(self, role: str) -> Iterator[tuple[str, list[str]]]:
        """Returns the notes of each process of that role, complete lines only, the earliest process first."""
        for birth in range(1, self._born[role] + 1):
            name = f"{role}-{birth}"
            path = self._notes / name
            text = path.read_text() if path.exists() else ""
            yield name, text[: text.rfind("\n") + 1].splitlines()

    def _bear(self, role: str) -> BaseProcess:
        self._born[role] += 1
        name = f"{role}-{self._born[role]}"
        notes_path = str(self._notes / name)
        process: BaseProcess
        if role.startswith("writer"):
            mode, seed = role.removeprefix("writer-"), self._random.getrandbits(32)
            process = FORKS.Process(target=victims.write, args=(self.log_path, notes_path, name, mode, seed))
        else:
            target: Callable[[str, str], None] = victims.follow if role == "follower" else victims.consume
            process = FORKS.Process(target=target, args=(self.log_path, notes_path))
        process.start()
        return process

    def _end(self, role: str) -> None:
        process = self._alive[role]
        process.kill()
        process.join(START_S_MAX)
        # A victim that ended without being killed met an error, and has printed it.
        assert process.exitcode == -9, f"{role} ended by itself with {process.exitcode}"


@pytest.fixture
def killed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Victims]:
    """A log on which processes worked and were killed, a hundred times in total."""
    seed = int(request.config.getoption("--hypothesis-seed") or 0)
    victims.open_log(str(tmp_path / "log")).close()
    born = Victims(tmp_path, seed)
    try:
        yield born
    finally:
        for process in born._alive.values():
            process.kill()
            process.join(START_S_MAX)


def test_nothing_acknowledged_is_lost_and_no_number_is_used_twice(killed: Victims) -> None:
    for kill in range(KILLS):
        killed.kill_one()
        if kill % 20 == 19:
            killed.kill_all()
            killed.revive_all()
    killed.kill_all()

    with victims.open_log(killed.log_path) as log:
        log.verify()
        messages = _read_all(log)

    assert [message.number for message in messages] == list(range(len(messages)))
    for mode in WRITERS:
        for name, lines in killed.notes(f"writer-{mode}"):
            _check_writer(name, lines, messages)
    for name, lines in killed.notes("follower"):
        _check_follower(name, lines, messages)
    _check_consumer([line.split() for _, lines in killed.notes("consumer") for line in lines], len(messages))


def _read_all(log: Log) -> list[Message]:
    messages: list[Message] = []
    while part := log.read(len(messages), limit=READ_LIMIT):
        messages += part
    return messages


def _check_writer(name: str, lines: list[str], messages: list[Message]) -> None:
    """Acknowledged messages are at the acknowledged numbers; the log has them once, in order, without gaps."""
    for line in lines:
        number, sequence = map(int, line.split())
        assert messages[number].body == f"{name}:{sequence}".encode()
    sequences = [
        int(message.body.rpartition(b":")[2]) for message in messages if message.body.startswith(f"{name}:".encode())
    ]
    assert sequences == list(range(len(sequences)))
    assert len(sequences) - len(lines) <= victims.BATCH_MAX


def _check_follower(name: str, lines: list[str], messages: list[Message]) -> None:
    """A message that was read once exists permanently, and was read in order."""
    for number, line in enumerate(lines):
        assert line == f"{number} {messages[number].body.decode()}", name


def _check_consumer(notes: list[list[str]], end: int) -> None:
    """Each consumer starts where the last one committed, or where it was about to commit."""
    allowed = {0}
    for word, position in notes:
        number = int(position)
        if word == "start":
            assert number in allowed
            allowed = {number}
        else:
            allowed = {number} if word == "done" else allowed | {number}
    assert max(allowed) <= end
