"""A queue file against a plain list: the same messages in the same order, for every opener and at any time."""

from __future__ import annotations

import struct
from queue import Empty

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.examples import examples
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedFileSystem
from warren.queue.standalone.file_queue import FileQueue, open_file

PATH = "/jobs.bunny"
MS = 1_000_000
BODIES = st.one_of(st.binary(max_size=40), st.integers(0, 3000).map(bytes))
OPENERS = st.integers(0, 1)


class QueueFileMachine(RuleBasedStateMachine):
    """Two openers of one file, and a list of (due, body) in the order of the file."""

    @initialize(
        delayed=st.booleans(),
        optimise_above=st.sampled_from((0, 50, 500, 5000, 1 << 30)),
        durability=st.sampled_from(("commit", "os")),
    )
    def begin(self, delayed: bool, optimise_above: int, durability: str) -> None:
        self.delayed, self.optimise_above, self.durability = delayed, optimise_above, durability
        self.disk, self.clock = SimulatedFileSystem(), SimulatedClock(10**9 * MS)
        self.model: list[tuple[int, bytes]] = []
        self.queues = [self.open(), self.open()]

    def open(self) -> FileQueue:
        return open_file(
            PATH,
            delayed=self.delayed,
            optimise_above=self.optimise_above,
            durability=self.durability,
            filesystem=self.disk,
            clock=self.clock,
        )

    @property
    def now_ms(self) -> int:
        return self.clock.now_ns() // MS

    @rule(opener=OPENERS, body=BODIES, delay_ms=st.one_of(st.none(), st.integers(0, 500)))
    def push(self, opener: int, body: bytes, delay_ms: int | None) -> None:
        delay_ms = delay_ms if self.delayed else None
        self.queues[opener].push(body, None if delay_ms is None else delay_ms / 1000)
        self.model.append((self.now_ms + (delay_ms or 0) if self.delayed else 0, body))

    @rule(opener=OPENERS, body=BODIES)
    def put(self, opener: int, body: bytes) -> None:
        self.queues[opener].put_nowait(body)
        self.model.append((self.now_ms if self.delayed else 0, body))

    @rule(opener=OPENERS)
    def pull(self, opener: int) -> None:
        assert self.queues[opener].pull() == self._take()

    @rule(opener=OPENERS)
    def get(self, opener: int) -> None:
        expected = self._take()
        try:
            body = self.queues[opener].get_nowait()
        except Empty:
            assert expected is None
        else:
            assert body == expected
            self.queues[opener].task_done()

    def _take(self) -> bytes | None:
        for place, (due_ms, body) in enumerate(self.model):
            if due_ms <= self.now_ms:
                del self.model[place]
                return body
        return None

    @rule(opener=OPENERS)
    def optimise(self, opener: int) -> None:
        self.queues[opener].optimise()
        assert self.queues[opener].pull_pointer == 8
        assert self.disk.open(PATH, writable=False).size() == self.queues[1 - opener].push_pointer

    @rule(opener=OPENERS)
    def reopen(self, opener: int) -> None:
        self.queues[opener].close()
        self.queues[opener] = self.open()

    @rule(ms=st.integers(0, 300))
    def let_time_pass(self, ms: int) -> None:
        self.clock.pass_ns(ms * MS)

    @rule(ms=st.integers(0, 300))
    def set_the_clock_back(self, ms: int) -> None:
        self.clock.set_back_ns(ms * MS)

    @precondition(lambda self: not self.model)
    @rule(opener=OPENERS)
    def join(self, opener: int) -> None:
        self.queues[opener].join()

    @invariant()
    def the_file_holds_the_model(self) -> None:
        if not hasattr(self, "queues"):
            return
        for queue in self.queues:
            assert [(record.expires_ms or 0, record.body) for record in queue.records()] == self.model
            assert (queue.qsize(), queue.empty()) == (len(self.model), not self.model)

    @invariant()
    def the_bytes_are_those_of_the_format(self) -> None:
        if not hasattr(self, "queues"):
            return
        file = self.disk.open(PATH, writable=False)
        pull, push = struct.unpack(">ii", file.read(0, 8))
        assert 8 <= pull <= push <= file.size()
        packed = [
            (struct.pack(">iq", 8 + len(body), due_ms) if self.delayed else struct.pack(">i", len(body))) + body
            for due_ms, body in self.model
        ]
        assert file.read(pull, push - pull) == b"".join(packed)


TestQueueFileMachine = QueueFileMachine.TestCase
TestQueueFileMachine.settings = settings(max_examples=examples(60), stateful_step_count=30)
