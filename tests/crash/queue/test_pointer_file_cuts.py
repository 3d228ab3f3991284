"""The power is cut at any moment of a queue file's life, and processes are killed: it keeps its promise.

The promise: after a crash the file has exactly the messages from before the call that was not reported done, or exactly
those from after it. No call that was reported done is lost or repeated, even if the crash comes in the middle of an
optimisation, during the repair of a truncated file, or in the recovery from another crash.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Final, Literal, NamedTuple

import pytest

import warren.queue
from tests.crash.queue import queue_victims
from tests.support.line_cutter import LineCutter
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import PowerCut, SimulatedFileSystem
from warren.errors import LogClosed, SyncFailed
from warren.queue.standalone.file_queue import FileQueue, open_file

QUEUE_DIRECTORY: Final = os.path.join(os.path.dirname(os.path.abspath(warren.queue.__file__)), "")
PATH: Final = "/queue/jobs.bunny"
NS_PER_MS: Final = 1_000_000

CUTS_AT_LEAST: Final = 3000
PARTS: Final = 10
CUTS_PER_LIFE: Final = 15
LIVES_PER_PART: Final = CUTS_AT_LEAST // PARTS // CUTS_PER_LIFE

LINES_MIN: Final = 100
CALLS_MIN: Final = 15
"""The assumed length of an operation before it was first completed."""

KILLS: Final = 60
ALIVE_S_MAX: Final = 0.05
START_S_MAX: Final = 30.0

FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.crash.queue.queue_victims"])


class Waiting(NamedTuple):
    """A message that must be in the file."""

    body: bytes
    expires_ms: int | None


class Moment(NamedTuple):
    """A point in an operation: before the `at`-th line of the queue or the `at`-th call of the seam."""

    kind: Literal["line", "call"]
    at: int


Model = list[Waiting]


class QueueLife:
    """A queue file on a simulated disk, used by two openers in turn, with the list of its expected messages."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimulatedFileSystem(seed=seed)
        self.clock = SimulatedClock(10**18)
        self.optimise_above = self.random.choice((0, 100, 600, 5000, 1 << 20))
        self.is_delayed = self.random.random() < 0.8
        self.allowed: list[Model] = [[]]
        self.queues: list[FileQueue] = []
        self.cuts = 0
        self._pushes = 0
        self._longest: dict[tuple[str, str], int] = {}

    @property
    def model(self) -> Model:
        (model,) = self.allowed
        return model

    def run(self, cuts: int) -> None:
        self.recover()
        while self.cuts < cuts:
            self.clock.pass_ns(self.random.randrange(400) * NS_PER_MS)
            name, action = self.random.choice(
                (("push", self.push),) * 5
                + (("pull", self.pull),) * 4
                + (("optimise", self.optimise), ("cut", self.cut_short))
            )
            if not self.perform(name, action, self.draw_moment(name)):
                self.crash()
                self.recover()

    # Operations. Each first declares which results are allowed from now on, and, when it is done, its only result.

    def push(self) -> None:
        size = self.random.choice((0, 1, 10, 100, 100, 500, 3000))
        body = b"%d:" % self._pushes + self.random.randbytes(size)
        delay = self.random.choice((None, None, 0.1, 0.5, 3.0)) if self.is_delayed else None
        self._pushes += 1
        now_ms = self.clock.now_ns() // NS_PER_MS
        expires_ms = now_ms + int((delay or 0) * 1000) if self.is_delayed else None
        after = [*self.model, Waiting(body, expires_ms)]
        self.allowed.append(after)
        self.some_queue().push(body, delay)
        self.allowed = [after]

    def pull(self) -> None:
        before, now_ms = self.model, self.clock.now_ns() // NS_PER_MS
        due = [place for place, waiting in enumerate(before) if (waiting.expires_ms or 0) <= now_ms]
        after = before[: due[0]] + before[due[0] + 1 :] if due else before
        self.allowed.append(after)
        body = self.some_queue().pull()
        assert body == (before[due[0]].body if due else None)
        self.allowed = [after]

    def optimise(self) -> None:
        self.some_queue().optimise()

    def cut_short(self) -> None:
        """Cuts bytes off the end of the file; opening it repairs the rest."""
        file = self.disk.open(PATH, writable=True)
        push = int.from_bytes(file.read(4, 4))
        size = self.random.randrange(max(8, push - 200), push + 1)
        starts = [record.position for record in self.some_queue().records()]
        ends = [*starts[1:], push] if starts else []
        self.allowed = [self.model[: sum(end <= size for end in ends)]]
        file.truncate(size)
        file.sync()
        self.some_queue().messages()

    def some_queue(self) -> FileQueue:
        return self.random.choice(self.queues)

    # How operations are carried out, and how crashes happen.

    def perform(self, name: str, action: Callable[[], None], moment: Moment | None) -> bool:
        """Carries it out. Returns False if the power was cut at `moment`."""
        calls_before = self.disk.calls
        is_call = moment is not None and moment.kind == "call"
        self.disk.cut_at_call = calls_before + moment.at if moment and is_call else None
        cutter = LineCutter(self.disk, moment.at if moment and not is_call else None, directory=QUEUE_DIRECTORY)
        try:
            with cutter:
                action()
        except PowerCut:
            assert self.disk.is_cut
        self.disk.cut_at_call = None
        for kind, length in (("line", cutter.lines), ("call", self.disk.calls - calls_before)):
            self._longest[name, kind] = max(length, self._longest.get((name, kind), 0))
        if self.disk.is_cut:
            return False
        if name != "open":
            self.check()
        return True

    def draw_moment(self, name: str) -> Moment | None:
        if name == "cut" or self.random.random() < 0.6:
            return None
        kind: Literal["line", "call"] = self.random.choice(("line", "line", "call"))
        longest = max(self._longest.get((name, kind), 0), LINES_MIN if kind == "line" else CALLS_MIN)
        return Moment(kind, self.random.randint(1, longest))

    def crash(self) -> None:
        """Cuts the power, or kills every process, or sometimes does both."""
        self.queues.clear()
        seed = self.random.getrandbits(32)
        if self.random.random() < 0.3:
            self.disk = self.disk.after_process_kill(seed)
        else:
            self.disk = self.disk.after_power_cut(seed, same_boot=self.random.random() < 0.4)
        self.cuts += 1

    def recover(self) -> None:
        """Opens the file again, possibly through further crashes, and checks that its content is allowed."""
        while not self.perform("open", self.open, self.draw_moment("open")):
            self.crash()
        state = self.read_state()
        assert state in self.allowed, f"{state} was found, not one of {self.allowed}"
        self.allowed = [state]

    def open(self) -> None:
        self.queues = [
            open_file(
                PATH,
                optimise_above=self.optimise_above,
                delayed=self.is_delayed,
                filesystem=self.disk,
                clock=self.clock,
            )
            for _ in range(2)
        ]

    def check(self) -> None:
        assert self.read_state() == self.model

    def read_state(self) -> Model:
        return [Waiting(record.body, record.expires_ms) for record in self.some_queue().records()]


@pytest.fixture(scope="session")
def first_seed(request: pytest.FixtureRequest) -> int:
    """New cuts in every run of `make test`; `make test SEED=…` repeats the same ones."""
    return int(request.config.getoption("--hypothesis-seed") or 0) * 1_000_000


@pytest.mark.parametrize("part", range(PARTS))
def test_a_queue_file_keeps_its_promise_through_many_power_cuts(part: int, first_seed: int) -> None:
    for life in range(LIVES_PER_PART):
        seed = first_seed + part * LIVES_PER_PART + life
        try:
            QueueLife(seed).run(CUTS_PER_LIFE)
        except Exception as error:
            raise AssertionError(f"the life of seed {seed} ended badly") from error


@pytest.mark.parametrize(
    ("call", "due_after_s", "nth", "after"),
    [
        (lambda queue: queue.push(b"new"), 0, 1, [b"later", b"now", b"last"]),
        (lambda queue: queue.push(b"new"), 0, 2, [b"later", b"now", b"last", b"new"]),
        (FileQueue.pull, 100, 1, [b"now", b"last"]),
        (FileQueue.pull, 0, 1, [b"later", b"now", b"last"]),
        (FileQueue.optimise, 0, 1, [b"later", b"now", b"last"]),
    ],
    ids=["push, data", "push, pointers", "pull, pointers", "pull behind one not due", "optimise"],
)
def test_a_failed_sync_is_reported_and_closes_the_queue(
    call: Callable[[FileQueue], object], due_after_s: int, nth: int, after: list[bytes]
) -> None:
    """`after` is the content of the file if the operation took effect nevertheless, up to the point that it reached."""
    disk, clock = SimulatedFileSystem(), SimulatedClock()
    before = [b"later", b"now", b"last"]
    with open_file(PATH, filesystem=disk, clock=clock) as queue:
        for body in (b"gone", *before):
            queue.push(body, delay=100 if body == b"later" else None)
        queue.pull()
        clock.pass_ns(due_after_s * 10**9)
        disk.fail_sync(nth)

        with pytest.raises(SyncFailed):
            call(queue)
        with pytest.raises(LogClosed):
            queue.messages()

    assert _messages(disk) in (before, after)
    assert _messages(disk.after_power_cut(seed=nth)) in (before, after)


def _messages(disk: SimulatedFileSystem) -> list[bytes]:
    with open_file(PATH, filesystem=disk, clock=SimulatedClock()) as queue:
        return queue.messages()


class Victims:
    """Two pushers and two pullers at work on one file; each new one writes its own notes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.path, self._notes = str(folder / "jobs.bunny"), folder / "notes"
        self._notes.mkdir()
        self._random = Random(seed)
        self._born: Counter[str] = Counter()
        self._roles: list[str] = ["pusher-a", "pusher-b", "puller-a", "puller-b"]
        self._alive = {role: self._bear(role) for role in self._roles}

    def kill_one(self) -> None:
        """Lets them work for a moment, kills one, and starts another. The others continue."""
        time.sleep(self._random.random() * ALIVE_S_MAX)
        role = self._random.choice(self._roles)
        self._end(role)
        self._alive[role] = self._bear(role)

    def kill_all(self) -> None:
        for role in self._roles:
            self._end(role)

    def notes(self, kind: str) -> dict[str, list[bytes]]:
        """Returns the notes of each process of that kind, complete lines only."""
        lines = {}
        for path in sorted(self._notes.glob(f"{kind}-*")):
            text = path.read_bytes()
            lines[path.name] = text[: text.rfind(b"\n") + 1].splitlines()
        return lines

    def _bear(self, role: str) -> BaseProcess:
        self._born[role] += 1
        name = f"{role}-{self._born[role]}"
        target = queue_victims.push if role.startswith("pusher") else queue_victims.pull
        arguments = (self.path, str(self._notes / name), name, self._random.getrandbits(32))
        process = FORKS.Process(target=target, args=arguments)
        process.start()
        return process

    def _end(self, role: str) -> None:
        process = self._alive[role]
        process.kill()
        process.join(START_S_MAX)
        # A victim that ended without being killed met an error, and has printed it.
        assert process.exitcode == -9, f"{role} ended by itself with {process.exitcode}"


def test_processes_that_are_killed_lose_and_repeat_nothing_that_was_reported_done(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    victims = Victims(tmp_path, int(request.config.getoption("--hypothesis-seed") or 0))
    for _ in range(KILLS):
        victims.kill_one()
    victims.kill_all()
    with queue_victims.open_queue(victims.path) as queue:
        remaining = queue.messages()

    pushed = [body for lines in victims.notes("pusher").values() for body in lines]
    pullers = victims.notes("puller")
    pulled = [body for lines in pullers.values() for body in lines if body not in (b"?", b"")]
    in_flight = sum(bool(lines) and lines[-1] == b"?" for lines in pullers.values())
    assert len(pushed) > KILLS
    assert [body for body, count in Counter(pulled + remaining).items() if count > 1] == []
    assert len(set(pushed) - {*pulled, *remaining}) <= in_flight
    assert len({*pulled, *remaining} - set(pushed)) <= len(victims.notes("pusher"))
