"""LogCopy: a log on a slave. Ranges of the master's log are written where they stand there, and checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from warren.clock import Clock
from warren.errors import CorruptRecord
from warren.storage.append.open import is_usable
from warren.storage.append.recovery import MAX_BLOCK_COUNT_DEFAULT, cut, recover
from warren.storage.append.writer import QueueWriter
from warren.storage.disk import paths
from warren.storage.disk.block import Block, BlockHeader
from warren.storage.disk.filesystem import FileSystem, replace_file
from warren.storage.disk.index import Blocks, Index, index_bytes, with_first
from warren.storage.disk.log_files import LogFiles
from warren.storage.disk.open_files import process_residents
from warren.storage.format.checksum import crc32c
from warren.storage.format.layout import (
    END_OF_BLOCK,
    LABEL_INDEX,
    META_HEAD,
    PAYLOAD_AT,
    RECORD_HEAD,
    SIZE_MASK,
    SIZE_WORD,
    STATE_CLEAN,
    STATE_OPEN,
    STATE_REPLACED,
    Slot,
    aligned,
)
from warren.storage.format.limits import BLOCK_SIZE_MAX
from warren.storage.format.record import Damage, read_head
from warren.storage.format.versions import FORMATS
from warren.storage.read.reader import ReaderCursor, take_readers_back

COPY_VERSION: Final = 2
"""The format of the logs that can be copied. Version 1 has no checksums that a range could be checked by."""


class LogCopy:
    """A log that is written range by range. One thread at a time. No `Log` writes in the directory.

    Invariant: everything below the published end was written by `write`, has been checked, and stands at the same
    offsets and numbers as in the master's log. Readers see no further than `visible`.
    """

    def __init__(self, directory: str, filesystem: FileSystem, clock: Clock) -> None:
        """Opens the log, which exists, and makes it whole. Raises CorruptRecord if what was on disk is damaged."""
        self.directory = directory
        self._files = files = LogFiles(directory, filesystem, clock, process_residents())
        self._writer = QueueWriter(files, BLOCK_SIZE_MAX, self._seal, lambda: None)
        self._is_synced = True
        self._unsynced: dict[str, Block] = {}
        self._has_unpublished = False
        """Whether the writer stands behind the published end."""
        files.before_rest = self._may_rest
        if not is_usable(files):
            self._recover()
        self.index.shows_all = True
        files.vouch()
        if self.index.visible is None:
            # What a master had published before it ended.
            self.index.visible = self.end

    @staticmethod
    def lay(directory: str, filesystem: FileSystem, extension: Mapping[str, str]) -> None:
        """Makes the files of an empty log in a directory that does not exist. Any thread, for different directories."""
        filesystem.make_directory(directory)
        replace_file(filesystem, paths.index_path(directory), _empty_index(extension, 0, filesystem.boot_id()))

    @classmethod
    def make(cls, directory: str, filesystem: FileSystem, clock: Clock, extension: Mapping[str, str]) -> LogCopy:
        """Makes an empty log. One that is there is replaced."""
        filesystem.make_directory(directory)
        files = LogFiles(directory, filesystem, clock, process_residents())
        files.replace_index(_empty_index(extension, 0, filesystem.boot_id()))
        files.close()
        remove_blocks(filesystem, directory)
        return cls(directory, filesystem, clock)

    def _recover(self) -> None:
        files = self._files
        index: Index | None = None
        if files.has_index():
            with suppress(CorruptRecord):
                index = files.index()
        # In the index from its first moment on: the recovery may keep records that were never committed.
        visible = 0
        if index is not None and index.is_credible():
            visible = index.message_count if index.visible is None else index.visible
        with files.mutex:
            recover(files, index, max_block_count=MAX_BLOCK_COUNT_DEFAULT, visible=visible)

    @property
    def index(self) -> Index:
        index = self._files.index()
        index.shows_all = True
        return index

    @property
    def end(self) -> int:
        """The tail: the number behind the last message that is here."""
        return self._files.index().message_count

    @property
    def visible(self) -> int:
        """The end that readers see."""
        visible = self.index.visible
        return self.end if visible is None else min(visible, self.end)

    # --- Writing ---

    def write(
        self, base_offset: int, position: int, first: int, end: int, data: bytes | memoryview, *, is_synced: bool
    ) -> None:
        """Stores the messages from `first` up to `end` at their place, and checks them. Readers do not see them yet.

        Records that are here already are skipped. Raises CorruptRecord, and has changed nothing that is published,
        if a record does not check or the range does not follow.
        """
        self._is_synced = is_synced
        with self._files.mutex:
            writer = self._standing()
            writer.index.writing = os.getpid()
            if position == 0:
                position = self._begin(base_offset, data)
                data = memoryview(data)[position:]
            block = writer.block
            if block is not None and base_offset < block.base_offset and writer.number == block.base_number == first:
                # The master has not begun this block: an earlier master had.
                self._cut(first)
                block = self._standing().block
                writer.index.writing = os.getpid()
            if block is None or block.base_offset != base_offset:
                raise CorruptRecord(self.directory, base_offset, "a range in a block that is not the last one")
            skipped = writer.position - position
            if skipped < 0 or first > writer.number or (not skipped and first != writer.number):
                raise CorruptRecord(
                    block.path, position, f"a range from {first} on where {writer.number} should follow"
                )
            if end <= writer.number:
                return
            self._store(block, memoryview(data)[skipped:], end)
            self._unsynced[block.path] = block

    def _standing(self) -> QueueWriter:
        writer, index = self._writer, self.index
        if index.state != STATE_OPEN:
            index.open_for(self._files.filesystem.boot_id(), STATE_OPEN)
        if not self._has_unpublished and not writer.stands_in(index):
            writer.catch_up(index)
        self._has_unpublished = True
        return writer

    def _begin(self, base_offset: int, data: bytes | memoryview) -> int:
        """Begins the block at `base_offset`, if that is not done. Returns where its records begin."""
        writer, block = self._writer, self._writer.block
        header = BlockHeader.parse(bytes(data[:1024]))
        if header is None or header.base_offset != base_offset:
            raise CorruptRecord(self.directory, base_offset, "a block whose header does not match its checksum")
        is_begun = block is not None and block.base_offset == base_offset
        if not is_begun or self._has_other_header(data):
            if block is not None and not is_begun and writer.number != header.base_number:
                raise CorruptRecord(block.path, 0, f"a block from {header.base_number} on behind {writer.number}")
            writer.begin_copy(header)
        assert writer.block is not None
        return writer.block.start

    def _has_other_header(self, data: bytes | memoryview) -> bool:
        """Returns whether the last block is empty and has another header than `data`."""
        block = self._writer.block
        assert block is not None
        if self._writer.number != block.base_number:
            return False
        (word,) = SIZE_WORD.unpack_from(data)
        size = SIZE_WORD.size + (word & SIZE_MASK)
        return bytes(data[:size]) != bytes(block.view[:size])

    def _store(self, block: Block, data: memoryview, end: int) -> None:
        writer, start = self._writer, self._writer.position
        writer.make_room(start + len(data))
        block.file.write(start, data)
        position, number, timestamp = start, writer.number, writer.last_timestamp
        limit = start + len(data)
        view, index = block.view, block.index
        try:
            while position < limit:
                if position + META_HEAD.size > limit:
                    raise Damage(position, "the range ends within a record")
                word, label = META_HEAD.unpack_from(view, position)
                behind = position + aligned(SIZE_WORD.size + (word & SIZE_MASK))
                if word != END_OF_BLOCK and label == LABEL_INDEX:
                    if index is not None:
                        index.adopt(position)
                    position = behind
                    continue
                head = read_head(view, position, block.base_offset)
                payload = memoryview(view)[position + PAYLOAD_AT : position + SIZE_WORD.size + (word & SIZE_MASK)]
                if position + RECORD_HEAD.size > limit or behind > limit or crc32c(payload) != head.checksum:
                    raise Damage(position, "the payload does not match its checksum")
                if head.number != number or head.timestamp < timestamp or not head.message_count:
                    raise Damage(position, f"message {head.number} where {number} should follow")
                if index is not None:
                    index.note(number, head.message_count, position)
                position, number, timestamp = behind, number + head.message_count, head.timestamp
            if number != end:
                raise Damage(position, f"the range ends at message {number}, not {end}")
        except Damage as damage:
            block.file.clear(start, block.file.size())
            raise block.corrupt(damage) from damage
        if writer.number == block.base_number:
            slot = writer.index.slot(block.number)
            first_timestamp = read_head(view, block.next_record(start, limit), block.base_offset).timestamp
            writer.index.put_slot(block.number, slot._replace(first_timestamp=first_timestamp))
        writer.position, writer.number, writer.last_timestamp = position, number, timestamp

    def _seal(self, block: Block, number: int) -> None:
        """Called for a block that is sealed, because the next one begins."""
        if self._is_synced:
            block.file.sync()
            self._unsynced.pop(block.path, None)

    def unsynced(self) -> list[Block]:
        """Returns the blocks that were written since the last call of `publish`, for a sync."""
        return list(self._unsynced.values())

    def publish(self, *, is_synced: bool) -> None:
        """Moves the end to what was written. The caller has synced the blocks, if `is_synced`."""
        with self._files.mutex:
            writer = self._writer
            if writer.block is not None:
                writer.publish()
                if is_synced:
                    writer.index.synced = writer.number
            self._unsynced.clear()
            self._has_unpublished = False
            self.index.writing = 0

    def give_up(self) -> None:
        """Goes back to the published end, because a range did not check."""
        with self._files.mutex:
            self._unsynced.clear()
            self._has_unpublished = False
            self._cut(self.end)

    # --- Ending, emptying, facts ---

    def cut(self, number: int) -> None:
        """Ends the log at `number`, on disk. Does nothing if it ends there or before."""
        with self._files.mutex:
            if number < self.end:
                self._cut(number)

    def _cut(self, number: int) -> None:
        index = self.index
        self._writer.let_go()
        # What follows a cut may be older than what was cut, and a round that is given up comes again.
        self._writer.last_timestamp = 0
        self._has_unpublished = False
        start, count = index.block_range()
        if not count:
            return
        if number < index.slot(start).base_number or number == 0:
            self._empty()
            return
        self._writer.catch_up(cut(self._files, index, number))
        self._files.vouch()

    def _empty(self) -> None:
        """Removes all messages. The next range may begin with any block."""
        index, files = self.index, self._files
        extension = index.extension()
        files.replace_index(_empty_index(extension, index.flag, files.filesystem.boot_id()))
        files.forget_blocks(list(files._blocks))
        remove_blocks(files.filesystem, self.directory)
        take_readers_back(files, ReaderCursor(0, 0, 0))
        files.vouch()
        self._writer.let_go()

    def empty(self) -> None:
        """Removes all messages, on disk. The next range may begin with any block."""
        with self._files.mutex:
            self._empty()

    def keep_facts(self, first: int, flag: int, extension: Mapping[str, str]) -> None:
        """Takes over where the master's log begins, its flag and its extension, on disk."""
        files = self._files
        with files.mutex:
            index = self.index
            start, slots = index.blocks().start, list(index.blocks().slots)
            gone: list[Slot] = []
            while len(slots) > 1 and slots[0].end_number <= first and slots[1].base_number <= first:
                gone.append(slots.pop(0))
            base = slots[0].base_number if slots else -1
            first_kept = first if first > base else 0
            pairs = with_first(extension, first_kept)
            if gone:
                index.put_block_range(start + len(gone), len(slots))
                index.sync()
            if pairs != index.extension():
                index = files.rewrite_index(index, extension=extension, first_kept=first_kept)
                index.shows_all = True
                self._writer.move_to(index)
            if flag != index.flag:
                index.put_flag(flag)
                index.sync()
            files.forget_blocks(range(start, start + len(gone)))
            for slot in gone:
                files.filesystem.remove(paths.block_path(self.directory, slot.base_offset, index.version))
            if gone:
                files.filesystem.sync_directory(self.directory)
            files.vouch()

    def show(self, end: int | None) -> None:
        """Lets readers see the log up to `end`, as far as it is here; None: up to the published end."""
        index = self.index
        if end is None:
            index.visible = None
        elif end != index.visible:
            index.visible = max(end, index.visible or 0) if index.visible is not None else end
        index.bell(self._files.clock).ring()

    # --- The end ---

    def _may_rest(self) -> bool:
        if self._has_unpublished:
            return False
        self._leave_clean()
        self._writer.let_go()
        return True

    def _leave_clean(self) -> None:
        index, filesystem = self.index, self._files.filesystem
        writer = self._writer
        if not self._files.is_vouched or index.writing:
            return
        writer.catch_up(index)
        if writer.block is not None:
            if index.synced < writer.number:
                self._sync_all(index)
            slot = index.slot(writer.block.number)
            index.put_slot(
                writer.block.number, slot._replace(end_number=writer.number, last_timestamp=writer.last_timestamp)
            )
        if index.state != STATE_CLEAN:
            index.open_for(filesystem.boot_id(), STATE_CLEAN)

    def _sync_all(self, index: Index) -> None:
        blocks = index.blocks()
        for number, slot in enumerate(blocks.slots, blocks.start):
            last = number == blocks.start + len(blocks.slots) - 1
            if last or slot.end_number > index.synced:
                self._files.block(number, slot).file.sync()
        index.synced = index.message_count

    def sync(self) -> None:
        """Puts on disk all that is published."""
        with self._files.mutex:
            index = self.index
            if index.synced < index.message_count:
                self._sync_all(index)

    def close(self) -> None:
        """Leaves the log clean, so that the next process that opens it need not recover it."""
        with self._files.mutex:
            if self._files.has_index():
                self._leave_clean()
            self._writer.let_go()
        self._files.close()

    def remove(self) -> None:
        """Removes the log. Other processes that have it open get NotALog from now on."""
        files = self._files
        with files.mutex:
            filesystem, index = files.filesystem, files.index()
            filesystem.remove(paths.index_path(self.directory))
            filesystem.sync_directory(self.directory)
            index.state = STATE_REPLACED
            index.bell(files.clock).ring()
            self._writer.let_go()
        files.close()
        remove_blocks(filesystem, self.directory)
        lock = paths.lock_path(self.directory)
        if filesystem.exists(lock):
            filesystem.remove(lock)

    def hand_over(self) -> None:
        """Leaves the log to the store that is opened now. It is known to be whole as long as this object is open."""
        self._writer.let_go()
        self._files.before_rest = lambda: True

    @property
    def version(self) -> int:
        return self.index.version


def _empty_index(extension: Mapping[str, str], flag: int, boot_id: bytes) -> bytes:
    return index_bytes(
        version=COPY_VERSION,
        max_block_count=MAX_BLOCK_COUNT_DEFAULT,
        blocks=Blocks(start=0, slots=()),
        message_count=0,
        flag=flag,
        extension=dict(extension),
        synced=0,
        boot_id=boot_id,
        state=STATE_CLEAN,
        visible=0,
    )


def remove_blocks(filesystem: FileSystem, directory: str) -> None:
    """Removes all blocks in a directory, whose index names none."""
    for name in filesystem.names(directory):
        if any(paths.block_base_offset(name, version) is not None for version in FORMATS):
            filesystem.remove(os.path.join(directory, name))
    filesystem.sync_directory(directory)
