"""The one door from the event loop to the logs: puts that wait together go through it together, with one sync a log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol

from warren.broker.metrics import Metrics
from warren.config import BROKER_PUTS_WAITING_MAX
from warren.errors import StoreBusy, WarrenError
from warren.storage import Log
from warren.storage.record import Packed


class InThread(Protocol):
    """Does something on a thread."""

    def __call__(self, work: Callable[..., Any], *arguments: Any) -> Awaitable[Any]: ...


class Waiting(NamedTuple):
    """A put that waits: its records, and who is told their numbers."""

    records: Sequence[Packed]
    stored: asyncio.Future[range]


class Door:
    """Appends records to logs. For the event loop's thread alone.

    While one hop to a thread is under way, all that comes for the same log waits, and makes the next hop together. A
    log that does not wait for the disk is appended to at once, without a hop.
    """

    def __init__(
        self, in_thread: InThread, tasks: asyncio.TaskGroup, told: Callable[[Log], None], metrics: Metrics
    ) -> None:
        self._in_thread, self._tasks, self._told, self._metrics = in_thread, tasks, told, metrics
        self._waiting: dict[Log, list[Waiting]] = {}
        self.waiting_count = 0

    def put_now(self, log: Log, records: Sequence[Packed]) -> range:
        """Append to a log whose puts do not wait for the disk; the numbers."""
        numbers = log.append_packed(records)
        self._metrics.puts += 1
        self._told(log)
        return numbers

    async def put(self, log: Log, records: Sequence[Packed]) -> range:
        """Append, and return the numbers when the records are as durable as the log says."""
        if self.waiting_count >= BROKER_PUTS_WAITING_MAX:
            raise StoreBusy(log.path)
        waiting = Waiting(records, asyncio.get_running_loop().create_future())
        self.waiting_count += 1
        there = self._waiting.get(log)
        if there is None:
            self._waiting[log] = [waiting]
            self._tasks.create_task(self._drain(log))
        else:
            there.append(waiting)
        try:
            return await waiting.stored
        finally:
            self.waiting_count -= 1

    async def _drain(self, log: Log) -> None:
        while batch := self._waiting[log]:
            self._waiting[log] = []
            try:
                numbers = await self._in_thread(
                    log.append_packed, [packed for each in batch for packed in each.records]
                )
            except (WarrenError, OSError) as error:
                self._metrics.commits_failed += 1
                for each in batch:
                    if not each.stored.done():
                        each.stored.set_exception(error)
                continue
            self._metrics.puts += len(batch)
            self._metrics.commit_puts.add(len(batch))
            self._told(log)
            start = numbers.start
            for each in batch:
                end = start + sum(packed.message_count for packed in each.records)
                if not each.stored.done():
                    each.stored.set_result(range(start, end))
                start = end
        del self._waiting[log]
