"""The producers of every partition, remembered across restarts: by a note now and then, and by what lies behind it."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from warren.broker.kafka_errors import Code
from warren.broker.sequences import Seen, Sequences
from warren.config import SEQUENCES_LEARN_SIZE_MAX, SEQUENCES_NOTE_BATCHES, SEQUENCES_NOTE_SIZE
from warren.errors import CorruptRecord, CorruptSettings, NumberRetired, StorageError
from warren.queue import store_paths
from warren.queue.json_file import read_json, write_json
from warren.storage import Log
from warren.storage.filesystem import FileSystem
from warren.storage.layout import KAFKA_BATCH_HEAD, KAFKA_TRANSACTIONAL, KafkaBatchHead

LOGGER: Final = logging.getLogger("warren.broker")
LEARN_SIZE: Final = 4 << 20
NO_PRODUCER: Final = -1


class InThread(Protocol):
    """Does something on a thread."""

    def __call__(self, work: Callable[..., Any], *arguments: Any) -> Awaitable[Any]: ...


async def put_once(sequences: Sequences, head: KafkaBatchHead, put: Callable[[], Awaitable[int]]) -> tuple[Code, int]:
    """The number of a batch's first message, which `put` stores where it is new; an error where it cannot be taken.

    One that comes while another of its producer is on its way waits for it: where that fails, nothing of what was sent
    behind it gets in before it.
    """
    while (ahead := sequences.on_its_way(head.producer_id)) is not None:
        await asyncio.wait([ahead])
    found = sequences.judge(head)
    if isinstance(found, Code):
        return found, -1
    if isinstance(found, Seen):
        assert isinstance(found.stored, int)
        return Code.NONE, found.stored
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


class Known:
    """What is known of the producers of one log. For the event loop's thread alone.

    Invariant: what lies in the log below the end of a note is in the sequences of that note, as far as it is among the
    last batches of its producer. The log itself is not held: where nobody else has it any more, this goes with it.
    """

    def __init__(self, sequences: Sequences) -> None:
        self.sequences = sequences
        self.batches = self.size = 0
        """What was stored since the last note."""
        self.is_noting = False
        self.being_noted: asyncio.Future[None] | None = None
        self._on_their_way: dict[object, int] = {}

    @property
    def is_note_due(self) -> bool:
        if self.is_noting:
            return False
        # A note of many producers costs more: it is made as much more seldom.
        return self.batches >= SEQUENCES_NOTE_BATCHES + len(self.sequences) or self.size >= SEQUENCES_NOTE_SIZE

    def put_now(self, head: KafkaBatchHead, put: Callable[[], int]) -> tuple[Code, int] | None:
        """As `put_once`, at once; None where another batch of the producer is on its way."""
        if self.sequences.on_its_way(head.producer_id) is not None:
            return None
        found = self.sequences.judge(head)
        if isinstance(found, Code):
            return found, -1
        if isinstance(found, Seen):
            assert isinstance(found.stored, int)
            return Code.NONE, found.stored
        try:
            number = put()
        except BaseException:
            self.sequences.refuse(head)
            raise
        self.sequences.take(head, number)
        self._count(head)
        return Code.NONE, number

    async def put(self, log: Log, head: KafkaBatchHead, put: Callable[[], Awaitable[int]]) -> tuple[Code, int]:
        """As `put_once`."""
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
        """What to write down of a log that ends there now; from here on it counts anew."""
        self.batches = self.size = 0
        return {"end": min([end, *self._on_their_way.values()]), "producers": self.sequences.to_json()}


class Producers:
    """Finds what is known of the producers of a log. For the event loop's thread alone."""

    def __init__(self, in_thread: InThread, tasks: asyncio.TaskGroup, filesystem: FileSystem) -> None:
        self._in_thread, self._tasks, self._filesystem = in_thread, tasks, filesystem
        self._known: WeakKeyDictionary[Log, Known] = WeakKeyDictionary()
        self._loading: dict[Log, asyncio.Future[None]] = {}
        self._is_closed = False

    def find(self, log: Log) -> Known | None:
        """What is known of a log; None where it has to be loaded first."""
        return self._known.get(log)

    async def load(self, log: Log) -> Known:
        """What is known of a log, read where it is not in memory."""
        while (known := self._known.get(log)) is None:
            loading = self._loading.get(log)
            if loading is not None:
                await asyncio.wait([loading])
                continue
            loading = self._loading[log] = asyncio.get_running_loop().create_future()
            try:
                self._known[log] = Known(await self._in_thread(remembered, log, self._filesystem))
            finally:
                del self._loading[log]
                loading.set_result(None)
        return known

    def stored(self, log: Log, known: Known) -> None:
        """A batch was stored: it is noted where it is time."""
        if known.is_note_due and not self._is_closed:
            known.is_noting = True
            self._tasks.create_task(self._note(log, known))

    async def note(self, log: Log, known: Known) -> None:
        """Note what is known now, whatever was noted before: what no log tells is on disk when this returns."""
        while known.being_noted is not None:
            # One after the other, so that the latest is the one that stays.
            await asyncio.wait([known.being_noted])
        known.being_noted = done = asyncio.get_running_loop().create_future()
        try:
            await self._in_thread(_write, self._filesystem, log.path, known.note(log.end))
        except (OSError, StorageError) as error:
            _not_noted(log, error)
        finally:
            known.being_noted = None
            done.set_result(None)

    async def _note(self, log: Log, known: Known) -> None:
        try:
            await self.note(log, known)
        finally:
            known.is_noting = False

    def close(self) -> None:
        """Note what changed since the last time. Blocks until that is on disk."""
        self._is_closed = True
        for log, known in list(self._known.items()):
            if known.batches:
                try:
                    _write(self._filesystem, log.path, known.note(log.end))
                except (OSError, StorageError) as error:
                    _not_noted(log, error)


def _write(filesystem: FileSystem, directory: str, note: dict[str, Any]) -> None:
    write_json(filesystem, store_paths.sequences_file(directory), note)


def _not_noted(log: Log, error: Exception) -> None:
    """The log has been deleted, or tells it all by itself."""
    LOGGER.warning("what producers have put into %s could not be noted: %s", log.path, error)


# --- What a log tells ---


def remembered(log: Log, filesystem: FileSystem) -> Sequences:
    """What was noted, and what lies in the log behind it. Blocks while it reads."""
    sequences, start = Sequences(), 0
    try:
        note = read_json(filesystem, store_paths.sequences_file(log.path))
        if note is not None:
            sequences.restore(note["producers"])
            start = int(note["end"])
    except (CorruptSettings, KeyError, TypeError, ValueError) as error:
        LOGGER.warning("what was noted of the producers of %s cannot be read: %s", log.path, error)
        note = None
    if note is None or start > log.end or not _is_there(log, sequences):
        # A power cut took the end of the log, and what was noted of it is not so.
        sequences, start = Sequences(), learn_from(log)
    learn(log, sequences, start)
    return sequences


def learn_from(log: Log) -> int:
    """The first number of the block from which on the log is looked through where nothing was noted."""
    first, end = log.first, log.end
    if first == end:
        return end
    last = log.block_of(end - 1)
    wanted = min(max(0, last.end_offset - SEQUENCES_LEARN_SIZE_MAX), last.base_offset)
    return first + bisect_left(range(first, end), wanted, key=lambda number: log.block_of(number).base_offset)


def learn(log: Log, sequences: Sequences, start: int) -> None:
    """Take over what the batches in `log` from `start` on tell. Those of transactions are none of ours."""
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
            LOGGER.warning("what producers put into %s from message %d on is not known: %s", log.path, number, error)
            return


def _is_there(log: Log, sequences: Sequences) -> bool:
    """Whether the batches are where they are said to be; of those that were retired nobody can tell."""
    for producer_id, epoch, seen in sequences.batches():
        if not isinstance(seen.stored, int) or seen.stored < log.first:
            continue
        if seen.stored >= log.end:
            return False
        try:
            found = log.stored(seen.stored, bytes_max=1)[0]
        except (NumberRetired, CorruptRecord):
            continue
        if found.batch is None or found.number != seen.stored:
            return False
        head = _head(found.batch)
        if (head.producer_id, head.producer_epoch, head.base_sequence) != (producer_id, epoch, seen.first):
            return False
    return True


def _head(batch: memoryview) -> KafkaBatchHead:
    return KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch))
