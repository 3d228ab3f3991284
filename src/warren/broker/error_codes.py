"""Whether the answer to a request tells of an error, wherever in it that stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

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
