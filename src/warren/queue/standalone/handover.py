"""The hand-over queue: a message goes directly from a putter to a taker, and is never stored in between."""

from __future__ import annotations

import threading
from collections import OrderedDict
from queue import Empty, Full
from typing import Any, Generic, NamedTuple, TypeVar

from warren.clock import SYSTEM_CLOCK, Clock, Duration
from warren.queue.standalone.due import DueOrder, Entry
from warren.queue.state.waits import Deadline, Tasks, checked_delay_s

T = TypeVar("T")


class WaitingPut(NamedTuple, Generic[T]):
    """A message whose putter waits until it is `taken`."""

    item: T
    taken: threading.Condition


class Taker(Generic[T]):
    """A caller that waits for a message. It receives the message as `entry`."""

    __slots__ = ("arrival", "entry")

    def __init__(self, lock: threading.Lock) -> None:
        self.arrival = threading.Condition(lock)
        self.entry: Entry[WaitingPut[T]] | None = None


class HandoverQueue(Generic[T]):
    """Matches putters and takers of one process. Its methods are those of `queue.Queue`; any thread may call.

    `put` returns when a taker has the message. Messages are handed over in the order of their due times, then of their
    arrival, to the taker that has waited longest.

    Invariant, whenever the lock is free: no taker waits while a due message waits, except until the putter of a delayed
    message has woken up.
    """

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tasks = Tasks(self._lock)
        self._offers: DueOrder[WaitingPut[T]] = DueOrder()
        self._takers: OrderedDict[int, Taker[T]] = OrderedDict()

    def put(
        self, item: T, block: bool = True, timeout: Duration | None = None, *, delay: Duration | None = None
    ) -> None:
        """Hands `item` over, `delay` seconds from now at the earliest. Raises `Full` if no taker came in time.

        After `Full` no taker has the item, or will get it.
        """
        deadline, delay_s = Deadline(self._clock, block, timeout), checked_delay_s(delay)
        with self._lock:
            offer = WaitingPut(item, threading.Condition(self._lock))
            entry = self._offers.add(offer, self._clock.steady_s(), delay_s)
            self._tasks.add()
            try:
                self._hand_over()
                while entry.is_here:
                    left_s = deadline.left_s(self._wakes_at_s(entry))
                    if not left_s:
                        raise Full
                    offer.taken.wait(left_s)
                    # A delayed message may be due by now, and its own putter has to hand it over.
                    self._hand_over()
            except BaseException:
                if entry.is_here:
                    self._offers.withdraw(entry)
                    self._tasks.done()
                raise

    def put_nowait(self, item: T, *, delay: Duration | None = None) -> None:
        """Hands `item` to a taker that waits already. Raises `Full` if there is none."""
        self.put(item, block=False, delay=delay)

    def get(self, block: bool = True, timeout: Duration | None = None) -> T:
        """Removes and returns the first message that is due. Raises `Empty` if there is none in time."""
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
                    taker.arrival.wait(left_s)
            except BaseException:
                self._leave(taker)
                raise
            return taker.entry.item.item

    def get_nowait(self) -> T:
        """Calls `get` without waiting."""
        return self.get(block=False)

    def task_done(self) -> None:
        """Marks one message that was taken as done."""
        with self._lock:
            self._tasks.done()

    def join(self) -> None:
        """Returns when every message that was offered is done or withdrawn."""
        with self._lock:
            self._tasks.join()

    def qsize(self) -> int:
        """Returns how many messages wait for a taker, due or not."""
        with self._lock:
            return len(self._offers)

    def empty(self) -> bool:
        return not self.qsize()

    def full(self) -> bool:
        """Returns whether no taker waits: then `put_nowait` raises `Full`."""
        with self._lock:
            return not self._takers

    def _hand_over(self) -> None:
        """Matches putters and takers. The caller holds the lock."""
        while self._takers and (entry := self._offers.take(self._clock.steady_s())) is not None:
            _, taker = self._takers.popitem(last=False)
            taker.entry = entry
            taker.arrival.notify()
            entry.item.taken.notify()

    def _wakes_at_s(self, entry: Entry[WaitingPut[T]]) -> float | None:
        """Returns when the putter of `entry` has to check by itself, or None if a taker will wake it."""
        return entry.due_s if entry.due_s > self._clock.steady_s() else None

    def _leave(self, taker: Taker[T]) -> None:
        """Removes a `taker` that gave up. A message that it received at the same moment goes to the next taker."""
        self._takers.pop(id(taker), None)
        if taker.entry is not None:
            self._offers.put_back(taker.entry)
            self._hand_over()


def handover(*, clock: Clock = SYSTEM_CLOCK) -> HandoverQueue[Any]:
    """Returns a queue within this process whose `put` returns when a taker has the message."""
    return HandoverQueue(clock=clock)
