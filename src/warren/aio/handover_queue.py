"""The hand-over queue of one event loop: a message goes from a putter to a taker, and is nowhere in between."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Generic, NamedTuple, TypeVar

from warren.aio.tasks import Tasks, cancel_later
from warren.clock import SYSTEM_CLOCK, Clock, Duration
from warren.queue.due import DueOrder, Entry
from warren.queue.waiting import checked_delay_s

T = TypeVar("T")


class Offer(NamedTuple, Generic[T]):
    """A message in the hand of its putter, who waits until it is `taken`; None where it does not wait."""

    item: T
    taken: asyncio.Future[None] | None


class HandoverQueue(Generic[T]):
    """Putters and takers of one event loop who meet; not safe for threads. Its methods are those of `asyncio.Queue`.

    `put` returns when a taker has the message. A `put` that is cancelled has withdrawn its message; where a taker has
    it already, the cancellation comes at the next `await` instead. A `get` that is cancelled leaves its message to
    others.
    """

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._offers: DueOrder[Offer[T]] = DueOrder()
        self._takers: deque[asyncio.Future[Entry[Offer[T]]]] = deque()
        self._tasks = Tasks()

    async def put(self, item: T, *, delay: Duration | None = None) -> None:
        """Hand `item` over, `delay` seconds from now at the earliest."""
        delay_s = checked_delay_s(delay)
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = self._offer(Offer(item, taken), delay_s)
        try:
            while entry.is_here:
                left_s = entry.due_s - self._clock.steady_s()
                await asyncio.wait((taken,), timeout=left_s if left_s > 0 else None)
                # A delayed message is due by now, perhaps, and it is its own putter who sees to it.
                self._hand_over()
        except BaseException as error:
            if entry.is_here:
                self._withdraw(entry)
            elif isinstance(error, asyncio.CancelledError):
                return cancel_later()
            raise

    def put_nowait(self, item: T, *, delay: Duration | None = None) -> None:
        """Hand `item` to somebody who waits for one already; `asyncio.QueueFull` where nobody does."""
        entry = self._offer(Offer(item, None), checked_delay_s(delay))
        if entry.is_here:
            self._withdraw(entry)
            raise asyncio.QueueFull

    async def get(self) -> T:
        """Take the first message that is due, when there is one."""
        given: asyncio.Future[Entry[Offer[T]]] = asyncio.get_running_loop().create_future()
        self._takers.append(given)
        self._hand_over()
        try:
            return (await given).item.item
        except BaseException:
            if given.done() and not given.cancelled():
                self._offers.put_back(given.result())
                self._hand_over()
            raise
        finally:
            if given in self._takers:
                self._takers.remove(given)

    def get_nowait(self) -> T:
        """`get` without waiting; `asyncio.QueueEmpty` where nobody offers a message that is due."""
        entry = self._offers.take(self._clock.steady_s())
        if entry is None:
            raise asyncio.QueueEmpty
        _tell(entry)
        return entry.item.item

    def task_done(self) -> None:
        """A message that was taken is done."""
        self._tasks.done()

    async def join(self) -> None:
        """Return when every message that was offered is done, or was withdrawn."""
        await self._tasks.join()

    def qsize(self) -> int:
        """How many messages wait for a taker, due or not."""
        return len(self._offers)

    def empty(self) -> bool:
        return not self._offers

    def full(self) -> bool:
        """Whether nobody waits for a message: `put_nowait` would fail."""
        return all(given.done() for given in self._takers)

    def _offer(self, offer: Offer[T], delay_s: float) -> Entry[Offer[T]]:
        entry = self._offers.add(offer, self._clock.steady_s(), delay_s)
        self._tasks.add()
        self._hand_over()
        return entry

    def _withdraw(self, entry: Entry[Offer[T]]) -> None:
        self._offers.withdraw(entry)
        self._tasks.done()

    def _hand_over(self) -> None:
        """Bring together who can be."""
        while self._takers:
            given = self._takers[0]
            # One that was cancelled stays here until its task has run.
            if not given.done():
                entry = self._offers.take(self._clock.steady_s())
                if entry is None:
                    return
                given.set_result(entry)
                _tell(entry)
            self._takers.popleft()


def _tell(entry: Entry[Offer[T]]) -> None:
    """The putter of `entry`, if it waits, learns that its message was taken."""
    taken = entry.item.taken
    if taken is not None and not taken.done():
        taken.set_result(None)


def handover(*, clock: Clock = SYSTEM_CLOCK) -> HandoverQueue[Any]:
    """A queue for the tasks of one event loop whose `put` returns when a taker has the message."""
    return HandoverQueue(clock=clock)
