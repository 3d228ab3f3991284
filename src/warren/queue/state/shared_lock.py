"""A lock between the threads of this process and all other processes. The death of its holder frees it."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Final

from warren.clock import Clock
from warren.errors import StoreBusy
from warren.limits import LOCK_WAIT_S_MAX
from warren.storage.disk.filesystem import FileSystem, Lock

PAUSE_S_MIN: Final = 0.00002
PAUSE_S_MAX: Final = 0.002


class SharedLock:
    """A lock of which `with lock:` has one holder at a time, in all processes. Not reentrant.

    Raises StoreBusy after LOCK_WAIT_S_MAX.
    """

    def __init__(self, filesystem: FileSystem, path: str, clock: Clock) -> None:
        self._filesystem, self._path, self._clock = filesystem, path, clock
        self._mutex = threading.Lock()
        self._lock: Lock | None = None

    def __enter__(self) -> None:
        # Most often the lock is free, and acquiring with a timeout takes four times as long.
        if not self._mutex.acquire(False) and not self._mutex.acquire(timeout=LOCK_WAIT_S_MAX):
            raise StoreBusy(self._path)
        try:
            lock = self._lock
            if lock is None:
                lock = self._lock = self._filesystem.lock(self._path)
            try:
                lock.take()
            except BlockingIOError:
                self._wait(lock)
        except BaseException:
            self._mutex.release()
            raise

    def _wait(self, lock: Lock) -> None:
        deadline, pause_s = self._clock.steady_s() + LOCK_WAIT_S_MAX, PAUSE_S_MIN
        while not lock.try_acquire():
            if self._clock.steady_s() > deadline:
                raise StoreBusy(self._path)
            self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.release()
        self._mutex.release()

    def close(self) -> None:
        """Closes the file."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def after_fork(self) -> None:
        """In a child process: opens the file again, because otherwise parent and child would share the lock."""
        self._mutex = threading.Lock()
        self.close()
