"""The index2index and index messages of a version 2 block: they lead to any message in two page reads.

    header | index2index: i0 i1 i2 … | index message 0: e0 e1 e2 … | records … | index message 1 | records …
                          |  +---------------------------------------------------^
                          +------------^

Entry k of a block stands for the message `base_number + 64 k` and holds the position of the record with that message.
Entries are hints: a reader that follows one checks that the record there has the expected number.
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
"""The type of both fields of an entry."""


def entries_per_message(block_size: int) -> int:
    """Returns how many entries an index message has: at least 8, and 1,024 in blocks of 16 MiB or more."""
    return max(8, min(1024, block_size >> 14))


def index_message_size(entry_count: int) -> int:
    return META_HEAD.size + entry_count * INDEX_ENTRY.size


def index2index_bytes(entry_count: int) -> bytes:
    """Returns an empty index2index message."""
    size = META_HEAD.size + entry_count * INDEX2INDEX_ENTRY.size
    return META_HEAD.pack(META_DATA | size - SIZE_WORD.size, LABEL_INDEX2INDEX).ljust(size, b"\0")


class BlockIndex:
    """Reads and writes the index entries of one block in its mapped file. One writer; any number of readers."""

    def __init__(self, view: mmap, index2index_at: int, entry_count: int, base_number: int) -> None:
        self._view, self._index2index_at = view, index2index_at
        self._entry_count, self._base_number = entry_count, base_number
        self.message_size = index_message_size(entry_count)
        self._group_at = self._laid = 0

    def entry(self, place: int) -> IndexEntry:
        """Returns entry number `place`. Its position is 0 if the entry does not exist."""
        at = self._entry_at(place)
        return IndexEntry._make(INDEX_ENTRY.unpack_from(self._view, at)) if at else IndexEntry(0, 0)

    def entries(self, start: int, end: int) -> npt.NDArray[np.int64]:
        """Returns a copy of entries `start` up to `end`, or as many as exist, as rows of position and checksum."""
        parts = []
        while start < end and (at := self._entry_at(start)):
            # The entries of one index message are contiguous.
            part_end = min(end, (start // self._entry_count + 1) * self._entry_count)
            part = np.frombuffer(self._view, ENTRY_FIELDS, (part_end - start) * len(IndexEntry._fields), at)
            parts.append(part.astype(np.int64))
            start = part_end
        return np.concatenate(parts or [np.empty(0, np.int64)]).reshape(-1, len(IndexEntry._fields))

    def nearest(self, number: int, limit: int) -> int:
        """Returns the position in the last entry at or before `number`, or 0 if there is none below `limit`."""
        at = self._entry_at((number - self._base_number) // INDEX_SPACING)
        if not at:
            return 0
        position: int = INDEX_ENTRY.unpack_from(self._view, at)[0]
        return position if position < limit and not position & 7 else 0

    def _entry_at(self, place: int) -> int:
        """Returns the position of an entry, or 0 if its index message does not exist or index2index is damaged."""
        message, within = divmod(place, self._entry_count)
        if message >= self._entry_count:
            return 0
        at = self._index2index_at + META_HEAD.size + message * INDEX2INDEX_ENTRY.size
        index_at: int = INDEX2INDEX_ENTRY.unpack_from(self._view, at)[0]
        if not index_at or index_at & 7 or index_at + self.message_size > len(self._view):
            return 0
        if META_HEAD.unpack_from(self._view, index_at)[1] != LABEL_INDEX:
            return 0
        return index_at + META_HEAD.size + within * INDEX_ENTRY.size

    # --- What the holder of the writer lock uses ---

    def remap(self, view: mmap) -> None:
        """Uses a new map of the block, which has grown."""
        self._view = view

    def next_due(self, number: int) -> int:
        """Returns the first number at or after `number` that gets an entry."""
        return number + (self._base_number - number) % INDEX_SPACING

    def start_writing(self) -> None:
        """Counts the index messages that exist, because another process may have added some.

        Forgets the current group.
        """
        self._group_at = 0
        laid = 0
        while laid < self._entry_count and self._entry_at(laid * self._entry_count):
            laid += 1
        self._laid = laid

    @property
    def _covered_end(self) -> int:
        """The first number whose entry needs an index message that does not exist yet."""
        return self._base_number + self._laid * self._entry_count * INDEX_SPACING

    def size_needed(self, number: int, count: int) -> int:
        """Returns the size of the index messages that must be written before a record of these messages."""
        return self._missing(number + count) * aligned(index_message_size(self._entry_count))

    def _missing(self, end_number: int) -> int:
        """Returns how many more index messages the entries below `end_number` need."""
        beyond = end_number - self._covered_end
        if beyond <= 0:
            return 0
        needed = -(-beyond // (self._entry_count * INDEX_SPACING))
        return min(needed, self._entry_count - self._laid)

    def lay(self, number: int, count: int, position: int) -> int:
        """Writes the index messages that these messages need, at `position`.

        Returns the position of the record after them.
        """
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
        """Writes an entry for each 64th message in the record at `position`.

        Returns the next number that needs an entry.
        """
        due = self.next_due(number)
        place = (due - self._base_number) // INDEX_SPACING
        place_end = (number + count - 1 - self._base_number) // INDEX_SPACING + 1
        self._group_at = position if count == 1 and due == number else 0
        while place < place_end:
            # The entries of one index message are contiguous.
            end = min(place_end, (place // self._entry_count + 1) * self._entry_count)
            at = self._entry_at(place)
            if at:
                entries = INDEX_ENTRY.pack(position, 0) * (end - place)
                self._view[at : at + len(entries)] = entries
            place = end
        return self._base_number + place_end * INDEX_SPACING

    def adopt(self, position: int) -> None:
        """Enters the index message that a recovery found at `position` into index2index."""
        for message in range(self._entry_count):
            at = self._index2index_at + META_HEAD.size + message * INDEX2INDEX_ENTRY.size
            (entry,) = INDEX2INDEX_ENTRY.unpack_from(self._view, at)
            if not 0 < entry < position:
                self._view[at : at + INDEX2INDEX_ENTRY.size] = INDEX2INDEX_ENTRY.pack(position)
                return

    def forget_group(self) -> None:
        """Ends the group without a checksum, because it contains a record of several messages."""
        self._group_at = 0

    def _close_group(self, number: int, end: int) -> None:
        """Stores one checksum for the 64 single records after the last entry, if no other record came between them."""
        group_at, self._group_at = self._group_at, 0
        at = self._entry_at((number - self._base_number) // INDEX_SPACING - 1) if group_at else 0
        if at and INDEX_ENTRY.unpack_from(self._view, at)[0] == group_at:
            entry = INDEX_ENTRY.pack(group_at, crc32c(self._view[group_at:end]))
            self._view[at : at + INDEX_ENTRY.size] = entry
