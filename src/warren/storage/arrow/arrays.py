"""Messages as Arrow arrays: views of the mapped file if the pieces are adjacent, copies if they are not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warren.message import NO_HEADERS
from warren.storage.format.columns import Ends
from warren.storage.format.layout import HEADER_SIZES
from warren.storage.format.slices import Area, Blobs, Positions, fields_type

BINARY: Final = pa.binary()
HEADERS: Final = pa.map_(pa.string(), BINARY)
SCHEMA: Final = pa.schema(
    [
        ("number", pa.int64()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("id", pa.string()),
        ("tag", pa.string()),
        ("key", pa.binary()),
        ("headers", HEADERS),
        ("corr_offset", pa.int64()),
        ("body", pa.binary()),
    ]
)
"""The columns of a scan. A missing key is null; any other missing field has the default value of Message.

A tag is a plain string, because Spark takes that without converting it.
"""
HEADER_HEAD: Final = fields_type(HEADER_SIZES, ("name_size", "value_size"))


class RepeatedValue(NamedTuple):
    """One value that `rows` consecutive messages share."""

    value: Any
    rows: int


ColumnPiece: TypeAlias = range | npt.NDArray[Any] | RepeatedValue | pa.Array
"""A column of some messages: consecutive numbers, any numbers, one value for all, or an array."""


def joined(pieces: Sequence[ColumnPiece], kind: pa.DataType) -> pa.Array:
    """Returns one array of all the pieces of a column. Does not copy if the only piece is an array."""
    if len(pieces) == 1:
        return as_array(pieces[0], kind)
    if all(isinstance(piece, RepeatedValue) for piece in pieces) and pa.types.is_primitive(kind):
        values, rows = zip(*pieces, strict=True)
        return fixed(np.repeat(np.array(values, np.int64), rows), kind)
    arrays = [as_array(piece, kind) for piece in _merged(pieces)]
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _merged(pieces: Iterable[ColumnPiece]) -> list[ColumnPiece]:
    """Returns the same column in fewer pieces: adjacent pieces that continue each other are merged."""
    merged: list[ColumnPiece] = []
    for piece in pieces:
        last: ColumnPiece = merged[-1] if merged else None
        if isinstance(piece, range) and isinstance(last, range) and last.stop == piece.start:
            merged[-1] = range(last.start, piece.stop)
        elif isinstance(piece, RepeatedValue) and isinstance(last, RepeatedValue) and last.value == piece.value:
            merged[-1] = RepeatedValue(last.value, last.rows + piece.rows)
        else:
            merged.append(piece)
    return merged


def as_array(piece: ColumnPiece, kind: pa.DataType) -> pa.Array:
    """Returns the array of one piece. Does not copy if it is one already."""
    if isinstance(piece, range):
        return fixed(np.arange(piece.start, piece.stop), kind)
    if isinstance(piece, np.ndarray):
        return fixed(piece, kind)
    if not isinstance(piece, RepeatedValue):
        return piece
    if piece.value is None:
        return pa.nulls(piece.rows, kind)
    if kind == HEADERS:
        none = np.zeros(piece.rows + 1, np.int32)
        return pa.MapArray.from_arrays(none, pa.array([], pa.string()), pa.array([], pa.binary()), type=HEADERS)
    if isinstance(piece.value, int):
        values = np.empty(piece.rows, np.int64)
        values.fill(piece.value)
        return fixed(values, kind)
    return pa.repeat(pa.scalar(piece.value, kind), piece.rows)


def fixed(values: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Returns an array of numbers of 8 bytes each, without a copy."""
    values = np.ascontiguousarray(values, np.int64)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)], 0)


# --- Pieces of bytes ---


def cut(count: int, ends: Area | Ends, section: Area) -> pa.Array:
    """Returns the `count` adjacent pieces of `section` as an array over these bytes. `ends` starts with a 0."""
    return pa.Array.from_buffers(BINARY, count, [None, pa.py_buffer(ends), pa.py_buffer(section)], 0)


def gathered(blobs: Blobs) -> pa.Array:
    """Returns an array with a copy of the pieces."""
    count, size = len(blobs.starts), blobs.size_of_all()
    if size is not None:
        data = blobs.windows(size) if size else b""
        ends = np.arange(count + 1, dtype=np.int32) * np.int32(size)
        return pa.Array.from_buffers(BINARY, count, [None, pa.py_buffer(ends), pa.py_buffer(data)], 0)
    # Makes an array over the whole area, in which the gaps between pieces are elements too, and takes every second one.
    edges = np.empty(2 * count + 1, np.int32)
    edges[:-1:2], edges[1::2] = blobs.starts, blobs.ends
    edges[-1] = edges[-2] if count else 0
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(blobs.area)]
    every = pa.Array.from_buffers(BINARY, 2 * count, buffers, 0)
    return every.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


def text(array: pa.Array) -> pa.Array:
    """Returns the array as text. Raises ValueError if it is not UTF-8."""
    return array.cast(pa.string())


def with_nulls(array: pa.Array, is_present: npt.NDArray[np.bool_]) -> pa.Array:
    """Returns the array with nulls for messages that are not present."""
    if is_present.all():
        return array
    present = pa.py_buffer(np.packbits(is_present, bitorder="little"))
    return pa.Array.from_buffers(array.type, len(array), [present, *array.buffers()[1:]], offset=array.offset)


# --- Headers ---


def headers_array(blobs: Blobs) -> pa.Array:
    """Returns packed headers as maps. Raises ValueError if they make no sense.

    Reads the first headers of all messages together, then the second ones, and so on:

        message 0: | name size, value size | name | value | name size, value size | …
        message 1: | name size, value size | name | value |
                     ^ step 0                              ^ step 1
    """
    rows, cursors = np.arange(len(blobs.starts)), blobs.starts
    steps: list[HeaderStep] = []
    while len(left := np.flatnonzero(cursors < blobs.ends[rows])):
        rows, cursors = rows[left], cursors[left]
        names_at = cursors + HEADER_HEAD.itemsize
        _check_within(names_at, blobs.ends[rows])
        sizes = Blobs(blobs.area, cursors, names_at).windows(HEADER_HEAD.itemsize).view(HEADER_HEAD)
        values_at = names_at + sizes["name_size"]
        cursors = values_at + sizes["value_size"]
        _check_within(cursors, blobs.ends[rows])
        steps.append(HeaderStep(rows, names_at, values_at, cursors))
    return _maps(blobs, steps)


class HeaderStep(NamedTuple):
    """One header of each message in `rows`: where its name starts, its value starts, and its value ends."""

    rows: npt.NDArray[np.intp]
    names_at: Positions
    values_at: Positions
    ends: Positions


def _check_within(positions: Positions, ends: Positions) -> None:
    if (positions > ends).any():
        raise ValueError("headers do not end where they should")


def _maps(blobs: Blobs, steps: Sequence[HeaderStep]) -> pa.Array:
    if not steps:
        return as_array(RepeatedValue(NO_HEADERS, len(blobs.starts)), HEADERS)
    every = HeaderStep(*map(np.concatenate, zip(*steps, strict=True)))
    order = np.argsort(every.rows, kind="stable")
    names_at, values_at, ends = every.names_at[order], every.values_at[order], every.ends[order]
    counts = np.zeros(len(blobs.starts) + 1, np.int32)
    np.cumsum(np.bincount(every.rows, minlength=len(blobs.starts)), out=counts[1:])
    names = text(gathered(Blobs(blobs.area, names_at, values_at)))
    values = gathered(Blobs(blobs.area, values_at, ends))
    return pa.MapArray.from_arrays(counts, names, values, type=HEADERS)
