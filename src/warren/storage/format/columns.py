"""The body of a record that holds a batch: a table of sections, then one column per section."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from warren.errors import BadInput
from warren.message import NO_HEADERS, Message
from warren.storage.format.layout import (
    COLUMNS_HEAD,
    SECTION,
    SECTION_BODIES,
    SECTION_BODY_ENDS,
    SECTION_CORR_OFFSETS,
    SECTION_COUNT_MAX,
    SECTION_HEADERS_ENDS,
    SECTION_ID_ENDS,
    SECTION_KEY_ENDS,
    SECTION_KEY_PRESENT,
    SECTION_TAG_CODES,
    SECTION_TAGS,
    aligned,
)
from warren.storage.format.record import Damage, DiskMessage, check_sequence, unpack_headers
from warren.storage.format.slices import Blobs, RowSelection
from warren.storage.format.tags import TagFilter

Ends = npt.NDArray[np.uint32]
ALL_ROWS: Final = slice(None)
MADE_AT_ONCE: Final = 8192
"""How many messages one call makes: 65,536 would take 25 ms, in which no other thread can run."""
END: Final = np.dtype("<u4")
TAG_CODE: Final = np.dtype("<u2")
PRESENT: Final = np.dtype("u1")
CORR_OFFSET: Final = np.dtype("<i8")


class Batch(NamedTuple):
    """The arguments of `append_many`: each column has one value for each body, or is None."""

    bodies: Sequence[bytes]
    tags: Sequence[str] | None = None
    keys: Sequence[bytes | None] | None = None
    ids: Sequence[str] | None = None
    headers: Sequence[Mapping[str, bytes] | None] | None = None
    corr_offsets: Sequence[int] | None = None

    def check(self) -> None:
        """Raises BadInput if a column is not as long as the bodies."""
        check_sequence(self.bodies)
        for name, column in zip(self._fields[1:], self[1:], strict=True):
            if column is not None and len(column) != len(self.bodies):
                raise BadInput(f"{name} has {len(column)} entries for {len(self.bodies)} bodies")

    def part(self, start: int, end: int) -> Batch:
        """Returns the messages from `start` up to `end`."""
        if start == 0 and end == len(self.bodies):
            return self
        parts: list[Any] = [None if column is None else column[start:end] for column in self]
        return Batch(*parts)


class Columns:
    """The columns of `count` consecutive messages: sections of bytes, converted to Python values on request.

    The sections of a batch are views of `area`, which may be in a mapped file. Only the results of methods are copied.
    """

    def __init__(self, area: bytes | memoryview, count: int) -> None:
        self._area, self.count = area, count
        self._sections = _read_table(area)
        self.kinds = list(self._sections)
        if SECTION_BODY_ENDS not in self or SECTION_BODIES not in self:
            raise Damage(0, "the batch has no bodies")

    def __contains__(self, kind: int) -> bool:
        return kind in self._sections

    @property
    def size(self) -> int:
        """About how many bytes the messages take."""
        return len(self._area)

    def section(self, kind: int) -> bytes | memoryview:
        """Returns the bytes of a section; empty if it is missing."""
        start, end = self._sections.get(kind, (0, 0))
        return self._area[start:end]

    def array(self, kind: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Returns a section of one number for each message, as a view."""
        return _numbers_in(self.section(kind), kind, dtype, self.count)

    def ends(self, kind: int) -> Ends:
        """Returns the section of ends `kind`, with a 0 first.

        They never decrease, and the last is the size of the next section.
        """
        ends = _numbers_in(self.section(kind), kind, END, self.count + 1)
        if ends[0] or ends[-1] != len(self.section(kind + 1)) or np.count_nonzero(ends[1:] < ends[:-1]):
            raise Damage(0, f"section {kind} does not divide section {kind + 1}")
        return ends

    def blobs(self, kind: int, rows: RowSelection = ALL_ROWS) -> Blobs:
        """Returns the pieces of the section after `kind`, divided by the section of ends `kind`."""
        ends = self.ends(kind).astype(np.int64)
        return Blobs(self.section(kind + 1), ends[:-1][rows], ends[1:][rows])

    def texts(self, kind: int, rows: RowSelection) -> list[str]:
        """Returns the same pieces as text."""
        try:
            return list(map(bytes.decode, self.blobs(kind, rows).to_list()))
        except ValueError as error:
            raise Damage(0, str(error)) from error

    def tags(self) -> list[str]:
        """Returns the dictionary of tags."""
        return unpack_tags(self.section(SECTION_TAGS))

    def tag_codes(self, tag_count: int) -> npt.NDArray[Any]:
        """Returns for each message the place of its tag in the dictionary, which has `tag_count` tags."""
        codes = self.array(SECTION_TAG_CODES, TAG_CODE)
        if int(codes.max()) >= tag_count:
            raise Damage(0, f"a tag code is not below {tag_count}")
        return codes

    def keys_present(self) -> npt.NDArray[np.bool_] | None:
        """Returns which messages have a key, or None if all have one."""
        if SECTION_KEY_PRESENT not in self:
            return None
        present: npt.NDArray[np.bool_] = self.array(SECTION_KEY_PRESENT, PRESENT) != 0
        return present

    def keys(self, rows: RowSelection) -> list[bytes | None]:
        """Returns the key of each message, or None for a message without one."""
        keys: list[bytes | None] = list(self.blobs(SECTION_KEY_ENDS, rows).to_list())
        present = self.keys_present()
        if present is not None:
            keys = [key if here else None for key, here in zip(keys, present[rows].tolist(), strict=True)]
        return keys

    def headers(self, rows: RowSelection) -> list[Mapping[str, bytes]]:
        """Returns the headers of each message."""
        try:
            return list(map(unpack_headers, self.blobs(SECTION_HEADERS_ENDS, rows).to_list()))
        except ValueError as error:
            raise Damage(0, str(error)) from error

    def corr_offsets(self) -> npt.NDArray[np.int64]:
        """Returns for each message the offset of the message that it answers."""
        return self.array(SECTION_CORR_OFFSETS, CORR_OFFSET)


def _numbers_in(section: bytes | memoryview, kind: int, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    if len(section) != count * dtype.itemsize:
        raise Damage(0, f"section {kind} has {len(section)} bytes for {count} entries")
    return np.frombuffer(section, dtype)


def unpack_tags(section: bytes | memoryview) -> list[str]:
    """Returns the tags of a dictionary, in which each tag follows its size."""
    data, tags, position = bytes(section), [], 0
    while position < len(data):
        tag_at = position + 1
        position = tag_at + data[position]
        tags.append(decoded(data[tag_at:position]))
    if position != len(data):
        raise Damage(0, "a tag exceeds the end of the dictionary")
    return tags


def decoded(data: bytes | memoryview) -> str:
    """Returns the text. Raises Damage if it is not UTF-8."""
    try:
        return str(data, "utf-8")
    except ValueError as error:
        raise Damage(0, str(error)) from error


def _read_table(area: bytes | memoryview) -> dict[int, tuple[int, int]]:
    """Returns the position of each section. Raises Damage if a section exceeds the area."""
    if len(area) < COLUMNS_HEAD.size:
        raise Damage(0, "there is no table of sections")
    section_count, _ = COLUMNS_HEAD.unpack_from(area)
    position = COLUMNS_HEAD.size + section_count * SECTION.size
    if section_count > SECTION_COUNT_MAX or position > len(area):
        raise Damage(0, f"a table of {section_count} sections does not fit")
    places: dict[int, tuple[int, int]] = {}
    for kind, size in SECTION.iter_unpack(area[COLUMNS_HEAD.size : position]):
        if position + size > len(area):
            raise Damage(position, f"section {kind} exceeds the end of its record")
        places[kind] = (position, position + size)
        position += aligned(size)
    return places


def passing_rows(columns: Columns, shared_tag: str, rows: slice, tag: TagFilter | None) -> RowSelection | None:
    """Returns which of the rows pass the filter, or None if none does. Matches a tag that many messages share once.

    `shared_tag` is the tag of all messages if the batch has no tags for single ones.
    """
    if tag is None:
        return rows
    if SECTION_TAG_CODES not in columns:
        return rows if tag.matches(shared_tag) else None
    tags = columns.tags()
    passes = np.fromiter(map(tag.matches, tags), bool, len(tags))
    is_passing = passes[columns.tag_codes(len(tags))[rows]]
    if is_passing.all():
        return rows
    passing = np.flatnonzero(is_passing) + rows.start
    return passing if len(passing) else None


def messages(record: DiskMessage, columns: Columns, rows: RowSelection, *, topic: str, partition: int) -> list[Message]:
    """Returns the messages in the given rows of a batch."""
    every = range(record.number, record.number + record.message_count)
    numbers: Iterable[int] = every[rows] if isinstance(rows, slice) else (rows + record.number).tolist()
    ids: Iterable[str] = repeat(record.id)
    if SECTION_ID_ENDS in columns:
        ids = columns.texts(SECTION_ID_ENDS, rows)
    tags: Iterable[str] = repeat(record.tag)
    if SECTION_TAG_CODES in columns:
        dictionary = columns.tags()
        tags = map(dictionary.__getitem__, columns.tag_codes(len(dictionary))[rows].tolist())
    keys: Iterable[bytes | None] = repeat(record.key)
    if SECTION_KEY_ENDS in columns:
        keys = columns.keys(rows)
    headers: Iterable[Mapping[str, bytes]] = repeat(NO_HEADERS)
    if SECTION_HEADERS_ENDS in columns:
        headers = columns.headers(rows)
    corr_offsets: Iterable[int] = repeat(record.corr_offset)
    if SECTION_CORR_OFFSETS in columns:
        corr_offsets = columns.corr_offsets()[rows].tolist()
    bodies = columns.blobs(SECTION_BODY_ENDS, rows).to_list()
    fields = zip(
        numbers,
        repeat(record.offset),
        repeat(partition),
        repeat(topic),
        repeat(record.timestamp),
        ids,
        tags,
        keys,
        headers,
        corr_offsets,
        bodies,
        repeat(0),
    )
    return made_of(fields)


def made_of(fields: Iterator[tuple[Any, ...]]) -> list[Message]:
    """Returns messages with these fields, MADE_AT_ONCE in one call, which holds the interpreter."""
    # `tuple.__new__` over a zip of columns makes a Message in a third of the time of a call of Message.
    messages = made = list(map(tuple.__new__, repeat(Message, MADE_AT_ONCE), fields))
    while len(made) == MADE_AT_ONCE:
        made = list(map(tuple.__new__, repeat(Message, MADE_AT_ONCE), fields))
        messages += made
    return messages
