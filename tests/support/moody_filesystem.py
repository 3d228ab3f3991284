"""The machine's own file system, whose syncs fail when a test decides it, or are omitted."""

from __future__ import annotations

import threading

from warren.errors import SyncFailed
from warren.storage.disk.filesystem import SystemFile, SystemFileSystem


class MoodyFile(SystemFile):
    """A file that queries its file system before a sync."""

    def __init__(self, path: str, *, writable: bool, create: bool, mood: MoodyFileSystem) -> None:
        super().__init__(path, writable=writable, create=create)
        self._mood = mood

    def sync(self) -> None:
        self._mood.before_sync(self.path)
        if self._mood.really_syncs:
            super().sync()


class MoodyFileSystem(SystemFileSystem):
    """Files of the operating system. While `gate` is closed, syncs wait; while `fails` is set, they fail.

    With `really_syncs` False the disk is not synced: for tests whose crashes need no durability.
    """

    def __init__(self, *, really_syncs: bool = True) -> None:
        self.really_syncs = really_syncs
        self.fails = False
        self.gate = threading.Event()
        self.gate.set()
        self.syncs_waiting = threading.Semaphore(0)

    def open(self, path: str, *, writable: bool, create: bool = False) -> MoodyFile:
        return MoodyFile(path, writable=writable, create=create, mood=self)

    def sync_directory(self, path: str) -> None:
        if self.really_syncs:
            super().sync_directory(path)

    def before_sync(self, path: str) -> None:
        self.syncs_waiting.release()
        assert self.gate.wait(60), "the test opens the gate"
        if self.fails:
            raise SyncFailed(path, "Input/output error")
