"""BunnyMQ's queue in one file, byte for byte: two pointers, and the messages between them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from warren.errors import CorruptQueueFile, NotAQueueFile, StorageFull
from warren.storage.disk.filesystem import File, FileSystem, Lock
from warren.storage.format.layout import (
    DELAYED_RECORD_HEAD,
    QUEUE_POINTERS,
    QUEUE_RECORD_HEAD,
    QUEUE_RECORDS_AT,
    QueuePointers,
)

QUEUE_FILE_READ_SIZE: Final = 64 << 10
QUEUE_FILE_COPY_SIZE: Final = 1 << 20

NEW_SUFFIX: Final = ".new"
EMPTY: Final = QueuePointers(QUEUE_RECORDS_AT, QUEUE_RECORDS_AT)


class QueueRecord(NamedTuple):
    """The place of one message: from `position` up to `end`, its body from `body_at`.

    `expires_ms` is when it is due, in ms since the epoch; None in a file without delays.
    """

    position: int
    body_at: int
    end: int
    expires_ms: int | None


def head_size(*, delayed: bool) -> int:
    """Returns how many bytes each message takes in addition to its body."""
    return DELAYED_RECORD_HEAD.size if delayed else QUEUE_RECORD_HEAD.size


def pack_record(body: bytes, expires_ms: int | None) -> bytes:
    """Returns one message as it is in a file, with a due time unless `expires_ms` is None."""
    if expires_ms is None:
        return QUEUE_RECORD_HEAD.pack(len(body)) + body
    behind_length = DELAYED_RECORD_HEAD.size - QUEUE_RECORD_HEAD.size
    return DELAYED_RECORD_HEAD.pack(behind_length + len(body), expires_ms) + body


class PointerFile:
    """A queue file, opened by the holder of its lock.

    Invariant: the pointers on the disk lead to complete messages. They are written together, in one write to one
    sector, and only after the messages that they lead to are durable. These messages are not changed while the pointers
    lead to them. A file that was cut short is repaired when it is opened: its push pointer is set to the end of the
    last complete message.
    """

    def __init__(self, path: str, filesystem: FileSystem, lock: Lock, *, delayed: bool, is_synced: bool) -> None:
        self.path = path
        self._filesystem, self._lock, self._is_synced = filesystem, lock, is_synced
        self._delayed, self._head_size = delayed, head_size(delayed=delayed)
        self._open()

    def _open(self) -> None:
        try:
            self._file: File = self._filesystem.open(self.path, writable=True)
        except (FileNotFoundError, IsADirectoryError) as error:
            raise NotAQueueFile(self.path, os.strerror(error.errno or 0).lower()) from error
        if not self._file.size():
            # A failed BunnyMQ may leave such a file while creating it.
            self._rewrite()
        self.pointers = self._read_pointers()
        if self._file.size() < self.pointers.push:
            self._mend()

    @classmethod
    def create(cls, path: str, filesystem: FileSystem, lock: Lock) -> None:
        """Replaces the file `path` by an empty queue. It is durable when this returns."""
        _replace(filesystem, lock, path, (), None)

    def close(self) -> None:
        self._file.close()

    # --- Reading ---

    def records(self) -> Iterator[QueueRecord]:
        """Yields every message, in order. Raises CorruptQueueFile if the next bytes cannot be one."""
        position, push = self.pointers
        size = self._file.size()
        window, window_at = b"", position
        while position < push:
            head_end = position + self._head_size
            if head_end > push:
                raise CorruptQueueFile(self.path, position, "no message fits before the push pointer")
            if head_end > size:
                return
            if head_end > window_at + len(window):
                window, window_at = self._file.read(position, QUEUE_FILE_READ_SIZE), position
            record = self._record(window, position - window_at, position)
            if record.end > push:
                raise CorruptQueueFile(self.path, position, "the message ends after the push pointer")
            if record.end > size:
                return
            yield record
            position = record.end

    def body(self, record: QueueRecord) -> bytes:
        return self._file.read(record.body_at, record.end - record.body_at)

    def sync(self) -> None:
        """Makes everything that was written durable."""
        self._file.sync()

    # --- Changing ---

    def append(self, record: bytes) -> None:
        """Makes `record`, which is packed, the last message."""
        pull, push = self.pointers
        if self._file.size() > push:
            # The pointers on the disk may still lead to these bytes, if a process took the message and died before a
            # sync.
            self._file.sync()
        self._file.write(push, record)
        self._sync_if_asked()
        self._point(QueuePointers(pull, push + len(record)))

    def remove(self, record: QueueRecord) -> None:
        """Removes `record` from the queue. The other messages keep their order."""
        pull, push = self.pointers
        if record.position == pull:
            self._point(QueuePointers(record.end, push))
        elif record.end == push:
            self._point(QueuePointers(pull, record.position))
        else:
            self._rewrite((pull, record.position), (record.end, push))

    def optimise(self) -> None:
        """Rewrites the file so that it holds only the pointers and the messages."""
        pull, push = self.pointers
        if pull > QUEUE_RECORDS_AT or self._file.size() > push:
            self._rewrite((pull, push))

    # --- How it is done ---

    def _record(self, window: bytes, at: int, position: int) -> QueueRecord:
        """Returns the message whose head is in `window` at `at`, and in the file at `position`."""
        expires_ms: int | None = None
        if self._delayed:
            length, expires_ms = DELAYED_RECORD_HEAD.unpack_from(window, at)
        else:
            (length,) = QUEUE_RECORD_HEAD.unpack_from(window, at)
        record = QueueRecord(
            position, position + self._head_size, position + QUEUE_RECORD_HEAD.size + length, expires_ms
        )
        if record.end < record.body_at:
            raise CorruptQueueFile(self.path, position, f"a message cannot have a length of {length}")
        return record

    def _read_pointers(self) -> QueuePointers:
        head = self._file.read(0, QUEUE_RECORDS_AT)
        if len(head) < QUEUE_RECORDS_AT:
            raise NotAQueueFile(self.path, f"it has {len(head)} bytes, but its pointers alone take {QUEUE_RECORDS_AT}")
        pointers = QueuePointers(*QUEUE_POINTERS.unpack(head))
        if not QUEUE_RECORDS_AT <= pointers.pull <= pointers.push:
            raise NotAQueueFile(self.path, f"its pointers are {pointers.pull} and {pointers.push}")
        return pointers

    def _mend(self) -> None:
        """Repairs a file that ends before its push pointer: keeps the messages that are complete."""
        pull = end = self.pointers.pull
        for record in self.records():
            end = record.end
        self._point(QueuePointers(pull, end) if end <= self._file.size() else EMPTY)
        self._file.sync()

    def _point(self, pointers: QueuePointers) -> None:
        self._file.write(0, QUEUE_POINTERS.pack(*pointers))
        self._sync_if_asked()
        self.pointers = pointers

    def _sync_if_asked(self) -> None:
        if self._is_synced:
            self._file.sync()

    def _rewrite(self, *spans: tuple[int, int]) -> None:
        _replace(self._filesystem, self._lock, self.path, spans, self._file)
        self._file.close()
        self._open()


def _replace(
    filesystem: FileSystem, lock: Lock, path: str, spans: Sequence[tuple[int, int]], source: File | None
) -> None:
    """Replaces `path` atomically and durably by a new file with the `spans` of `source`."""
    new_path = path + NEW_SUFFIX
    new = filesystem.open(new_path, writable=True, create=True)
    try:
        new.truncate(0)
        end = QUEUE_RECORDS_AT
        for start, stop in spans:
            end = _copy(source, start, stop, new, end)
        new.write(0, QUEUE_POINTERS.pack(QUEUE_RECORDS_AT, end))
        new.sync()
    except StorageFull:
        filesystem.remove(new_path)
        raise
    finally:
        new.close()
    # If this process dies, another one finds this note and knows that the name may not be durable yet.
    lock.note_holder(os.getpid())
    filesystem.replace(new_path, path)
    filesystem.sync_directory(os.path.dirname(path))
    lock.note_holder(0)


def _copy(source: File | None, start: int, stop: int, target: File, end: int) -> int:
    """Appends the bytes from `start` to `stop` at `end`, and returns the new end."""
    assert source is not None, "kept ranges need a source"
    for position in range(start, stop, QUEUE_FILE_COPY_SIZE):
        data = source.read(position, min(QUEUE_FILE_COPY_SIZE, stop - position))
        target.write(end, data)
        end += len(data)
    return end
