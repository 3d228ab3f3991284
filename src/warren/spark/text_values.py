"""Values that are text, and what is made of those that are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Fits = npt.NDArray[np.bool_]


class TextValues:
    """The whole value as one string; one that is not UTF-8 does not fit. Without a column they are only checked."""

    def __init__(self, column_count: int) -> None:
        self._column_count = column_count

    def parse(self, values: pa.Array) -> tuple[Sequence[pa.Array], Fits]:
        texts, fits = as_text(values)
        return [texts] * self._column_count, fits


def as_text(values: pa.Array) -> tuple[pa.Array, Fits]:
    """The values as strings, null where they are none, and which are."""
    try:
        return values.cast(pa.string()), np.ones(len(values), np.bool_)
    except pa.ArrowInvalid:
        fits = np.fromiter(map(is_text, values.to_pylist()), np.bool_, len(values))
        return scattered(values.filter(pa.array(fits)).cast(pa.string()), fits), fits


def is_text(value: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def text_of(value: bytes) -> str:
    """Bytes as text that a person can read, whatever they are."""
    return value.decode(errors="replace")


def scattered(array: pa.Array, fits: Fits) -> pa.Array:
    """The values of those rows that fit, at their rows, with nulls in between."""
    if fits.all():
        return array
    rows = np.cumsum(fits) - 1
    return array.take(pa.array(rows, mask=~fits))
