"""The power is cut at any moment of a queue group's life, and processes are killed: it keeps its promise.

The promise: a durably acknowledged message is never handed out again. Every other message is in exactly one place: it
is handed out again, or it is a dead letter, and comes back once when that is put back.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Final, Literal, NamedTuple
from unittest import mock

import pytest

import warren.queue
from tests.support.line_cutter import LineCutter
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import PowerCut, SimulatedFileSystem
from warren.errors import LeaseLost
from warren.message import Message
from warren.queue.leases.queue_group import LOOK_S, QueueGroup
from warren.queue.state import ledger
from warren.queue.state.group_settings import GroupSettings
from warren.queue.store import Store
from warren.queue.topic import Topic

QUEUE_DIRECTORY: Final = os.path.join(os.path.dirname(os.path.abspath(warren.queue.__file__)), "")
NS_PER_MS: Final = 1_000_000
PARTITIONS: Final = 2
LEASE_S: Final = 1.0
MAP_CAPACITY: Final = 1 << 19

CUTS_PER_LIFE: Final = 12
LIVES_PER_PART: Final = 3
PARTS: Final = 8
LINES_MIN: Final = 200
CALLS_MIN: Final = 40
"""The assumed length of an operation before it was first completed."""

CUT_CHANCES: Final = {"redrive": 0.6, "nack": 0.3}
"""How often an operation is cut: those that move messages from one log to another more often than others."""

Fate = Literal["live", "done", "maybe put", "maybe done"]


class Moment(NamedTuple):
    """A point in an operation: before the `at`-th line of the queue or the `at`-th call of the seam."""

    kind: Literal["line", "call"]
    at: int


class BetweenLines(LineCutter):
    """Cuts before a line of the queue, and never in the middle of one: a line here is many stores of the engine.

    Those are cut, and torn, in the engine's own tests.
    """

    def __init__(self, disk: SimulatedFileSystem, line: int | None, *, directory: str) -> None:
        super().__init__(disk, line, directory=directory)
        self._is_half_stored = False


class GroupLife:
    """A store on a simulated disk with two openers of one group, with the expected fate of every message."""

    def __init__(self, seed: int, durability: str) -> None:
        self.random = Random(seed)
        self.disk = SimulatedFileSystem(seed=seed, map_capacity=MAP_CAPACITY)
        self.clock = SimulatedClock()
        self.durability = durability
        self.settings = GroupSettings(
            mode="queue",
            lease_s=LEASE_S,
            attempts_max=self.random.choice((1, 2, 3)),
            backoff_s=self.random.choice((0.0, 0.2)),
            ordered_by_key=self.random.random() < 0.4,
            tag=self.random.choice((None, "eu.#")),
        )
        self.fates: dict[bytes, Fate] = {}
        self.openers: list[tuple[Store, QueueGroup]] = []
        self.handles: list[Message] = []
        self.cuts = 0
        self._longest: dict[tuple[str, str], int] = {}

    def run(self, cuts: int) -> None:
        self.open()
        operations: list[tuple[str, Callable[[], None]]] = [
            *[("put", self.put)] * 3,
            *[("take", self.take)] * 4,
            *[("ack", self.ack)] * 3,
            *[("nack", self.nack)] * 3,
            *[("redrive", self.redrive)] * 2,
            ("hold", self.hold),
            ("retire", self.retire),
            ("time", self.let_time_pass),
        ]
        while self.cuts < cuts:
            name, action = self.random.choice(operations)
            if not self.perform(name, action, self.draw_moment(name)):
                self.crash()
                self.recover()
        self.check_that_each_is_in_one_place()

    # --- Operations ---

    def group(self) -> QueueGroup:
        return self.random.choice(self.openers)[1]

    def topic(self) -> Topic:
        topic = self.random.choice(self.openers)[0].opened_topic("orders")
        assert topic is not None
        return topic

    def put(self) -> None:
        count = self.random.choice((1, 1, 3, 6))
        bodies = [b"%d:" % (len(self.fates) + row) + bytes(self.random.choice((0, 50, 900))) for row in range(count)]
        self.fates.update(dict.fromkeys(bodies, "maybe put"))
        keys = [self.random.choice((None, b"a", b"b")) for _ in bodies]
        self.topic().put_many(bodies, keys=keys, tag="eu.de")
        self.fates.update(dict.fromkeys(bodies, "live"))

    def take(self) -> None:
        self.see(self.group().take(self.random.choice((1, 2, 10))))

    def see(self, messages: list[Message]) -> None:
        for message in messages:
            fate = self.fates[message.body]
            assert fate != "done", f"{message.body!r} was acknowledged, and handed out as attempt {message.attempt}"
            self.fates[message.body] = "live"
        places = {(message.partition, message.number) for message in messages}
        self.handles = [old for old in self.handles if (old.partition, old.number) not in places] + messages

    def some_handles(self) -> list[Message]:
        self.random.shuffle(self.handles)
        count = self.random.choice((1, 1, 4))
        chosen, self.handles = self.handles[:count], self.handles[count:]
        return chosen

    def ack(self) -> None:
        messages = self.some_handles()
        before = {message.body: self.fates[message.body] for message in messages}
        for body, fate in before.items():
            self.fates[body] = "maybe done" if fate == "live" else fate
        lost: list[tuple[int, int]] = []
        try:
            self.group().ack_many(messages)
        except LeaseLost as error:
            lost = error.places
        for message in messages:
            is_lost = (message.partition, message.number) in lost
            self.fates[message.body] = before[message.body] if is_lost else "done"

    def nack(self) -> None:
        for message in self.some_handles():
            try:
                self.group().nack(message, self.random.choice((None, 0.0, 0.1)), "no luck")
            except LeaseLost:
                continue

    def hold(self) -> None:
        """Begins a transaction that is abandoned, in any process, or that is committed."""
        messages = self.some_handles()
        id, group = f"t{self.random.getrandbits(64)}", self.group()
        is_committed = self.random.random() < 0.5
        try:
            group.hold(id, messages)
        except LeaseLost:
            return
        for message in messages if is_committed else ():
            self.fates[message.body] = "maybe done"
        group.finish(id, is_committed)
        for message in messages if is_committed else ():
            self.fates[message.body] = "done"

    def redrive(self) -> None:
        self.group().redrive(self.random.choice((None, 1, 2)))

    def retire(self) -> None:
        self.topic().retire()

    def let_time_pass(self) -> None:
        self.clock.pass_ns(self.random.choice((100, 300, 1100, 6000)) * NS_PER_MS)

    # --- How they are done, and how crashes happen ---

    def perform(self, name: str, action: Callable[[], None], moment: Moment | None) -> bool:
        """Carries it out. Returns False if the power was cut at `moment`."""
        calls_before = self.disk.calls
        is_call = moment is not None and moment.kind == "call"
        self.disk.cut_at_call = calls_before + moment.at if moment and is_call else None
        try:
            if moment is not None and not is_call:
                with BetweenLines(self.disk, moment.at, directory=QUEUE_DIRECTORY) as cutter:
                    action()
                self._note(name, "line", cutter.lines)
            else:
                action()
                self._note(name, "call", self.disk.calls - calls_before)
        except PowerCut:
            assert self.disk.is_cut
        self.disk.cut_at_call = None
        return not self.disk.is_cut

    def _note(self, name: str, kind: str, length: int) -> None:
        self._longest[name, kind] = max(length, self._longest.get((name, kind), 0))

    def draw_moment(self, name: str) -> Moment | None:
        if self.random.random() > CUT_CHANCES.get(name, 0.2):
            return None
        kind: Literal["line", "call"] = self.random.choice(("line", "call", "call"))
        longest = max(self._longest.get((name, kind), 0), LINES_MIN if kind == "line" else CALLS_MIN)
        return Moment(kind, self.random.randint(1, longest))

    def crash(self) -> None:
        """Cuts the power, loses unsynced data, or kills every process.

        Without syncs, only a kill keeps the promise.
        """
        self.openers.clear()
        self.handles.clear()
        seed = self.random.getrandbits(32)
        if self.durability == "os" or self.random.random() < 0.4:
            self.disk = self.disk.after_process_kill(seed)
        else:
            self.disk = self.disk.after_power_cut(seed, same_boot=self.random.random() < 0.4)
        self.clock.pass_ns(NS_PER_MS)
        self.cuts += 1

    def recover(self) -> None:
        while not self.perform("open", self.open, self.draw_moment("open")):
            self.crash()

    def open(self) -> None:
        self.openers.clear()
        for _ in range(2):
            store = Store("/data", keeps=False, filesystem=self.disk, clock=self.clock)
            topic = store.topic(
                "orders", PARTITIONS, durability=self.durability, block_size=8192, retention_consumed=True
            )
            self.openers.append((store, QueueGroup(topic, "workers", self.settings)))
        # A transaction that no process knows any more is aborted.
        for id in self.openers[0][1].held():
            self.openers[0][1].finish(id, False)

    # --- Invariants ---

    def check_that_each_is_in_one_place(self) -> None:
        """Acknowledges all messages, puts dead letters back, and acknowledges these as well: each comes once."""
        counts: Counter[bytes] = Counter()
        group = self.openers[0][1]
        counts.update(self.drained(group))
        while group.redrive():
            counts.update(self.drained(group))

        assert [body for body, count in counts.items() if count > 1] == []
        assert [body for body in counts if self.fates[body] == "done"] == []
        assert [body for body, fate in self.fates.items() if fate == "live" and body not in counts] == []

    def drained(self, group: QueueGroup) -> Iterator[bytes]:
        """Returns all messages that can be taken, each of them acknowledged."""
        for _ in range(3):
            self.clock.pass_ns(int((LEASE_S + LOOK_S + 1) * 1e9))
            while messages := group.take(100):
                yield from (message.body for message in messages)
                group.ack_many(messages)


@pytest.fixture(scope="session")
def first_seed(request: pytest.FixtureRequest) -> int:
    """New cuts with `make test SEED=…`; the same ones without."""
    return int(request.config.getoption("--hypothesis-seed") or 0) * 1_000_000


@pytest.mark.parametrize("durability", ["commit", "os"])
@pytest.mark.parametrize("part", range(PARTS))
def test_a_queue_group_keeps_its_promise_through_many_crashes(part: int, durability: str, first_seed: int) -> None:
    lives = LIVES_PER_PART if durability == "commit" else 1
    for life in range(lives):
        seed = first_seed + part * LIVES_PER_PART + life
        with mock.patch.multiple(ledger, EVENTS_PER_SNAPSHOT=8, SNAPSHOT_SHARE_MAX=1, LEDGER_BLOCK_SIZE=8192):
            try:
                GroupLife(seed, durability).run(CUTS_PER_LIFE)
            except Exception as error:
                raise AssertionError(f"the life of seed {seed} with {durability} ended badly") from error
