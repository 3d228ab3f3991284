"""The body of a record that holds a batch: a table of sections, then one column a section."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from mmap import mmap
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warren.config import BATCH_COUNT_MAX, BATCH_SIZE_TARGET, BODY_SIZE_MAX, ID_SIZE_MAX, KEY_SIZE_MAX, TAG_SIZE_MAX
from warren.errors import BadInput, TooLarge
from warren.message import NO_CORR_OFFSET, NO_HEADERS, Message
from warren.storage.checksum import crc32c
from warren.storage.compression import compress
from warren.storage.layout import (
    ALIGNMENT,
    CODEC_COLUMNS,
    COLUMNS_HEAD,
    NO_KEY,
    PAYLOAD_HEAD,
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
from warren.storage.record import (
    Damage,
    DiskMessage,
    Packed,
    columns_at,
    key_bytes,
    pack_headers,
    text_bytes,
    unpack_headers,
)

Ends = npt.NDArray[np.uint32]
Rows = slice | npt.NDArray[np.intp]
"""Which messages of a batch: a slice of them, or their places."""


class Batch(NamedTuple):
    """What `append_many` was given: as many of each as there are bodies, or None."""

    bodies: Sequence[bytes]
    tags: Sequence[str] | None = None
    keys: Sequence[bytes | None] | None = None
    ids: Sequence[str] | None = None
    headers: Sequence[Mapping[str, bytes] | None] | None = None
    corr_offsets: Sequence[int] | None = None

    def check(self) -> None:
        """BadInput where a column is not as long as the bodies."""
        for name, column in zip(self._fields[1:], self[1:], strict=True):
            if column is not None and len(column) != len(self.bodies):
                raise BadInput(f"{name} has {len(column)} entries for {len(self.bodies)} bodies")

    def part(self, start: int, end: int) -> Batch:
        """The messages from `start` up to `end`."""
        if start == 0 and end == len(self.bodies):
            return self
        parts: list[Any] = [None if column is None else column[start:end] for column in self]
        return Batch(*parts)


def _ends(parts: Sequence[bytes]) -> Ends:
    """Where each part ends when they stand back to back, after a 0: what Arrow calls offsets."""
    ends = np.zeros(len(parts) + 1, np.uint32)
    np.cumsum(np.fromiter(map(len, parts), np.uint32, len(parts)), out=ends[1:])
    return ends


def split(batch: Batch, record_size_max: int) -> Iterator[tuple[Batch, Ends]]:
    """Parts of `batch` that fit a record each, with the ends of their bodies."""
    batch.check()
    count = len(batch.bodies)
    try:
        sizes = np.fromiter(map(len, batch.bodies), np.int64, count)
    except TypeError as error:
        raise BadInput("every body is bytes") from error
    if count and int(sizes.max()) > BODY_SIZE_MAX:
        raise TooLarge("body", int(sizes.max()), BODY_SIZE_MAX)
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    size_target = min(BATCH_SIZE_TARGET, record_size_max // 2)
    start = 0
    while start < count:
        end = int(np.searchsorted(ends, ends[start] + size_target, "right")) - 1
        end = max(start + 1, min(end, start + BATCH_COUNT_MAX))
        yield batch.part(start, end), (ends[start : end + 1] - ends[start]).astype(np.uint32)
        start = end


def pack_columns(batch: Batch, ends: Ends, *, tag: str = "", compression: int = 0) -> Packed:
    """One record that holds the whole batch, ready to be stamped. `tag` is what all share."""
    sections: list[tuple[int, bytes]] = [(SECTION_BODY_ENDS, ends.tobytes())]
    try:
        sections.append((SECTION_BODIES, b"".join(batch.bodies)))
    except TypeError as error:
        raise BadInput("every body is bytes") from error
    if batch.tags is not None:
        sections += _tag_sections(batch.tags)
    if batch.keys is not None:
        sections += _key_sections(batch.keys)
    if batch.ids is not None:
        sections += _blob_sections(SECTION_ID_ENDS, [text_bytes("id", id, ID_SIZE_MAX) for id in batch.ids])
    if batch.headers is not None:
        packed = [pack_headers(headers) if headers else b"" for headers in batch.headers]
        sections += _blob_sections(SECTION_HEADERS_ENDS, packed)
    if batch.corr_offsets is not None:
        sections.append((SECTION_CORR_OFFSETS, np.asarray(batch.corr_offsets, np.int64).tobytes()))
    return _pack_sections(sections, len(batch.bodies), text_bytes("tag", tag, TAG_SIZE_MAX), compression)


def _blob_sections(kind: int, parts: Sequence[bytes]) -> list[tuple[int, bytes]]:
    """The ends of `parts`, and then, under the next kind, the parts."""
    return [(kind, _ends(parts).tobytes()), (kind + 1, b"".join(parts))]


def _tag_sections(tags: Sequence[str]) -> list[tuple[int, bytes]]:
    dictionary = dict.fromkeys(tags)
    texts = [text_bytes("tag", tag, TAG_SIZE_MAX) for tag in dictionary]
    codes = {tag: code for code, tag in enumerate(dictionary)}
    column = np.fromiter(map(codes.__getitem__, tags), np.uint16, len(tags))
    return [
        (SECTION_TAG_CODES, column.tobytes()),
        (SECTION_TAGS, b"".join(bytes((len(text),)) + text for text in texts)),
    ]


def _key_sections(keys: Sequence[bytes | None]) -> list[tuple[int, bytes]]:
    if None in keys:
        present = np.fromiter((key is not None for key in keys), np.uint8, len(keys))
        sections = _key_sections([b"" if key is None else key for key in keys])
        return [*sections, (SECTION_KEY_PRESENT, present.tobytes())]
    known: Sequence[bytes] = keys  # type: ignore[assignment]  # None was ruled out above
    if not all(map(isinstance, known, repeat(bytes))) or max(map(len, known), default=0) > KEY_SIZE_MAX:
        known = [key_bytes(key) for key in known]
    return _blob_sections(SECTION_KEY_ENDS, known)


def _pack_sections(sections: Sequence[tuple[int, bytes]], count: int, tag: bytes, compression: int) -> Packed:
    table = COLUMNS_HEAD.pack(len(sections), 0)
    table += b"".join(SECTION.pack(kind, len(data)) for kind, data in sections)
    parts = [table]
    for _, data in sections:
        parts += (data, bytes(-len(data) % ALIGNMENT))
    area = b"".join(parts)
    small = compress(area, compression) if compression else None
    head = PAYLOAD_HEAD.pack(
        count, NO_CORR_OFFSET, CODEC_COLUMNS, 0, len(tag), 0 if small is None else compression, NO_KEY, 0
    )
    body_at = len(head) + len(tag)
    payload = b"".join((head, tag, bytes(columns_at(body_at) - body_at), area if small is None else small))
    return Packed(payload, crc32c(payload), count)


class Columns:
    """The columns of one batch record: views of `area`, made into Python values on request.

    `area` may be bytes or a mapped file; only what a method gives is copied out of it.
    """

    def __init__(self, area: bytes | mmap, start: int, end: int, count: int) -> None:
        self._area, self._count = area, count
        self._sections = _read_table(area, start, end)
        if SECTION_BODY_ENDS not in self._sections or SECTION_BODIES not in self._sections:
            raise Damage(start, "a batch without bodies")

    def __contains__(self, kind: int) -> bool:
        return kind in self._sections

    def place(self, kind: int) -> tuple[int, int]:
        """Start and end of a section in the area."""
        return self._sections[kind]

    def array(self, kind: int, dtype: Any, count: int) -> npt.NDArray[Any]:
        """A section of numbers, as a view."""
        start, end = self._sections[kind]
        if end - start != count * np.dtype(dtype).itemsize:
            raise Damage(start, f"section {kind} has {end - start} bytes for {count} entries")
        return np.frombuffer(self._area, dtype, count, start)

    def ends(self, kind: int) -> Ends:
        """The section of ends `kind`, after a 0; the last one is the size of the section behind it."""
        ends: Ends = self.array(kind, np.uint32, self._count + 1)
        start, end = self._sections.get(kind + 1, (0, 0))
        if ends[0] or ends[-1] != end - start:
            raise Damage(start, f"section {kind} does not end where section {kind + 1} does")
        return ends

    def blobs(self, kind: int, rows: Rows) -> list[bytes]:
        """The parts that the section of ends `kind` cuts out of the section behind it."""
        ends = self.ends(kind).astype(np.int64) + self._sections[kind + 1][0]
        starts, stops = ends[:-1], ends[1:]
        picked = (starts[rows].tolist(), stops[rows].tolist())
        return list(map(self._area.__getitem__, map(slice, *picked)))

    def tags(self) -> list[str]:
        """The dictionary of tags."""
        position, end = self._sections[SECTION_TAGS]
        tags = []
        while position < end:
            size = self._area[position]
            tags.append(self._area[position + 1 : position + 1 + size].decode())
            position += 1 + size
        return tags

    def tag_codes(self) -> npt.NDArray[np.uint16]:
        """For each message the place of its tag in the dictionary."""
        return self.array(SECTION_TAG_CODES, np.uint16, self._count)

    def keys(self, rows: Rows) -> list[bytes | None]:
        """The key of each message; None where it has none."""
        keys: list[bytes | None] = list(self.blobs(SECTION_KEY_ENDS, rows))
        if SECTION_KEY_PRESENT in self:
            present = self.array(SECTION_KEY_PRESENT, np.uint8, self._count)[rows].tolist()
            keys = [key if here else None for key, here in zip(keys, present, strict=True)]
        return keys


def _read_table(area: bytes | mmap, start: int, end: int) -> dict[int, tuple[int, int]]:
    """Where each section lies, all of them within the area."""
    if start + COLUMNS_HEAD.size > end:
        raise Damage(start, "no table of sections")
    section_count, _ = COLUMNS_HEAD.unpack_from(area, start)
    position = start + COLUMNS_HEAD.size + section_count * SECTION.size
    if section_count > SECTION_COUNT_MAX or position > end:
        raise Damage(start, f"a table of {section_count} sections does not fit")
    places: dict[int, tuple[int, int]] = {}
    for place in range(start + COLUMNS_HEAD.size, position, SECTION.size):
        kind, size = SECTION.unpack_from(area, place)
        if position + size > end:
            raise Damage(place, f"section {kind} passes the end of its record")
        places[kind] = (position, position + size)
        position += aligned(size)
    return places


def messages(
    record: DiskMessage,
    columns: Columns,
    rows: Rows,
    *,
    topic: str,
    partition: int,
) -> list[Message]:
    """The messages in the given rows of a batch."""
    numbers = np.arange(record.number, record.number + record.message_count)[rows].tolist()
    ids: Iterable[str] = repeat(record.id)
    if SECTION_ID_ENDS in columns:
        ids = map(bytes.decode, columns.blobs(SECTION_ID_ENDS, rows))
    tags: Iterable[str] = repeat(record.tag)
    if SECTION_TAG_CODES in columns:
        tags = map(columns.tags().__getitem__, columns.tag_codes()[rows].tolist())
    keys: Iterable[bytes | None] = repeat(record.key)
    if SECTION_KEY_ENDS in columns:
        keys = columns.keys(rows)
    headers: Iterable[Mapping[str, bytes]] = repeat(NO_HEADERS)
    if SECTION_HEADERS_ENDS in columns:
        headers = map(unpack_headers, columns.blobs(SECTION_HEADERS_ENDS, rows))
    corr_offsets: Iterable[int] = repeat(record.corr_offset)
    if SECTION_CORR_OFFSETS in columns:
        corr_offsets = columns.array(SECTION_CORR_OFFSETS, np.int64, record.message_count)[rows].tolist()
    bodies = columns.blobs(SECTION_BODY_ENDS, rows)
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
    # `tuple.__new__` over a zip of columns makes a Message in a third of the time that calling Message takes.
    return list(map(tuple.__new__, repeat(Message), fields))
