"""The asyncio version of the durable queue, with the methods of `asyncio.Queue`."""

from __future__ import annotations

import asyncio
from queue import Empty, Full
from typing import Any

from warren.aio.thread_bridge import Twin, passed
from warren.clock import Duration
from warren.limits import WAIT_S_MAX
from warren.queue.standalone import durable_queue


class DurableQueue(Twin):
    """A queue in a store, for the tasks of an event loop, and for every other process that has it open."""

    sync: durable_queue.DurableQueue[Any]

    async def put(self, item: Any, *, delay: Duration | None = None) -> None:
        """Adds an item. It can be got `delay` seconds later at the earliest. If the queue is full, waits for room."""
        while not await self._bridge.wait(self.sync.offer, item, delay=delay, seconds=WAIT_S_MAX):
            pass

    async def put_nowait(self, item: Any, *, delay: Duration | None = None) -> None:
        """Adds an item. Raises `asyncio.QueueFull` if there is no room."""
        try:
            await self._bridge.call(self.sync.put_nowait, item, delay=delay)
        except Full as error:
            raise asyncio.QueueFull from error

    async def get(self) -> Any:
        """Removes the oldest item and returns it. If there is none, waits for one.

        If the task is cancelled after it got an item, the item is put back at the end of the queue.
        """
        while not (item := await self._bridge.wait(self.sync.poll, seconds=WAIT_S_MAX, undo=self._put_back)):
            pass
        return item[0]

    def _put_back(self, item: tuple[Any] | None) -> None:
        if item is not None:
            self.sync.put(item[0])
            self.sync.task_done()

    async def get_nowait(self) -> Any:
        """Removes the oldest item and returns it. Raises `asyncio.QueueEmpty` if there is none."""
        try:
            return await self._bridge.call(self.sync.get_nowait)
        except Empty as error:
            raise asyncio.QueueEmpty from error

    async def join(self) -> None:
        """Waits until every item was got and is done, by any process."""
        while not await self._bridge.wait(self.sync.finish, seconds=WAIT_S_MAX):
            pass

    qsize = passed(durable_queue.DurableQueue.qsize)
    empty = passed(durable_queue.DurableQueue.empty)
    full = passed(durable_queue.DurableQueue.full)
    skip = passed(durable_queue.DurableQueue.skip)
    task_done = passed(durable_queue.DurableQueue.task_done)
