"""The power is cut at any moment in the life of delayed messages, and processes are killed: the promise holds.

The promise: a parked message is delivered exactly once, and never before it is due. If `cancel` returned True it is
never delivered; if it returned False it is. This holds for a crash at any point: while a message is parked or
cancelled, between any two steps of a delivery, and while another mover finishes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any, Final, Literal, NamedTuple

import pytest

import warren
from tests.support.line_cutter import LineCutter
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import PowerCut, SimulatedFileSystem
from warren.message import Message
from warren.queue.delay import done_bits, due_index
from warren.queue.delay.handles import Delayed
from warren.queue.store import Store
from warren.queue.topic import Topic

PACKAGE_DIRECTORY: Final = os.path.join(os.path.dirname(os.path.abspath(warren.__file__)), "")
PATH: Final = "/store"
NS_PER_MS: Final = 1_000_000
DAY_S: Final = 86_400.0
BLOCK_SIZE: Final = 8192

PARTS: Final = 4
LIVES_PER_PART: Final = 4
CUTS_PER_LIFE: Final = 12
LINES_MIN: Final = 1000
CALLS_MIN: Final = 30
"""The assumed length of an operation before it was first completed."""

Crash = Literal["power cut", "loss", "kill"]
"""As in the model: a loss does not restart the machine."""


class Sent(NamedTuple):
    """A message whose put was reported done. Its body is unique."""

    body: bytes
    due_us: int
    handle: Delayed


class Moment(NamedTuple):
    """A point in an operation: before the `at`-th line of the package or the `at`-th call of the seam."""

    kind: Literal["line", "call"]
    at: int


class DelayLife:
    """A topic on a simulated disk, used by two openings of its store, with the expected fate of each message."""

    def __init__(self, seed: int, *, durability: str, version: int, crashes: tuple[Crash, ...]) -> None:
        self.random = Random(seed)
        self.disk = SimulatedFileSystem(seed=seed)
        self.clock = SimulatedClock()
        self.durability, self.version, self.crashes = durability, version, crashes
        self.partitions = self.random.choice((1, 3))
        self.stores: list[Store] = []
        self.cuts = 0
        self.sent: dict[bytes, Sent] = {}
        self.dues: dict[bytes, int] = {}
        """The due times of all messages, including those whose put was interrupted."""
        self.cancelled: set[bytes] = set()
        self.maybe_cancelled: set[bytes] = set()
        self.delivered: set[bytes] = set()
        self.begun_us = 0
        """When a delivery was begun that a crash interrupted: it is finished, even if the clock was set back since."""
        self._puts = 0
        self._longest: dict[tuple[str, str], int] = {}

    @property
    def may_lose(self) -> bool:
        """Without syncs a power cut may lose anything recent; everything else holds."""
        return self.durability == "os" and "power cut" in self.crashes

    def run(self, cuts: int) -> None:
        settings: dict[str, Any] = {"durability": self.durability, "version": self.version, "block_size": BLOCK_SIZE}
        self.new_store().topic("orders", partitions=self.partitions, **settings)
        self.open()
        while self.cuts < cuts:
            self.move_the_clock()
            name, action = self.random.choice(
                (("put", self.put),) * 5
                + (("put_many", self.put_many),)
                + (("cancel", self.cancel),) * 2
                + (("move", self.move),) * 6
                + (("reopen", self.reopen),)
            )
            if not self.perform(name, action, self.draw_moment(name)):
                self.crash()
                while not self.perform("open", self.open, self.draw_moment("open")):
                    self.crash()
        self.check_end()

    def move_the_clock(self) -> None:
        ms = self.random.choice((0, 0, 10, 200, 1000))
        self.clock.pass_ns(self.random.randint(0, ms) * NS_PER_MS)
        if self.random.random() < 0.05:
            self.clock.set_back_ns(self.random.randint(0, 2000) * NS_PER_MS)
        if self.random.random() < 0.01:
            self.clock.pass_ns(int(DAY_S) * 1000 * NS_PER_MS)

    # --- Operations ---

    def put(self) -> None:
        body, delay = self.new_body(), self.new_delay()
        self.dues[body] = self.clock.now_ns() // 1000 + int(delay * 1_000_000)
        key = self.random.choice((None, b"a", b"b")) if self.version == 2 else None
        partition = self.random.choice((None, None, self.partitions - 1))
        handle = self.topic().put(body, key=key, tag="eu", delay=delay, partition=partition)
        self.note(body, handle)

    def put_many(self) -> None:
        bodies, delay = [self.new_body() for _ in range(self.random.randint(1, 8))], self.new_delay()
        due_us = self.clock.now_ns() // 1000 + int(delay * 1_000_000)
        self.dues.update(dict.fromkeys(bodies, due_us))
        for body, handle in zip(bodies, self.topic().put_many(bodies, delay=delay), strict=True):
            self.note(body, handle)

    def note(self, body: bytes, handle: Delayed) -> None:
        assert handle.due_us >= self.dues[body]
        self.sent[body] = Sent(body, handle.due_us, handle)

    def new_body(self) -> bytes:
        self._puts += 1
        return b"%d:" % self._puts + bytes(self.random.choice((0, 10, 100, 800)))

    def new_delay(self) -> float:
        return self.random.choice((0.0, 0.05, 0.3, 1.0, 2.5, 100.0, DAY_S))

    def cancel(self) -> None:
        """Cancels any message that was ever sent. If that was not tried before, the result is exact."""
        if not self.sent:
            return
        sent = self.random.choice(list(self.sent.values()))
        is_first = sent.body not in self.cancelled | self.maybe_cancelled
        self.maybe_cancelled.add(sent.body)
        answer = self.topic().cancel(sent.handle.id)
        if answer:
            assert sent.body not in self.cancelled | self.delivered
            self.cancelled.add(sent.body)
        if is_first:
            self.maybe_cancelled.discard(sent.body)
        if self.may_lose:
            # The bit may be lost, and so may the message.
            self.cancelled.discard(sent.body)
            self.maybe_cancelled.add(sent.body)

    def move(self) -> None:
        before_us, self.begun_us = self.begun_us, max(self.begun_us, self.clock.now_ns() // 1000)
        self.some_store().mover.run()
        self.begun_us = before_us
        self.see_delivered()

    def reopen(self) -> None:
        place = self.random.randrange(len(self.stores))
        self.stores[place].close()
        self.stores[place] = self.new_store()

    # --- How they are done, and how crashes happen ---

    def open(self) -> None:
        self.stores = [self.new_store(), self.new_store()]
        self.see_delivered()

    def new_store(self) -> Store:
        return Store(PATH, filesystem=self.disk, clock=self.clock, keeps=False)

    def some_store(self) -> Store:
        return self.random.choice(self.stores)

    def topic(self) -> Topic:
        return self.some_store().topic("orders")

    def perform(self, name: str, action: Callable[[], None], moment: Moment | None) -> bool:
        """Carries it out. Returns False if everything stopped at `moment`."""
        calls_before = self.disk.calls
        is_call = moment is not None and moment.kind == "call"
        self.disk.cut_at_call = calls_before + moment.at if moment and is_call else None
        line = moment.at if moment and not is_call else None
        cutter = LineCutter(self.disk, line, directory=PACKAGE_DIRECTORY)
        try:
            if is_call or moment is None:
                action()
            else:
                with cutter:
                    action()
        except PowerCut:
            assert self.disk.is_cut
        self.disk.cut_at_call = None
        for kind, length in (("line", cutter.lines), ("call", self.disk.calls - calls_before)):
            self._longest[name, kind] = max(length, self._longest.get((name, kind), 0))
        return not self.disk.is_cut

    def draw_moment(self, name: str) -> Moment | None:
        if self.random.random() < 0.75:
            return None
        kind: Literal["line", "call"] = self.random.choice(("line", "call"))
        longest = max(self._longest.get((name, kind), 0), LINES_MIN if kind == "line" else CALLS_MIN)
        return Moment(kind, self.random.randint(1, longest))

    def crash(self) -> None:
        self.stores.clear()
        seed = self.random.getrandbits(32)
        crash = self.random.choice(self.crashes)
        if crash == "kill":
            self.disk = self.disk.after_process_kill(seed)
        else:
            self.disk = self.disk.after_power_cut(seed, same_boot=crash == "loss")
        self.cuts += 1

    # --- Invariants ---

    def see_delivered(self) -> None:
        """Checks that delivered messages stay, once, and that new ones are due and were not cancelled."""
        now_us = max(self.clock.now_ns() // 1000, self.begun_us)
        bodies = [message.body for message in self.messages()]
        unique = set(bodies)
        assert len(bodies) == len(unique), (
            f"delivered twice: {sorted(body for body in bodies if bodies.count(body) > 1)}"
        )
        for body in unique - self.delivered:
            assert self.dues[body] <= now_us, f"{body!r} came {self.dues[body] - now_us} µs early"
            assert body not in self.cancelled, f"{body!r} was cancelled"
        if not self.may_lose:
            assert self.delivered <= unique, f"{self.delivered - unique} were taken back"
        self.delivered = unique

    def messages(self) -> list[Message]:
        return [message for log in self.stores[0].topic("orders").logs for message in log.read(0, limit=100_000)]

    def check_end(self) -> None:
        """When everything is due, all messages that were not cancelled are delivered."""
        self.clock.pass_ns(100 * int(DAY_S) * 1000 * NS_PER_MS)
        for _ in range(1000):
            if self.stores[0].mover.run() > 0 and self.stores[1].mover.run() > 0:
                break
        self.see_delivered()

        assert list(self.topic().scheduled()) == []
        if not self.may_lose:
            expected = self.sent.keys() - self.cancelled - self.maybe_cancelled
            assert expected <= self.delivered, f"lost: {expected - self.delivered}"
        for sent in self.sent.values():
            assert self.topic().cancel(sent.handle.id) is False


@pytest.fixture(scope="session")
def first_seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--hypothesis-seed") or 0) * 1_000_000


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes runs be stored and merged, and bits be in several files, with few messages."""
    monkeypatch.setattr(done_bits, "BITS_PER_FILE", 32)
    monkeypatch.setattr(due_index, "TAIL_ROWS_MAX", 4)
    monkeypatch.setattr(due_index, "FILES_MAX", 3)
    monkeypatch.setattr(due_index, "MERGE_ROWS", 3)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    ("durability", "version", "crashes"),
    [
        ("commit", 2, ("power cut", "loss", "kill")),
        ("os", 2, ("kill",)),
        ("os", 2, ("power cut", "loss", "kill")),
        ("commit", 1, ("power cut", "loss", "kill")),
    ],
)
def test_delayed_messages_keep_their_promise_through_crashes(
    part: int, durability: str, version: int, crashes: tuple[Crash, ...], first_seed: int
) -> None:
    for life in range(LIVES_PER_PART):
        seed = first_seed + part * LIVES_PER_PART + life
        try:
            DelayLife(seed, durability=durability, version=version, crashes=crashes).run(CUTS_PER_LIFE)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
