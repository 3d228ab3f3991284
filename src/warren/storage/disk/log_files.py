"""The open files of one log: its index, the blocks in use, its lock.

They may be closed at any time, and reopen on demand.
"""

from __future__ import annotations

import os.path
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from mmap import mmap
from typing import Final, NamedTuple

from warren.clock import Clock
from warren.errors import CorruptRecord, LogClosed, NotALog
from warren.storage.disk import paths
from warren.storage.disk.block import Block
from warren.storage.disk.filesystem import File, FileSystem, Lock
from warren.storage.disk.index import Index, index_bytes, with_first
from warren.storage.disk.open_files import Residents
from warren.storage.format.layout import READER_REMOVED_AT, STATE_REPLACED, WORD_STATE, Slot
from warren.storage.format.versions import FORMATS, Format

BLOCKS_OPEN_MAX: Final = 32
READERS_SWEPT_FROM: Final = 16
"""When this many readers are open, drop those that another process has removed."""


def _always() -> bool:
    return True


class MappedFile(NamedTuple):
    """A small file, such as that of a reader, and its map."""

    file: File
    view: mmap


class LogFiles:
    """Opens files on demand and keeps them open. Any thread may read; a writer holds `mutex` and the lock.

    Calls `before_rest` with `mutex` held before it closes the files, and keeps them open if that returns False. Calls
    `in_child` in a forked child.
    """

    def __init__(self, directory: str, filesystem: FileSystem, clock: Clock, residents: Residents) -> None:
        self.directory, self.filesystem, self.clock = directory, filesystem, clock
        self._residents = residents
        self.failed = residents.failed
        self.mutex = threading.Lock()
        self.before_rest: Callable[[], bool] = _always
        self.in_child: Callable[[], object] = _always
        self.writable, self.is_closed = True, False
        self.format: Format = FORMATS[2]
        self._index: Index | None = None
        self.is_vouched = False
        """Whether this process has checked the log, and its index was open ever since, except during a rest."""
        self._end_at_rest: int | None = None
        self._lock: Lock | None = None
        self._blocks: OrderedDict[int, Block] = OrderedDict()
        self._last_used = -1
        self._readers: dict[str, MappedFile] = {}
        self._readers_swept_at = READERS_SWEPT_FROM
        residents.register(self)

    @property
    def file_count(self) -> int:
        return len(self._blocks) + len(self._readers) + (self._index is not None) + (self._lock is not None)

    def now_us(self) -> int:
        return self.clock.now_ns() // 1000

    # --- The index ---

    def index(self) -> Index:
        """Returns the index. Opens it again if another process replaced it."""
        index = self._index
        if self.is_closed:
            raise LogClosed(self.directory, "close() was called")
        if index is None or index.words[WORD_STATE] == STATE_REPLACED:
            index = self._open_index()
        return index

    def see_version(self) -> None:
        """Sets the format from the index.

        If the index is damaged but can be rebuilt, sets it from the names of the blocks.
        """
        try:
            self.index()
        except (CorruptRecord, NotALog):
            versions = self.block_versions()
            if not versions or not self.writable:
                raise
            self.format = FORMATS[max(versions)]

    def block_versions(self) -> set[int]:
        """Returns the versions of the block files in the directory."""
        names = self.filesystem.names(self.directory)
        return {number for number in FORMATS for name in names if paths.block_base_offset(name, number) is not None}

    def has_index(self) -> bool:
        return self.filesystem.exists(paths.index_path(self.directory))

    def _open_index(self) -> Index:
        path = paths.index_path(self.directory)
        try:
            file = self.filesystem.open(path, writable=self.writable)
        except FileNotFoundError as error:
            raise NotALog(self.directory, "it has no index; opening it for writing creates one") from error
        index = Index(file, writable=self.writable)
        if self._end_at_rest is not None:
            # If the volume was restored to an earlier state in the meantime, it shows an earlier end.
            self.is_vouched = index.message_count >= self._end_at_rest
            self._end_at_rest = None
        if self.is_vouched:
            index.vouch()
        # The master of a replicated store publishes what is committed, and reads more than that while it is promoted.
        index.shows_all = self.filesystem.shipping is not None
        self.format = FORMATS[index.version]
        self._blocks.clear()
        self._index = index
        self._residents.admit(self)
        return index

    def vouch(self) -> None:
        """Declares the log undamaged: as long as its index stays open, its published end is the true one."""
        if not self.is_vouched:
            self.index().vouch()
            self.is_vouched = True

    def is_vouched_by_anyone(self, index: Index) -> bool:
        """Returns whether a process has had the log open since it was checked. If so, no part of it can be lost."""
        return self.is_vouched or index.is_vouched() is True

    def replace_index(self, data: bytes) -> Index:
        """Replaces the index atomically by one of these bytes. Only the holder of the lock may call this."""
        new_path, path = paths.new_index_path(self.directory), paths.index_path(self.directory)
        file = self.filesystem.open(new_path, writable=True, create=True)
        file.truncate(0)
        file.write(0, data)
        file.sync()
        if self._index is not None:
            # Set before the new index exists, because a process that has the old one mapped then searches for the new
            # one.
            self._index.state = STATE_REPLACED
        self.filesystem.replace(new_path, path)
        self.filesystem.sync_directory(self.directory)
        old, self._index = self._index, None
        if old is not None:
            old.bell(self.clock).ring()
        return self._open_index()

    def grow_index(self, index: Index) -> Index:
        """Rewrites the index with twice as many slots."""
        return self.rewrite_index(index, max_block_count=index.max_block_count * 2)

    def rewrite_index(
        self,
        index: Index,
        *,
        max_block_count: int | None = None,
        extension: Mapping[str, str] | None = None,
        first_kept: int | None = None,
    ) -> Index:
        """Rewrites the index with the given fields changed. The blocks stay open."""
        pairs = index.extension() if extension is None else extension
        data = index_bytes(
            version=index.version,
            max_block_count=max_block_count or index.max_block_count,
            blocks=index.blocks(),
            message_count=index.message_count,
            flag=index.flag,
            extension=with_first(pairs, index.first_kept if first_kept is None else first_kept),
            synced=index.synced,
            boot_id=index.boot_id,
            state=index.state,
            # Set from the start, because a process that dies right after the replacement dies in the middle of an
            # append.
            writing=index.writing,
            recovered_us=index.recovered_us,
            visible=index.visible,
        )
        blocks = self._blocks.copy()
        new_index = self.replace_index(data)
        self._blocks.update(blocks)
        return new_index

    # --- The blocks ---

    def block(self, number: int, slot: Slot, *, writable: bool = False) -> Block:
        """Returns the block of `slot`, mapped at least up to the end that the slot gives."""
        block = self._blocks.get(number)
        if block is None or (writable and not block.writable):
            block = self._open_block(number, slot, writable=writable)
        elif number != self._last_used:
            self._last_used = number
            with suppress(KeyError):
                self._blocks.move_to_end(number)
        if slot.end_offset - slot.base_offset > block.mapped_size:
            block.map()
            if slot.end_offset - slot.base_offset > block.mapped_size:
                raise CorruptRecord(block.path, block.mapped_size, "the block is shorter than its index says")
        return block

    def open_block(self, number: int) -> Block | None:
        """Returns the block if it is open, otherwise None."""
        return self._blocks.get(number)

    def _open_block(self, number: int, slot: Slot, *, writable: bool) -> Block:
        path = paths.block_path(self.directory, slot.base_offset, self.format.version)
        try:
            file = self.filesystem.open(path, writable=writable)
        except FileNotFoundError as error:
            raise CorruptRecord(path, 0, "the block is missing") from error
        block = Block.open(file, self.format, number, slot.base_offset, slot.base_number, writable=writable)
        self.keep(block)
        return block

    def keep(self, block: Block) -> None:
        """Keeps `block` open, and drops the least recently used block if too many are open."""
        self._blocks[block.number] = block
        self._blocks.move_to_end(block.number)
        if len(self._blocks) > BLOCKS_OPEN_MAX:
            self._blocks.popitem(last=False)
        self._residents.admit(self)

    def forget_blocks(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._blocks.pop(number, None)
        self._residents.admit(self)

    def reader(self, path: str, size: int) -> MappedFile:
        """Returns the mapped file of a reader."""
        mapped = self._readers.get(path)
        if mapped is None or mapped.view[READER_REMOVED_AT]:
            self._readers.pop(path, None)
            file = self.filesystem.open(path, writable=self.writable)
            if file.size() < size:
                raise CorruptRecord(path, file.size(), "the file of the reader is too short")
            self._sweep_readers()
            mapped = self._readers[path] = MappedFile(file, file.map(size, writable=self.writable))
            self._residents.admit(self)
        return mapped

    def _sweep_readers(self) -> None:
        """Drops the readers that any process has removed, if many are open. The next sweep comes at twice as many."""
        if len(self._readers) >= self._readers_swept_at:
            for path, mapped in list(self._readers.items()):
                if mapped.view[READER_REMOVED_AT]:
                    self._readers.pop(path, None)
            self._readers_swept_at = max(READERS_SWEPT_FROM, 2 * len(self._readers))

    def remove_reader(self, path: str, size: int) -> None:
        """Removes the file of a reader from the disk, even if other processes have it mapped."""
        mapped = self.reader(path, size)
        self.filesystem.remove(path)
        mapped.view[READER_REMOVED_AT] = 1
        self._readers.pop(path, None)
        self._residents.admit(self)
        self.filesystem.sync_directory(os.path.dirname(path))

    # --- The lock, and rest ---

    def check_writable(self) -> None:
        """Raises LogClosed if the log was opened for reading only."""
        if not self.writable:
            raise LogClosed(self.directory, "it was opened with read_only=True")

    def lock(self) -> Lock:
        """Returns the writer lock.

        The caller keeps a reference while it holds the lock: without one the lock is freed.
        """
        if self._lock is None:
            self._lock = self.filesystem.lock(paths.lock_path(self.directory))
            self._residents.admit(self)
        return self._lock

    def rest(self) -> bool:
        """Closes every file. Returns False, and keeps the files open, if a thread is writing or
        `before_rest` refuses.
        """
        if not self.mutex.acquire(blocking=False):
            return False
        try:
            if not self.before_rest():
                return False
            if self.is_vouched and self._index is not None:
                self._end_at_rest = self._index.message_count
            self._drop()
        finally:
            self.mutex.release()
        return True

    def _drop(self) -> None:
        self._index, self.is_vouched = None, False
        self._lock = None
        self._blocks.clear()
        self._readers.clear()

    def close(self) -> None:
        """Closes every file permanently."""
        self.is_closed = True
        self._drop()
        self._residents.leave(self)

    def after_fork(self) -> None:
        """Resets the child of a fork.

        It reopens the files, and needs a new mutex, because a thread of the parent may hold the old one.
        """
        self.mutex = threading.Lock()
        self.in_child()
        self._drop()
