"""Allowance: how many bytes of large records a thread may read into memory. A broker limits it, and nothing else does.

The limit belongs to the thread, because records are read behind many calls: by number, by groups, by scans.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from warren.errors import NeedsMemory
from warren.storage.format.limits import RAW_SIZE_MAX

UNASKED_SIZE_MAX: Final = 2 << 20
"""A record of up to this many bytes, unpacked, is not counted, so that a small record costs one comparison."""


class _Allowance(threading.local):
    """Without `size_max` the thread may read everything."""

    size_max: int | None = None
    used = 0


_ALLOWANCE: Final = _Allowance()


@contextmanager
def allowed(size_max: int) -> Iterator[None]:
    """Lets the thread read large records of `size_max` bytes, unpacked and together. More of them raise NeedsMemory."""
    _ALLOWANCE.size_max, _ALLOWANCE.used = size_max, 0
    try:
        yield
    finally:
        _ALLOWANCE.size_max = None


def use_allowance(size: int) -> None:
    """Counts a record of more than UNASKED_SIZE_MAX bytes. Raises NeedsMemory if the thread may not read it."""
    size_max = _ALLOWANCE.size_max
    if size_max is not None:
        if _ALLOWANCE.used + size > size_max:
            raise NeedsMemory(_ALLOWANCE.used + size)
        _ALLOWANCE.used += size


def unpacked_size_max() -> int:
    """Returns to how many bytes the thread may unpack the next record, of which only unpacking finds the size."""
    size_max = _ALLOWANCE.size_max
    if size_max is None:
        return RAW_SIZE_MAX
    return min(RAW_SIZE_MAX, max(size_max - _ALLOWANCE.used, UNASKED_SIZE_MAX))
