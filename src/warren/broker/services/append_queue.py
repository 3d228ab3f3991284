"""AppendQueue: appends to logs from the event loop. Puts to the same log that wait at the same time share one sync."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Final

from warren.broker.services.metrics import Metrics
from warren.errors import StorageFull, StoreBusy, WarrenError
from warren.message import Receipt
from warren.storage import Log
from warren.storage.append.append import numbers_of
from warren.storage.append.shipped_commit import ShippedCommit
from warren.storage.format.layout import ALIGNMENT, PAYLOAD_AT
from warren.storage.format.record import Packed

APPEND_THREADS_MAX: Final = 8
"""How many logs a broker syncs at the same time for the puts of its clients."""
BROKER_PUTS_WAITING_MAX: Final = 100_000

LOGGER: Final = logging.getLogger("warren.broker")
Outcome = Receipt | BaseException
"""The receipt of the first message of a put, or the error that it failed with."""
NOT_KNOWN: Final = -1
"""The offset and time in the receipt of a put of several records that did not wait for the disk."""


QueuedPut = tuple[Sequence[Packed], Callable[[Outcome], None]]
"""A put that waits: its records, and the callback for its outcome."""


class AppendQueue:
    """Appends records to logs. For the event loop's thread alone.

    This is the one place that decides how a put is done. A log that is quick is appended to in place if the records fit
    its last block. For one that waits for the disk, has to take the records apart, or needs a new block, a thread
    appends and syncs. While it is at work, all puts to the same log wait and share the next append and sync.
    """

    def __init__(
        self,
        on_append: Callable[[Log], None],
        metrics: Metrics,
        refusal: Callable[[], WarrenError | None] | None = None,
        on_full_disk: Callable[[], None] | None = None,
    ) -> None:
        self._on_append, self._metrics = on_append, metrics
        self._refusal = refusal
        """Returns why no put is taken now, if another broker may lead; None if this one serves alone."""
        self._on_full_disk = on_full_disk
        self._waiting: dict[Log, list[QueuedPut]] = {}
        """The puts that wait for the running hop to a thread, for each log that has one."""
        self.waiting_count = 0
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        # Not an executor: a future for each hop costs more than the rest of the work for it.
        self._hops: SimpleQueue[tuple[Log, list[QueuedPut], ShippedCommit | None] | None] = SimpleQueue()
        self._shipped: deque[tuple[Log, list[QueuedPut], ShippedCommit | None]] = deque()
        """Commits that were given to the other replicas in this turn of the event loop, and are to be synced here."""
        self._threads: list[threading.Thread] = []

    def append(self, log: Log, records: Sequence[Packed], on_done: Callable[[Outcome], None]) -> Receipt | None:
        """Appends records. Returns the receipt of the first message if that is quick: it does not wait for the disk.

        Otherwise returns None, and calls `on_done` once, when the records are on disk or could not be stored. Raises
        StoreBusy if too many puts wait, and NotMaster or NotEnoughReplicas if a cluster takes none now.
        """
        if self._refusal is not None and (error := self._refusal()) is not None:
            raise error
        size = len(records[0].payload) if len(records) == 1 else sum(map(_size_of, records))
        if self.is_quick(log, size):
            return self.put_now(log, records)
        if self.waiting_count >= BROKER_PUTS_WAITING_MAX:
            raise StoreBusy(log.path)
        self.waiting_count += 1
        following = self._waiting.get(log)
        if following is None:
            self._hop(log, [(records, on_done)])
        else:
            following.append((records, on_done))
        return None

    def is_quick(self, log: Log, size: int) -> bool:
        """Returns whether the log is appended to in place, given the size of the payloads.

        Making a block takes milliseconds, and a put to 1,000 new partitions would hold up the event loop for a second.
        A log that a thread is appending to is not quick, because the event loop would wait for its lock.
        """
        return log.is_quick and log.has_room(size) and log not in self._waiting

    def put_now(self, log: Log, records: Sequence[Packed]) -> Receipt:
        """Appends records in place, after `is_quick` has said that it does not take long.

        Returns the receipt of the first message.
        """
        if len(records) == 1:
            receipt = log.append_record(records[0])
        else:
            receipt = Receipt(log.append_packed(records).start, NOT_KNOWN, NOT_KNOWN, "")
        self._metrics.puts += 1
        self._on_append(log)
        return receipt

    def put(self, log: Log, records: Sequence[Packed]) -> range | asyncio.Future[range]:
        """Appends records. Returns their numbers, or a future of them if the log is not quick."""
        stored: asyncio.Future[range] | None = None

        def on_done(outcome: Outcome) -> None:
            assert stored is not None
            if stored.done():
                # The client has disconnected.
                return
            if isinstance(outcome, Receipt):
                stored.set_result(numbers_of(outcome, records))
            else:
                stored.set_exception(outcome)

        receipt = self.append(log, records, on_done)
        if receipt is not None:
            return numbers_of(receipt, records)
        # The callback comes from the event loop, so not before this function has returned.
        stored = self._loop.create_future()
        return stored

    async def put_all(self, puts: Iterable[tuple[Log, Sequence[Packed]]]) -> list[range]:
        """Appends records to several logs. Returns the numbers in each, when they are as durable as the logs say."""
        outcomes = [self.put(log, records) for log, records in puts]
        await asyncio.gather(*(outcome for outcome in outcomes if not isinstance(outcome, range)))
        return [outcome if isinstance(outcome, range) else outcome.result() for outcome in outcomes]

    # --- Hops ---

    def _hop(self, log: Log, batch: list[QueuedPut]) -> None:
        self._waiting[log] = []
        try:
            begun = log.begin([records for records, _ in batch]) if log.is_shipped else None
        except Exception as error:  # noqa: BLE001  # The puts of this hop get it.
            self._loop.call_soon(self._arrive, log, batch, [error] * len(batch))
            return
        if len(self._threads) < min(len(self._waiting), APPEND_THREADS_MAX):
            thread = threading.Thread(target=self._append, name=f"warren-append-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        hop = log, batch, begun
        if begun is None:
            self._hops.put(hop)
        else:
            # The slaves come first: the thread that syncs would compete for the interpreter with what is sent to them.
            self._shipped.append(hop)
            self._loop.call_soon(self._sync_shipped)

    def _sync_shipped(self) -> None:
        while self._shipped:
            self._hops.put(self._shipped.popleft())

    def _append(self) -> None:
        """Runs in each thread."""
        while (hop := self._hops.get()) is not None:
            log, batch, begun = hop
            if begun is not None:
                finish = partial(self._finish_soon, log, batch, begun)
                if not begun.sync(finish):
                    finish()
                continue
            try:
                outcomes: Sequence[Outcome] = log.settle([records for records, _ in batch])
            except Exception as error:  # noqa: BLE001  # The puts of this hop get it.
                outcomes = [error] * len(batch)
            self._loop.call_soon_threadsafe(self._arrive, log, batch, outcomes)

    def _finish_soon(self, log: Log, batch: Sequence[QueuedPut], begun: ShippedCommit) -> None:
        """Any thread: a commit that waited for the other replicas is done."""
        is_here = threading.get_ident() == self._loop_thread
        (self._loop.call_soon if is_here else self._loop.call_soon_threadsafe)(self._finish, log, batch, begun)

    def _finish(self, log: Log, batch: Sequence[QueuedPut], begun: ShippedCommit) -> None:
        try:
            outcomes: Sequence[Outcome] = begun.finish()
        except Exception as error:  # noqa: BLE001  # The puts of this hop get it.
            outcomes = [error] * len(batch)
        self._arrive(log, batch, outcomes)

    def _arrive(self, log: Log, batch: Sequence[QueuedPut], outcomes: Sequence[Outcome]) -> None:
        self.waiting_count -= len(batch)
        following = self._waiting[log]
        # First of all: the disk works while the puts of this hop are answered.
        if following:
            self._hop(log, following)
        else:
            del self._waiting[log]
        failed = sum(isinstance(outcome, BaseException) for outcome in outcomes)
        self._metrics.commits_failed += bool(failed)
        if self._on_full_disk is not None and any(isinstance(outcome, StorageFull) for outcome in outcomes):
            self._on_full_disk()
        if failed < len(batch):
            self._metrics.puts += len(batch) - failed
            self._metrics.commit_puts.add(len(batch) - failed)
            self._on_append(log)
        for (_, on_done), outcome in zip(batch, outcomes, strict=True):
            try:
                on_done(outcome)
            except Exception:
                # The other puts of the hop must be answered too.
                LOGGER.exception("the answer to a put to %s failed", log.path)

    def close(self) -> None:
        """Ends the threads. Blocks until the running work is finished."""
        self._sync_shipped()
        for _ in self._threads:
            self._hops.put(None)
        for thread in self._threads:
            thread.join()


def _size_of(packed: Packed) -> int:
    """Returns the most that a record takes which follows another one in the same put."""
    return len(packed.payload) + PAYLOAD_AT + ALIGNMENT
