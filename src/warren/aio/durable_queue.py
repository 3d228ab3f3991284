"""The asyncio twin of the durable queue, with the methods of `asyncio.Queue`."""

from __future__ import annotations

import asyncio
from queue import Empty, Full
from typing import Any

from warren.aio.bridge import Twin, passed
from warren.config import WAIT_S_MAX
from warren.queue import durable_queue


class _Got:
    """An item that was got: true, whatever the item is."""

    def __init__(self, item: Any) -> None:
        self.item = item


class DurableQueue(Twin):
    """A queue in a store, for the tasks of an event loop, and for every other process that has it open."""

    sync: durable_queue.DurableQueue[Any]

    async def put(self, item: Any) -> None:
        """Add an item. Where the queue is full, waits for room."""
        while not await self._bridge.wait(lambda seconds: self._put(item, seconds), WAIT_S_MAX, _nothing):
            pass

    def _put(self, item: Any, seconds: float) -> bool:
        try:
            self.sync.put(item, timeout=seconds)
        except Full:
            return False
        return True

    async def put_nowait(self, item: Any) -> None:
        """Add an item; `asyncio.QueueFull` where there is no room."""
        try:
            await self._bridge.call(self.sync.put_nowait, item)
        except Full as error:
            raise asyncio.QueueFull from error

    async def get(self) -> Any:
        """Remove the oldest item and return it. Where there is none, waits for one.

        What a task had got that is cancelled meanwhile is put in again, at the end.
        """
        while not (found := await self._bridge.wait(self._get, WAIT_S_MAX, self._put_back)):
            pass
        return found.item

    def _get(self, seconds: float) -> _Got | None:
        try:
            return _Got(self.sync.get(timeout=seconds))
        except Empty:
            return None

    def _put_back(self, got: _Got | None) -> None:
        if got is not None:
            self.sync.put(got.item)
            self.sync.task_done()

    async def get_nowait(self) -> Any:
        """Remove the oldest item and return it; `asyncio.QueueEmpty` where there is none."""
        try:
            return await self._bridge.call(self.sync.get_nowait)
        except Empty as error:
            raise asyncio.QueueEmpty from error

    async def join(self) -> None:
        """Wait until every item was got and is done with, in whatever process."""
        while not await self._bridge.wait(self.sync.join, WAIT_S_MAX, _nothing):
            pass

    qsize = passed(durable_queue.DurableQueue.qsize)
    empty = passed(durable_queue.DurableQueue.empty)
    full = passed(durable_queue.DurableQueue.full)
    task_done = passed(durable_queue.DurableQueue.task_done)


def _nothing(found: bool) -> None:
    """A put that was made, or an end that was seen, needs no undoing."""
