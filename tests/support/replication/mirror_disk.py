"""A plain mirror: everything that is synced on one simulated disk is repeated on another one, file by file.

It knows nothing of logs or kinds of files. So tests compare it with a slave: the mirror and the slave's disk must have
the same contents.
"""

from __future__ import annotations

import os.path
from mmap import mmap

from tests.support.simulated_disk import SimulatedFileSystem
from warren.storage.disk.filesystem import File, Lock
from warren.storage.disk.shipping import Shipping


class MirrorDisk:
    """A file system that repeats each sync, rename and removal on `mirror`."""

    is_read_only = False
    shipping: Shipping | None = None

    def __init__(self, inner: SimulatedFileSystem, mirror: SimulatedFileSystem) -> None:
        self.inner, self.mirror = inner, mirror

    def repeat(self, path: str, file: File) -> None:
        content = file.read(0, file.size())
        copy = self.mirror.open(path, writable=True, create=True)
        copy.truncate(len(content))
        copy.write(0, content)
        copy.sync()

    def open(self, path: str, *, writable: bool, create: bool = False) -> File:
        return MirroredFile(self, self.inner.open(path, writable=writable, create=create))

    def lock(self, path: str) -> Lock:
        return self.inner.lock(path)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def names(self, directory: str) -> list[str]:
        return self.inner.names(directory)

    def make_directory(self, path: str, *, is_private: bool = False) -> None:
        self.inner.make_directory(path)
        self.mirror.make_directory(path)

    def remove(self, path: str) -> None:
        self.inner.remove(path)
        if self.mirror.exists(path):
            self.mirror.remove(path)

    def remove_directory(self, path: str) -> None:
        self.inner.remove_directory(path)
        if self.mirror.exists(path):
            self.mirror.remove_directory(path)

    def replace(self, source: str, target: str) -> None:
        self.inner.replace(source, target)
        if self.mirror.exists(source):
            self.mirror.replace(source, target)

    def sync_directory(self, path: str) -> None:
        self.inner.sync_directory(path)
        if self.mirror.exists(path):
            self.mirror.sync_directory(path)

    def boot_id(self) -> bytes:
        return self.inner.boot_id()


class MirroredFile:
    """A file whose syncs are repeated on the mirror."""

    def __init__(self, disk: MirrorDisk, file: File) -> None:
        self._disk, self._file, self.path = disk, file, os.path.normpath(file.path)

    def size(self) -> int:
        return self._file.size()

    def map(self, length: int, *, writable: bool) -> mmap:
        return self._file.map(length, writable=writable)

    def preallocate(self, size: int) -> None:
        self._file.preallocate(size)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def read(self, position: int, size: int) -> bytes:
        return self._file.read(position, size)

    def write(self, position: int, data: bytes | memoryview) -> None:
        self._file.write(position, data)

    def clear(self, start: int, end: int) -> None:
        self._file.clear(start, end)

    def sync(self) -> None:
        self._file.sync()
        self._disk.repeat(self.path, self._file)

    def vouch(self) -> None:
        self._file.vouch()

    def is_vouched(self) -> bool | None:
        return self._file.is_vouched()

    def close(self) -> None:
        self._file.close()
