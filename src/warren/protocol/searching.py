"""Whether a name stands in many bytes: by the search of the C library, also together with their checksum."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

import numpy as np

from warren.storage.checksum import crc32c

COPIED_SIZE_MAX: Final = 4 << 10
"""Up to so many bytes it is quicker to copy them than to ask where they lie."""
PIECE_SIZE: Final = 64 << 10
"""So many bytes are still near when they are looked at a second time; those of a whole batch are not."""
Memmem = Callable[[int, int, bytes, int], int | None]


def _find_memmem() -> Memmem | None:
    """The search of the C library, which is many times as quick as Python's where most of it does not match."""
    try:
        found = ctypes.CDLL(None).memmem
    except (AttributeError, OSError, TypeError):
        return None
    found.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    found.restype = ctypes.c_void_p
    search: Memmem = found
    return search


_MEMMEM: Final = _find_memmem()


def holds(data: memoryview, name: bytes) -> bool:
    """Whether `name` stands anywhere in the data."""
    if len(data) <= COPIED_SIZE_MAX or _MEMMEM is None:
        return name in bytes(data)
    # The array keeps the bytes where they are until the search is over.
    view = np.frombuffer(data, np.uint8)
    return _MEMMEM(view.ctypes.data, len(view), name, len(name)) is not None


def check_and_search(data: memoryview, name: bytes) -> tuple[int, bool]:
    """The checksum of the data, and whether `name` stands in it: both of one piece before the next."""
    if len(data) <= PIECE_SIZE or _MEMMEM is None:
        return crc32c(data), holds(data, name)
    view = np.frombuffer(data, np.uint8)
    address, checksum, is_found, name_size = view.ctypes.data, 0, False, len(name)
    for start in range(0, len(data), PIECE_SIZE):
        end = min(start + PIECE_SIZE, len(data))
        checksum = crc32c(data[start:end], checksum)
        if not is_found:
            # A name may have begun in the piece before.
            search_at = max(start - name_size + 1, 0)
            is_found = _MEMMEM(address + search_at, end - search_at, name, name_size) is not None
    return checksum, is_found
