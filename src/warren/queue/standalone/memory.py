"""The in-memory queue: `queue.Queue` with delayed messages."""

from __future__ import annotations

import math
import threading
from queue import Empty, Full
from typing import Any, Generic, TypeVar

from warren.clock import SYSTEM_CLOCK, Clock, Duration
from warren.queue.standalone.due import DueOrder
from warren.queue.state.waits import Deadline, Tasks, checked_count, checked_delay_s, wait

T = TypeVar("T")


class MemoryQueue(Generic[T]):
    """A queue within one process, for any number of threads. Its methods are those of `queue.Queue`.

    Messages leave in the order of their due times, then of their arrival; one without a delay is due when it arrives. A
    message that is not due yet is in the queue: it counts in `qsize` and takes up room.
    """

    def __init__(self, maxsize: int = 0, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.maxsize = checked_count("maxsize", maxsize, -math.inf, math.inf)
        self._clock = clock
        self._lock = threading.Lock()
        self._added = threading.Condition(self._lock)
        self._taken = threading.Condition(self._lock)
        self._tasks = Tasks(self._lock)
        self._order: DueOrder[T] = DueOrder()

    def put(
        self, item: T, block: bool = True, timeout: Duration | None = None, *, delay: Duration | None = None
    ) -> None:
        """Adds `item`. It can be taken `delay` seconds later at the earliest.

        Raises `Full` if there is no room in time.
        """
        deadline, delay_s = Deadline(self._clock, block, timeout), checked_delay_s(delay)
        with self._lock:
            while self._is_full():
                left_s = deadline.left_s()
                if not left_s:
                    raise Full
                wait(self._taken, left_s)
            self._order.add(item, self._clock.steady_s(), delay_s)
            self._tasks.add()
            self._added.notify()

    def put_nowait(self, item: T, *, delay: Duration | None = None) -> None:
        """Calls `put` without waiting."""
        self.put(item, block=False, delay=delay)

    def get(self, block: bool = True, timeout: Duration | None = None) -> T:
        """Removes and returns the first message that is due. Raises `Empty` if none is due in time."""
        deadline = Deadline(self._clock, block, timeout)
        with self._lock:
            try:
                while (entry := self._order.take(self._clock.steady_s())) is None:
                    left_s = deadline.left_s(self._order.first_due_s())
                    if not left_s:
                        raise Empty
                    wait(self._added, left_s)
            finally:
                # This call may have been the only one that waited for the time of the next message.
                if self._order:
                    self._added.notify()
            self._taken.notify()
            return entry.item

    def get_nowait(self) -> T:
        """Calls `get` without waiting."""
        return self.get(block=False)

    def task_done(self) -> None:
        """Marks one message that was taken as done."""
        with self._lock:
            self._tasks.done()

    def join(self) -> None:
        """Returns when every message that was put is done."""
        with self._lock:
            self._tasks.join()

    def qsize(self) -> int:
        """Returns how many messages are in the queue, due or not."""
        with self._lock:
            return len(self._order)

    def empty(self) -> bool:
        return not self.qsize()

    def full(self) -> bool:
        with self._lock:
            return self._is_full()

    def _is_full(self) -> bool:
        return 0 < self.maxsize <= len(self._order)


def memory(maxsize: int = 0, *, clock: Clock = SYSTEM_CLOCK) -> MemoryQueue[Any]:
    """Returns a queue within this process that holds at most `maxsize` messages; 0 means no limit."""
    return MemoryQueue(maxsize, clock=clock)
