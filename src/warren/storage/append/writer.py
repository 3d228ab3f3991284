"""QueueWriter: writes records into the last block, grows it, starts the next one, and publishes the new end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from mmap import mmap
from typing import Final

from warren.errors import StorageFull, TooLarge
from warren.message import Receipt
from warren.storage.append.group_commit import Ticket
from warren.storage.disk import paths
from warren.storage.disk.block import Block, BlockHeader, block_header, end_of_block, first_bytes, record_size_max
from warren.storage.disk.block_index import BlockIndex
from warren.storage.disk.index import Index
from warren.storage.disk.log_files import LogFiles
from warren.storage.format.layout import (
    ALIGNMENT,
    INDEX_HEADER_SIZE,
    PADDING,
    PAYLOAD_AT,
    RECORD_START_V1,
    SLOT_WORD_END_OFFSET,
    SLOT_WORD_UPDATED,
    Slot,
    aligned,
)
from warren.storage.format.record import Packed, stamp_head

PREALLOCATE_FIRST: Final = 32 << 10
PREALLOCATE_STEP_MAX: Final = 8 << 20

NEVER: Final = 1 << 63
PARTS_EACH: Final = 3
"""The parts of a record that is stored together with others: head, payload and padding."""
WRITE_SIZE_MIN: Final = 16 << 10
"""Records of this size or more are written with a system call, because page faults on many new pages cost more."""


class QueueWriter:
    """The position of the next record. Only the holder of the writer lock uses it, after `catch_up`.

    Invariant: everything below `position` in `block` was written by a holder of the lock, and everything after it up to
    the end of the file is zero. To lay a record is to write it past the published end, beyond all readers; `publish`
    moves the end. Calls `make_durable` with each block that it seals and the number at which the block ends,
    and `began` when it stands in a new block.
    """

    def __init__(
        self, files: LogFiles, block_size: int, make_durable: Callable[[Block, int], None], began: Callable[[], None]
    ) -> None:
        self._files, self._format, self._make_durable, self._began = files, files.format, make_durable, began
        self._block_size = block_size
        self.record_size_max = record_size_max(files.format, block_size)
        self.stores_through_map = True
        """Whether small records are stored through the map.

        If not, they are written with a system call like large ones.
        """
        self._index: Index | None = None
        self.block: Block | None = None
        self.number = -1
        self.position = 0
        # Copies of fields of `block` and `index` for the fast path of `Appender.put`. They change together with the
        # originals.
        self.base_offset = 0
        self.view: mmap
        self.words: memoryview = memoryview(bytes(INDEX_HEADER_SIZE)).cast("Q")
        self.word_end_offset = self.word_updated = 0
        self.room_end = 0
        self.room_taken = 0
        """The largest number of bytes that one record takes in addition to its payload: its head, its padding and an
        index message before it.
        """
        self.last_timestamp = 0
        self.next_due = NEVER

    @property
    def index(self) -> Index:
        """The index that the writer works in."""
        assert self._index is not None, "catch_up comes first"
        return self._index

    def stands_in(self, index: Index) -> bool:
        """Returns whether no other process has changed the log since this writer's last change."""
        return self._index is index and self.number == index.message_count

    def catch_up(self, index: Index) -> None:
        """Moves to the end of the log, because another process may have appended, rolled or recovered."""
        self._index = index
        self.number = index.message_count
        start, count = index.block_range()
        if not count:
            self.block, self.position, self.room_end, self.next_due = None, 0, 0, NEVER
            return
        last = start + count - 1
        slot = index.slot(last)
        self.block = block = self._files.block(last, slot, writable=True)
        self.position = slot.end_offset - slot.base_offset
        self.last_timestamp = max(self.last_timestamp, slot.updated)
        self._see_room(block)
        if self.position == block.start:
            block.base_number = self.number
        if block.index is not None:
            block.index.start_writing()
            self.next_due = block.index.next_due(self.number)

    def _see_room(self, block: Block) -> None:
        size = block.file.size()
        if size != block.mapped_size:
            block.map()
        self.base_offset, self.view, self.words = block.base_offset, block.view, self.index.words
        slot_word = self.index.slot_position(block.number) // 8
        self.word_end_offset = slot_word + SLOT_WORD_END_OFFSET
        self.word_updated = slot_word + SLOT_WORD_UPDATED
        # The end word of a sealed block needs room after the last record.
        self.room_end = min(size, self._block_size) - ALIGNMENT
        self.room_taken = PAYLOAD_AT + ALIGNMENT + (0 if block.index is None else block.index.message_size)

    # --- Laying records ---

    def lay_group(self, group: Sequence[Ticket], timestamp: int) -> None:
        """Lays the records of each ticket, and settles the ticket with its receipt or its own error."""
        place = 0
        while place < len(group):
            run_count = self._lay_run(group[place:], timestamp) if len(group) > 1 else 0
            if not run_count:
                self._lay_ticket(group[place], timestamp)
            place += run_count or 1

    def _lay_ticket(self, ticket: Ticket, timestamp: int) -> None:
        try:
            ticket.receipt = self.lay_all(ticket.batch, timestamp)
        except (StorageFull, TooLarge) as error:
            ticket.error = error

    def _lay_run(self, group: Sequence[Ticket], timestamp: int) -> int:
        """Lays the small single records that `group` starts with, up to the first that needs room or an index entry.

        Returns how many. All are stored with one copy, because each write would release the interpreter lock:

            … record | head, payload, padding | head, payload, padding | … | 0 0 0
                     ^ position                                            ^ new position
        """
        block, parts = self.block, list[bytes | memoryview]()
        if block is None or not self._format.has_meta_data:
            return 0
        timestamp, end = max(timestamp, self.last_timestamp), self.position
        base_offset, room_end, make = block.base_offset, self.room_end, tuple.__new__
        for number, ticket in zip(range(self.number, self.next_due), group, strict=False):
            batch = ticket.batch
            packed = batch[0]
            payload, _, message_count = packed
            size = len(payload) + PAYLOAD_AT
            if len(batch) > 1 or message_count > 1 or size >= WRITE_SIZE_MIN or end + size > room_end:
                break
            offset = base_offset + end
            parts += (stamp_head(packed, offset, number, timestamp), payload, PADDING[-size % ALIGNMENT])
            ticket.receipt = make(Receipt, (number, offset, timestamp, ""))
            end += aligned(size)
        count = len(parts) // PARTS_EACH
        if count:
            block.view[self.position : end] = b"".join(parts)
            self.position, self.number, self.last_timestamp = end, self.number + count, timestamp
        return count

    def lay_all(self, batch: Sequence[Packed], timestamp: int) -> Receipt:
        """Lays the records of one put, in one block if they fit into one. Returns the receipt of the first message."""
        if len(batch) == 1 and self._format.record_size(batch[0]) <= self.record_size_max:
            return self.lay(batch[0], timestamp)
        for packed in batch:
            if self._format.record_size(packed) > self.record_size_max:
                raise TooLarge("record", self._format.record_size(packed), self.record_size_max)
        total = sum(map(self._format.record_size, batch))
        if total <= self.record_size_max:
            self._make_room(total, sum(packed.message_count for packed in batch))
        first = self.lay(batch[0], timestamp)
        for packed in batch[1:]:
            self.lay(packed, timestamp)
        return first

    def lay(self, packed: Packed, timestamp: int) -> Receipt:
        """Lays one record at the end. If it raises StorageFull, nothing has changed."""
        size, count = self._format.record_size(packed), packed.message_count
        block = self.block
        if block is None or self.position + size > self.room_end or self.next_due < self.number + count:
            block = self._make_room(size, count)
        timestamp = max(timestamp, self.last_timestamp)
        timestamp -= timestamp % self._format.us_per_tick
        number, index = self.number, block.index
        if index is not None and self.next_due < number + count:
            needed = index.size_needed(number, count)
            if needed:
                block.file.write(self.position, bytes(needed))
            self._lay_entries(block, index, count)
        elif index is not None and count > 1:
            index.forget_group()
        if number == block.base_number:
            self._note_first(block, timestamp)
        position = self.position
        offset = block.base_offset + position
        if size >= WRITE_SIZE_MIN and self._format.has_meta_data:
            head = stamp_head(packed, offset, number, timestamp)
            # Stored through the map: a second write would release the interpreter lock once more.
            block.view[position : position + len(head)] = head
            block.file.write(position + len(head), packed.payload)
        else:
            self._store(block, position, self._format.stamp(packed, offset, number, timestamp))
        self.position, self.number, self.last_timestamp = position + size, number + count, timestamp
        return Receipt(number, offset, timestamp, "")

    def _store(self, block: Block, position: int, data: bytes) -> None:
        """Stores a whole record."""
        if not self._format.has_meta_data:
            # Version 1 has no checksums. A half-stored record is recognized by its start, which is stored last.
            start = RECORD_START_V1.size
            self._store_bytes(block, position + start, data[start:])
            data = data[:start]
        self._store_bytes(block, position, data)

    def _store_bytes(self, block: Block, position: int, data: bytes) -> None:
        if self.stores_through_map:
            block.view[position : position + len(data)] = data
        else:
            block.file.write(position, data)

    def lay_entry(self, size: int) -> bool:
        """Adds an index entry for the next record, a single one of `size` bytes.

        Returns False if there is no room for both.
        """
        block = self.block
        if block is None or block.index is None:
            return False
        if self.position + size + block.index.size_needed(self.number, 1) > self.room_end:
            return False
        if self.number == block.base_number:
            self._note_first(block, self.last_timestamp)
        self._lay_entries(block, block.index, 1)
        return True

    def _lay_entries(self, block: Block, index: BlockIndex, count: int) -> None:
        """Writes the index messages and entries that the next record, of `count` messages, needs."""
        needed = index.size_needed(self.number, count)
        if needed:
            # Writes zeros over zeros, because storing to pages of the map that were never written takes a hundred times
            # as long.
            block.file.write(self.position, bytes(needed))
        self.position = index.lay(self.number, count, self.position)
        self.next_due = index.note(self.number, count, self.position)

    def _note_first(self, block: Block, timestamp: int) -> None:
        slot = self.index.slot(block.number)
        self.index.put_slot(block.number, slot._replace(first_timestamp=timestamp))

    def let_go(self) -> None:
        """Drops every file. `catch_up` must come before the next use."""
        self.block, self.number, self.next_due, self.room_end = None, -1, NEVER, 0
        self._index = None
        self.view = mmap(-1, 1)
        self.words = memoryview(bytes(INDEX_HEADER_SIZE)).cast("Q")

    def move_to(self, index: Index) -> None:
        """Continues in an index that was rewritten under the lock. The blocks are the same."""
        self._index = index
        if self.block is not None:
            self._see_room(self.block)

    def publish(self) -> None:
        """Lets readers see the records that were laid."""
        if self.block is not None:
            end_offset = self.block.base_offset + self.position
            self.index.publish(self.block.number, end_offset, self.last_timestamp, self.number)

    # --- Room ---

    def _make_room(self, size: int, count: int) -> Block:
        """Returns a block with room for a record of `size` bytes and `count` messages: the last one, or a new one."""
        while True:
            block = self.block
            if block is None:
                self._begin(*self._make_block(0, 0, 0))
                continue
            needed = self.position + size
            if block.index is not None:
                needed += block.index.size_needed(self.number, count)
            if needed <= self.room_end:
                return block
            self._see_room(block)
            if needed <= self.room_end:
                return block
            is_empty = self.number == block.base_number
            if needed + ALIGNMENT > self._block_size and not is_empty:
                self.roll()
            else:
                self._grow(block, needed + ALIGNMENT)

    def _grow(self, block: Block, needed: int) -> None:
        size = block.file.size()
        step = min(max(size, PREALLOCATE_FIRST), PREALLOCATE_STEP_MAX)
        new_size = max(needed, min(size + step, self._block_size))
        block.file.preallocate(new_size)
        self._see_room(block)
        self.room_end = new_size - ALIGNMENT

    def roll(self) -> None:
        """Starts the next block and seals the last one. If it raises StorageFull, nothing has changed.

        The block is truncated only after the next one exists, because a writer in another process considers a log with
        the same end unchanged, and would continue in its old block.
        """
        block = self.block
        if block is None:
            return
        following, slot = self._make_block(block.number + 1, block.base_offset + self.position, self.number)
        try:
            self._seal(block)
        except StorageFull:
            self._remove(following.path)
            raise
        self._begin(following, slot)

    def begin_copy(self, header: BlockHeader) -> None:
        """Starts a block with the header that it has in the log of which this one is a copy, and seals the last one.

        If the last block is this one, and empty, it gets the header.
        """
        block = self.block
        following, slot = self._make_block(header.block, header.base_offset, header.base_number, header)
        if block is not None and block.number == header.block:
            self.index.put_slot(block.number, slot)
            self._files.forget_blocks([block.number])
            self.catch_up(self.index)
            return
        if block is not None:
            self._seal(block)
        self._begin(following, slot)
        self.number = header.base_number

    def make_room(self, end: int) -> None:
        """Enlarges the last block until a copy of records fits that ends at the position `end`."""
        block = self.block
        assert block is not None
        if end > self.room_end:
            self._see_room(block)
        if end > self.room_end:
            self._grow(block, end + ALIGNMENT)

    def _seal(self, block: Block) -> None:
        """Truncates the block to its length and makes all of it durable. Sealing a block twice does no harm."""
        end = end_of_block(self._format)
        block.file.write(self.position, end)
        block.file.truncate(self.position + len(end))
        # No record may be stored until there is a next block, because the map is now longer than the file.
        self.room_end = 0
        self._make_durable(block, self.number)
        slot = self.index.slot(block.number)
        slot = slot._replace(
            end_offset=block.base_offset + self.position,
            updated=self.last_timestamp,
            end_number=self.number,
            last_timestamp=self.last_timestamp,
        )
        self.index.put_slot(block.number, slot)

    def _make_block(
        self, number: int, base_offset: int, base_number: int, header: BlockHeader | None = None
    ) -> tuple[Block, Slot]:
        """Returns a new block, durable under its name, and its slot. The index does not name the block yet."""
        _, count = self.index.block_range()
        if count == self.index.max_block_count:
            self.move_to(self._files.grow_index(self.index))
        if header is None:
            created = max(self._files.now_us(), self.last_timestamp)
            header = block_header(number, base_offset, base_number, created, self._block_size)
        created = header.created
        path = paths.block_path(self._files.directory, base_offset, self._format.version)
        file = self._files.filesystem.open(path, writable=True, create=True)
        try:
            file.truncate(0)
            file.preallocate(min(PREALLOCATE_FIRST, self._block_size))
            if self._format.has_meta_data:
                file.write(0, first_bytes(header))
            file.sync()
        except StorageFull:
            self._remove(path)
            raise
        self._files.filesystem.sync_directory(self._files.directory)
        block = Block.open(file, self._format, number, base_offset, base_number, writable=True)
        return block, Slot(base_offset, base_offset + block.start, created, created, base_number, base_number, 0, 0)

    def _remove(self, path: str) -> None:
        with suppress(OSError):
            self._files.filesystem.remove(path)

    def _begin(self, block: Block, slot: Slot) -> None:
        """Continues in a new block, and adds it to the index."""
        start, count = self.index.block_range()
        self.index.put_slot(block.number, slot)
        self.index.put_block_range(start if count else block.number, count + 1)
        # Synced, because a recovery reads all blocks from the last one that the synced index names.
        self.index.sync()
        self._files.keep(block)
        self.block, self.position, self.last_timestamp = block, block.start, slot.created
        self._see_room(block)
        self.next_due = block.base_number if block.index is not None else NEVER
        self._began()
