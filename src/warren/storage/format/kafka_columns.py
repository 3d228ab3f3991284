"""The messages of a Kafka batch as the columns of one of Warren's own batches: a reader reads both alike."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

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
from warren.storage.format.slices import WINDOW_SIZE_MAX, Blobs, Positions, RowSelection, copied

TAG_HEADER: Final = b"warren.tag"
ID_HEADER: Final = b"warren.id"
CORR_OFFSET_HEADER: Final = b"warren.corr-offset"
NULL_BODY_HEADER: Final = b"warren.null-body"
LEFT_OUT_HEADER: Final = b"warren.headers-left-out"
HEADER_NAME_SIZE_MAX: Final = 255
TAGS_MAX: Final = 1 << 16
CORR_OFFSET_DIGITS_MAX: Final = 19


def columns_of(record: DiskMessage) -> Columns:
    """Returns the columns of a record that holds a batch, whatever its codec. Raises Damage if they make no sense.

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
            self._made = _made_of_headers(copied(self._area), places) if _has_headers(places) else {}
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
            return _side_by_side(self._blobs[kind - 1])
        return self._made.get(kind, b"")

    def ends(self, kind: int) -> Ends:
        """Returns where the pieces of the next section end, with a 0 first."""
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
    """Returns the records of a batch. Raises NeedsMemory if the thread may not read so many bytes."""
    size_max = unpacked_size_max()
    try:
        area = records_of(batch, count, size_max)
    except UnpacksToMore:
        if size_max == RAW_SIZE_MAX:
            raise
        # The bound of zstd is close to the size; those of the other codecs say little.
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


def _side_by_side(blobs: Blobs) -> bytes:
    size = blobs.size_of_all()
    if size and size <= WINDOW_SIZE_MAX:
        return blobs.windows(size).tobytes()
    return b"" if size == 0 else b"".join(blobs.to_list())


# --- Headers ---


def _has_headers(places: RecordPlaces) -> bool:
    return bool(places.header_counts.any() or (places.value_starts < 0).any())


class _HeaderFields(NamedTuple):
    """The fields of a message that Kafka headers carry."""

    tag: bytes
    id: bytes
    corr_offset: int
    headers: bytes


NO_FIELDS: Final = _HeaderFields(b"", b"", NO_CORR_OFFSET, b"")


def _made_of_headers(data: bytes, places: RecordPlaces) -> dict[int, bytes | memoryview]:
    """Returns the sections of tags, ids, corr_offsets and headers, made from the headers of the messages."""
    count = len(places.ends)
    fields_of_rows = [NO_FIELDS] * count
    tags = {b"": 0}
    # Many messages of a batch have the same headers: equal ones are parsed once.
    known: dict[tuple[int, bool, bytes], _HeaderFields] = {}
    rows = np.flatnonzero((places.header_counts > 0) | (places.value_starts < 0))
    columns = (places.headers_at, places.header_counts, places.ends, places.value_starts)
    for row, at, header_count, end, value_at in zip(
        rows.tolist(), *(one[rows].tolist() for one in columns), strict=True
    ):
        same = (header_count, value_at < 0, data[at:end])
        known_headers = known.get(same)
        if known_headers is None:
            known_headers = known[same] = _header_fields(_read_headers(data, at, header_count, end), value_at < 0, tags)
        fields_of_rows[row] = known_headers
    made: dict[int, bytes | memoryview] = {}
    if len(tags) > 1:
        codes = np.fromiter([tags[one.tag] for one in fields_of_rows], TAG_CODE, count)
        made[SECTION_TAG_CODES] = codes.tobytes()
        made[SECTION_TAGS] = b"".join(bytes((len(tag),)) + tag for tag in tags)
    ids, headers = [one.id for one in fields_of_rows], [one.headers for one in fields_of_rows]
    if any(ids):
        made[SECTION_ID_ENDS], made[SECTION_IDS] = _ends(ids), b"".join(ids)
    if any(headers):
        made[SECTION_HEADERS_ENDS], made[SECTION_HEADERS] = _ends(headers), b"".join(headers)
    corr_offsets: npt.NDArray[np.int64] = np.fromiter([one.corr_offset for one in fields_of_rows], CORR_OFFSET, count)
    if (corr_offsets != NO_CORR_OFFSET).any():
        made[SECTION_CORR_OFFSETS] = corr_offsets.tobytes()
    return made


def _header_fields(headers: dict[bytes, bytes], is_null: bool, tags: dict[bytes, int]) -> _HeaderFields:
    tag, id = _tag(headers, tags), _text(headers, ID_HEADER, ID_SIZE_MAX)
    corr_offset = _corr_offset(headers)
    if is_null:
        headers[NULL_BODY_HEADER] = b""
    return _HeaderFields(tag, id, corr_offset, _pack_headers(headers))


def _ends(pieces: list[bytes]) -> bytes:
    ends = np.zeros(len(pieces) + 1, END)
    np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)), out=ends[1:])
    return ends.tobytes()


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


def _tag(headers: dict[bytes, bytes], known: dict[bytes, int]) -> bytes:
    if TAG_HEADER not in headers or (headers[TAG_HEADER] not in known and len(known) >= TAGS_MAX):
        return b""
    tag = _text(headers, TAG_HEADER, TAG_SIZE_MAX)
    known.setdefault(tag, len(known))
    return tag


def _corr_offset(headers: dict[bytes, bytes]) -> int:
    text = headers.get(CORR_OFFSET_HEADER, b"")
    if not text.isdigit() or len(text) > CORR_OFFSET_DIGITS_MAX or int(text) >= 1 << 63:
        return NO_CORR_OFFSET
    del headers[CORR_OFFSET_HEADER]
    return int(text)


def _pack_headers(headers: dict[bytes, bytes]) -> bytes:
    """Returns the headers as in the head of a single record.

    Leaves out what does not fit, and adds how many were left out.
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
