"""Finds the few rows that spoil a whole batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.intp]


def readable_rows(rows: Rows, is_readable: Callable[[Rows], bool]) -> Rows:
    """Those of the rows that can be read, alone or together: found by halves, because most can."""
    if not len(rows) or is_readable(rows):
        return rows
    if len(rows) == 1:
        return rows[:0]
    middle = len(rows) // 2
    return np.concatenate([readable_rows(rows[:middle], is_readable), readable_rows(rows[middle:], is_readable)])
