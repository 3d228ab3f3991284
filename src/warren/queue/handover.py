"""The hand-over queue: a message goes from the hand of a putter into that of a taker, and is nowhere in between."""

from __future__ import annotations

import threading
from collections import OrderedDict
from queue import Empty, Full
from typing import Any, Generic, NamedTuple, TypeVar

from warren.clock import SYSTEM_CLOCK, Clock, Duration
from warren.queue.due import DueOrder, Entry
from warren.queue.waiting import Deadline, Tasks, checked_delay_s

T = TypeVar("T")


class Offer(NamedTuple, Generic[T]):
    """A message in the hand of its putter, who waits until it is `taken`."""

    item: T
    taken: threading.Condition


class Taker(Generic[T]):
    """Somebody who waits for a message, and gets it as `entry`."""

    __slots__ = ("entry", "given")

    def __init__(self, lock: threading.Lock) -> None:
        self.given = threading.Condition(lock)
        self.entry: Entry[Offer[T]] | None = None


class HandoverQueue(Generic[T]):
    """Putters and takers of one process who meet. Its methods are those of `queue.Queue`; any thread may call.

    `put` returns when a taker has the message. Messages are handed over in the order of their due times, then of their
    arrival, to the taker that has waited longest.

    Invariant, whenever the lock is free: nobody waits for a message while one that is due waits to be taken, except
    until the putter of a delayed one has woken up.
    """

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tasks = Tasks(self._lock)
        self._offers: DueOrder[Offer[T]] = DueOrder()
        self._takers: OrderedDict[int, Taker[T]] = OrderedDict()

    def put(
        self, item: T, block: bool = True, timeout: Duration | None = None, *, delay: Duration | None = None
    ) -> None:
        """Hand `item` over, `delay` seconds from now at the earliest; `Full` where nobody took it in time.

        After `Full` nobody has it, and nobody will.
        """
        deadline, delay_s = Deadline(self._clock, block, timeout), checked_delay_s(delay)
        with self._lock:
            offer = Offer(item, threading.Condition(self._lock))
            entry = self._offers.add(offer, self._clock.steady_s(), delay_s)
            self._tasks.add()
            try:
                self._hand_over()
                while entry.is_here:
                    left_s = deadline.left_s(self._wakes_at_s(entry))
                    if not left_s:
                        raise Full
                    offer.taken.wait(left_s)
                    # A delayed message is due by now, perhaps, and it is its own putter who sees to it.
                    self._hand_over()
            except BaseException:
                if entry.is_here:
                    self._offers.withdraw(entry)
                    self._tasks.done()
                raise

    def put_nowait(self, item: T, *, delay: Duration | None = None) -> None:
        """Hand `item` to somebody who waits for one already; `Full` where nobody does."""
        self.put(item, block=False, delay=delay)

    def get(self, block: bool = True, timeout: Duration | None = None) -> T:
        """Take the first message that is due; `Empty` where there was none in time."""
        deadline = Deadline(self._clock, block, timeout)
        with self._lock:
            taker: Taker[T] = Taker(self._lock)
            try:
                self._takers[id(taker)] = taker
                self._hand_over()
                while taker.entry is None:
                    left_s = deadline.left_s()
                    if not left_s:
                        raise Empty
                    taker.given.wait(left_s)
            except BaseException:
                self._leave(taker)
                raise
            return taker.entry.item.item

    def get_nowait(self) -> T:
        """`get` without waiting."""
        return self.get(block=False)

    def task_done(self) -> None:
        """A message that was taken is done."""
        with self._lock:
            self._tasks.done()

    def join(self) -> None:
        """Return when every message that was offered is done, or was withdrawn."""
        with self._lock:
            self._tasks.join()

    def qsize(self) -> int:
        """How many messages wait for a taker, due or not."""
        with self._lock:
            return len(self._offers)

    def empty(self) -> bool:
        return not self.qsize()

    def full(self) -> bool:
        """Whether nobody waits for a message: `put_nowait` would fail."""
        with self._lock:
            return not self._takers

    def _hand_over(self) -> None:
        """Bring together who can be. The lock is held."""
        while self._takers and (entry := self._offers.take(self._clock.steady_s())) is not None:
            _, taker = self._takers.popitem(last=False)
            taker.entry = entry
            taker.given.notify()
            entry.item.taken.notify()

    def _wakes_at_s(self, entry: Entry[Offer[T]]) -> float | None:
        """When the putter of `entry` has to look by itself; None where a taker will wake it."""
        return entry.due_s if entry.due_s > self._clock.steady_s() else None

    def _leave(self, taker: Taker[T]) -> None:
        """`taker` gives up. What it was handed in the same moment goes to the next one."""
        self._takers.pop(id(taker), None)
        if taker.entry is not None:
            self._offers.put_back(taker.entry)
            self._hand_over()


def handover(*, clock: Clock = SYSTEM_CLOCK) -> HandoverQueue[Any]:
    """A queue within this process whose `put` returns when a taker has the message."""
    return HandoverQueue(clock=clock)
