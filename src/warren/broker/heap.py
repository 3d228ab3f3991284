"""Memory that the C library keeps for the next request, and gives back to the system when there is too much of it.

Requests of a megabyte come and go: to give up their pages and take them anew takes a tenth of all that is done for one.
But what a burst has left behind must not stay for good.
"""

from __future__ import annotations

import asyncio
import ctypes
import mmap
from collections.abc import Awaitable, Callable
from typing import Any, Final

from warren.config import (
    BROKER_HEAP_KEPT_SIZE_MAX,
    BROKER_HEAP_LOOK_S,
    BROKER_HEAP_LOOK_S_MAX,
    BROKER_HEAP_STEP_SIZE,
)

TRIM_THRESHOLD: Final = -1
TOP_PAD: Final = -2
MMAP_THRESHOLD: Final = -3
ARENA_MAX: Final = -8
"""As glibc numbers what can be set."""
MMAP_THRESHOLD_MAX: Final = 32 << 20
"""More than that it does not take; what is larger is given back as before."""
STATM: Final = "/proc/self/statm"
InThread = Callable[[Callable[[], None]], Awaitable[None]]


def keep_memory() -> bool:
    """Keep up to BROKER_HEAP_KEPT_SIZE_MAX bytes that are free from now on; False where the library cannot be told."""
    set_option = _function("mallopt")
    if set_option is None:
        return False
    options = {
        TRIM_THRESHOLD: BROKER_HEAP_KEPT_SIZE_MAX,
        TOP_PAD: BROKER_HEAP_STEP_SIZE,
        MMAP_THRESHOLD: MMAP_THRESHOLD_MAX,
        # One heap for all threads: each of several would keep as much, and what is free in one serves no other. Python
        # runs one thread at a time, so they do not wait for each other.
        ARENA_MAX: 1,
    }
    return all(set_option(option, size) for option, size in options.items())


def _function(name: str) -> Any:
    """A function of the C library; None if it has none of this name."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None


def anonymous_size() -> int | None:
    """How many bytes of memory the process has that are not pages of files; None if the system does not tell."""
    try:
        with open(STATM, encoding="ascii") as statm:
            _, resident, shared, *_ = map(int, statm.read().split())
    except (OSError, ValueError):
        return None
    return (resident - shared) * mmap.PAGESIZE


class Heap:
    """Sees when much memory is free, and gives it back. For the event loop's thread, but for `trim`."""

    def __init__(self, size: Callable[[], int | None] = anonymous_size) -> None:
        self._size, self._trim = size, _function("malloc_trim")
        self._least = size()
        """The least that the process ever had."""
        self.pause_s = BROKER_HEAP_LOOK_S
        """How long to wait before the next look: longer and longer while nothing comes of giving back."""

    def is_due(self, held_size: int) -> bool:
        """Whether the process has much more memory than it needs, if clients make it hold `held_size` bytes."""
        size = self._size()
        if size is None or self._least is None or self._trim is None:
            return False
        self._least = min(self._least, size)
        return size > self._least + held_size + BROKER_HEAP_KEPT_SIZE_MAX

    def trim(self) -> None:
        """Give back what is free. Takes about 0.1 s for 1 GB, in which no other thread gets large memory."""
        before = self._size() or 0
        self._trim(0)
        # What is in use for something else, such as thousands of topics, cannot be given back.
        is_vain = before - (self._size() or 0) < BROKER_HEAP_STEP_SIZE
        self.pause_s = min(2 * self.pause_s, BROKER_HEAP_LOOK_S_MAX) if is_vain else BROKER_HEAP_LOOK_S

    async def watch(self, held_size: Callable[[], int], in_thread: InThread) -> None:
        """Give memory back whenever that is due, until cancelled."""
        while True:
            await asyncio.sleep(self.pause_s)
            if self.is_due(held_size()):
                await in_thread(self.trim)
