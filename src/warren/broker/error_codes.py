"""What an answer is like before it is encoded: whether it tells of an error, and whether it is long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from warren.config import LOOP_ROWS_AT_ONCE

NAMES: Final = ("error_code", "partition_error_code")
DEPTH_MAX: Final = 3
"""How deep errors stand in Kafka's answers: in a partition of a topic of the answer."""
ROWS_MAX: Final = 256
"""How many rows of a list are looked at: what is longer lists what there is, and does not tell of errors."""


def tells_of_error(values: Mapping[str, Any], depth: int = DEPTH_MAX) -> bool:
    """Whether one of its error codes is not 0."""
    if any(values.get(name) for name in NAMES):
        return True
    if depth == 1:
        return False
    return any(
        isinstance(row, Mapping) and tells_of_error(row, depth - 1)
        for rows in values.values()
        if isinstance(rows, Sequence) and not isinstance(rows, str | bytes)
        for row in rows[:ROWS_MAX]
    )


def is_long(values: Mapping[str, Any]) -> bool:
    """Whether an answer has more rows, counting those within rows, than are encoded on the event loop."""
    return _rows_left(values, LOOP_ROWS_AT_ONCE) < 0


def _rows_left(values: Mapping[str, Any], rows_max: int) -> int:
    """How many of `rows_max` rows an answer leaves; below 0 as soon as it has more."""
    for rows in values.values():
        if isinstance(rows, Mapping):
            rows_max = _rows_left(rows, rows_max)
        elif isinstance(rows, list | tuple):
            rows_max -= len(rows)
            if rows_max >= 0 and rows and isinstance(rows[0], Mapping):
                for row in rows:
                    rows_max = _rows_left(row, rows_max)
        if rows_max < 0:
            break
    return rows_max
