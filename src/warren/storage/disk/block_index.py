"""The index2index and index messages of a version 2 block: any message in two page reads.

Entry k of a block stands for the message `base_number + 64 k` and gives the position of the record that holds it.
Entries are hints: a reader that follows one checks that the record there carries the number expected.
"""

from __future__ import annotations

from mmap import mmap
from typing import Final

import numpy as np
import numpy.typing as npt

from warren.storage.format.checksum import crc32c
from warren.storage.format.layout import (
    INDEX2INDEX_ENTRY,
    INDEX_ENTRY,
    INDEX_SPACING,
    LABEL_INDEX,
    LABEL_INDEX2INDEX,
    META_DATA,
    META_HEAD,
    SIZE_WORD,
    IndexEntry,
    aligned,
)

ENTRY_FIELDS: Final = np.dtype(INDEX_ENTRY.format[:2])
"""Both fields of an entry are numbers of this kind."""


def entries_per_message(block_size: int) -> int:
    """How many entries an index message of a block has: few in a small block, 1,024 from 16 MiB on."""
    return max(8, min(1024, block_size >> 14))


def index_message_size(entry_count: int) -> int:
    return META_HEAD.size + entry_count * INDEX_ENTRY.size


def index2index_bytes(entry_count: int) -> bytes:
    """An empty index2index message."""
    size = META_HEAD.size + entry_count * INDEX2INDEX_ENTRY.size
    return META_HEAD.pack(META_DATA | size - SIZE_WORD.size, LABEL_INDEX2INDEX).ljust(size, b"\0")


class BlockIndex:
    """The entries of one block, read and written in the mapped file. One writer; any number of readers."""

    def __init__(self, view: mmap, index2index_at: int, entry_count: int, base_number: int) -> None:
        self._view, self._index2index_at = view, index2index_at
        self._entry_count, self._base_number = entry_count, base_number
        self._message_size = index_message_size(entry_count)
        self._group_at = self._laid = 0

    def entry(self, place: int) -> IndexEntry:
        """Entry number `place`; position 0 if there is none."""
        at = self._entry_at(place)
        return IndexEntry._make(INDEX_ENTRY.unpack_from(self._view, at)) if at else IndexEntry(0, 0)

    def entries(self, start: int, end: int) -> npt.NDArray[np.int64]:
        """Entries `start` up to `end`, or as many as there are, as rows of position and checksum: a copy."""
        parts = []
        while start < end and (at := self._entry_at(start)):
            # The entries of one index message lie side by side.
            part_end = min(end, (start // self._entry_count + 1) * self._entry_count)
            part = np.frombuffer(self._view, ENTRY_FIELDS, (part_end - start) * len(IndexEntry._fields), at)
            parts.append(part.astype(np.int64))
            start = part_end
        return np.concatenate(parts or [np.empty(0, np.int64)]).reshape(-1, len(IndexEntry._fields))

    def nearest(self, number: int, limit: int) -> int:
        """The position, below `limit`, that the last entry at or before `number` gives; 0 for none."""
        at = self._entry_at((number - self._base_number) // INDEX_SPACING)
        if not at:
            return 0
        position: int = INDEX_ENTRY.unpack_from(self._view, at)[0]
        return position if position < limit and not position & 7 else 0

    def _entry_at(self, place: int) -> int:
        """Where an entry lies; 0 if its index message is not laid, or cannot be where index2index says."""
        message, within = divmod(place, self._entry_count)
        if message >= self._entry_count:
            return 0
        at = self._index2index_at + META_HEAD.size + message * INDEX2INDEX_ENTRY.size
        index_at: int = INDEX2INDEX_ENTRY.unpack_from(self._view, at)[0]
        if not index_at or index_at & 7 or index_at + self._message_size > len(self._view):
            return 0
        if META_HEAD.unpack_from(self._view, index_at)[1] != LABEL_INDEX:
            return 0
        return index_at + META_HEAD.size + within * INDEX_ENTRY.size

    # --- What the holder of the writer lock uses ---

    def remap(self, view: mmap) -> None:
        """The block grew, and is mapped anew."""
        self._view = view

    def next_due(self, number: int) -> int:
        """The first number at or after `number` that gets an entry."""
        return number + (self._base_number - number) % INDEX_SPACING

    def start_writing(self) -> None:
        """Another process may have laid messages since: finds which exist, and takes no group for whole."""
        self._group_at = 0
        laid = 0
        while laid < self._entry_count and self._entry_at(laid * self._entry_count):
            laid += 1
        self._laid = laid

    @property
    def _covered_end(self) -> int:
        """The first number whose entry would need an index message that is not laid yet."""
        return self._base_number + self._laid * self._entry_count * INDEX_SPACING

    def size_needed(self, number: int, count: int) -> int:
        """How many bytes of index messages must be laid before the record of these messages."""
        return self._missing(number + count) * aligned(index_message_size(self._entry_count))

    def _missing(self, end_number: int) -> int:
        """How many index messages the entries below `end_number` still lack."""
        beyond = end_number - self._covered_end
        if beyond <= 0:
            return 0
        needed = -(-beyond // (self._entry_count * INDEX_SPACING))
        return min(needed, self._entry_count - self._laid)

    def lay(self, number: int, count: int, position: int) -> int:
        """Lay down the index messages that these messages need, at `position`; where the record then goes."""
        self._close_group(number, position)
        size = index_message_size(self._entry_count)
        for _ in range(self._missing(number + count)):
            head = META_HEAD.pack(META_DATA | size - SIZE_WORD.size, LABEL_INDEX)
            self._view[position : position + size] = head.ljust(size, b"\0")
            at = self._index2index_at + META_HEAD.size + self._laid * INDEX2INDEX_ENTRY.size
            self._view[at : at + INDEX2INDEX_ENTRY.size] = INDEX2INDEX_ENTRY.pack(position)
            self._laid += 1
            position += aligned(size)
        return position

    def note(self, number: int, count: int, position: int) -> int:
        """Enter the record at `position` for each 64th message in it. The next number that needs an entry."""
        due = self.next_due(number)
        place = (due - self._base_number) // INDEX_SPACING
        place_end = (number + count - 1 - self._base_number) // INDEX_SPACING + 1
        self._group_at = position if count == 1 and due == number else 0
        while place < place_end:
            # The entries of one index message lie side by side.
            end = min(place_end, (place // self._entry_count + 1) * self._entry_count)
            at = self._entry_at(place)
            if at:
                entries = INDEX_ENTRY.pack(position, 0) * (end - place)
                self._view[at : at + len(entries)] = entries
            place = end
        return self._base_number + place_end * INDEX_SPACING

    def adopt(self, position: int) -> None:
        """An index message was found at `position`, behind all that index2index knows before it: enter it there."""
        for message in range(self._entry_count):
            at = self._index2index_at + META_HEAD.size + message * INDEX2INDEX_ENTRY.size
            (known,) = INDEX2INDEX_ENTRY.unpack_from(self._view, at)
            if not 0 < known < position:
                self._view[at : at + INDEX2INDEX_ENTRY.size] = INDEX2INDEX_ENTRY.pack(position)
                return

    def forget_group(self) -> None:
        """Something other than single records came between: the group gets no checksum."""
        self._group_at = 0

    def _close_group(self, number: int, end: int) -> None:
        """Sixty-four single records stand behind the last entry: keep one checksum for all of them."""
        group_at, self._group_at = self._group_at, 0
        at = self._entry_at((number - self._base_number) // INDEX_SPACING - 1) if group_at else 0
        if at and INDEX_ENTRY.unpack_from(self._view, at)[0] == group_at:
            entry = INDEX_ENTRY.pack(group_at, crc32c(self._view[group_at:end]))
            self._view[at : at + INDEX_ENTRY.size] = entry
