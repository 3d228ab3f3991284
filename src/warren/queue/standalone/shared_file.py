"""A queue file that threads and processes share: locked, opened for each operation, and closed after it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from warren.clock import Clock
from warren.errors import LogClosed, LogLocked, SyncFailed
from warren.limits import LOCK_WAIT_S_MAX
from warren.queue.standalone.pointer_file import PointerFile
from warren.storage.disk.filesystem import FileSystem, Lock
from warren.storage.disk.open_files import process_residents

LOCK_SUFFIX: Final = ".lock"
LOCK_PAUSE_S_MIN: Final = 0.0001
LOCK_PAUSE_S_MAX: Final = 0.005


class SharedFile:
    """Access to a queue file. Any thread may call; `changed` is their lock and condition.

    Processes lock a separate lock file, because the queue file itself is replaced now and then. A failed sync closes
    the access, because nothing may build on bytes that may not be on disk.
    """

    def __init__(self, path: str, *, delayed: bool, is_synced: bool, filesystem: FileSystem, clock: Clock) -> None:
        # Otherwise a symbolic link would be replaced, and not the file that it points to.
        self.path = os.path.realpath(path)
        self._directory = os.path.dirname(self.path)
        self._delayed, self._is_synced = delayed, is_synced
        self._filesystem, self._clock = filesystem, clock
        self._closed_because = ""
        self._lock: Lock | None = None
        self.changed = threading.Condition(threading.RLock())
        process_residents().register(self)

    def start(self) -> None:
        """Makes sure that the file exists, is a queue, and is durable as a whole."""
        self._filesystem.make_directory(self._directory)
        with self.changed, self._locked() as lock:
            if not self._filesystem.exists(self.path):
                PointerFile.create(self.path, self._filesystem, lock)
        with self.opened() as file:
            if self._is_synced:
                # A process may have been killed before its sync.
                file.sync()
                self._filesystem.sync_directory(self._directory)

    @contextmanager
    def opened(self) -> Iterator[PointerFile]:
        """Gives exclusive access to the file. It is opened each time, because another process may have replaced it."""
        with self.changed, self._locked() as lock:
            file = PointerFile(self.path, self._filesystem, lock, delayed=self._delayed, is_synced=self._is_synced)
            try:
                yield file
            finally:
                file.close()

    def close(self) -> None:
        """Ends the access from this process. A second call does nothing."""
        with self.changed:
            self._closed_because = self._closed_because or "close() was called"
            if self._lock is not None:
                self._lock.close()
            self.changed.notify_all()

    # --- What the residents of a process have to offer ---

    @property
    def file_count(self) -> int:
        """Always 0: between two operations only the lock file is open, which does not count."""
        return 0

    def rest(self) -> bool:
        return False

    def after_fork(self) -> None:
        """In a child process: makes new locks.

        The old lock is the parent's, and a thread of the parent may have been in an operation.
        """
        self.changed = threading.Condition(threading.RLock())
        self._lock = None

    # --- The lock ---

    @contextmanager
    def _locked(self) -> Iterator[Lock]:
        if self._closed_because:
            raise LogClosed(self.path, self._closed_because)
        if self._lock is None:
            self._lock = self._filesystem.lock(self.path + LOCK_SUFFIX)
        lock = self._lock
        self._acquire(lock)
        try:
            if lock.holder():
                # A process replaced the file, and died before the name was durable.
                self._filesystem.sync_directory(self._directory)
                lock.note_holder(0)
            yield lock
        except SyncFailed:
            self._closed_because = "a sync failed; open it again to continue"
            raise
        finally:
            lock.release()

    def _acquire(self, lock: Lock) -> None:
        deadline_s, pause_s = self._clock.steady_s() + LOCK_WAIT_S_MAX, LOCK_PAUSE_S_MIN
        while not lock.try_acquire():
            if self._clock.steady_s() > deadline_s:
                raise LogLocked(self.path, lock.holder())
            self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, LOCK_PAUSE_S_MAX)
