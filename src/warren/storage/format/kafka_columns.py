"""The messages of a Kafka batch as the columns of a batch of Warren, so that a reader reads both in the same way."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from warren.message import NO_CORR_OFFSET
from warren.storage.format.allowance import UNASKED_SIZE_MAX, unpacked_size_max, use_allowance
from warren.storage.format.columns import ALL_ROWS, CORR_OFFSET, END, TAG_CODE, Columns, Ends
from warren.storage.format.kafka_batch import UnpacksToMore, head_of, records_of, unpacked_size_bound
from warren.storage.format.kafka_records import RecordPlaces, find_places, read_varint
from warren.storage.format.layout import (
    CODEC_KAFKA,
    HEADER_SIZES,
    KAFKA_BATCH_HEAD,
    KAFKA_COMPRESSION,
    KAFKA_COMPRESSIONS,
    SECTION_BODIES,
    SECTION_BODY_ENDS,
    SECTION_CORR_OFFSETS,
    SECTION_HEADERS,
    SECTION_HEADERS_ENDS,
    SECTION_ID_ENDS,
    SECTION_IDS,
    SECTION_KEY_ENDS,
    SECTION_KEY_PRESENT,
    SECTION_KEYS,
    SECTION_TAG_CODES,
    SECTION_TAGS,
)
from warren.storage.format.limits import HEADERS_SIZE_MAX, ID_SIZE_MAX, RAW_SIZE_MAX, TAG_SIZE_MAX
from warren.storage.format.record import Damage, DiskMessage, Unreadable
from warren.storage.format.slices import Blobs, Positions, RowSelection, copied, slices_of, together

TAG_HEADER: Final = b"warren.tag"
ID_HEADER: Final = b"warren.id"
CORR_OFFSET_HEADER: Final = b"warren.corr-offset"
NULL_BODY_HEADER: Final = b"warren.null-body"
LEFT_OUT_HEADER: Final = b"warren.headers-left-out"
HEADER_NAME_SIZE_MAX: Final = 255
TAGS_MAX: Final = 1 << 16
CORR_OFFSET_DIGITS_MAX: Final = 19
HEADERS_AT_ONCE: Final = 8192
"""Of how many messages the headers are read in one slice."""
PARSED_MAX: Final = HEADERS_AT_ONCE
"""How many headers are kept to be found again. To free those of a million messages would hold the interpreter for 80
ms."""


def columns_of(record: DiskMessage) -> Columns:
    """Returns the columns of a record that holds a batch, for any codec. Raises Damage if they make no sense.

    Raises Unreadable if they are a Kafka batch that no reader can unpack.
    """
    if record.codec == CODEC_KAFKA:
        if record.id or record.tag or record.key is not None:
            raise Damage(0, "a Kafka batch whose record has an id, a tag or a key")
        return KafkaColumns(record.area, record.message_count)
    return Columns(record.area, record.message_count)


class KafkaColumns(Columns):
    """The columns of a Kafka batch. Keys and bodies are copied together only when a caller needs them adjacent."""

    def __init__(self, batch: bytes | memoryview, count: int) -> None:
        self.count = count
        try:
            head_of(batch, count)
        except ValueError as error:
            raise Damage(0, str(error)) from error
        try:
            self._area = _unpacked(batch, count)
            self._places = places = find_places(self._area, count)
            has_headers = places.header_counts.any() or (places.value_starts < 0).any()
            self._made = _made_of_headers(copied(self._area), places) if has_headers else {}
        except (ValueError, IndexError) as error:
            raise Unreadable(0, str(error) or "headers that pass the end") from error
        self._blobs = {SECTION_BODY_ENDS: _blobs(self._area, places.value_starts, places.value_ends)}
        is_null = places.key_starts < 0
        if not is_null.all():
            self._blobs[SECTION_KEY_ENDS] = _blobs(self._area, places.key_starts, places.key_ends)
            if is_null.any():
                self._made[SECTION_KEY_PRESENT] = (~is_null).astype(np.uint8).tobytes()
        self.kinds = [*self._blobs, *self._made]

    def __contains__(self, kind: int) -> bool:
        return kind in self._blobs or kind in self._made

    @property
    def size(self) -> int:
        return len(self._area)

    def section(self, kind: int) -> bytes | memoryview:
        """Returns the bytes of a section, which is made on request."""
        if kind in (SECTION_BODIES, SECTION_KEYS):
            return self._blobs[kind - 1].side_by_side()
        return self._made.get(kind, b"")

    def ends(self, kind: int) -> Ends:
        """Returns the ends of the pieces of the next section, with a 0 first."""
        if kind not in self._blobs:
            return super().ends(kind)
        _, starts, ends = self._blobs[kind]
        new_ends = np.zeros(self.count + 1, END)
        np.cumsum(ends - starts, out=new_ends[1:])
        return new_ends

    def blobs(self, kind: int, rows: RowSelection = ALL_ROWS) -> Blobs:
        """Returns the pieces of these rows, such as keys or bodies, without a copy."""
        return self._blobs[kind].picked(rows) if kind in self._blobs else super().blobs(kind, rows)


def _unpacked(batch: bytes | memoryview, count: int) -> bytes | memoryview:
    """Returns the records of a batch. Raises NeedsMemory if the thread may not read that many bytes."""
    size_max = unpacked_size_max()
    try:
        area = records_of(batch, count, size_max)
    except UnpacksToMore:
        if size_max == RAW_SIZE_MAX:
            raise
        # The bound of zstd is close to the size; those of the other codecs are not.
        code = head_of(batch, count).attributes & KAFKA_COMPRESSION
        is_close = KAFKA_COMPRESSIONS[code] == "zstd"
        bound = unpacked_size_bound(memoryview(batch)[KAFKA_BATCH_HEAD.size :], code) if is_close else None
        use_allowance(max(size_max, min(bound or 0, RAW_SIZE_MAX)) + 1)
        raise
    if len(area) > UNASKED_SIZE_MAX:
        use_allowance(len(area))
    return area


def _blobs(area: bytes | memoryview, starts: Positions, ends: Positions) -> Blobs:
    """Returns the pieces. A null becomes an empty piece at the end of the one before, so that all are in order."""
    if int(starts.min()) < 0:
        last = np.maximum.accumulate(ends)
        is_null = starts < 0
        starts, ends = np.where(is_null, np.maximum(last, 0), starts), np.where(is_null, np.maximum(last, 0), ends)
    return Blobs(area, starts, ends)


# --- Headers ---


class _HeaderFields(NamedTuple):
    """The fields of a message that Kafka headers carry."""

    tag: bytes
    id: bytes
    corr_offset: int
    headers: bytes


NO_FIELDS: Final = _HeaderFields(b"", b"", NO_CORR_OFFSET, b"")


def _made_of_headers(data: bytes, places: RecordPlaces) -> dict[int, bytes | memoryview]:
    """Returns the sections of tags, ids, corr_offsets and headers, built from the headers of the messages."""
    count = len(places.ends)
    tags = {b"": 0}
    # Many messages of a batch have the same headers: equal ones are parsed once, if they are not too many.
    parsed: dict[tuple[int, bool, bytes], _HeaderFields] = {}
    codes, corr_offsets = np.zeros(count, TAG_CODE), np.empty(count, CORR_OFFSET)
    ids, headers = _MadePieces(count), _MadePieces(count)
    # Slices, because a call for a million rows would hold the interpreter for 50 ms.
    for rows in slices_of(count, HEADERS_AT_ONCE):
        if len(parsed) > PARSED_MAX:
            parsed.clear()
        fields = _fields_of(data, RecordPlaces._make(column[rows] for column in places), parsed, tags)
        codes[rows] = [tags[one.tag] for one in fields]
        corr_offsets[rows] = [one.corr_offset for one in fields]
        ids.add(rows, [one.id for one in fields])
        headers.add(rows, [one.headers for one in fields])
    made: dict[int, bytes | memoryview] = {}
    if len(tags) > 1:
        made[SECTION_TAG_CODES] = codes.tobytes()
        made[SECTION_TAGS] = b"".join(bytes((len(tag),)) + tag for tag in tags)
    if ids.size:
        made[SECTION_ID_ENDS], made[SECTION_IDS] = ids.ends(), ids.joined()
    if headers.size:
        made[SECTION_HEADERS_ENDS], made[SECTION_HEADERS] = headers.ends(), headers.joined()
    if (corr_offsets != NO_CORR_OFFSET).any():
        made[SECTION_CORR_OFFSETS] = corr_offsets.tobytes()
    return made


def _fields_of(
    data: bytes, places: RecordPlaces, parsed: dict[tuple[int, bool, bytes], _HeaderFields], tags: dict[bytes, int]
) -> list[_HeaderFields]:
    """Returns the fields of each of these messages. Adds new ones to `parsed`, and new tags to `tags`."""
    fields = [NO_FIELDS] * len(places.ends)
    rows = np.flatnonzero((places.header_counts > 0) | (places.value_starts < 0))
    columns = (places.headers_at, places.header_counts, places.ends, places.value_starts)
    for row, at, header_count, end, value_at in zip(
        rows.tolist(), *(one[rows].tolist() for one in columns), strict=True
    ):
        same = (header_count, value_at < 0, data[at:end])
        known_headers = parsed.get(same)
        if known_headers is None:
            known_headers = parsed[same] = _header_fields(
                _read_headers(data, at, header_count, end), value_at < 0, tags
            )
        fields[row] = known_headers
    return fields


class _MadePieces:
    """A section of pieces, one for each row, that is made slice by slice."""

    def __init__(self, count: int) -> None:
        self._sizes = np.zeros(count + 1, np.int64)
        self._joined: list[bytes | memoryview] = []
        self.size = 0

    def add(self, rows: slice, pieces: list[bytes]) -> None:
        sizes = self._sizes[rows.start + 1 : rows.stop + 1]
        sizes[:] = list(map(len, pieces))
        size = int(sizes.sum())
        self._joined.append(together(pieces, size))
        self.size += size

    def ends(self) -> bytes:
        return np.cumsum(self._sizes).astype(END).tobytes()

    def joined(self) -> bytes | memoryview:
        return together(self._joined, self.size)


def _header_fields(headers: dict[bytes, bytes], is_null: bool, tags: dict[bytes, int]) -> _HeaderFields:
    tag, id = _tag(headers, tags), _text(headers, ID_HEADER, ID_SIZE_MAX)
    corr_offset = _corr_offset(headers)
    if is_null:
        headers[NULL_BODY_HEADER] = b""
    return _HeaderFields(tag, id, corr_offset, _pack_headers(headers))


def _read_headers(data: bytes, position: int, count: int, end: int) -> dict[bytes, bytes]:
    """Returns the headers of one message. If a name occurs twice, the last value counts, at the place of the first:

    | name size (varint) | name | value size (varint, -1 for null) | value | name size | …
    ^ position                                                             ^ end, after `count` headers
    """
    headers: dict[bytes, bytes] = {}
    for _ in range(count):
        name_size, position = read_varint(data, position)
        name_end = position + name_size
        if name_size < 0:
            raise ValueError("a header without a name")
        name = data[position:name_end]
        value_size, position = read_varint(data, name_end)
        value_end = position + max(value_size, 0)
        headers[name], position = data[position:value_end], value_end
    if position != end:
        raise ValueError("headers that do not end with their record")
    return headers


def _text(headers: dict[bytes, bytes], name: bytes, size_max: int) -> bytes:
    """Removes a header and returns its value, if that is text within the limit. Otherwise returns no bytes."""
    value = headers.get(name, b"")
    if not value or len(value) > size_max:
        return b""
    if not _is_text(value):
        return b""
    del headers[name]
    return value


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _tag(headers: dict[bytes, bytes], codes: dict[bytes, int]) -> bytes:
    if TAG_HEADER not in headers or (headers[TAG_HEADER] not in codes and len(codes) >= TAGS_MAX):
        return b""
    tag = _text(headers, TAG_HEADER, TAG_SIZE_MAX)
    codes.setdefault(tag, len(codes))
    return tag


def _corr_offset(headers: dict[bytes, bytes]) -> int:
    text = headers.get(CORR_OFFSET_HEADER, b"")
    if not text.isdigit() or len(text) > CORR_OFFSET_DIGITS_MAX or int(text) >= 1 << 63:
        return NO_CORR_OFFSET
    del headers[CORR_OFFSET_HEADER]
    return int(text)


def _pack_headers(headers: dict[bytes, bytes]) -> bytes:
    """Returns the headers in the form that they have in the head of a single record.

    Omits headers that do not fit, and adds how many were omitted.
    """
    fitting = {
        name: value
        for name, value in headers.items()
        if len(name) <= HEADER_NAME_SIZE_MAX and len(value) <= HEADERS_SIZE_MAX and _is_text(name)
    }
    if len(fitting) < len(headers):
        fitting[LEFT_OUT_HEADER] = b"%d" % (len(headers) - len(fitting))
    parts = [
        part for name, value in fitting.items() for part in (HEADER_SIZES.pack(len(name), len(value)), name, value)
    ]
    return b"".join(parts)
