"""Makes the C library keep free memory for the next request, and give it back to the system when there is too much.

Requests of a megabyte come and go. Freeing their pages and allocating them again would take a tenth of the time of each
request. But the memory of a burst must not be kept permanently.
"""

from __future__ import annotations

import asyncio
import ctypes
import mmap
from collections.abc import Callable
from typing import Any, Final

from warren.broker.threads import InThread

BROKER_HEAP_KEPT_SIZE_MAX: Final = 128 << 20
"""How much free memory a broker keeps at most."""
BROKER_HEAP_STEP_SIZE: Final = 16 << 20
"""How many bytes more than needed the heap allocates in one step."""
BROKER_HEAP_LOOK_S: Final = 1.0
"""How often a broker checks for too much free memory."""
BROKER_HEAP_LOOK_S_MAX: Final = 60.0
"""The longest pause between two checks. The pause doubles each time that a check frees little."""


TRIM_THRESHOLD: Final = -1
TOP_PAD: Final = -2
MMAP_THRESHOLD: Final = -3
ARENA_MAX: Final = -8
"""The numbers of the options in glibc's malloc.h."""
MMAP_THRESHOLD_MAX: Final = 32 << 20
"""The largest value that glibc accepts. Larger allocations are still given back to the system when they are freed."""
STATM: Final = "/proc/self/statm"


def keep_memory() -> bool:
    """Keeps up to BROKER_HEAP_KEPT_SIZE_MAX free bytes from now on. Returns False if the C library cannot do that.

    Threads that started before may have heaps of their own, which later threads share.
    """
    set_option = _function("mallopt")
    if set_option is None:
        return False
    options = {
        TRIM_THRESHOLD: BROKER_HEAP_KEPT_SIZE_MAX,
        TOP_PAD: BROKER_HEAP_STEP_SIZE,
        MMAP_THRESHOLD: MMAP_THRESHOLD_MAX,
        # One heap for all threads: each of several heaps would keep as much, and a thread cannot use the free memory of
        # another heap. Python runs one thread at a time, so threads do not wait for each other.
        ARENA_MAX: 1,
    }
    return all(set_option(option, size) for option, size in options.items())


def _function(name: str) -> Any:
    """Returns a function of the C library; None if it has none of this name."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None


def anonymous_size() -> int | None:
    """Returns how many bytes of memory the process has that are not pages of files; None if the system does not say."""
    try:
        with open(STATM, encoding="ascii") as statm:
            _, resident, shared, *_ = map(int, statm.read().split())
    except (OSError, ValueError):
        return None
    return (resident - shared) * mmap.PAGESIZE


class MemoryTrimmer:
    """Gives memory back to the system when much is free. For the event loop's thread, except `trim`."""

    def __init__(self, size: Callable[[], int | None] = anonymous_size) -> None:
        self._size, self._trim = size, _function("malloc_trim")
        self._least = size()
        """The least memory that the process was seen with."""
        self.pause_s = BROKER_HEAP_LOOK_S
        """How long to wait before the next check. It doubles each time that a trim frees little."""

    def is_due(self, held_size: int) -> bool:
        """Returns whether the process has much more memory than it needs to hold `held_size` bytes for clients."""
        size = self._size()
        if size is None or self._least is None or self._trim is None:
            return False
        self._least = min(self._least, size)
        return size > self._least + held_size + BROKER_HEAP_KEPT_SIZE_MAX

    def trim(self) -> None:
        """Gives free memory back. Takes about 0.1 s for 1 GB, in which no other thread can allocate large memory."""
        before = self._size() or 0
        self._trim(0)
        # Memory that is in use, such as by thousands of topics, cannot be given back.
        is_vain = before - (self._size() or 0) < BROKER_HEAP_STEP_SIZE
        self.pause_s = min(2 * self.pause_s, BROKER_HEAP_LOOK_S_MAX) if is_vain else BROKER_HEAP_LOOK_S

    async def watch(self, held_size: Callable[[], int], in_thread: InThread) -> None:
        """Gives memory back whenever that is due, until cancelled."""
        while True:
            await asyncio.sleep(self.pause_s)
            if self.is_due(held_size()):
                await in_thread(self.trim)
