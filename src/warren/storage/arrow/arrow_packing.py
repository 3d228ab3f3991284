"""Packs Arrow record batches into records without a Python loop over their rows. The bytes are those of `packing`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from warren.errors import BadInput, TooLarge
from warren.message import NO_CORR_OFFSET
from warren.storage.arrow.arrays import HEADER_HEAD, SCHEMA
from warren.storage.format.columns import END, Batch
from warren.storage.format.layout import (
    SECTION_BODIES,
    SECTION_BODY_ENDS,
    SECTION_CORR_OFFSETS,
    SECTION_HEADERS_ENDS,
    SECTION_ID_ENDS,
    SECTION_KEY_ENDS,
    SECTION_KEY_PRESENT,
    SECTION_TAG_CODES,
    SECTION_TAGS,
)
from warren.storage.format.limits import HEADERS_SIZE_MAX, ID_SIZE_MAX, KEY_SIZE_MAX
from warren.storage.format.packing import Offsets, Sections, check_marker, ends_of, pack_parts, pack_sections, pack_tags
from warren.storage.format.record import Packed, check_corr_offset, pack_headers

GIVEN_BY_LOG: Final = frozenset({"number", "offset", "timestamp"})
"""Columns that a scan returns and that the target log assigns itself."""
HEADER_NAME_SIZE_MAX: Final = 255
LARGE_BINARY: Final = pa.large_binary()
NOTHING: Final = pa.scalar(b"", LARGE_BINARY)


def pack_arrow(batch: pa.RecordBatch, compression: int, record_size_max: int, marker: bytes = b"") -> Iterator[Packed]:
    """Yields the records that `pack_batch` yields for the same messages. Omits columns without values."""
    check_marker(marker)
    columns = ArrowColumns(batch)

    def pack(start: int, end: int) -> Packed:
        return pack_sections(columns.sections(start, end), end - start, "", compression, marker)

    return pack_parts(columns.bodies.offsets, record_size_max, pack)


def body_size_max(batch: pa.RecordBatch) -> int:
    """Returns the size of the largest body. Raises BadInput if a body is null or of another type."""
    return int(np.diff(ArrowColumns(batch.select(["body"])).bodies.offsets).max(initial=0))


def rows_of(batch: pa.RecordBatch) -> Batch:
    """Returns the same messages as Python values, for a log that does not store columns."""
    columns = ArrowColumns(batch)
    headers = None if columns.headers is None else [_mapping(row) for row in columns.headers.to_pylist()]
    return Batch(
        columns.bodies.array.cast(LARGE_BINARY).to_pylist(),
        None if columns.tags is None else columns.tags.to_pylist(),
        None if columns.keys is None else columns.key_list(),
        None if columns.ids is None else columns.ids.array.to_pylist(),
        headers,
        None if columns.corr_offsets is None else columns.corr_offsets.tolist(),
    )


class BytePieces(NamedTuple):
    """An array of bytes: where each piece ends, and the bytes. A null is an empty piece."""

    array: pa.Array
    offsets: Offsets
    data: memoryview

    @property
    def is_empty(self) -> bool:
        """Whether all pieces are empty."""
        return bool(self.offsets[0] == self.offsets[-1])

    def check_sizes(self, what: str, size_max: int, start: int, end: int) -> None:
        """Raises TooLarge for the first piece in these rows that is over the limit."""
        sizes = np.diff(self.offsets[start : end + 1])
        if int(sizes.max(initial=0)) > size_max:
            raise TooLarge(what, int(sizes[np.argmax(sizes > size_max)]), size_max)

    def sections(self, kind: int, start: int, end: int) -> Sections:
        """Returns a section of the ends of the pieces in these rows, and the section of the pieces that follows it."""
        first, last = int(self.offsets[start]), int(self.offsets[end])
        return [(kind, ends_of(self.offsets, start, end).tobytes()), (kind + 1, self.data[first:last])]


class ArrowColumns:
    """The columns of a record batch, ready to be cut into the sections of records. A missing column is None."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        unknown = [name for name in batch.schema.names if name not in SCHEMA.names]
        if unknown or len(set(batch.schema.names)) < batch.num_columns or "body" not in batch.schema.names:
            what = f"there is no {unknown[0]!r}" if unknown else "expected a body, and each other column at most once"
            raise BadInput(f"columns {batch.schema.names}: {what}; the columns are {', '.join(SCHEMA.names)}")
        self._batch = batch
        body = batch.column("body")
        if body.null_count:
            raise BadInput("column body: expected bytes for every message")
        self.bodies = _pieces("body", body)
        self.tags = self._tags()
        self.keys: BytePieces | None = None
        keys = self._column("key")
        if keys is not None and keys.null_count < len(keys):
            self.keys = _pieces("key", keys)
            self.has_key = keys.is_valid().to_numpy(zero_copy_only=False)
        ids = self._column("id")
        pieces = None if ids is None else _pieces("id", _text("id", ids))
        self.ids = None if pieces is None or pieces.is_empty else pieces
        self.headers = self._headers()
        self.corr_offsets = self._corr_offsets()

    def key_list(self) -> list[bytes | None]:
        """Returns the key of each message, or None for a message without one."""
        assert self.keys is not None
        keys = self.keys.array.cast(LARGE_BINARY).to_pylist()
        return [key if here else None for key, here in zip(keys, self.has_key.tolist(), strict=True)]

    def _column(self, name: str) -> pa.Array | None:
        return self._batch.column(name) if name in self._batch.schema.names else None

    def _tags(self) -> pa.Array | None:
        column = self._column("tag")
        if column is None or column.null_count == len(column):
            return None
        tags = pc.fill_null(_text("tag", column), "")
        return None if _pieces("tag", tags).is_empty else tags

    def _headers(self) -> pa.Array | None:
        column = self._column("headers")
        if column is None or column.null_count == len(column):
            return None
        if not pa.types.is_map(column.type):
            raise BadInput(f"column headers is {column.type}: expected a map of names to bytes")
        if column.null_count:
            # The array may contain the pairs of a null nevertheless.
            column = column.take(pa.array(np.arange(len(column))))
        offsets = _map_offsets(column)
        return None if offsets[0] == offsets[-1] else column

    def _corr_offsets(self) -> npt.NDArray[np.int64] | None:
        column = self._column("corr_offset")
        if column is None or column.null_count == len(column):
            return None
        numbers = pc.fill_null(_cast("corr_offset", column, pa.int64()), NO_CORR_OFFSET)
        values: npt.NDArray[np.int64] = numbers.to_numpy(zero_copy_only=False)
        return None if (values == NO_CORR_OFFSET).all() else values

    # --- Sections ---

    def sections(self, start: int, end: int) -> Sections:
        """Returns the sections of a record of the rows from `start` up to `end`.

        Raises BadInput if a value is not valid.
        """
        sections = self.bodies.sections(SECTION_BODY_ENDS, start, end)
        assert sections[1][0] == SECTION_BODIES
        if self.tags is not None:
            sections += _tag_sections(self.tags[start:end])
        if self.keys is not None:
            self.keys.check_sizes("key", KEY_SIZE_MAX, start, end)
            sections += self.keys.sections(SECTION_KEY_ENDS, start, end)
            has_key = self.has_key[start:end]
            if not has_key.all():
                sections.append((SECTION_KEY_PRESENT, has_key.astype(np.uint8).tobytes()))
        if self.ids is not None:
            self.ids.check_sizes("id", ID_SIZE_MAX, start, end)
            sections += self.ids.sections(SECTION_ID_ENDS, start, end)
        if self.headers is not None:
            sections += _header_sections(self.headers[start:end])
        if self.corr_offsets is not None:
            values = self.corr_offsets[start:end]
            if values.min() < NO_CORR_OFFSET:
                check_corr_offset(int(values[np.argmax(values < NO_CORR_OFFSET)]))
            sections.append((SECTION_CORR_OFFSETS, values.tobytes()))
        return sections


def _cast(name: str, array: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadInput(f"column {name} is {array.type}: expected {SCHEMA.field(name).type} ({error})") from error


def _is_bytes(kind: pa.DataType) -> bool:
    """Returns whether an array of this type consists of ends and bytes."""
    is_wide = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    return bool(pa.types.is_binary(kind) or pa.types.is_string(kind) or is_wide)


def _pieces(name: str, array: pa.Array) -> BytePieces:
    if not _is_bytes(array.type):
        array = _cast(name, array, LARGE_BINARY)
    if array.null_count:
        # The array may contain the bytes of a null nevertheless.
        array = pc.fill_null(array, "" if array.type in (pa.string(), pa.large_string()) else b"")
    is_wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    width = np.dtype(np.int64 if is_wide else np.int32)
    _, offsets, data = array.buffers()
    piece_offsets = np.zeros(1, np.int64)
    if len(array):
        piece_offsets = np.frombuffer(offsets, width, len(array) + 1, array.offset * width.itemsize).astype(np.int64)
    return BytePieces(array, piece_offsets, memoryview(data if data is not None else b""))


def _text(name: str, array: pa.Array) -> pa.Array:
    """Returns the array as text. Checks the UTF-8, because Arrow does not."""
    as_text = _cast(name, array, pa.large_string())
    try:
        return as_text.cast(LARGE_BINARY).cast(pa.large_string())
    except pa.ArrowInvalid as error:
        raise BadInput(f"column {name} is not UTF-8: {error}") from error


def _tag_sections(tags: pa.Array) -> Sections:
    encoded = tags.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.uint16)
    return [(SECTION_TAG_CODES, codes.tobytes()), (SECTION_TAGS, pack_tags(encoded.dictionary.to_pylist()))]


# --- Headers ---


def _map_offsets(maps: pa.Array) -> npt.NDArray[np.int32]:
    if not len(maps):
        return np.zeros(1, np.int32)
    return np.frombuffer(maps.buffers()[1], np.int32, len(maps) + 1, maps.offset * np.dtype(np.int32).itemsize)


def _header_sections(maps: pa.Array) -> Sections:
    """Packs all headers together; message by message if a name occurs twice in a message or a value is not valid."""
    offsets = _map_offsets(maps)
    first, last = int(offsets[0]), int(offsets[-1])
    names = _text("headers", maps.keys[first:last])
    values = _pieces("headers", maps.items[first:last])
    name_sizes, value_sizes = np.diff(_pieces("headers", names).offsets), np.diff(values.offsets)
    is_over = name_sizes.max(initial=0) > HEADER_NAME_SIZE_MAX or value_sizes.max(initial=0) > HEADERS_SIZE_MAX
    if is_over or maps.items[first:last].null_count or not _are_single(names, offsets - first):
        return _slow_header_sections(maps)
    sizes = np.empty(last - first, HEADER_HEAD)
    sizes["name_size"], sizes["value_size"] = name_sizes, value_sizes
    every = np.arange(last - first + 1, dtype=np.int64) * HEADER_HEAD.itemsize
    heads = pa.Array.from_buffers(LARGE_BINARY, last - first, [None, pa.py_buffer(every), pa.py_buffer(sizes)])
    joined = pc.binary_join_element_wise(heads, names.cast(LARGE_BINARY), values.array.cast(LARGE_BINARY), NOTHING)
    pieces = _pieces("headers", joined)
    rows = BytePieces(joined, pieces.offsets[offsets - first], pieces.data)
    rows.check_sizes("headers", HEADERS_SIZE_MAX, 0, len(maps))
    return rows.sections(SECTION_HEADERS_ENDS, 0, len(maps))


def _are_single(names: pa.Array, offsets: npt.NDArray[np.int32]) -> bool:
    """Returns whether no message has two headers of the same name."""
    counts = np.diff(offsets)
    if counts.max(initial=0) < 2:
        return True
    encoded = names.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = np.repeat(np.arange(len(counts)), counts) * len(encoded.dictionary) + codes
    return len(np.unique(pairs)) == len(pairs)


def _slow_header_sections(maps: pa.Array) -> Sections:
    parts = [pack_headers(_mapping(row)) if row else b"" for row in maps.to_pylist()]
    ends = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=ends[1:])
    return [(SECTION_HEADERS_ENDS, ends.astype(END).tobytes()), (SECTION_HEADERS_ENDS + 1, b"".join(parts))]


def _mapping(pairs: list[tuple[Any, Any]] | None) -> dict[str, bytes]:
    return {_known_text(name): value.encode() if isinstance(value, str) else value for name, value in pairs or ()}


def _known_text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else name
