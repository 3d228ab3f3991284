"""The creation time of a message, as its producer wrote it in a header or in a field of its JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from warren.clock import microseconds
from warren.errors import BadInput
from warren.spark.columns.json_values import JsonValues

SOURCE: Final = re.compile(r"(header|json):(.+)")
UNKNOWN: Final = np.iinfo(np.int64).min
"""Stands for the time of a message that has none."""
UNITS: Final = ((1e11, 1e6), (1e14, 1e3), (1e17, 1.0))
"""A number below the first value has a unit of so many µs (the second value): seconds, milliseconds or microseconds.

Larger numbers are nanoseconds.
"""
KINDS: Final = (pa.int64(), pa.float64(), pa.string())

Times = npt.NDArray[np.int64]


class TimeSource(NamedTuple):
    """The header or field that holds the time: `header:NAME` or `json:FIELD`. The value is a number or an ISO time."""

    kind: str
    name: str

    @classmethod
    def parse(cls, text: str) -> TimeSource:
        match = SOURCE.fullmatch(text)
        if match is None:
            raise BadInput(f"{text!r}: expected header:NAME or json:FIELD, such as header:made-at or json:created")
        return cls(match[1], match[2])

    @property
    def column(self) -> str:
        """Returns the column of a scan that holds it."""
        return "headers" if self.kind == "header" else "body"

    def times_us(self, rows: pa.RecordBatch) -> Times:
        """Returns the time of each message in µs; UNKNOWN if it has none, or one that cannot be parsed."""
        if self.kind == "header":
            return _times(_texts(pc.map_lookup(rows.column("headers"), self.name, "first")))
        times = np.full(rows.num_rows, UNKNOWN, np.int64)
        for kind in KINDS:
            left = times == UNKNOWN
            if not left.any():
                break
            values = rows.column("body").filter(pa.array(left))
            (array,), fits = JsonValues(pa.schema([(self.name, kind)])).parse(values)
            if fits.any():
                times[left] = _times(array) if pa.types.is_string(kind) else _scaled(array)
        return times


def _texts(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(value) for value in values.to_pylist()], pa.string())


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _times(texts: pa.Array) -> Times:
    """Parses texts that are numbers or ISO times: all together if they have one format, otherwise one by one."""
    readers: tuple[Callable[[pa.Array], Times], ...] = (
        lambda array: _scaled(array.cast(pa.int64())),
        lambda array: _scaled(array.cast(pa.float64())),
        lambda array: _whole(array.cast(pa.timestamp("us", "UTC"))),
        lambda array: _whole(array.cast(pa.timestamp("us"))),
    )
    for read in readers:
        try:
            return read(texts)
        except pa.ArrowInvalid:
            continue
    return np.array([_time(text) for text in texts.to_pylist()], np.int64)


def _time(text: str | None) -> int:
    try:
        return UNKNOWN if text is None else int(_scaled(pa.array([float(text)]))[0])
    except ValueError:
        pass
    try:
        when = datetime.fromisoformat(str(text).strip())
        return microseconds(when if when.tzinfo else when.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return UNKNOWN


def _scaled(array: pa.Array) -> Times:
    """Returns numbers as µs. The size of a number determines its unit."""
    values: npt.NDArray[Any] = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    is_known = np.isfinite(values) & (np.abs(values) < 1e19)
    magnitudes = np.where(is_known, values, 0.0)
    factors = np.full(len(magnitudes), 1e-3)
    for limit, factor in reversed(UNITS):
        factors[np.abs(magnitudes) < limit] = factor
    times: Times = np.where(is_known, (magnitudes * factors).astype(np.int64), UNKNOWN)
    return times


def _whole(array: pa.Array) -> Times:
    times: Times = array.cast(pa.int64()).fill_null(UNKNOWN).to_numpy(zero_copy_only=False)
    return times
