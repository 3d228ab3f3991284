"""The one door from the event loop to the logs: puts that wait together go through it together, with one sync a log."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Final

from warren.broker.metrics import Metrics
from warren.config import BROKER_PUTS_WAITING_MAX, DOOR_THREADS_MAX
from warren.errors import StoreBusy
from warren.message import Receipt
from warren.storage import Log
from warren.storage.puts import append_record, numbers_of, settle_puts
from warren.storage.record import Packed

LOGGER: Final = logging.getLogger("warren.broker")
Outcome = Receipt | BaseException
"""The receipt of the first message of a put, or why there is none."""


Waiting = tuple[Sequence[Packed], Callable[[Outcome], None]]
"""A put that waits: its records, and who is told what became of it."""


class Door:
    """Appends records to logs. For the event loop's thread alone.

    While one hop to a thread is under way, all that comes for the same log waits, and makes the next hop together. A
    log that does not wait for the disk is appended to at once, without a hop.
    """

    def __init__(self, told: Callable[[Log], None], metrics: Metrics) -> None:
        self._told, self._metrics = told, metrics
        self._waiting: dict[Log, list[Waiting]] = {}
        """Those that wait for the hop that is under way, for each log that has one."""
        self.waiting_count = 0
        self._loop = asyncio.get_running_loop()
        # Not an executor: a future for each hop costs more than all else that is done for one.
        self._hops: SimpleQueue[tuple[Log, list[Waiting]] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def put_now(self, log: Log, records: Sequence[Packed]) -> range:
        """Append to a log whose puts do not wait for the disk; the numbers."""
        numbers = log.append_packed(records)
        self._metrics.puts += 1
        self._told(log)
        return numbers

    def put_one(self, log: Log, packed: Packed) -> Receipt:
        """The same for one record; the receipt of its first message."""
        receipt = append_record(log, packed)
        self._metrics.puts += 1
        self._told(log)
        return receipt

    def put_soon(self, log: Log, records: Sequence[Packed], told: Callable[[Outcome], None]) -> None:
        """Append, and tell the receipt when the records are as durable as the log says. StoreBusy where none fits."""
        if self.waiting_count >= BROKER_PUTS_WAITING_MAX:
            raise StoreBusy(log.path)
        self.waiting_count += 1
        there = self._waiting.get(log)
        if there is None:
            self._hop(log, [(records, told)])
        else:
            there.append((records, told))

    async def put(self, log: Log, records: Sequence[Packed]) -> range:
        """Append, and return the numbers when the records are as durable as the log says."""
        stored: asyncio.Future[range] = self._loop.create_future()

        def told(outcome: Outcome) -> None:
            if stored.done():
                # Whoever asked is gone.
                return
            if isinstance(outcome, Receipt):
                stored.set_result(numbers_of(outcome, records))
            else:
                stored.set_exception(outcome)

        self.put_soon(log, records, told)
        return await stored

    # --- Hops ---

    def _hop(self, log: Log, batch: list[Waiting]) -> None:
        self._waiting[log] = []
        if len(self._threads) < min(len(self._waiting), DOOR_THREADS_MAX):
            thread = threading.Thread(target=self._append, name=f"warren-door-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._hops.put((log, batch))

    def _append(self) -> None:
        """What each thread does."""
        while (hop := self._hops.get()) is not None:
            log, batch = hop
            try:
                outcomes: Sequence[Outcome] = settle_puts(log, [records for records, _ in batch])
            except Exception as error:  # noqa: BLE001  # It is told to those whom it concerns.
                outcomes = [error] * len(batch)
            self._loop.call_soon_threadsafe(self._arrive, log, batch, outcomes)

    def _arrive(self, log: Log, batch: Sequence[Waiting], outcomes: Sequence[Outcome]) -> None:
        self.waiting_count -= len(batch)
        following = self._waiting[log]
        # First of all: the disk works while those of this hop are answered.
        if following:
            self._hop(log, following)
        else:
            del self._waiting[log]
        failed = sum(isinstance(outcome, BaseException) for outcome in outcomes)
        self._metrics.commits_failed += bool(failed)
        if failed < len(batch):
            self._metrics.puts += len(batch) - failed
            self._metrics.commit_puts.add(len(batch) - failed)
            self._told(log)
        for (_, told), outcome in zip(batch, outcomes, strict=True):
            try:
                told(outcome)
            except Exception:
                # The others wait as well.
                LOGGER.exception("a put to %s was stored, and nobody could be told", log.path)

    def close(self) -> None:
        """Take no more; what is under way is finished first. Blocks until that is done."""
        for _ in self._threads:
            self._hops.put(None)
        for thread in self._threads:
            thread.join()
