"""The interface to the operating system: files that are mapped, preallocated and synced, locks, and directories.

The engine reaches the disk only through `FileSystem`, so that a test can replace it with one that loses everything that
was not synced. Nothing is durable before the `sync` that covers it returns: not bytes, not a length, and not a name in
a directory. A full disk raises StorageFull and a failed sync SyncFailed; other errors of the system pass unchanged.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

from warren.errors import ReadOnlyStore, StorageFull, SyncFailed
from warren.storage.disk.shipping import Shipping
from warren.storage.format.layout import LOCK_REQUEST

PRIVATE_FILE: Final = 0o600
PRIVATE_DIRECTORY: Final = 0o700
GROUP: Final = 0o070
"""The permission bits of the group. A file in a directory that is open to its group is also open to the group."""
ZEROS: Final = bytes(1 << 16)
FULL_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT)


class File(Protocol):
    """One open file. A map stays valid after `close`, and is freed with its last reference.

    `vouch` marks the file until this opening of it ends, by `close` or with the process. `is_vouched` returns whether
    another opening, in this or any other process, has such a mark, or None if the system does not support this. While a
    process has a file open its file system cannot disappear, so nothing that the process has read is lost.
    """

    path: str

    def size(self) -> int: ...
    def map(self, length: int, *, writable: bool) -> mmap.mmap: ...
    def preallocate(self, size: int) -> None: ...
    def truncate(self, size: int) -> None: ...
    def read(self, position: int, size: int) -> bytes: ...
    def write(self, position: int, data: bytes | memoryview) -> None: ...
    def clear(self, start: int, end: int) -> None: ...
    def sync(self) -> None: ...
    def vouch(self) -> None: ...
    def is_vouched(self) -> bool | None: ...
    def close(self) -> None: ...


class Lock(Protocol):
    """A lock between processes, freed when its holder dies. `take` raises BlockingIOError if another process has it."""

    def take(self) -> None: ...
    def try_acquire(self) -> bool: ...
    def release(self) -> None: ...
    def holder(self) -> int: ...
    def note_holder(self, pid: int) -> None: ...
    def close(self) -> None: ...


class FileSystem(Protocol):
    """The file operations that the engine needs. If `is_read_only` is set, none of them changes anything.

    `shipping` is there if this process is the master of a replicated store, and None otherwise.

    A new `boot_id` means that unsynced bytes may have been lost. The same one does not mean that they still exist: a
    mounted snapshot, or a disk that was disconnected and came back, loses them without a restart of the machine.
    """

    @property
    def is_read_only(self) -> bool: ...
    @property
    def shipping(self) -> Shipping | None: ...
    def open(self, path: str, *, writable: bool, create: bool = False) -> File: ...
    def lock(self, path: str) -> Lock: ...
    def exists(self, path: str) -> bool: ...
    def names(self, directory: str) -> list[str]: ...
    def make_directory(self, path: str, *, is_private: bool = False) -> None: ...
    def remove(self, path: str) -> None: ...
    def remove_directory(self, path: str) -> None: ...
    def replace(self, source: str, target: str) -> None: ...
    def sync_directory(self, path: str) -> None: ...
    def boot_id(self) -> bytes: ...


@contextmanager
def _full_disk_as_error(path: str, size: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in FULL_ERRORS:
            raise StorageFull(path, size) from error
        raise


def _mode_in_its_directory(path: str, private: int) -> int:
    """Returns the mode of a new file at `path`: `private`, and for the group what the directory grants the group."""
    return private | (os.stat(os.path.dirname(path) or ".").st_mode & GROUP & (private >> 3))


class SystemFile:
    """A file of the operating system."""

    def __init__(self, path: str, *, writable: bool, create: bool) -> None:
        flags = os.O_RDWR if writable else os.O_RDONLY
        with _full_disk_as_error(path, 0):
            if create:
                self._fd = os.open(path, flags | os.O_CREAT, _mode_in_its_directory(path, PRIVATE_FILE))
            else:
                self._fd = os.open(path, flags)
        self.path = path

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def map(self, length: int, *, writable: bool) -> mmap.mmap:
        return mmap.mmap(self._fd, length, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)

    def preallocate(self, size: int) -> None:
        """Grows the file and allocates every byte, because a mapped store to a hole on a full disk
        kills the process.
        """
        start = self.size()
        with _full_disk_as_error(self.path, size - start):
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._fd, start, size - start)
            else:
                self.clear(start, size)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self._fd, size, position)

    def write(self, position: int, data: bytes | memoryview) -> None:
        # No context manager here: this is called with every durable put, and a context manager costs as much as the
        # system call.
        try:
            while (written := os.pwrite(self._fd, data, position)) < len(data):
                position, data = position + written, data[written:]
        except OSError as error:
            if error.errno in FULL_ERRORS:
                raise StorageFull(self.path, len(data)) from error
            raise

    def clear(self, start: int, end: int) -> None:
        """Writes zeros from `start` to `end`."""
        for position in range(start, end, len(ZEROS)):
            self.write(position, ZEROS[: end - position])

    def sync(self) -> None:
        try:
            if sys.platform == "darwin":
                fcntl.fcntl(self._fd, fcntl.F_FULLFSYNC)
            else:
                os.fdatasync(self._fd)
        except OSError as error:
            raise SyncFailed(self.path, os.strerror(error.errno or errno.EIO)) from error

    def vouch(self) -> None:
        # A lock of the open file description, not of the process: closing another opening of the file does not free it.
        with suppress(OSError):
            _lock_first_byte(self._fd, "F_OFD_SETLK", fcntl.F_RDLCK)

    def is_vouched(self) -> bool | None:
        try:
            lock_kind = _lock_first_byte(self._fd, "F_OFD_GETLK", fcntl.F_WRLCK)
        except OSError:
            return None
        return lock_kind != fcntl.F_UNLCK

    def close(self) -> None:
        descriptor, self._fd = self._fd, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


class SystemLock:
    """`flock` on a file. The file also holds the process id of an exclusive holder."""

    def __init__(self, path: str) -> None:
        with _full_disk_as_error(path, 0):
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT, _mode_in_its_directory(path, PRIVATE_FILE))
        self._path = path

    def take(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def try_acquire(self) -> bool:
        try:
            self.take()
        except BlockingIOError:
            return False
        return True

    def holder(self) -> int:
        """Returns the process id in the file, or 0 if there is none."""
        text = os.pread(self._fd, 20, 0).strip()
        return int(text) if text.isdigit() else 0

    def note_holder(self, pid: int) -> None:
        os.ftruncate(self._fd, 0)
        if pid:
            line = b"%d\n" % pid
            with _full_disk_as_error(self._path, len(line)):
                os.pwrite(self._fd, line, 0)

    def close(self) -> None:
        descriptor, self._fd = self._fd, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


class PickedFile(SystemFile):
    """A file without read-ahead: the system loads only the pages that are touched."""

    def map(self, length: int, *, writable: bool) -> mmap.mmap:
        mapped = super().map(length, writable=writable)
        if hasattr(mmap, "MADV_RANDOM"):
            mapped.madvise(mmap.MADV_RANDOM)
        return mapped


class SystemFileSystem:
    """The file systems of this machine."""

    is_read_only = False
    shipping: Shipping | None = None

    def open(self, path: str, *, writable: bool, create: bool = False) -> SystemFile:
        return SystemFile(path, writable=writable, create=create)

    def lock(self, path: str) -> SystemLock:
        return SystemLock(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def names(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    def make_directory(self, path: str, *, is_private: bool = False) -> None:
        """Creates the directory and its missing parents, each durable. Does not change a directory that exists.

        With `is_private` only the owner may enter it, even if the group may use the parent directory.
        """
        parent = os.path.dirname(os.path.abspath(path))
        if os.path.isdir(path):
            return
        if not os.path.isdir(parent):
            self.make_directory(parent)
        mode = PRIVATE_DIRECTORY if is_private else _mode_in_its_directory(os.path.abspath(path), PRIVATE_DIRECTORY)
        with suppress(FileExistsError), _full_disk_as_error(path, 0):
            os.mkdir(path, mode)
        self.sync_directory(parent)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_directory(self, path: str) -> None:
        """Removes an empty directory."""
        os.rmdir(path)

    def replace(self, source: str, target: str) -> None:
        with _full_disk_as_error(target, 0):
            os.replace(source, target)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise SyncFailed(path, os.strerror(error.errno or errno.EIO)) from error
        finally:
            os.close(descriptor)

    def boot_id(self) -> bytes:
        return _boot_id()


class PickingFileSystem(SystemFileSystem):
    """Opens files without read-ahead, for a reader that reads small parts of a large log and prefetches them itself."""

    def open(self, path: str, *, writable: bool, create: bool = False) -> PickedFile:
        return PickedFile(path, writable=writable, create=create)


class ReadOnlyFile:
    """A file opened for reading only."""

    def __init__(self, file: File, root: str) -> None:
        self.path, self._file, self._root = file.path, file, root

    def size(self) -> int:
        return self._file.size()

    def read(self, position: int, size: int) -> bytes:
        return self._file.read(position, size)

    def map(self, length: int, *, writable: bool) -> mmap.mmap:
        return self._file.map(length, writable=False)

    def preallocate(self, size: int) -> None:
        raise ReadOnlyStore(self._root)

    def truncate(self, size: int) -> None:
        raise ReadOnlyStore(self._root)

    def write(self, position: int, data: bytes | memoryview) -> None:
        raise ReadOnlyStore(self._root)

    def clear(self, start: int, end: int) -> None:
        raise ReadOnlyStore(self._root)

    def sync(self) -> None:
        """Does nothing, because nothing was written."""

    def vouch(self) -> None:
        """Does nothing, because only a process that may write the file can know that it is undamaged."""

    def is_vouched(self) -> bool | None:
        return self._file.is_vouched()

    def close(self) -> None:
        self._file.close()


class ObservedLock:
    """A lock that is tested and never taken, because a read-only process must not block writers."""

    def __init__(self, path: str, root: str) -> None:
        self._path, self._root = path, root

    def take(self) -> None:
        """Does nothing. A reader needs no lock, because every file is replaced, or grows, atomically."""

    def release(self) -> None:
        """Does nothing, because the lock was not taken."""

    def try_acquire(self) -> bool:
        """Returns whether no process holds the lock. The caller does not hold it afterwards."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return True
        except PermissionError:
            # The holder removes its lock file when it ends, so it most likely still lives.
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True

    def holder(self) -> int:
        return 0

    def note_holder(self, pid: int) -> None:
        raise ReadOnlyStore(self._root)

    def close(self) -> None:
        """Does nothing, because no file is open."""


class ReadOnlyFileSystem:
    """A read-only view of another file system. Raises ReadOnlyStore for every change."""

    is_read_only = True
    shipping: Shipping | None = None

    def __init__(self, filesystem: FileSystem, root: str) -> None:
        self._filesystem, self._root = filesystem, root

    def exists(self, path: str) -> bool:
        return self._filesystem.exists(path)

    def names(self, directory: str) -> list[str]:
        return self._filesystem.names(directory)

    def boot_id(self) -> bytes:
        return self._filesystem.boot_id()

    def open(self, path: str, *, writable: bool, create: bool = False) -> ReadOnlyFile:
        try:
            return ReadOnlyFile(self._filesystem.open(path, writable=False), self._root)
        except FileNotFoundError:
            if create:
                raise ReadOnlyStore(self._root) from None
            raise

    def lock(self, path: str) -> ObservedLock:
        return ObservedLock(path, self._root)

    def make_directory(self, path: str, *, is_private: bool = False) -> None:
        if not self.exists(path):
            raise ReadOnlyStore(self._root)

    def remove(self, path: str) -> None:
        raise ReadOnlyStore(self._root)

    def remove_directory(self, path: str) -> None:
        raise ReadOnlyStore(self._root)

    def replace(self, source: str, target: str) -> None:
        raise ReadOnlyStore(self._root)

    def sync_directory(self, path: str) -> None:
        """Does nothing, because nothing was written."""


SYSTEM_FILE_SYSTEM: Final = SystemFileSystem()
PICKING_FILE_SYSTEM: Final = PickingFileSystem()


def replace_file(filesystem: FileSystem, path: str, data: bytes) -> None:
    """Replaces a file by one of `data`, atomically: after a power cut it is the old file or the new one."""
    new_path = path + ".new"
    file = filesystem.open(new_path, writable=True, create=True)
    file.truncate(0)
    file.write(0, data)
    file.sync()
    file.close()
    filesystem.replace(new_path, path)
    filesystem.sync_directory(os.path.dirname(path))


def remove_tree(filesystem: FileSystem, path: str) -> None:
    """Removes a directory and everything in it. Does nothing if it does not exist.

    FUSE and NFS keep a file that is still open or mapped under a hidden name until it is closed. Then the directories
    above it stay, and the next call removes them.
    """
    if not filesystem.exists(path):
        return
    for name in filesystem.names(path):
        child = os.path.join(path, name)
        try:
            filesystem.remove(child)
        except (IsADirectoryError, PermissionError, FileNotFoundError):
            # Linux raises the first, macOS the second, and a simulated disk the third.
            remove_tree(filesystem, child)
    try:
        filesystem.remove_directory(path)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise


def _lock_first_byte(descriptor: int, command: str, kind: int) -> int:
    """Sets or tests a lock of the first byte. Returns the kind of lock that the system answers with.

    Raises OSError if the operating system or the file system does not support locks of open file descriptions.
    """
    number: int | None = getattr(fcntl, command, None)
    if number is None:
        raise OSError(errno.ENOTSUP, "no locks of open file descriptions")
    answer = fcntl.fcntl(descriptor, number, LOCK_REQUEST.pack(kind, os.SEEK_SET, 0, 1, 0))
    lock_kind: int = LOCK_REQUEST.unpack(answer)[0]
    return lock_kind


@functools.cache
def _boot_id() -> bytes:
    """Returns sixteen bytes that differ from one start of the machine to the next."""
    if sys.platform == "darwin":
        text = subprocess.run(["sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, check=True).stdout.decode()
    else:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            text = file.read()
    return bytes.fromhex(text.strip().replace("-", ""))
