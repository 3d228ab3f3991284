"""A word in a file that all processes of a store share. Threads that wait for a change in the store sleep on it."""

from __future__ import annotations

import ctypes
from typing import Final

from warren.clock import Clock
from warren.storage.disk.filesystem import FileSystem
from warren.storage.disk.notify import Bell

WAKEUP_FILE_SIZE: Final = 4096


class Wakeup:
    """Rung for changes that no log announces, such as a new member or a parked message. Any thread may call."""

    def __init__(self, filesystem: FileSystem, path: str, clock: Clock) -> None:
        file = filesystem.open(path, writable=True, create=True)
        if file.size() < WAKEUP_FILE_SIZE:
            file.preallocate(WAKEUP_FILE_SIZE)
        view = file.map(WAKEUP_FILE_SIZE, writable=True)
        file.close()
        self._word = ctypes.c_uint32.from_buffer(view)
        self._bell: Bell | None = Bell(view, 0, clock, writable=True)

    def value(self) -> int:
        """Returns the value for `sleep`. The caller reads it before it checks whether there is a reason to sleep."""
        return self._word.value

    def sleep(self, value: int, seconds: float) -> None:
        """Sleeps until the store is rung after `value` was read, at most for `seconds`. May return early."""
        bell = self._bell
        if bell is not None:
            bell.sleep(value, seconds)

    def ring(self) -> None:
        """Wakes all threads that sleep."""
        # Two rings at the same moment may count as one. A thread that misses the second sleeps for SLEEP_S_MAX at most.
        self._word.value = (self._word.value + 1) & 0xFFFFFFFF
        bell = self._bell
        if bell is not None:
            bell.ring()

    def close(self) -> None:
        """Closes the file. No thread of this process sleeps on it or rings any more."""
        self._word, self._bell = ctypes.c_uint32(), None
