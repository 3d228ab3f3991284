"""Delayed messages against a plain list: any process parks, cancels or delivers, and the clock jumps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.examples import examples
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedFileSystem
from warren.queue.delay import done_bits, due_index
from warren.queue.delay.delay_worker import LIST_S
from warren.queue.delay.handles import Delayed
from warren.queue.store import Store
from warren.queue.topic import Topic

MS = 1_000_000
DAY_MS = 86_400_000
OPENERS = st.integers(0, 1)
DELAYS_MS = st.one_of(st.integers(0, 300), st.sampled_from((59_990, 61_000, 3_700_000, 2 * DAY_MS, 40 * DAY_MS)))
KEYS = st.sampled_from((None, b"a", b"b"))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DelayMachine(RuleBasedStateMachine):
    """Two openings of one store, and a list of the parked messages. One of the two is the mover."""

    def __init__(self) -> None:
        super().__init__()
        self.small = pytest.MonkeyPatch()
        self.small.setattr(done_bits, "BITS_PER_FILE", 32)
        self.small.setattr(due_index, "TAIL_ROWS_MAX", 4)
        self.small.setattr(due_index, "TAIL_NUMBERS_MAX", 12)
        self.small.setattr(due_index, "FILES_MAX", 2)
        self.small.setattr(due_index, "MERGE_ROWS", 3)

    def teardown(self) -> None:
        self.small.undo()

    @initialize(partitions=st.sampled_from((1, 3)), durability=st.sampled_from(("commit", "os")))
    def begin(self, partitions: int, durability: str) -> None:
        self.disk, self.clock = SimulatedFileSystem(), SimulatedClock()
        self.stores = [self.open(), self.open()]
        self.stores[0].topic("orders", partitions=partitions, durability=durability, block_size=8192)
        self.parked: list[tuple[int, bytes, Delayed]] = []
        """Due time, body and handle of each, in the order in which they were parked."""
        self.handles: list[Delayed] = []
        self.delivered: set[bytes] = set()
        self.puts = 0

    def open(self) -> Store:
        return Store("/store", filesystem=self.disk, clock=self.clock, keeps=False)

    def topic(self, opener: int) -> Topic:
        return self.stores[opener].topic("orders")

    @property
    def now_us(self) -> int:
        return self.clock.now_ns() // 1000

    @rule(opener=OPENERS, delay_ms=DELAYS_MS, key=KEYS, size=st.sampled_from((0, 10, 900)))
    def put(self, opener: int, delay_ms: int, key: bytes | None, size: int) -> None:
        delayed = self.topic(opener).put(self.new_body(size), key=key, delay=delay_ms / 1000)
        assert delayed.due_us == self.now_us + delay_ms * 1000
        self.note(delayed)

    @rule(opener=OPENERS, at_ms=st.integers(-300, 300))
    def put_for_a_time(self, opener: int, at_ms: int) -> None:
        when = EPOCH + timedelta(microseconds=self.now_us + at_ms * 1000)
        delayed = self.topic(opener).put(self.new_body(), deliver_at=when)
        assert delayed.due == when
        self.note(delayed)

    @rule(opener=OPENERS, count=st.integers(1, 9), delay_ms=DELAYS_MS)
    def put_many(self, opener: int, count: int, delay_ms: int) -> None:
        first = self.puts
        handles = self.topic(opener).put_many([self.new_body() for _ in range(count)], delay=delay_ms / 1000)
        for number, delayed in enumerate(handles, first + 1):
            self.note(delayed, b"%d" % number)

    def new_body(self, size: int = 0) -> bytes:
        self.puts += 1
        self.body = b"%d" % self.puts + b"." * size
        return self.body

    def note(self, delayed: Delayed, body: bytes = b"") -> None:
        self.parked.append((delayed.due_us, body or self.body, delayed))
        self.handles.append(delayed)

    @rule(opener=OPENERS, data=st.data())
    def cancel(self, opener: int, data: st.DataObject) -> None:
        if self.handles:
            delayed = data.draw(st.sampled_from(self.handles))
            is_parked = any(other is delayed for _, _, other in self.parked)
            assert self.topic(opener).cancel(delayed.id) is is_parked
            self.parked = [row for row in self.parked if row[2] is not delayed]

    @rule(opener=OPENERS)
    def move(self, opener: int) -> None:
        self.let_topics_be_listed()
        self.move_now(opener)

    def let_topics_be_listed(self) -> None:
        """A topic that parks its first message is noticed when a little time has passed."""
        self.clock.pass_ns(int(LIST_S * 1000) * MS + MS)

    def move_now(self, opener: int) -> None:
        """The process that becomes the mover delivers all due messages, and the other one none."""
        before = self.bodies()
        for _ in range(50):
            if self.stores[opener].mover.run() > 0:
                break
        new = [body for body in self.bodies() if body not in before]
        due = {body for due_us, body, _ in self.parked if due_us <= self.now_us}
        assert set(new) in (due, set()), f"{due - set(new)} are missing, {set(new) - due} are too many"
        assert len(new) == len(set(new))
        self.parked = [row for row in self.parked if row[1] not in new]

    @rule()
    def move_by_both(self) -> None:
        self.let_topics_be_listed()
        self.move_now(0)
        self.move_now(1)
        assert not [due_us for due_us, _, _ in self.parked if due_us <= self.now_us]

    @rule(opener=OPENERS)
    def reopen(self, opener: int) -> None:
        self.stores[opener].close()
        self.stores[opener] = self.open()

    @rule(ms=st.one_of(st.integers(0, 300), st.sampled_from((6000, 60_000, DAY_MS))))
    def let_time_pass(self, ms: int) -> None:
        self.clock.pass_ns(ms * MS)

    @rule(ms=st.one_of(st.integers(0, 300), st.sampled_from((60_000, DAY_MS))))
    def set_the_clock_back(self, ms: int) -> None:
        self.clock.set_back_ns(ms * MS)

    def bodies(self) -> list[bytes]:
        return [message.body for log in self.topic(0).logs for message in log.read(log.first)]

    @invariant()
    def what_is_parked_is_listed_by_due_time(self) -> None:
        if hasattr(self, "parked"):
            for opener in (0, 1):
                entries = [(entry.due, entry.body, entry.id) for entry in self.topic(opener).scheduled()]
                assert sorted(entries) == sorted((delayed.due, body, delayed.id) for _, body, delayed in self.parked)
                assert [due for due, _, _ in entries] == sorted(due for due, _, _ in entries)

    @invariant()
    def nothing_is_delivered_twice_or_taken_back(self) -> None:
        if hasattr(self, "parked"):
            bodies = self.bodies()
            assert len(bodies) == len(set(bodies))
            assert self.delivered <= set(bodies)
            self.delivered = set(bodies)


TestDelayMachine = DelayMachine.TestCase
TestDelayMachine.settings = settings(max_examples=examples(40), stateful_step_count=30)
