"""The machine's own file system for one of several stores of a test, each of which stands for a process that dies."""

from __future__ import annotations

from tests.support.moody_filesystem import MoodyFileSystem
from warren.storage.disk.filesystem import SystemLock


class MortalFileSystem(MoodyFileSystem):
    """Without syncs. `die` frees the locks and changes nothing else, as the kernel does after SIGKILL."""

    def __init__(self) -> None:
        super().__init__(really_syncs=False)
        self._locks: list[SystemLock] = []

    def lock(self, path: str) -> SystemLock:
        lock = super().lock(path)
        self._locks.append(lock)
        return lock

    def die(self) -> None:
        """After this, objects that were opened here must not be used."""
        for lock in self._locks:
            lock.close()
