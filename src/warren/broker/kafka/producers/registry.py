"""Remembers the producers of each partition across restarts: loads the last note, then replays the log after it."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from warren.broker.kafka.errors import Code
from warren.broker.kafka.producers.sequences import Sequences, StoredBatch
from warren.broker.threads import InThread
from warren.errors import CorruptRecord, CorruptSettings, NumberRetired, StorageError
from warren.queue.state import paths
from warren.queue.state.json_file import read_json, write_json
from warren.storage import Log
from warren.storage.disk.filesystem import FileSystem
from warren.storage.format.layout import KAFKA_BATCH_HEAD, KAFKA_TRANSACTIONAL, KafkaBatchHead

SEQUENCES_NOTE_BATCHES: Final = 10_000
SEQUENCES_NOTE_SIZE: Final = 256 << 20
"""After this many batches or bytes the broker writes a note of the sequences. A start replays the log after it."""
SEQUENCES_LEARN_SIZE_MAX: Final = 1 << 30
"""How far back a log is searched for batches of producers if there is no note."""

LOGGER: Final = logging.getLogger("warren.broker")
LEARN_SIZE: Final = 4 << 20
NO_PRODUCER: Final = -1


async def put_once(sequences: Sequences, head: KafkaBatchHead, put: Callable[[], Awaitable[int]]) -> tuple[Code, int]:
    """Returns the number of a batch's first message, which `put` stores if the batch is new; an error if it is refused.

    A batch that arrives while another one of its producer is being stored waits for it. If storing that one fails, no
    batch that was sent after it is stored before it.
    """
    while (ahead := sequences.on_its_way(head.producer_id)) is not None:
        await asyncio.wait([ahead])
    verdict = sequences.judge(head)
    if isinstance(verdict, Code):
        return verdict, -1
    if isinstance(verdict, StoredBatch):
        assert isinstance(verdict.stored, int)
        return Code.NONE, verdict.stored
    stored: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    sequences.take(head, stored)
    try:
        number = await put()
    except BaseException:
        sequences.failed(head)
        stored.cancel()
        raise
    sequences.stored(head, number)
    stored.set_result(number)
    return Code.NONE, number


class LogProducers:
    """The producers of one log. For the event loop's thread alone.

    Invariant: each batch below the end of a note is in the sequences of that note, if it is among the last batches of
    its producer. The log itself is not referenced: when the log is closed, this is dropped too.
    """

    def __init__(self, sequences: Sequences) -> None:
        self.sequences = sequences
        self.batches = self.size = 0
        """The count and bytes of the batches that were stored since the last note."""
        self.is_noting = False
        self.being_noted: asyncio.Future[None] | None = None
        self._on_their_way: dict[object, int] = {}

    @property
    def is_note_due(self) -> bool:
        if self.is_noting:
            return False
        # A note of many producers costs more, so it is written less often.
        return self.batches >= SEQUENCES_NOTE_BATCHES + len(self.sequences) or self.size >= SEQUENCES_NOTE_SIZE

    def put_now(self, head: KafkaBatchHead, put: Callable[[], int]) -> tuple[Code, int] | None:
        """Does the same as `put_once` without waiting. Returns None if another batch of the producer is in flight."""
        if self.sequences.on_its_way(head.producer_id) is not None:
            return None
        verdict = self.sequences.judge(head)
        if isinstance(verdict, Code):
            return verdict, -1
        if isinstance(verdict, StoredBatch):
            assert isinstance(verdict.stored, int)
            return Code.NONE, verdict.stored
        try:
            number = put()
        except BaseException:
            self.sequences.refuse(head)
            raise
        self.sequences.take(head, number)
        self._count(head)
        return Code.NONE, number

    async def put(self, log: Log, head: KafkaBatchHead, put: Callable[[], Awaitable[int]]) -> tuple[Code, int]:
        """Does the same as `put_once`, and counts the batch for the next note."""
        return await put_once(self.sequences, head, lambda: self._put(log.end, head, put))

    async def _put(self, end: int, head: KafkaBatchHead, put: Callable[[], Awaitable[int]]) -> int:
        me = object()
        self._on_their_way[me] = end
        try:
            number = await put()
        finally:
            del self._on_their_way[me]
        self._count(head)
        return number

    def _count(self, head: KafkaBatchHead) -> None:
        self.batches, self.size = self.batches + 1, self.size + head.batch_length

    def note(self, end: int) -> dict[str, Any]:
        """Returns the content of a note for a log that ends at `end`, and starts the counts again."""
        self.batches = self.size = 0
        return {"end": min([end, *self._on_their_way.values()]), "producers": self.sequences.to_json()}


class Producers:
    """Finds the producers of each log. For the event loop's thread alone."""

    def __init__(self, in_thread: InThread, tasks: asyncio.TaskGroup, filesystem: FileSystem) -> None:
        self._in_thread, self._tasks, self._filesystem = in_thread, tasks, filesystem
        self._logs: WeakKeyDictionary[Log, LogProducers] = WeakKeyDictionary()
        self._loading: dict[Log, asyncio.Future[None]] = {}
        self._is_closed = False

    def find(self, log: Log) -> LogProducers | None:
        """Returns the producers of a log; None if they have to be loaded first."""
        return self._logs.get(log)

    async def load(self, log: Log) -> LogProducers:
        """Returns the producers of a log, and loads them if they are not in memory."""
        while (producers := self._logs.get(log)) is None:
            loading = self._loading.get(log)
            if loading is not None:
                await asyncio.wait([loading])
                continue
            loading = self._loading[log] = asyncio.get_running_loop().create_future()
            try:
                self._logs[log] = LogProducers(await self._in_thread(remembered, log, self._filesystem))
            finally:
                del self._loading[log]
                loading.set_result(None)
        return producers

    def stored(self, log: Log, producers: LogProducers) -> None:
        """Writes a note if enough batches were stored since the last one."""
        if producers.is_note_due and not self._is_closed:
            producers.is_noting = True
            self._tasks.create_task(self._note(log, producers))

    async def note(self, log: Log, producers: LogProducers) -> None:
        """Writes a note now. When this returns, state that the log does not contain is on disk."""
        while producers.being_noted is not None:
            # One at a time, so that the latest note is written last.
            await asyncio.wait([producers.being_noted])
        producers.being_noted = done = asyncio.get_running_loop().create_future()
        try:
            await self._in_thread(_write, self._filesystem, log.path, producers.note(log.end))
        except (OSError, StorageError) as error:
            _not_noted(log, error)
        finally:
            producers.being_noted = None
            done.set_result(None)

    async def _note(self, log: Log, producers: LogProducers) -> None:
        try:
            await self.note(log, producers)
        finally:
            producers.is_noting = False

    def close(self) -> None:
        """Writes a note of each log that changed since its last one. Blocks until they are on disk."""
        self._is_closed = True
        for log, producers in list(self._logs.items()):
            if producers.batches:
                try:
                    _write(self._filesystem, log.path, producers.note(log.end))
                except (OSError, StorageError) as error:
                    _not_noted(log, error)


def _write(filesystem: FileSystem, directory: str, note: dict[str, Any]) -> None:
    write_json(filesystem, paths.sequences_file(directory), note)


def _not_noted(log: Log, error: Exception) -> None:
    """Logs that a note could not be written. Nothing is lost: the log contains the same facts, or was deleted."""
    LOGGER.warning("the sequence numbers of producers of %s could not be written: %s", log.path, error)


# --- Loading ---


def remembered(log: Log, filesystem: FileSystem) -> Sequences:
    """Returns the sequences of the last note, and of the log after it. Blocks while it reads."""
    sequences, start = Sequences(), 0
    try:
        note = read_json(filesystem, paths.sequences_file(log.path))
        if note is not None:
            sequences.restore(note["producers"])
            start = int(note["end"])
    except (CorruptSettings, KeyError, TypeError, ValueError) as error:
        LOGGER.warning("the sequence numbers of producers of %s cannot be read: %s", log.path, error)
        note = None
    if note is None or start > log.end or not _is_there(log, sequences):
        # A power cut took the end of the log, so the note describes batches that no longer exist.
        sequences, start = Sequences(), learn_from(log)
    learn(log, sequences, start)
    return sequences


def learn_from(log: Log) -> int:
    """Returns the first number of the block from which the log is read if there is no note."""
    first, end = log.first, log.end
    if first == end:
        return end
    last = log.block_of(end - 1)
    offset = min(max(0, last.end_offset - SEQUENCES_LEARN_SIZE_MAX), last.base_offset)
    return first + bisect_left(range(first, end), offset, key=lambda number: log.block_of(number).base_offset)


def learn(log: Log, sequences: Sequences, start: int) -> None:
    """Adds the batches of `log` from `start` on. Skips batches of transactions."""
    number, end = max(start, log.first), log.end
    while number < end:
        try:
            for stored in log.stored(number, bytes_max=LEARN_SIZE):
                if stored.batch is not None:
                    head = _head(stored.batch)
                    if head.producer_id != NO_PRODUCER and not head.attributes & KAFKA_TRANSACTIONAL:
                        sequences.learn(head, stored.number)
                number = stored.number + stored.message_count
        except NumberRetired as error:
            number = error.first
        except CorruptRecord as error:
            LOGGER.warning(
                "sequence numbers of producers of %s from message %d on are unknown: %s", log.path, number, error
            )
            return


def _is_there(log: Log, sequences: Sequences) -> bool:
    """Returns whether the batches are at their numbers. Batches that were retired cannot be checked."""
    for producer_id, epoch, batch in sequences.batches():
        if not isinstance(batch.stored, int) or batch.stored < log.first:
            continue
        if batch.stored >= log.end:
            return False
        try:
            stored = log.stored(batch.stored, bytes_max=1)[0]
        except (NumberRetired, CorruptRecord):
            continue
        if stored.batch is None or stored.number != batch.stored:
            return False
        head = _head(stored.batch)
        if (head.producer_id, head.producer_epoch, head.base_sequence) != (producer_id, epoch, batch.first):
            return False
    return True


def _head(batch: memoryview) -> KafkaBatchHead:
    return KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch))
