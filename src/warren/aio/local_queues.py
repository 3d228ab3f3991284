"""Queues of one event loop: in memory, and from a putter directly to a taker.

Both have the methods of `asyncio.Queue`.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Any, Generic, NamedTuple, TypeVar

from warren.clock import SYSTEM_CLOCK, Clock, Duration
from warren.errors import BadInput
from warren.queue.standalone.due import DueOrder, Entry
from warren.queue.state.waits import checked_count, checked_delay_s

T = TypeVar("T")


# --- The queue in memory ---


class MemoryQueue(Generic[T]):
    """A queue for the tasks of one event loop; not safe for threads. Its methods are those of `asyncio.Queue`.

    Messages leave in the order of their due times, then of their arrival. A cancelled `get` has removed nothing, and a
    cancelled `put` has added nothing.
    """

    def __init__(self, maxsize: int = 0, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.maxsize = checked_count("maxsize", maxsize, -math.inf, math.inf)
        self._clock = clock
        self._order: DueOrder[T] = DueOrder()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._putters: deque[asyncio.Future[None]] = deque()
        self._tasks = AsyncTasks()

    async def put(self, item: T, *, delay: Duration | None = None) -> None:
        """Waits for room and puts `item`. It can be taken `delay` seconds later at the earliest."""
        checked_delay_s(delay)
        while self.full():
            await self._wait_in(self._putters, None)
        self.put_nowait(item, delay=delay)

    def put_nowait(self, item: T, *, delay: Duration | None = None) -> None:
        """Puts `item` without a wait. Raises `asyncio.QueueFull` if there is no room."""
        delay_s = checked_delay_s(delay)
        if self.full():
            raise asyncio.QueueFull
        self._order.add(item, self._clock.steady_s(), delay_s)
        self._tasks.add()
        _wake_one(self._getters)

    async def get(self) -> T:
        """Waits until a message is due, and returns the first one."""
        while True:
            try:
                return self.get_nowait()
            except asyncio.QueueEmpty:
                await self._wait_in(self._getters, self._order.first_due_s())

    def get_nowait(self) -> T:
        """Returns the first message that is due, without a wait. Raises `asyncio.QueueEmpty` if none is due."""
        entry = self._order.take(self._clock.steady_s())
        if entry is None:
            raise asyncio.QueueEmpty
        _wake_one(self._putters)
        if self._order:
            # This task may have been the only getter with a timer for the next message. Another one must set its own
            # timer.
            _wake_one(self._getters)
        return entry.item

    def task_done(self) -> None:
        """Marks a message that was taken as done."""
        self._tasks.done()

    async def join(self) -> None:
        """Returns when every message that was put is done."""
        await self._tasks.join()

    def qsize(self) -> int:
        """Returns how many messages are in the queue, whether they are due or not."""
        return len(self._order)

    def empty(self) -> bool:
        """Returns whether no message is in the queue."""
        return not self._order

    def full(self) -> bool:
        """Returns whether the queue holds `maxsize` messages; False if `maxsize` is 0."""
        return 0 < self.maxsize <= len(self._order)

    async def _wait_in(self, line: deque[asyncio.Future[None]], until_s: float | None) -> None:
        """Waits for this task's turn in `line`, or until `until_s`. A cancelled task passes its turn on."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        alarm = None if until_s is None else loop.call_later(until_s - self._clock.steady_s(), _wake, turn)
        line.append(turn)
        try:
            await turn
        except BaseException:
            had_turn = turn.done() and not turn.cancelled()
            turn.cancel()
            # Also if this task had a timer: the next one in line must set one for the next message.
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
    """Gives the turn to the first task in `line` that still waits."""
    while line:
        turn = line.popleft()
        if not turn.done():
            _wake(turn)
            return


def memory(maxsize: int = 0, *, clock: Clock = SYSTEM_CLOCK) -> MemoryQueue[Any]:
    """Returns a queue for the tasks of one event loop. It holds at most `maxsize` messages; 0 means no limit."""
    return MemoryQueue(maxsize, clock=clock)


# --- The hand-over ---


class AwaitedOffer(NamedTuple, Generic[T]):
    """A message whose putter waits until it is `taken`. `taken` is None if the putter does not wait."""

    item: T
    taken: asyncio.Future[None] | None


class HandoverQueue(Generic[T]):
    """Hands messages from putters to takers of one event loop, by the methods of `asyncio.Queue`. Not safe for threads.

    `put` returns when a taker has the message. If a `put` is cancelled, it withdraws its message; if a taker has the
    message already, the cancellation is raised at the next `await` instead. If a `get` is cancelled, another taker gets
    its message.
    """

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._offers: DueOrder[AwaitedOffer[T]] = DueOrder()
        self._takers: deque[asyncio.Future[Entry[AwaitedOffer[T]]]] = deque()
        self._tasks = AsyncTasks()

    async def put(self, item: T, *, delay: Duration | None = None) -> None:
        """Hands `item` to a taker, `delay` seconds from now at the earliest. Returns when the taker has it."""
        delay_s = checked_delay_s(delay)
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = self._offer(AwaitedOffer(item, taken), delay_s)
        try:
            while entry.is_here:
                left_s = entry.due_s - self._clock.steady_s()
                await asyncio.wait((taken,), timeout=left_s if left_s > 0 else None)
                # A delayed message may be due by now. Its own putter hands it over, because there is no timer for it.
                self._hand_over()
        except BaseException as error:
            if entry.is_here:
                self._withdraw(entry)
            elif isinstance(error, asyncio.CancelledError):
                return cancel_later()
            raise

    def put_nowait(self, item: T, *, delay: Duration | None = None) -> None:
        """Hands `item` to a taker that waits already. Raises `asyncio.QueueFull` if no taker waits."""
        entry = self._offer(AwaitedOffer(item, None), checked_delay_s(delay))
        if entry.is_here:
            self._withdraw(entry)
            raise asyncio.QueueFull

    async def get(self) -> T:
        """Waits until a message is due, and returns the first one."""
        taker: asyncio.Future[Entry[AwaitedOffer[T]]] = asyncio.get_running_loop().create_future()
        self._takers.append(taker)
        self._hand_over()
        try:
            return (await taker).item.item
        except BaseException:
            if taker.done() and not taker.cancelled():
                self._offers.put_back(taker.result())
                self._hand_over()
            raise
        finally:
            if taker in self._takers:
                self._takers.remove(taker)

    def get_nowait(self) -> T:
        """Returns the first message that is due, without a wait. Raises `asyncio.QueueEmpty` if there is none."""
        entry = self._offers.take(self._clock.steady_s())
        if entry is None:
            raise asyncio.QueueEmpty
        _wake_putter(entry)
        return entry.item.item

    def task_done(self) -> None:
        """Marks a message that was taken as done."""
        self._tasks.done()

    async def join(self) -> None:
        """Returns when every message that was offered is done or was withdrawn."""
        await self._tasks.join()

    def qsize(self) -> int:
        """Returns how many messages wait for a taker, whether they are due or not."""
        return len(self._offers)

    def empty(self) -> bool:
        """Returns whether no message waits for a taker."""
        return not self._offers

    def full(self) -> bool:
        """Returns whether no taker waits for a message, so that `put_nowait` would fail."""
        return all(taker.done() for taker in self._takers)

    def _offer(self, offer: AwaitedOffer[T], delay_s: float) -> Entry[AwaitedOffer[T]]:
        entry = self._offers.add(offer, self._clock.steady_s(), delay_s)
        self._tasks.add()
        self._hand_over()
        return entry

    def _withdraw(self, entry: Entry[AwaitedOffer[T]]) -> None:
        self._offers.withdraw(entry)
        self._tasks.done()

    def _hand_over(self) -> None:
        """Gives each waiting taker a message, as long as there are due messages."""
        while self._takers:
            taker = self._takers[0]
            # The future of a cancelled `get` stays in the line until its task has run.
            if not taker.done():
                entry = self._offers.take(self._clock.steady_s())
                if entry is None:
                    return
                taker.set_result(entry)
                _wake_putter(entry)
            self._takers.popleft()


def _wake_putter(entry: Entry[AwaitedOffer[T]]) -> None:
    """Wakes the putter of `entry`, if it waits."""
    taken = entry.item.taken
    if taken is not None and not taken.done():
        taken.set_result(None)


def handover(*, clock: Clock = SYSTEM_CLOCK) -> HandoverQueue[Any]:
    """Returns a queue for the tasks of one event loop. Its `put` returns when a taker has the message."""
    return HandoverQueue(clock=clock)


# --- What both use ---


class AsyncTasks:
    """Counts the messages that were put and are not done. For the tasks of one event loop."""

    def __init__(self) -> None:
        self._unfinished = 0
        self._finished = asyncio.Event()
        self._finished.set()

    def add(self) -> None:
        self._unfinished += 1
        self._finished.clear()

    def done(self) -> None:
        """Counts a message that is done or was withdrawn. Raises BadInput if no message is left."""
        if not self._unfinished:
            raise BadInput("task_done() was called more often than there were messages")
        self._unfinished -= 1
        if not self._unfinished:
            self._finished.set()

    async def join(self) -> None:
        """Returns when every message is done."""
        await self._finished.wait()


def cancel_later() -> None:
    """Cancels the running task again, at its next `await`.

    For a task that caught a cancellation after it had received its result and could not undo that. The task is not
    cancelled again if the cancellation was withdrawn by then, as `asyncio.timeout` does at the end of its block.
    """
    task = asyncio.current_task()
    assert task is not None, "only a task can be cancelled"
    asyncio.get_running_loop().call_soon(_cancel_again, task)


def _cancel_again(task: asyncio.Task[Any]) -> None:
    if not task.done() and task.cancelling():
        task.uncancel()
        task.cancel()
