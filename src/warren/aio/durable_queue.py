"""The asyncio twin of the durable queue, with the methods of `asyncio.Queue`."""

from __future__ import annotations

import asyncio
from queue import Empty, Full
from typing import Any

from warren.aio.bridge import Twin, passed
from warren.clock import Duration
from warren.config import WAIT_S_MAX
from warren.queue import durable_queue


class DurableQueue(Twin):
    """A queue in a store, for the tasks of an event loop, and for every other process that has it open."""

    sync: durable_queue.DurableQueue[Any]

    async def put(self, item: Any, *, delay: Duration | None = None) -> None:
        """Adds an item, to be got `delay` seconds later at the earliest. If the queue is full, waits for room."""
        while not await self._bridge.wait(self.sync.offer, item, delay=delay, seconds=WAIT_S_MAX):
            pass

    async def put_nowait(self, item: Any, *, delay: Duration | None = None) -> None:
        """Adds an item. Raises `asyncio.QueueFull` if there is no room."""
        try:
            await self._bridge.call(self.sync.put_nowait, item, delay=delay)
        except Full as error:
            raise asyncio.QueueFull from error

    async def get(self) -> Any:
        """Remove the oldest item and return it. Where there is none, waits for one.

        What a task had got that is cancelled meanwhile is put in again, at the end.
        """
        while not (found := await self._bridge.wait(self.sync.poll, seconds=WAIT_S_MAX, undo=self._put_back)):
            pass
        return found[0]

    def _put_back(self, got: tuple[Any] | None) -> None:
        if got is not None:
            self.sync.put(got[0])
            self.sync.task_done()

    async def get_nowait(self) -> Any:
        """Remove the oldest item and return it; `asyncio.QueueEmpty` where there is none."""
        try:
            return await self._bridge.call(self.sync.get_nowait)
        except Empty as error:
            raise asyncio.QueueEmpty from error

    async def join(self) -> None:
        """Wait until every item was got and is done with, in whatever process."""
        while not await self._bridge.wait(self.sync.finish, seconds=WAIT_S_MAX):
            pass

    qsize = passed(durable_queue.DurableQueue.qsize)
    empty = passed(durable_queue.DurableQueue.empty)
    full = passed(durable_queue.DurableQueue.full)
    task_done = passed(durable_queue.DurableQueue.task_done)
