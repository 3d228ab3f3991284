"""Session: one opening of a store, with a locked file that lets other processes notice its death."""

from __future__ import annotations

import os
import uuid

from warren.queue.state import paths
from warren.storage.disk.filesystem import FileSystem, Lock


class Session:
    """One opening of a store. Its `id` is never used again.

    Everything that a session holds (partitions of a group, leases, transactions) is free as soon as `is_alive` is false
    for it.
    """

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        self._filesystem, self._directory = filesystem, directory
        self._begin()

    def _begin(self) -> None:
        filesystem = self._filesystem
        filesystem.make_directory(self._directory)
        while True:
            self.id = uuid.uuid4().hex
            path = paths.session_path(self._directory, self.id)
            lock = filesystem.lock(path)
            # Another process may have checked the file before it was locked, taken its owner for dead and removed it.
            # Then a new file is made.
            if lock.try_acquire() and filesystem.exists(path):
                break
            lock.close()
        self._lock: Lock | None = lock
        lock.note_holder(os.getpid())

    def is_alive(self, id: str) -> bool:
        """Returns whether the session `id` is still open, in this or another process."""
        if id == self.id:
            return self._lock is not None
        path = paths.session_path(self._directory, id)
        if not self._filesystem.exists(path):
            return False
        lock = self._filesystem.lock(path)
        try:
            if not lock.try_acquire():
                return True
            self._remove(path)
        finally:
            lock.close()
        return False

    def _remove(self, path: str) -> None:
        if self._filesystem.exists(path):
            self._filesystem.remove(path)

    def sweep(self) -> None:
        """Removes the files of sessions that ended without closing."""
        for name in self._filesystem.names(self._directory):
            id = paths.session_id(name)
            if id is not None:
                self.is_alive(id)

    def close(self) -> None:
        """Ends the session. Everything that it still holds becomes free."""
        lock, self._lock = self._lock, None
        if lock is not None:
            self._remove(paths.session_path(self._directory, self.id))
            lock.release()
            lock.close()

    def after_fork(self) -> None:
        """In a child process: opens its own session, because the parent's session ends with the parent."""
        lock, self._lock = self._lock, None
        if lock is not None:
            # Closed, not released: the parent holds the same lock, and keeps it.
            lock.close()
            self._begin()


class Onlooker(Session):
    """Sees which sessions of a store are alive without having one: for a read-only store."""

    def _begin(self) -> None:
        self.id, self._lock = "", None

    def is_alive(self, id: str) -> bool:
        """Returns whether the session `id` is open in any process. Removes nothing."""
        path = paths.session_path(self._directory, id)
        return self._filesystem.exists(path) and not self._filesystem.lock(path).try_acquire()
