"""QueueReader: a durable position with a name and a filter, in a mapped file of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from warren.clock import Duration
from warren.errors import CorruptRecord
from warren.limits import READ_LIMIT_DEFAULT
from warren.message import START, Edge, Message
from warren.storage.disk import paths
from warren.storage.disk.filesystem import FileSystem, replace_file
from warren.storage.disk.log_files import LogFiles, MappedFile
from warren.storage.format.checksum import crc32c
from warren.storage.format.layout import (
    READER,
    READER_BEYOND,
    READER_CHECKSUM,
    READER_CHECKSUM_V1,
    READER_FILE_SIZE,
    READER_FILTER,
    READER_FILTER_CHECKSUM,
    READER_FILTER_PLACES,
    READER_INTENT_V1,
    READER_INTENT_V1_AT,
    READER_INTENT_V1_CHECKSUM,
    READER_PLACES,
    READER_V1,
    ReaderFilter,
    ReaderPosition,
    ReaderPositionV1,
)
from warren.storage.format.limits import FILTER_SIZE_MAX
from warren.storage.format.record import text_bytes
from warren.storage.format.tags import TagFilter
from warren.storage.format.zbus import TAG_FIELD, field_text, text_field
from warren.storage.read.log_view import LogView
from warren.storage.read.messages import Page

POSITIONS_END: Final = READER_PLACES[-1] + READER.size
UNFINISHED: Final = bytes(8)


class ReaderCursor(NamedTuple):
    """The position of a reader: the number of a message, its block, and its position there."""

    number: int
    block_number: int
    position: int


def find_standing(view: LogView, number: int) -> ReaderCursor:
    """Returns the block and position of message `number`. If `number` is the end, returns the end of the last block."""
    end = view.end
    if number >= end > view.first:
        block, limit, _ = view.locate(end - 1, end)
        return ReaderCursor(end, block.number, limit)
    if number >= end or number < view.first:
        return ReaderCursor(number, 0, 0)
    block, limit, _ = view.locate(number, end)
    return ReaderCursor(number, block.number, block.find(number, limit))


class BlockRange(NamedTuple):
    """A block, and the offsets of its first record and of its end."""

    number: int
    base_offset: int
    end_offset: int


class Readable(Protocol):
    """The methods of a log that a reader needs."""

    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int: ...
    def find_time(self, when: datetime | float | int) -> int: ...
    def read_page(self, number: int, *, limit: int, tag: TagFilter | None, wait: Duration) -> Page: ...
    def standing(self, number: int) -> ReaderCursor: ...
    def block_of(self, number: int) -> BlockRange: ...
    def number_at(self, block_number: int, position: int) -> int: ...
    def check_writable(self) -> None: ...


class QueueReader:
    """Reads the messages that pass its filter, in order, from where it last committed. One thread at a time.

    `read` moves the position in memory alone; `commit` makes it the position at which the next QueueReader of that name
    starts. A reader whose messages were retired gets NumberRetired, and its caller decides where to continue.
    """

    def __init__(self, log: Readable, name: str, store: ReaderFile) -> None:
        self._log, self._store, self.name = log, store, name
        text = store.filter_text()
        self._filter = TagFilter.parse(text) if text else None
        self._position = store.load(log) if store.is_beyond() else min(store.load(log), log.end)
        self._block = BlockRange(0, 0, 0)

    @property
    def position(self) -> int:
        """The number of the next message to read."""
        return self._position

    @property
    def tag(self) -> str | None:
        """The filter, or None if every message passes."""
        return self._filter.text if self._filter else None

    def read(self, limit: int = READ_LIMIT_DEFAULT, wait: Duration = 0.0) -> list[Message]:
        """Returns up to `limit` messages that pass the filter.

        If there is none yet, waits up to `wait` seconds for one.
        """
        page = self._log.read_page(self._position, limit=limit, tag=self._filter, wait=wait)
        self._position = page.next_number
        return page.messages

    def refresh(self) -> int:
        """Moves to the last committed position, of any process, and returns its number."""
        # Never past the end, because a recovery that cuts the log also moves its readers back.
        self._position = self._store.load(self._log)
        return self._position

    def commit(self) -> None:
        """Commits the position: all messages read so far are done. As durable as the log's durability says."""
        self.commit_to(self._position)

    def commit_to(self, number: int, offset: int | None = None) -> None:
        """Moves to message `number`, and commits that.

        A caller that knows its offset passes it, and saves the search.
        """
        log = self._log
        log.check_writable()
        if offset is None:
            standing = log.standing(number)
        else:
            block_number, base_offset, end_offset = self._block
            if not base_offset <= offset < end_offset:
                block_number, base_offset, _ = self._block = log.block_of(number)
            standing = tuple.__new__(ReaderCursor, (number, block_number, offset - base_offset))
        self._store.save(standing)
        self._position = number

    def commit_beyond(self, number: int) -> None:
        """Commits a number past the end of the log: reading waits until such a message exists.

        A recovery that cuts the log does not change it. In a log of version 1, which stores no numbers, the end is
        committed instead.
        """
        self._log.check_writable()
        self._store.save_beyond(number, self._log)
        self._position = self._store.load(self._log)

    def filter_by(self, tag: str) -> None:
        """Changes the filter, for this and every later QueueReader of the name."""
        tag_filter = TagFilter.parse(tag)
        self._log.check_writable()
        self._store.save_filter(tag_filter.text)
        self._filter = tag_filter

    def seek(self, to: int | datetime | float | Edge) -> int:
        """Moves to a number, to the first message at or after a time, to START or to END, and returns its number."""
        if isinstance(to, Edge):
            self._position = self._log.first if to is START else self._log.end
        elif isinstance(to, int):
            self._position = max(0, min(to, self._log.end))
        else:
            self._position = self._log.find_time(to)
        return self._position

    def __repr__(self) -> str:
        return f"<QueueReader {self.name} at {self._position}{f' tag {self.tag}' if self.tag else ''}>"


class ReaderFile(Protocol):
    """The file of a reader, in one version of the format."""

    def load(self, log: Readable) -> int: ...
    def save(self, standing: ReaderCursor) -> None: ...
    def take_back(self, end: ReaderCursor) -> None: ...
    def is_beyond(self) -> bool: ...
    def save_beyond(self, number: int, log: Readable) -> None: ...
    def filter_text(self) -> str: ...
    def save_filter(self, text: str) -> None: ...


def check_filter(text: str, version: int) -> None:
    """Raises TooLarge if the file of a reader has no room for a filter of this length."""
    text_bytes("tag filter", text, TAG_FIELD - 1 if version == 1 else FILTER_SIZE_MAX)


def new_reader_bytes(version: int, standing: ReaderCursor) -> bytes:
    """Returns the bytes of a new reader file, without a filter."""
    if version == 1:
        head = READER_V1.pack(standing.block_number, standing.position, text_field("tag filter", "", TAG_FIELD))
        return head.ljust(READER_FILE_SIZE, b"\0")
    head = _position_bytes(standing, 1).ljust(READER_FILTER_PLACES[0], b"\0") + _filter_bytes("", 1)
    return head.ljust(READER_FILE_SIZE, b"\0")


def _position_bytes(standing: ReaderCursor, sequence: int) -> bytes:
    number, block_number, position = standing
    checksum = crc32c(READER.pack(block_number, position, number, sequence, 0)) or 1
    return READER.pack(block_number, position, number, sequence, checksum)


def _position_checksum(fields: ReaderPosition) -> int:
    """Returns the checksum of a position. It is never 0, because 0 stands for an unfinished entry."""
    return crc32c(READER.pack(*fields._replace(checksum=0))) or 1


def _filter_bytes(text: str, sequence: int) -> bytes:
    data = text_bytes("tag filter", text, FILTER_SIZE_MAX)
    fields = ReaderFilter(len(data), 0, sequence, data)
    return READER_FILTER.pack(*fields._replace(checksum=_filter_checksum(fields)))


def _filter_checksum(fields: ReaderFilter) -> int:
    """Returns the checksum of a filter. It is never 0, because 0 stands for an unfinished entry."""
    return crc32c(READER_FILTER.pack(*fields._replace(checksum=0))) or 1


class ReaderFileV2:
    """Two positions and two filters, written in turn: one of each is complete even if the process dies."""

    def __init__(self, files: LogFiles, path: str, *, is_synced: bool) -> None:
        self._files, self._path, self._is_synced = files, path, is_synced
        self._last_bytes = b""
        self._latest = (0, ReaderPosition(0, 0, 0, 0, 0))

    def _mapped(self) -> MappedFile:
        return self._files.reader(self._path, READER_FILE_SIZE)

    def _latest_position(self) -> tuple[int, ReaderPosition]:
        """Returns which of the two positions is the later one, and that position."""
        view = self._mapped().view
        # Checked only if the bytes changed, because a queue loads its position with every get.
        data = view[:POSITIONS_END]
        if data != self._last_bytes:
            copies = [ReaderPosition._make(READER.unpack_from(data, at)) for at in READER_PLACES]
            for at, fields in zip(READER_PLACES, copies, strict=True):
                self._check(at, fields.checksum, _position_checksum(fields))
            place = self._later([fields.sequence if fields.checksum else 0 for fields in copies])
            self._latest, self._last_bytes = (place, copies[place]), data
        return self._latest

    def _latest_filter(self) -> tuple[int, ReaderFilter]:
        """Returns which of the two filters is the later one, and that filter."""
        view = self._mapped().view
        copies = [ReaderFilter._make(READER_FILTER.unpack_from(view, at)) for at in READER_FILTER_PLACES]
        for at, fields in zip(READER_FILTER_PLACES, copies, strict=True):
            self._check(at, fields.checksum, _filter_checksum(fields))
        place = self._later([fields.sequence if fields.checksum else 0 for fields in copies])
        return place, copies[place]

    def _check(self, position: int, checksum: int, expected: int) -> None:
        """Raises CorruptRecord if the checksum is wrong.

        An entry with checksum 0 is unfinished, and the other one counts.
        """
        if checksum not in (0, expected):
            raise CorruptRecord(self._path, position, "the entry of the reader does not match its checksum")

    def _later(self, sequences: Sequence[int]) -> int:
        if not any(sequences):
            raise CorruptRecord(self._path, 0, "the reader has no finished entry")
        return sequences.index(max(sequences))

    def load(self, log: Readable) -> int:
        return self._latest_position()[1].number

    def save(self, standing: ReaderCursor) -> None:
        place, latest = self._latest_position()
        # The second condition rarely matters: only if the same number was past the end before, or is now.
        if latest.number != standing.number or READER_BEYOND in (latest.block_number, standing.block_number):
            self._save(standing, 1 - place, latest.sequence + 1)
        elif self._is_synced:
            # The same position may be stored but not on disk: a process may have been killed before its sync.
            self._mapped().file.sync()

    def _save(self, standing: ReaderCursor, place: int, sequence: int) -> None:
        """Does what `_store` does, in fewer steps, because a queue stores its position with every get."""
        number, block_number, position = standing
        pack, at = READER.pack, READER_PLACES[place]
        checksum = crc32c(pack(block_number, position, number, sequence, 0)) or 1
        fields = block_number, position, number, sequence, checksum
        data, checksum_at, end = pack(*fields), at + READER_CHECKSUM.start, at + READER_CHECKSUM.stop
        mapped = self._mapped()
        view = mapped.view
        view[checksum_at:end] = UNFINISHED
        view[at:checksum_at] = data[: READER_CHECKSUM.start]
        view[checksum_at:end] = data[READER_CHECKSUM]
        if self._is_synced:
            mapped.file.sync()
        # These are the current bytes of the file, unless another process stores at the same time. They need no check.
        last_bytes = self._last_bytes
        self._last_bytes = last_bytes[:at] + data if place else data + last_bytes[len(data) :]
        self._latest = place, tuple.__new__(ReaderPosition, fields)

    def take_back(self, end: ReaderCursor) -> None:
        if self._latest_position()[1].number > end.number and not self.is_beyond():
            self.save(end)

    def is_beyond(self) -> bool:
        """Returns whether a client committed the number when the log was shorter than that."""
        return self._latest_position()[1].block_number == READER_BEYOND

    def save_beyond(self, number: int, log: Readable) -> None:
        self.save(ReaderCursor(number, READER_BEYOND, 0))

    def filter_text(self) -> str:
        _, latest = self._latest_filter()
        return latest.tag[: latest.tag_size].decode()

    def save_filter(self, text: str) -> None:
        place, latest = self._latest_filter()
        data = _filter_bytes(text, latest.sequence + 1)
        self._store(READER_FILTER_PLACES[1 - place], data, READER_FILTER_CHECKSUM)

    def _store(self, position: int, data: bytes, checksum: slice) -> None:
        """Stores an entry so that, even if the process dies, it is the old one, unfinished, or the new one."""
        mapped, start, end = self._mapped(), position + checksum.start, position + checksum.stop
        view = mapped.view
        view[start:end] = bytes(end - start)
        view[position:start] = data[: checksum.start]
        view[end : position + len(data)] = data[checksum.stop :]
        view[start:end] = data[checksum]
        if self._is_synced:
            mapped.file.sync()


class ReaderFileV1:
    """The reader of the zbus document: a block, a position in it, and a filter.

    The fields change together, and no single store changes them all. So the new fields are first stored after them, as
    an intent. Even if the process dies, either the fields or the intent are complete.
    """

    def __init__(self, files: LogFiles, path: str, *, is_synced: bool) -> None:
        self._files, self._path, self._is_synced = files, path, is_synced

    def _mapped(self) -> MappedFile:
        return self._files.reader(self._path, READER_FILE_SIZE)

    def _fields(self) -> ReaderPositionV1:
        return self._intended() or ReaderPositionV1._make(READER_V1.unpack_from(self._mapped().view))

    def _intended(self) -> ReaderPositionV1 | None:
        """Returns the intent of a process that was killed while it stored the fields, or None if there is none."""
        *fields, checksum = READER_INTENT_V1.unpack_from(self._mapped().view, READER_INTENT_V1_AT)
        if not checksum:
            return None
        if checksum != _intent_checksum(READER_V1.pack(*fields)):
            raise CorruptRecord(self._path, READER_INTENT_V1_AT, "the intent of the reader does not match its checksum")
        return ReaderPositionV1._make(fields)

    def load(self, log: Readable) -> int:
        fields = self._fields()
        return log.number_at(fields.block_number, fields.offset)

    def save(self, standing: ReaderCursor) -> None:
        self._store(ReaderPositionV1(standing.block_number, standing.position, self._fields().tag))

    def is_beyond(self) -> bool:
        return False

    def save_beyond(self, number: int, log: Readable) -> None:
        self.save(log.standing(log.end))

    def take_back(self, end: ReaderCursor) -> None:
        fields = self._fields()
        if (fields.block_number, fields.offset) > (end.block_number, end.position):
            self.save(end)

    def filter_text(self) -> str:
        try:
            return field_text(self._fields().tag)
        except ValueError as error:
            raise CorruptRecord(self._path, 0, str(error)) from error

    def save_filter(self, text: str) -> None:
        self._store(self._fields()._replace(tag=text_field("tag filter", text, TAG_FIELD)))

    def _store(self, fields: ReaderPositionV1) -> None:
        """Stores the fields so that, even if the process dies, they are the old ones or the new ones."""
        mapped, data = self._mapped(), READER_V1.pack(*fields)
        if (begun := self._intended()) is not None:
            # The fields may be half stored. They must be complete before the intent that repairs them is overwritten.
            self._finish(READER_V1.pack(*begun))
        mapped.view[READER_INTENT_V1_AT : READER_INTENT_V1_CHECKSUM.start] = data
        mapped.view[READER_INTENT_V1_CHECKSUM] = READER_CHECKSUM_V1.pack(_intent_checksum(data))
        self._finish(data)
        if self._is_synced:
            mapped.file.sync()

    def _finish(self, data: bytes) -> None:
        """Stores the fields, whose intent is in the file, and clears the intent."""
        view = self._mapped().view
        view[: READER_V1.size] = data
        view[READER_INTENT_V1_CHECKSUM] = bytes(READER_CHECKSUM_V1.size)
        # The file then has zeros after the fields of the document, as zbus leaves it.
        view[READER_INTENT_V1_AT : READER_INTENT_V1_CHECKSUM.start] = bytes(READER_V1.size)


def _intent_checksum(data: bytes) -> int:
    """Returns the checksum of an intent. It is never 0, because 0 stands for no intent."""
    return crc32c(data) or 1


def write_reader(filesystem: FileSystem, path: str, data: bytes) -> None:
    """Creates or replaces a reader file atomically."""
    filesystem.make_directory(os.path.dirname(path))
    replace_file(filesystem, path, data)


def take_readers_back(files: LogFiles, end: ReaderCursor) -> None:
    """Moves readers that are past the new end of a cut log back to it, so that they do not miss new messages."""
    directory = paths.readers_directory(files.directory)
    names = files.filesystem.names(directory) if files.filesystem.exists(directory) else []
    for name in names:
        if paths.reader_name(name) is not None:
            with suppress(CorruptRecord):
                reader_file(files, os.path.join(directory, name), is_synced=True).take_back(end)


def open_reader(log: Readable, files: LogFiles, name: str, tag: str | None, *, is_synced: bool) -> QueueReader:
    """Returns the reader `name`, and creates it at the start of the log if it does not exist.

    A `tag` becomes the reader's filter; None keeps the filter in its file.
    """
    path = paths.reader_path(files.directory, name)
    text = TagFilter.parse(tag).text if tag is not None else None
    check_filter(text or "", files.format.version)
    if not files.filesystem.exists(path):
        files.check_writable()
        write_reader(files.filesystem, path, new_reader_bytes(files.format.version, log.standing(log.first)))
    reader = QueueReader(log, name, reader_file(files, path, is_synced=is_synced))
    if text is not None and reader.tag != text:
        reader.filter_by(text)
    return reader


def reader_file(files: LogFiles, path: str, *, is_synced: bool) -> ReaderFile:
    """Returns the file of an existing reader, in the version of its log."""
    kind = ReaderFileV1 if files.format.version == 1 else ReaderFileV2
    return kind(files, path, is_synced=is_synced)
