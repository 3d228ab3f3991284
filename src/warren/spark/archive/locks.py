"""Locks on files of an archive. The operating system frees a lock when its process ends, even if it is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from warren.clock import Clock
from warren.errors import StoreBusy
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, SystemLock

ARCHIVE_LOCK_WAIT_S_MAX: Final = 30.0

POLL_S: Final = 0.05


@contextmanager
def held(path: str, clock: Clock) -> Iterator[None]:
    """Holds the lock inside the `with`. Raises StoreBusy if another process holds it for ARCHIVE_LOCK_WAIT_S_MAX."""
    lock = SYSTEM_FILE_SYSTEM.lock(path)
    try:
        deadline_s = clock.steady_s() + ARCHIVE_LOCK_WAIT_S_MAX
        while not lock.try_acquire():
            if clock.steady_s() >= deadline_s:
                raise StoreBusy(path)
            clock.sleep(POLL_S)
        yield
    finally:
        lock.close()


def try_hold(path: str) -> SystemLock | None:
    """Returns the lock, which the caller closes; None if another process holds it, or if its
    directory does not exist.
    """
    if not os.path.isdir(os.path.dirname(path)):
        return None
    lock = SYSTEM_FILE_SYSTEM.lock(path)
    if lock.try_acquire():
        return lock
    lock.close()
    return None
