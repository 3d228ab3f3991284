"""Replaces the values that mean "none" in a log by nulls of Arrow, without copying the bytes or looping over rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def nulls_where_empty(array: pa.Array) -> pa.Array:
    """Returns the same strings or lists, with null for each empty one."""
    count = len(array)
    ends = np.frombuffer(array.buffers()[1], np.int32, count + 1, array.offset * 4) if count else np.zeros(1, np.int32)
    if ends[0] == ends[-1]:
        return pa.nulls(count, array.type)
    is_present = ends[1:] != ends[:-1]
    if is_present.all():
        return array
    buffers = [_bits(is_present), pa.py_buffer(ends)]
    if pa.types.is_list(array.type):
        return pa.Array.from_buffers(array.type, count, buffers, children=[array.values])
    return pa.Array.from_buffers(array.type, count, [*buffers, array.buffers()[2]])


def nulls_where_equal(array: pa.Array, nothing: int) -> pa.Array:
    """Returns the same 8-byte integers, with null for each that equals `nothing`."""
    values = np.frombuffer(array.buffers()[1], np.int64, len(array), array.offset * 8)
    is_present = values != nothing
    if not is_present.any():
        return pa.nulls(len(array), array.type)
    if is_present.all():
        return array
    return pa.Array.from_buffers(array.type, len(array), [_bits(is_present), pa.py_buffer(values)])


def _bits(is_present: npt.NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(is_present, bitorder="little"))
