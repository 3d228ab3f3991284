"""Allowance: how many bytes of records a thread may read into memory. Only a broker limits it.

The limit belongs to the thread, because records are read in many kinds of calls: by number, by groups, by scans.
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

TOGETHER_SIZE_MAX: Final = 8 << 20
"""A thread with a limit reads about this many bytes of messages in one call: one answer has no room for more."""


class _Allowance(threading.local):
    """The allowance of one thread. Without `size_max` the thread may read everything."""

    size_max: int | None = None
    used = 0


_ALLOWANCE: Final = _Allowance()


@contextmanager
def allowed(size_max: int) -> Iterator[None]:
    """Lets the thread read large records of `size_max` bytes, unpacked and in total. Further ones raise NeedsMemory."""
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


def is_limited() -> bool:
    """Returns whether the thread may not read everything."""
    return _ALLOWANCE.size_max is not None


def together_size_max() -> int | None:
    """Returns how many bytes of bodies one call of the thread may read, or None. It always reads one message."""
    size_max = _ALLOWANCE.size_max
    return None if size_max is None else min(size_max, TOGETHER_SIZE_MAX)


def check_together(size: int, count: int) -> None:
    """Raises NeedsMemory if `count` messages of `size` bytes are more than the thread may read in one call.

    A single message was counted by `use_allowance` if it is large.
    """
    size_max = together_size_max()
    if size_max is not None and count > 1 and size > size_max:
        raise NeedsMemory(size)


@contextmanager
def returned_if_refused() -> Iterator[None]:
    """If the `with` block ends with NeedsMemory, its messages are dropped and no longer count."""
    used = _ALLOWANCE.used
    try:
        yield
    except NeedsMemory:
        _ALLOWANCE.used = used
        raise


@contextmanager
def dropped_at_end() -> Iterator[None]:
    """The messages that are read in the `with` block are dropped at its end, and no longer count."""
    used = _ALLOWANCE.used
    try:
        yield
    finally:
        _ALLOWANCE.used = used


def unpacked_size_max() -> int:
    """Returns how many bytes the next record may have when unpacked, if only unpacking shows its size."""
    size_max = _ALLOWANCE.size_max
    if size_max is None:
        return RAW_SIZE_MAX
    return min(RAW_SIZE_MAX, max(size_max - _ALLOWANCE.used, UNASKED_SIZE_MAX))
