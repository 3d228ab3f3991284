"""Memory that the C library keeps for the next request instead of giving it back to the system.

Requests of a megabyte come and go: to give up their pages and take them anew takes a tenth of all that is done for one.
"""

from __future__ import annotations

import ctypes
from typing import Final

from warren.config import BROKER_HEAP_KEPT_SIZE_MAX, BROKER_HEAP_STEP_SIZE

TRIM_THRESHOLD: Final = -1
TOP_PAD: Final = -2
MMAP_THRESHOLD: Final = -3
"""As glibc numbers what can be set."""
MMAP_THRESHOLD_MAX: Final = 32 << 20
"""More than that it does not take; what is larger is given back as before."""


def keep_memory() -> bool:
    """Keep up to BROKER_HEAP_KEPT_SIZE_MAX bytes that are free from now on; False where the library cannot be told."""
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    options = {
        TRIM_THRESHOLD: BROKER_HEAP_KEPT_SIZE_MAX,
        TOP_PAD: BROKER_HEAP_STEP_SIZE,
        MMAP_THRESHOLD: MMAP_THRESHOLD_MAX,
    }
    return all(set_option(option, size) for option, size in options.items())
