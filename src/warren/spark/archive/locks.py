"""Locks on files of an archive: free as soon as their holder ends, however it does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from warren.clock import Clock
from warren.config import ARCHIVE_LOCK_WAIT_S_MAX
from warren.errors import StoreBusy
from warren.storage.filesystem import SYSTEM_FILE_SYSTEM, SystemLock

LOOK_S = 0.05


@contextmanager
def held(path: str, clock: Clock) -> Iterator[None]:
    """Hold the lock within; StoreBusy where somebody else does not let go of it."""
    lock = SYSTEM_FILE_SYSTEM.lock(path)
    try:
        deadline_s = clock.steady_s() + ARCHIVE_LOCK_WAIT_S_MAX
        while not lock.try_acquire():
            if clock.steady_s() >= deadline_s:
                raise StoreBusy(path)
            clock.sleep(LOOK_S)
        yield
    finally:
        lock.close()


def try_hold(path: str) -> SystemLock | None:
    """The lock, to be closed by the caller; None where somebody holds it, or there is no directory for it."""
    if not os.path.isdir(os.path.dirname(path)):
        return None
    lock = SYSTEM_FILE_SYSTEM.lock(path)
    if lock.try_acquire():
        return lock
    lock.close()
    return None
