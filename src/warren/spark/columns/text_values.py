"""Values that are text, and the parts that JSON, CSV and text share: which rows can be read, and
nulls for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Fits = npt.NDArray[np.bool_]
"""For each row, whether its value could be read."""
RowNumbers = npt.NDArray[np.intp]


class TextValues:
    """The whole value as one string. A value that is not UTF-8 does not fit. Without a column it is only checked."""

    def __init__(self, column_count: int) -> None:
        self._column_count = column_count

    def parse(self, values: pa.Array) -> tuple[Sequence[pa.Array], Fits]:
        texts, fits = as_text(values)
        return [texts] * self._column_count, fits


def as_text(values: pa.Array) -> tuple[pa.Array, Fits]:
    """Returns the values as strings, with null for each that is not UTF-8, and which ones are."""
    try:
        return values.cast(pa.string()), np.ones(len(values), np.bool_)
    except pa.ArrowInvalid:
        fits = np.fromiter(map(is_text, values.to_pylist()), np.bool_, len(values))
        return scattered(values.filter(pa.array(fits)).cast(pa.string()), fits), fits


def is_text(value: bytes) -> bool:
    """Returns whether bytes are UTF-8."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def text_of(value: bytes) -> str:
    """Returns bytes as text, with a replacement character for bytes that are not UTF-8."""
    return value.decode(errors="replace")


def scattered(array: pa.Array, fits: Fits) -> pa.Array:
    """Returns an array as long as `fits`: the values at the rows that fit, and null at the others."""
    if fits.all():
        return array
    rows = np.cumsum(fits) - 1
    return array.take(pa.array(rows, mask=~fits))


def readable_rows(rows: RowNumbers, is_readable: Callable[[RowNumbers], bool]) -> RowNumbers:
    """Returns those rows that can be read. It halves the rows until each half can be read, because most rows can."""
    if not len(rows) or is_readable(rows):
        return rows
    if len(rows) == 1:
        return rows[:0]
    middle = len(rows) // 2
    return np.concatenate([readable_rows(rows[:middle], is_readable), readable_rows(rows[middle:], is_readable)])
