"""QueueReader: a durable position with a name and a filter, in a mapped file of its own."""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from warren.config import FILTER_SIZE_MAX, READ_LIMIT_DEFAULT
from warren.errors import CorruptRecord
from warren.message import Message
from warren.storage.checksum import crc32c
from warren.storage.filesystem import File, FileSystem
from warren.storage.layout import (
    READER,
    READER_FILE_SIZE,
    READER_FILTER,
    READER_FILTER_AT,
    READER_PLACES,
    READER_V1,
    ReaderFilter,
    ReaderPosition,
    ReaderPositionV1,
)
from warren.storage.read import Page
from warren.storage.record import text_bytes
from warren.storage.tags import TagFilter
from warren.storage.zbus import TAG_FIELD, field_text, text_field


class Place(enum.Enum):
    """Where a reader can be sent without knowing a number."""

    START = "start"
    END = "end"


START: Final = Place.START
END: Final = Place.END


class Standing(NamedTuple):
    """Where a reader stands: a message's number, the block it is in, and its position there."""

    number: int
    block_number: int
    position: int


class Readable(Protocol):
    """What a reader needs of its log."""

    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int: ...
    def find_time(self, when: datetime | float | int) -> int: ...
    def read_page(self, number: int, *, limit: int, tag: TagFilter | None, wait: float) -> Page: ...
    def standing(self, number: int) -> Standing: ...
    def number_at(self, block_number: int, position: int) -> int: ...


class QueueReader:
    """Reads a log from where it last committed, in order, what passes its filter. One thread at a time.

    `read` moves the position in memory alone; `commit` makes it the place where the next QueueReader of that name
    starts. A reader that fell behind what was retired gets NumberRetired, and decides itself where to go on.
    """

    def __init__(self, log: Readable, name: str, store: ReaderFile) -> None:
        self._log, self._store, self.name = log, store, name
        text = store.filter_text()
        self._filter = TagFilter.parse(text) if text else None
        # After a power cut the position may have survived messages that were never promised to.
        self._position = min(store.load(log), log.end)

    @property
    def position(self) -> int:
        """The number of the message that is looked at next."""
        return self._position

    @property
    def tag(self) -> str | None:
        """The filter; None where every message passes."""
        return self._filter.text if self._filter else None

    def read(self, limit: int = READ_LIMIT_DEFAULT, wait: float = 0.0) -> list[Message]:
        """Up to `limit` messages that pass the filter. Where there is none yet, waits up to `wait` seconds for one."""
        page = self._log.read_page(self._position, limit=limit, tag=self._filter, wait=wait)
        self._position = page.next_number
        return page.messages

    def commit(self) -> None:
        """What was read up to here is done with. As durable as the log's own durability says."""
        self._store.save(self._log.standing(self._position))

    def seek(self, to: int | datetime | float | Place) -> int:
        """Go to a number, to the first message at or after a time, to START or to END; the number that is."""
        if isinstance(to, Place):
            self._position = self._log.first if to is START else self._log.end
        elif isinstance(to, int):
            self._position = max(0, min(to, self._log.end))
        else:
            self._position = self._log.find_time(to)
        return self._position

    def __repr__(self) -> str:
        return f"<QueueReader {self.name} at {self._position}{f' tag {self.tag}' if self.tag else ''}>"


class ReaderFile(Protocol):
    """The file behind a reader, in one version of the format."""

    def load(self, log: Readable) -> int: ...
    def save(self, standing: Standing) -> None: ...
    def filter_text(self) -> str: ...


def new_reader_bytes(version: int, standing: Standing, tag: str) -> bytes:
    """A whole reader file."""
    if version == 1:
        head = READER_V1.pack(standing.block_number, standing.position, text_field("tag filter", tag, TAG_FIELD))
        return head.ljust(READER_FILE_SIZE, b"\0")
    tag_data = text_bytes("tag filter", tag, FILTER_SIZE_MAX)
    head = _position_bytes(standing, 1).ljust(READER_FILTER_AT, b"\0")
    head += READER_FILTER.pack(*ReaderFilter(len(tag_data), crc32c(tag_data), tag_data))
    return head.ljust(READER_FILE_SIZE, b"\0")


def _position_bytes(standing: Standing, sequence: int) -> bytes:
    fields = ReaderPosition(standing.block_number, standing.position, standing.number, sequence, 0)
    return READER.pack(*fields._replace(checksum=_position_checksum(fields)))


def _position_checksum(fields: ReaderPosition) -> int:
    return crc32c(READER.pack(*fields._replace(checksum=0)))


class ReaderFileV2:
    """Two positions, written in turn, so that one of them is whole whenever the process may die."""

    def __init__(self, file: File, *, writable: bool, is_synced: bool) -> None:
        self._file, self._is_synced = file, is_synced
        self._map = file.map(_checked_size(file), writable=writable)

    def _latest(self) -> tuple[int, ReaderPosition]:
        """The later position that checks, and which of the two it is."""
        found = [ReaderPosition._make(READER.unpack_from(self._map, at)) for at in READER_PLACES]
        valid = [
            (fields.sequence, place)
            for place, fields in enumerate(found)
            if fields.sequence and fields.checksum == _position_checksum(fields)
        ]
        if not valid:
            raise CorruptRecord(self._file.path, 0, "neither position of the reader checks")
        _, place = max(valid)
        return place, found[place]

    def load(self, log: Readable) -> int:
        return self._latest()[1].number

    def save(self, standing: Standing) -> None:
        place, latest = self._latest()
        if latest.number == standing.number:
            return
        at = READER_PLACES[1 - place]
        self._map[at : at + READER.size] = _position_bytes(standing, latest.sequence + 1)
        if self._is_synced:
            self._file.sync()

    def filter_text(self) -> str:
        fields = ReaderFilter._make(READER_FILTER.unpack_from(self._map, READER_FILTER_AT))
        tag = fields.tag[: fields.tag_size]
        if fields.tag_size > FILTER_SIZE_MAX or crc32c(tag) != fields.checksum or any(fields.tag[fields.tag_size :]):
            raise CorruptRecord(self._file.path, READER_FILTER_AT, "the filter does not match its checksum")
        return tag.decode()


class ReaderFileV1:
    """The reader of the zbus document: a block, a position in it, a filter."""

    def __init__(self, file: File, *, writable: bool, is_synced: bool) -> None:
        self._file, self._is_synced = file, is_synced
        self._map = file.map(_checked_size(file), writable=writable)

    def _fields(self) -> ReaderPositionV1:
        return ReaderPositionV1._make(READER_V1.unpack_from(self._map))

    def load(self, log: Readable) -> int:
        fields = self._fields()
        return log.number_at(fields.block_number, fields.offset)

    def save(self, standing: Standing) -> None:
        fields = ReaderPositionV1(standing.block_number, standing.position, self._fields().tag)
        self._map[: READER_V1.size] = READER_V1.pack(*fields)
        if self._is_synced:
            self._file.sync()

    def filter_text(self) -> str:
        try:
            return field_text(self._fields().tag)
        except ValueError as error:
            raise CorruptRecord(self._file.path, 0, str(error)) from error


def _checked_size(file: File) -> int:
    if file.size() < READER_FILE_SIZE:
        raise CorruptRecord(file.path, file.size(), "the file of the reader is too short")
    return READER_FILE_SIZE


def write_reader(filesystem: FileSystem, path: str, data: bytes) -> None:
    """Put a whole reader file in its place, atomically."""
    directory, new_path = os.path.dirname(path), path + ".new"
    filesystem.make_directory(directory)
    file = filesystem.open(new_path, writable=True, create=True)
    file.truncate(0)
    file.write(0, data)
    file.sync()
    file.close()
    filesystem.replace(new_path, path)
    filesystem.sync_directory(directory)


def open_reader_file(filesystem: FileSystem, path: str, version: int, *, writable: bool, is_synced: bool) -> ReaderFile:
    file = filesystem.open(path, writable=writable)
    kind = ReaderFileV1 if version == 1 else ReaderFileV2
    return kind(file, writable=writable, is_synced=is_synced)


__all__: Sequence[str] = ("END", "START", "Place", "QueueReader", "ReaderFile", "Standing")
