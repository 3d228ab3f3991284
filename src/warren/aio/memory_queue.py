"""The in-memory queue of one event loop: `asyncio.Queue` with messages that are due later."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Any, Generic, TypeVar

from warren.aio.tasks import Tasks
from warren.clock import SYSTEM_CLOCK, Clock, Duration
from warren.queue.due import DueOrder
from warren.queue.waiting import checked_count, checked_delay_s

T = TypeVar("T")


class MemoryQueue(Generic[T]):
    """A queue for the tasks of one event loop; not safe for threads. Its methods are those of `asyncio.Queue`.

    Messages leave in the order of their due times, then of their arrival. A `get` that is cancelled has taken nothing,
    and a `put` that is cancelled has put nothing.
    """

    def __init__(self, maxsize: int = 0, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.maxsize = checked_count("maxsize", maxsize, -math.inf, math.inf)
        self._clock = clock
        self._order: DueOrder[T] = DueOrder()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._putters: deque[asyncio.Future[None]] = deque()
        self._tasks = Tasks()

    async def put(self, item: T, *, delay: Duration | None = None) -> None:
        """Put `item` in when there is room, to be taken `delay` seconds later at the earliest."""
        checked_delay_s(delay)
        while self.full():
            await self._wait_in(self._putters, None)
        self.put_nowait(item, delay=delay)

    def put_nowait(self, item: T, *, delay: Duration | None = None) -> None:
        """`put` without waiting; `asyncio.QueueFull` where there is no room."""
        delay_s = checked_delay_s(delay)
        if self.full():
            raise asyncio.QueueFull
        self._order.add(item, self._clock.steady_s(), delay_s)
        self._tasks.add()
        _wake_one(self._getters)

    async def get(self) -> T:
        """Take the first message that is due, when there is one."""
        while True:
            try:
                return self.get_nowait()
            except asyncio.QueueEmpty:
                await self._wait_in(self._getters, self._order.first_due_s())

    def get_nowait(self) -> T:
        """`get` without waiting; `asyncio.QueueEmpty` where nothing is due."""
        entry = self._order.take(self._clock.steady_s())
        if entry is None:
            raise asyncio.QueueEmpty
        _wake_one(self._putters)
        if self._order:
            # Whoever takes may have been the only one to know when the next message is due.
            _wake_one(self._getters)
        return entry.item

    def task_done(self) -> None:
        """A message that was taken is done."""
        self._tasks.done()

    async def join(self) -> None:
        """Return when every message that was put is done."""
        await self._tasks.join()

    def qsize(self) -> int:
        """How many messages are in the queue, due or not."""
        return len(self._order)

    def empty(self) -> bool:
        return not self._order

    def full(self) -> bool:
        return 0 < self.maxsize <= len(self._order)

    async def _wait_in(self, line: deque[asyncio.Future[None]], until_s: float | None) -> None:
        """Wait until it is our turn in `line`, or `until_s` has come. Whoever is cancelled passes its turn on."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        alarm = None if until_s is None else loop.call_later(until_s - self._clock.steady_s(), _wake, turn)
        line.append(turn)
        try:
            await turn
        except BaseException:
            had_turn = turn.done() and not turn.cancelled()
            turn.cancel()
            # Also where we were the only one to know when the next message is due.
            if had_turn or alarm is not None:
                _wake_one(line)
            raise
        finally:
            if alarm is not None:
                alarm.cancel()
            if turn in line:
                line.remove(turn)


def _wake(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


def _wake_one(line: deque[asyncio.Future[None]]) -> None:
    """The first in `line` who still waits has its turn."""
    while line:
        turn = line.popleft()
        if not turn.done():
            _wake(turn)
            return


def memory(maxsize: int = 0, *, clock: Clock = SYSTEM_CLOCK) -> MemoryQueue[Any]:
    """A queue for the tasks of one event loop that holds `maxsize` messages at most, or any number for 0."""
    return MemoryQueue(maxsize, clock=clock)
