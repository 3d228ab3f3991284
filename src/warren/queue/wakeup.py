"""A word that all processes of a store share: whoever waits for something to happen in it sleeps on that word."""

from __future__ import annotations

import ctypes
from typing import Final

from warren.clock import Clock
from warren.storage.bell import Bell
from warren.storage.filesystem import FileSystem

WAKEUP_FILE_SIZE: Final = 4096


class Wakeup:
    """Rung when something happened that no log tells: a member came, a message was parked. Any thread may call."""

    def __init__(self, filesystem: FileSystem, path: str, clock: Clock) -> None:
        file = filesystem.open(path, writable=True, create=True)
        if file.size() < WAKEUP_FILE_SIZE:
            file.preallocate(WAKEUP_FILE_SIZE)
        view = file.map(WAKEUP_FILE_SIZE, writable=True)
        file.close()
        self._word = ctypes.c_uint32.from_buffer(view)
        self._bell: Bell | None = Bell(view, 0, clock, writable=True)

    def value(self) -> int:
        """What to hand to `sleep`: taken before looking whether there is reason to sleep."""
        return self._word.value

    def sleep(self, value: int, seconds: float) -> None:
        """Until it is rung after `value` was taken, at most `seconds`, and less now and then."""
        bell = self._bell
        if bell is not None:
            bell.sleep(value, seconds)

    def ring(self) -> None:
        """Wake everybody."""
        # Two who ring at once may count as one. Who misses the second sleeps for SLEEP_S_MAX at most.
        self._word.value = (self._word.value + 1) & 0xFFFFFFFF
        bell = self._bell
        if bell is not None:
            bell.ring()

    def close(self) -> None:
        """Let go of the file: nobody of this process sleeps any more, or is woken."""
        self._word, self._bell = ctypes.c_uint32(), None
