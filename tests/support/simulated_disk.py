"""A file system in memory that forgets everything that was not synced, as a disk does when the power is cut.

Programs see `current` bytes through maps; the platter holds `durable` bytes. Between the two stands what a kernel may
or may not have done by the moment of a cut, each thing on its own:

- every unsynced page of 4,096 bytes is kept, lost, or torn at its 512-byte sectors;
- a page may have been written back at any earlier moment, and so be durable at a state in between;
- truncate and preallocate count from the file's sync on; before it, any prefix of them may have happened;
- a name that was made, removed or replaced counts from `sync_directory` on; a replace is atomic.

A run is a seed: the same calls with the same seeds lose the same bytes. Not safe for threads.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Final
from weakref import WeakSet

from tests.support.volatile import PAGE_SIZE, Fate, FrozenFile, NameChange, VolatileDirectory, VolatileFile, round_up
from warren.errors import StorageFull, SyncFailed
from warren.storage.disk.shipping import Shipping

MAP_CAPACITY_DEFAULT: Final = 1 << 18
WRITE_BACK_CHANCE: Final = 0.05
KEEP_CHANCES: Final = (0.0, 0.1, 0.5, 0.5, 0.9, 1.0)
TORN_CHANCES: Final = (0.0, 0.0, 0.2, 0.5)


class PowerCut(BaseException):
    """The machine stops here. Not an `Exception`, so that the engine does not handle it."""


@dataclass(frozen=True, slots=True)
class FrozenDisk:
    """Everything at one moment; later changes of the live disk do not affect it."""

    files: dict[int, FrozenFile]
    directories: dict[str, VolatileDirectory]
    boots: int
    map_capacity: int
    size_max: int | None

    def half_stored(self, earlier: FrozenDisk, random: Random) -> FrozenDisk:
        """Returns the disk in the middle of the store that changed it from `earlier`."""
        files = {
            number: file.half_stored(earlier.files[number], random) if number in earlier.files else file
            for number, file in self.files.items()
        }
        return replace(self, files=files)

    def after_power_cut(self, seed: int, *, same_boot: bool = False) -> SimulatedFileSystem:
        """Returns the disk as the next boot finds it. The seed decides what was lost.

        With `same_boot` the machine was not restarted: a snapshot of the disk was mounted, or the disk was disconnected
        for a moment, and unsynced data is lost nevertheless.
        """
        random = Random(seed)
        fate = Fate(random.choice(KEEP_CHANCES), random.choice(TORN_CHANCES))
        disk = SimulatedFileSystem(seed=seed, map_capacity=self.map_capacity, size_max=self.size_max)
        disk._boots = self.boots + (not same_boot)
        for path, directory in self.directories.items():
            names = directory.after_power_cut(random, fate)
            disk._directories[path] = VolatileDirectory(dict(names), dict(names))
        for number in sorted(disk._named_inodes()):
            content = self.files[number].after_power_cut(random, fate)
            inode = disk._new_inode(number, len(content))
            inode.memory[: len(content)] = content
            inode.durable, inode.durable_length = bytearray(content), len(content)
        return disk

    def after_process_kill(self, seed: int = 0) -> SimulatedFileSystem:
        """Returns the disk for the next process: the same bytes, synced or not, and no held locks."""
        disk = SimulatedFileSystem(seed=seed, map_capacity=self.map_capacity, size_max=self.size_max)
        disk._boots = self.boots
        disk._directories = {path: directory.copy() for path, directory in self.directories.items()}
        for number, file in self.files.items():
            inode = disk._new_inode(number, file.length)
            inode.memory[: file.length] = file.content[: file.length]
            inode.durable, inode.durable_length = bytearray(file.durable), file.durable_length
            inode.pending, inode.clean_but_lost = list(file.pending), dict(file.clean_but_lost)
        return disk


class SimulatedFile:
    """One open file. Its map is the file's memory itself: longer than the file, and the same for every opening."""

    def __init__(self, disk: SimulatedFileSystem, path: str, inode: VolatileFile, *, writable: bool) -> None:
        self.path = path
        self._disk, self._inode, self._writable = disk, inode, writable

    def size(self) -> int:
        return self._inode.length

    def map(self, length: int, *, writable: bool) -> mmap.mmap:
        if not 0 < length <= self._inode.length:
            raise ValueError(f"a map of {length} bytes over a file of {self._inode.length}")
        if writable and not self._writable:
            raise PermissionError(errno.EACCES, "opened for reading", self.path)
        return self._inode.memory

    def preallocate(self, size: int) -> None:
        self._change("preallocate")
        grown = size - self._inode.length
        if grown <= 0:
            raise OSError(errno.EINVAL, "nothing to preallocate", self.path)
        room = self._disk.room()
        if room < grown:
            # A real disk may keep the bytes that it allocated before it ran out.
            if room >= PAGE_SIZE and self._disk.random.random() < 0.5:
                self._inode.resize(self._inode.length + room // PAGE_SIZE * PAGE_SIZE)
            raise StorageFull(self.path, grown)
        self._inode.resize(size)

    def truncate(self, size: int) -> None:
        self._change("truncate")
        if size != self._inode.length:
            self._inode.resize(size)

    def read(self, position: int, size: int) -> bytes:
        self._disk.enter("read")
        return self._inode.memory[position : max(position, min(position + size, self._inode.length))]

    def write(self, position: int, data: bytes | memoryview) -> None:
        self._change("write")
        if self._disk.room() < position + len(data) - self._inode.length:
            raise StorageFull(self.path, len(data))
        self._inode.write(position, data)

    def clear(self, start: int, end: int) -> None:
        if end > start:
            self.write(start, bytes(end - start))

    def sync(self) -> None:
        self._disk.enter("sync")
        self._inode.check_nothing_behind_length()
        if self._disk.next_sync_fails():
            self._inode.fail_sync()
            raise SyncFailed(self.path, "Input/output error")
        self._inode.sync()

    def vouch(self) -> None:
        self._disk.vouching.setdefault(id(self._inode), WeakSet()).add(self)

    def is_vouched(self) -> bool:
        return any(file is not self for file in self._disk.vouching.get(id(self._inode), ()))

    def close(self) -> None:
        """Closing loses and keeps nothing."""
        self._disk.vouching.get(id(self._inode), WeakSet()).discard(self)

    def _change(self, call: str) -> None:
        self._disk.enter(call)
        if not self._writable:
            raise OSError(errno.EBADF, "opened for reading", self.path)


class SimulatedLock:
    """As `flock`: held by one opening of the file at a time, also within one process."""

    def __init__(self, disk: SimulatedFileSystem, inode: int) -> None:
        self._disk, self._inode = disk, inode
        self._pid = 0

    def try_acquire(self) -> bool:
        self._disk.enter("try_acquire")
        return self._disk.holders.setdefault(self._inode, self) is self

    def take(self) -> None:
        if not self.try_acquire():
            raise BlockingIOError

    def release(self) -> None:
        if self._disk.holders.get(self._inode) is self:
            del self._disk.holders[self._inode]

    def holder(self) -> int:
        holder = self._disk.holders.get(self._inode)
        return holder._pid if holder else 0

    def note_holder(self, pid: int) -> None:
        self._pid = pid

    def close(self) -> None:
        self.release()


class SimulatedFileSystem:
    """A disk in memory with the contract of `FileSystem`. Any call may be the one at which the power is cut.

    `cut_at_call` counts from 1. After the cut the machine is dead: each further call raises `PowerCut` again, except
    those that only release something. `size_max` bounds the sum of all file lengths.
    """

    is_read_only = False
    shipping: Shipping | None = None

    def __init__(self, *, seed: int = 0, map_capacity: int = MAP_CAPACITY_DEFAULT, size_max: int | None = None) -> None:
        self.random = Random(seed)
        self.holders: dict[int, SimulatedLock] = {}
        self.vouching: dict[int, WeakSet[SimulatedFile]] = {}
        self.size_max = size_max
        self.calls = 0
        self.cut_at_call: int | None = None
        self._syncs_until_failure = 0
        self._map_capacity = map_capacity
        self._boots = 1
        self._frozen: FrozenDisk | None = None
        self._inodes: dict[int, VolatileFile] = {}
        self._directories: dict[str, VolatileDirectory] = {"/": VolatileDirectory()}

    # What a test does to the disk.

    @property
    def is_cut(self) -> bool:
        return self._frozen is not None

    def cut(self, earlier: FrozenDisk | None = None) -> None:
        """Cuts the power now: the state is frozen, and `PowerCut` raised. With `earlier`, in the middle of a store."""
        frozen = self.freeze()
        self._frozen = frozen.half_stored(earlier, self.random) if earlier is not None else frozen
        raise PowerCut

    def freeze(self) -> FrozenDisk:
        """Returns the state of this moment, from which any number of cuts and kills may be made."""
        if self._frozen is not None:
            return self._frozen
        directories = {path: directory.copy() for path, directory in self._directories.items()}
        reachable = {number for directory in directories.values() for number in directory.reachable()}
        files = {number: self._inodes[number].freeze() for number in sorted(reachable)}
        return FrozenDisk(files, directories, self._boots, self._map_capacity, self.size_max)

    def contents(self) -> dict[int, bytes]:
        """Returns the content of every file as programs see it, durable or not."""
        return {number: inode.memory[: inode.length] for number, inode in self._inodes.items()}

    def after_power_cut(self, seed: int, *, same_boot: bool = False) -> SimulatedFileSystem:
        return self.freeze().after_power_cut(seed, same_boot=same_boot)

    def after_process_kill(self, seed: int = 0) -> SimulatedFileSystem:
        return self.freeze().after_process_kill(seed)

    def write_back(self) -> None:
        """Writes some dirty page, if there is one, to the platter now."""
        candidates = [(inode, page) for inode in self._inodes.values() for page in inode.dirty_pages()]
        if candidates:
            inode, page = self.random.choice(candidates)
            inode.write_back(page)

    def fail_sync(self, nth: int = 1) -> None:
        """The `nth` file sync from now on fails, and its pages count as clean although they are not durable."""
        self._syncs_until_failure = nth

    def evict(self) -> None:
        """Pages that a failed sync left are read from the platter again: programs see the old bytes."""
        for inode in self._inodes.values():
            inode.forget_lost_pages()

    def room(self) -> int:
        if self.size_max is None:
            return sys.maxsize
        return max(0, self.size_max - sum(self._inodes[number].length for number in self._named_inodes()))

    # The calls of the files and locks.

    def enter(self, call: str) -> None:
        """Every call of the seam passes here first: the machine may be dead, write something back, or die now."""
        if self._frozen is not None:
            raise PowerCut(call)
        self.calls += 1
        if self.random.random() < WRITE_BACK_CHANCE:
            self.write_back()
        if self.calls == self.cut_at_call:
            self.cut()

    def next_sync_fails(self) -> bool:
        self._syncs_until_failure -= 1
        return self._syncs_until_failure == 0

    # The contract of FileSystem.

    def open(self, path: str, *, writable: bool, create: bool = False) -> SimulatedFile:
        self.enter("open")
        return SimulatedFile(self, path, self._inodes[self._open_inode(path, create=create)], writable=writable)

    def lock(self, path: str) -> SimulatedLock:
        self.enter("lock")
        return SimulatedLock(self, self._open_inode(path, create=True))

    def exists(self, path: str) -> bool:
        self.enter("exists")
        path = os.path.normpath(path)
        parent = self._directories.get(os.path.dirname(path))
        return path in self._directories or (parent is not None and os.path.basename(path) in parent.current)

    def names(self, directory: str) -> list[str]:
        self.enter("names")
        directory = os.path.normpath(directory)
        children = {os.path.basename(path) for path in self._directories if os.path.dirname(path) == directory}
        return sorted({*self._directory(directory).current, *children} - {""})

    def make_directory(self, path: str, *, is_private: bool = False) -> None:
        """As the seam says, the parent is synced too: the directory and all above it are durable afterwards."""
        self.enter("make_directory")
        for ancestor in _ancestors(os.path.normpath(path)):
            self._directories.setdefault(ancestor, VolatileDirectory())
        self._parent(os.path.normpath(path)).sync()

    def remove(self, path: str) -> None:
        self.enter("remove")
        self._number(path)
        self._parent(path).change(NameChange(os.path.basename(path), None))

    def remove_directory(self, path: str) -> None:
        """Durable immediately: the project relies neither on the existence of a directory nor on its absence."""
        self.enter("remove_directory")
        if self.names(path):
            raise OSError(errno.ENOTEMPTY, "the directory is not empty", path)
        del self._directories[os.path.normpath(path)]

    def replace(self, source: str, target: str) -> None:
        self.enter("replace")
        assert os.path.dirname(source) == os.path.dirname(target), "a replace stays in its directory"
        change = NameChange(os.path.basename(target), self._number(source), os.path.basename(source))
        self._parent(target).change(change)

    def sync_directory(self, path: str) -> None:
        self.enter("sync_directory")
        self._directory(path).sync()

    def boot_id(self) -> bytes:
        return self._boots.to_bytes(16, "little")

    # The way from names to files.

    def _directory(self, path: str) -> VolatileDirectory:
        path = os.path.normpath(path)
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return self._directories[path]

    def _parent(self, path: str) -> VolatileDirectory:
        return self._directory(os.path.dirname(os.path.normpath(path)))

    def _number(self, path: str) -> int:
        number = self._parent(path).current.get(os.path.basename(path))
        if number is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return number

    def _open_inode(self, path: str, *, create: bool) -> int:
        name = os.path.basename(path)
        if create and name not in self._parent(path).current:
            number = max(self._inodes, default=0) + 1
            self._new_inode(number, 0)
            self._parent(path).change(NameChange(name, number))
        return self._number(path)

    def _new_inode(self, number: int, length: int) -> VolatileFile:
        inode = self._inodes[number] = VolatileFile(mmap.mmap(-1, max(self._map_capacity, round_up(length))), length)
        return inode

    def _named_inodes(self) -> set[int]:
        return {number for directory in self._directories.values() for number in directory.current.values()}


def _ancestors(path: str) -> Iterator[str]:
    while path != os.path.dirname(path):
        yield path
        path = os.path.dirname(path)
