"""The part of a log that readers see: every message from the first live block up to the published end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from warren.errors import CorruptRecord, NumberRetired
from warren.storage.disk.block import Block
from warren.storage.disk.index import Blocks, Index
from warren.storage.disk.log_files import LogFiles
from warren.storage.format.layout import WORD_MESSAGE_COUNT, WORD_VISIBLE, Slot


class Stretch(NamedTuple):
    """A block, the position at which its records end, and the number of the message after them."""

    block: Block
    limit: int
    end_number: int


class LogView:
    """Finds the block of a message. Any thread may use it; it changes nothing."""

    def __init__(self, files: LogFiles) -> None:
        self._files = files
        self._index: Index | None = None
        self._range = (-1, -1)
        self._words = (0, 0)
        self._slots: list[Slot] = []
        self._base_numbers: list[int] = []
        self._last_number = -1
        self.passed_over = 0
        """How often a reader skipped a whole batch because its content, from a client, cannot be read."""

    def let_go(self) -> None:
        """Drops every file."""
        self._index = None

    @property
    def directory(self) -> str:
        return self._files.directory

    @property
    def first(self) -> int:
        """The number of the first message that is not retired."""
        index = self._look()
        return self._base_numbers[0] if self._base_numbers else index.readable_end

    @property
    def end(self) -> int:
        """The number that the next message will get."""
        return self._files.index().readable_end

    @property
    def synced(self) -> int:
        """The number below which every message is on disk."""
        return self._files.index().synced

    def _look(self) -> Index:
        """Returns the index, and reads the list of blocks again if it has changed."""
        index = self._files.index()
        words = index.words
        # BlockCount and BlockStart are in the first two words of both versions.
        if index is not self._index or words[0] != self._words[0] or words[1] != self._words[1]:
            block_range = words[0], words[1]
            # Read before the slots: if the last block is empty, this is the number of its first message.
            end = index.message_count
            blocks = index.blocks()
            if index.version == 1:
                pairs = enumerate(blocks.slots, blocks.start)
                numbers = [self._base_number(number, slot, end) for number, slot in pairs]
                ends = [*numbers[1:], 0] if numbers else []
                rows = zip(blocks.slots, numbers, ends, strict=True)
                slots = [slot._replace(base_number=number, end_number=end) for slot, number, end in rows]
            else:
                slots, numbers = list(blocks.slots), [slot.base_number for slot in blocks.slots]
                # Deleted messages of the first block are invisible to every reader.
                numbers[:1] = [max(number, index.first_kept) for number in numbers[:1]]
            self._slots, self._base_numbers = slots, numbers
            self._index, self._range, self._words = index, (blocks.start, len(slots)), block_range
        return index

    def _base_number(self, number: int, slot: Slot, end: int) -> int:
        """Returns the number of a block's first message. In version 1 it is read from the first record of the block."""
        if slot.end_offset == slot.base_offset:
            return end
        return self._files.block(number, slot).base_number

    def locate(self, number: int, end: int) -> Stretch:
        """Returns the block that holds message `number`, which lies below the published end `end`."""
        index = self._look()
        start, count = self._range
        place = bisect_right(self._base_numbers, number) - 1
        if place < 0:
            raise NumberRetired(number, self.first)
        try:
            return self._stretch(index, start, place, is_last=place == count - 1, end=end)
        except CorruptRecord as error:
            return self._before_cut(start + place, number, error)

    def _before_cut(self, block_number: int, number: int, error: CorruptRecord) -> Stretch:
        """Returns the record of `number` in a block that is shorter than its index says.

        Raises `error` if it is lost.
        """
        block = self._files.open_block(block_number)
        if block is None:
            raise error
        try:
            record = block.read(block.find(number, block.mapped_size), block.mapped_size)
        except CorruptRecord:
            raise error from None
        return Stretch(block, record.end, record.number + record.message_count)

    def quick(self, number: int) -> tuple[Block, int] | None:
        """Returns the block of message `number`, and the position at which its records end.

        Returns None if the message does not exist, or its block is not open or of version 1: then the caller uses `end`
        and `locate`.
        """
        index = self._look()
        words = index.words
        if index.version == 1 or not 0 <= number < words[WORD_MESSAGE_COUNT] or words[WORD_VISIBLE]:
            return None
        start, count = self._range
        place = bisect_right(self._base_numbers, number) - 1
        block = self._files.open_block(start + place)
        if place < 0 or block is None:
            return None
        if place < count - 1:
            slot = self._slots[place]
            limit = slot.end_offset - slot.base_offset
        else:
            limit = index.end_offset(start + place) - block.base_offset
        return (block, limit) if limit <= block.mapped_size else None

    def _stretch(self, index: Index, start: int, place: int, *, is_last: bool, end: int) -> Stretch:
        # Read before the slot, so that the block holds the messages before it. None: all of it may be seen.
        visible = index.readable_end if index.is_bounded else None
        # The end of the last block moves; those of the others are fixed.
        slot = index.slot(start + place) if is_last else self._slots[place]
        if index.version == 1:
            slot = slot._replace(base_number=self._base_numbers[place])
        try:
            block = self._files.block(start + place, slot)
        except CorruptRecord:
            if index.block_range()[0] > start + place:
                raise NumberRetired(self._base_numbers[place], self.first) from None
            raise
        left, self._last_number = self._last_number, block.number
        if block.number == left + 1 and (block_left := self._files.open_block(left)) is not None:
            # A reader that goes forwards needs only the memory of its current block.
            block_left.let_pages_go()
        limit, end_number = slot.end_offset - slot.base_offset, end if is_last else slot.end_number
        if visible is None:
            return Stretch(block, limit, end_number)
        # A replica holds more than what is committed. The count is read after the slot: the block has no more than it.
        if visible >= (index.message_count if is_last else end_number):
            return Stretch(block, limit, visible if is_last else end_number)
        if visible <= block.base_number:
            return Stretch(block, block.start, visible)
        # Found without what is behind it, because a replica may be cutting that off.
        return Stretch(block, block.end_after(visible - 1, limit), visible)

    def stretches(self, start: int, end: int) -> Iterator[tuple[Stretch, Slot]]:
        """Yields every block that holds messages of the range, in order, with its slot."""
        index = self._look()
        first_block, slots = self._range[0], self._slots
        for place, slot in enumerate(slots):
            is_last = place == len(slots) - 1
            if slot.base_number < end and (is_last or slot.end_number > start):
                yield self._stretch(index, first_block, place, is_last=is_last, end=end), slot

    def slots(self) -> Blocks:
        """Returns the live blocks, with message numbers also in version 1."""
        self._look()
        return Blocks(start=self._range[0], slots=self._slots)

    @property
    def last_count(self) -> int:
        """Returns how many messages the last block has; 0 if there is none."""
        index = self._look()
        return index.message_count - self._slots[-1].base_number if self._slots else 0

    def sealed_before(self, number: int) -> tuple[int, list[Slot]]:
        """Returns the first block's number, and the slots of sealed blocks that hold only messages before `number`."""
        self._look()
        slots = [slot for slot in self._slots[:-1] if slot.end_number <= number]
        return self._range[0], slots

    def number_at(self, block_number: int, position: int) -> int:
        """Returns the number of the message at a position of a block, or the end number if the position is its end.

        Returns 0 if the block does not exist.
        """
        index = self._look()
        start, count = self._range
        place = block_number - start
        if not 0 <= place < count:
            # A reader that continues from 0 gets NumberRetired, because nothing is known about a block that does not
            # exist.
            return 0
        is_last = place == count - 1
        block, limit, end_number = self._stretch(index, start, place, is_last=is_last, end=self.end)
        position = block.next_record(position, limit)
        return end_number if position >= limit else block.read(position, limit).number

    def find_time(self, timestamp: int) -> int:
        """Returns the number of the first message at or after `timestamp`, or `end` if there is none."""
        end = self.end
        index = self._look()
        low, high = 0, len(self._slots)
        while low < high:
            middle = (low + high) // 2
            is_last = middle == len(self._slots) - 1
            if not is_last and self._last_timestamp(middle) < timestamp:
                low = middle + 1
            else:
                high = middle
        if low == len(self._slots):
            return end
        if self._base_numbers[low] >= end:
            return end
        is_last = low == len(self._slots) - 1
        block, limit, end_number = self._stretch(index, self._range[0], low, is_last=is_last, end=end)
        return max(block.find_time(timestamp, limit, end_number), self._base_numbers[0])

    def _last_timestamp(self, place: int) -> int:
        slot = self._slots[place]
        return slot.last_timestamp if slot.last_timestamp else slot.updated
