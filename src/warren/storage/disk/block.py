"""Block: one file of records, and the search for a message in it."""

from __future__ import annotations

import mmap as mmap_module
import re
from contextlib import suppress
from mmap import mmap
from typing import Final, NamedTuple

from warren.errors import CorruptRecord
from warren.storage.disk.block_index import BlockIndex, entries_per_message, index2index_bytes, index_message_size
from warren.storage.disk.filesystem import File
from warren.storage.format.checksum import crc32c
from warren.storage.format.layout import (
    ALIGNMENT,
    END_OF_BLOCK,
    INDEX_SPACING,
    META_DATA,
    RECORD_HEAD,
    SIZE_MASK,
    SIZE_WORD,
    STEP,
    RecordHead,
    aligned,
)
from warren.storage.format.record import Damage, DiskMessage, Packed, read_head, read_packed
from warren.storage.format.versions import Format

HEADER_SIZE_MAX = 1024
FETCH_SIZE: Final = 1 << 20
"""Records are prefetched in pieces of this size, because some systems fetch only the start of a larger one."""
MAP_TRIES_MAX: Final = 100
"""A block is truncated once or twice in its life. If this many attempts to map it fail, the cause is something else."""
VERIFIED_MAX: Final = 1024
"""How many records a block remembers as verified: enough for a full block of 64 KiB batches."""
_NOT_ZERO: Final = re.compile(rb"[^\0]")


class BlockHeader(NamedTuple):
    """The fields of the header message of a version 2 block, which is written in Text Wire."""

    format: int
    block: int
    base_offset: int
    base_number: int
    created: int
    index_spacing: int
    index_count: int

    def to_bytes(self) -> bytes:
        """Returns the header message, size word first, padded up to the start of the index2index message."""
        fields = ", ".join(f"{name}: {value}" for name, value in self._asdict().items())
        text = f"header: {{ {fields}, check: {crc32c(fields.encode()):08x} }}".encode()
        message = SIZE_WORD.pack(META_DATA | len(text)) + text
        return message.ljust(aligned(len(message)), b"\0")

    @classmethod
    def parse(cls, message: bytes) -> BlockHeader | None:
        """Returns the header in the first bytes of a block, or None if there is none that matches its checksum."""
        (word,) = SIZE_WORD.unpack_from(message)
        text = message[SIZE_WORD.size : SIZE_WORD.size + (word & SIZE_MASK)].decode(errors="replace")
        match = re.fullmatch(r"header: \{ (.*), check: ([0-9a-f]{8}) \}", text)
        if match is None or crc32c(match[1].encode()) != int(match[2], 16):
            return None
        pairs = dict(pair.split(": ") for pair in match[1].split(", "))
        return cls(**{name: int(pairs[name]) for name in cls._fields})


def first_bytes(header: BlockHeader) -> bytes:
    """Returns the first bytes of a version 2 block: its header, and an empty index2index message."""
    return header.to_bytes() + index2index_bytes(header.index_count)


def is_cut_short(start: bytes | mmap) -> bool:
    """Returns whether a crash interrupted the creation of the block.

    Then `start` is a prefix of `first_bytes`, and no byte follows. The head of the index2index message is written last,
    because bytes are stored in order. A block with a record always has that head.
    """
    (word,) = SIZE_WORD.unpack_from(start)
    header_end = aligned(SIZE_WORD.size + (word & SIZE_MASK))
    is_header = bool(word & META_DATA) and header_end <= HEADER_SIZE_MAX
    return is_header and _NOT_ZERO.search(start, header_end) is None


def block_header(number: int, base_offset: int, base_number: int, created: int, block_size: int) -> BlockHeader:
    count = entries_per_message(block_size)
    return BlockHeader(2, number, base_offset, base_number, created, INDEX_SPACING, count)


def record_size_max(format: Format, block_size: int) -> int:
    """Returns the size of the largest record that fits into an empty block."""
    if not format.has_meta_data:
        return block_size
    header = block_header(2**32, 2**63, 2**63, 2**63, block_size)
    return block_size - len(first_bytes(header)) - aligned(index_message_size(header.index_count)) - ALIGNMENT


class Block:
    """Records from `base_offset` up to an end that the index stores. One writer; any number of readers.

    Opening a block never changes it. Each method gets a `limit`, the position up to which records are published, and
    reads nothing past it.
    """

    def __init__(
        self, file: File, format: Format, number: int, base_offset: int, base_number: int, *, writable: bool
    ) -> None:
        self.path, self.number = file.path, number
        self.base_offset, self.base_number = base_offset, base_number
        self.file, self._format = file, format
        self.writable, self.mapped_size = writable, 0
        self.view: mmap
        self._size_words: memoryview
        self.index: BlockIndex | None = None
        self.start = 0
        self._positions: list[int] = []
        self._verified: dict[int, int] = {}
        self.unreadable: set[tuple[int, int, int]] = set()
        """Batches that readers skip, by position, number and timestamp, because another record may replace one."""

    @classmethod
    def open(
        cls, file: File, format: Format, number: int, base_offset: int, base_number: int, *, writable: bool
    ) -> Block:
        """Opens a block whose slot is known.

        If the header does not match its checksum, the block is read without its index.
        """
        block = cls(file, format, number, base_offset, base_number, writable=writable)
        block.map()
        if format.has_meta_data:
            block._open_header()
        else:
            # The index of version 1 keeps no numbers, so that of the first message is read from its record.
            with suppress(Damage):
                block.base_number = format.read_stamp(block.view, 0, base_offset)[0]
        return block

    def map(self) -> None:
        """Maps the file at its current length."""
        size, view = self._mapped()
        self.view = view
        self.mapped_size = size
        self._verified.clear()
        self._size_words = memoryview(self.view)[: size - size % SIZE_WORD.size].cast("I")
        if self.index is not None:
            self.index.remap(self.view)

    def _mapped(self) -> tuple[int, mmap]:
        """Returns the size of the file and a map of that many bytes."""
        for _ in range(MAP_TRIES_MAX):
            size = self.file.size()
            if not size:
                raise CorruptRecord(self.path, 0, "the block is empty")
            try:
                return size, self.file.map(size, writable=self.writable)
            except ValueError:
                # A writer in another process truncated the block in between, because it sealed the block or recovered
                # the log.
                continue
        raise CorruptRecord(self.path, 0, "the length of the block keeps changing")

    def _open_header(self) -> None:
        try:
            header_end, is_data = self._format.next_blob(self.view, 0, self.mapped_size)
            index_end, is_index_data = self._format.next_blob(self.view, header_end, self.mapped_size)
        except Damage as damage:
            raise self.corrupt(damage) from damage
        if is_data or is_index_data:
            raise CorruptRecord(self.path, 0, "the block has no header")
        self.start = index_end
        header = BlockHeader.parse(self.view[:header_end])
        index_size = 0 if header is None else len(index2index_bytes(header.index_count))
        if header is not None and header.base_offset == self.base_offset and index_end == header_end + index_size:
            self.index = BlockIndex(self.view, header_end, header.index_count, self.base_number)

    def let_pages_go(self) -> None:
        """Releases the memory behind the map. The next read loads the pages from the file again."""
        if hasattr(mmap_module, "MADV_DONTNEED"):
            self.view.madvise(mmap_module.MADV_DONTNEED)
        self._verified.clear()

    def will_need(self, start: int, end: int) -> None:
        """Prefetches the bytes from `start` up to `end`, and no others."""
        if hasattr(mmap_module, "MADV_WILLNEED"):
            for step in range(start - start % mmap_module.PAGESIZE, end, FETCH_SIZE):
                self.view.madvise(mmap_module.MADV_WILLNEED, step, min(FETCH_SIZE, end - step))

    def will_read(self, number: int, end: int, limit: int) -> None:
        """Prefetches the records of messages `number` to `end`.

        Does not raise on damage; the reader of the records does.
        """
        with suppress(CorruptRecord, Damage):
            last = self.find(end - 1, limit)
            self.will_need(self.find(number, limit), self._format.next_blob(self.view, last, limit)[0])

    @property
    def has_meta_data(self) -> bool:
        return self._format.has_meta_data

    def corrupt(self, damage: Damage) -> CorruptRecord:
        """Returns the damage as a CorruptRecord with the path of this block."""
        return CorruptRecord(self.path, damage.position, damage.reason)

    # --- Finding ---

    def find(self, number: int, limit: int) -> int:
        """Returns the position of the record that holds message `number`, which lies below `limit`."""
        try:
            position = self.guess(number, limit)
            if position and position + RECORD_HEAD.size <= limit and self._holds(position, number):
                return position
        except Damage:
            pass
        return self._scan_to(number, limit)

    def _step(self, position: int, number: int, limit: int) -> int:
        """Steps from record to record up to the one that should hold `number`.

        Returns its position, or 0 if there is none.

        Reads only size words, numbers and counts, and checks nothing:

            | size word | … | number | … | count | … payload | padding | size word | …
            ^ position                                                 ^ position + size, on an 8-byte boundary
        """
        view, unpack = self.view, STEP.unpack_from
        limit -= STEP.size
        if position > limit:
            return 0
        word, at, count = unpack(view, position)
        if count == 1:
            # Records of equal size are skipped together: if the same size word is found at each step, all of them have
            # that size.
            size = ((word & SIZE_MASK) + 11) & -8
            steps: int = number - at
            end: int = position + steps * size
            if steps >= 0 and end <= limit:
                words = self._size_words[position >> 2 : end >> 2 : size >> 2]
                if words.tolist().count(word) == steps and unpack(view, end)[1] == number:
                    return end
        while at + count <= number:
            at += count
            position = (position + (word & SIZE_MASK) + 11) & -8
            if position > limit:
                return 0
            word, _, count = unpack(view, position)
            while word & META_DATA:
                position = (position + (word & SIZE_MASK) + 11) & -8
                if position > limit:
                    return 0
                word, _, count = unpack(view, position)
        return position

    def guess(self, number: int, limit: int) -> int:
        """Returns where the record that holds `number` should be, or 0 if the index does not say.

        The caller checks it.
        """
        index = self.index
        hint = index.nearest(number, limit) if index is not None else 0
        return self._step(hint, number, limit) if hint else 0

    def _holds(self, position: int, number: int) -> bool:
        at, _, count = self._format.read_stamp(self.view, position, self.base_offset)
        return bool(at <= number < at + count)

    def _scan_to(self, number: int, limit: int) -> int:
        """Returns the same as `find`.

        If the index does not help, walks from the start of the block and checks each stamp.
        """
        position, expected = self.start, self.base_number
        if self._positions:
            entry = min((number - self.base_number) // INDEX_SPACING, len(self._positions) - 1)
            position, expected = self._positions[entry], self.base_number + entry * INDEX_SPACING
        try:
            while position < limit:
                end, is_data = self._format.next_blob(self.view, position, limit)
                if is_data:
                    at, _, count = self._format.read_stamp(self.view, position, self.base_offset)
                    if at != expected:
                        raise Damage(position, f"message {at} was found where {expected} was expected")
                    if at <= number < at + count:
                        return position
                    self._remember(at, position)
                    expected = at + count
                position = end
        except Damage as damage:
            raise self.corrupt(damage) from damage
        raise CorruptRecord(self.path, position, f"message {number} is missing in this block")

    def _remember(self, number: int, position: int) -> None:
        """Remembers every 64th position for the next search, because version 1 has no index messages."""
        if self.index is None and number - self.base_number == len(self._positions) * INDEX_SPACING:
            self._positions.append(position)

    def find_time(self, timestamp: int, limit: int, end_number: int) -> int:
        """Returns the number of the first message at or after `timestamp`, or `end_number` if all are earlier."""
        low, high = self.base_number, end_number
        while low < high:
            middle = (low + high) // 2
            # The count is not checked.
            number, at, count = self._stamp_at(self.find(middle, limit))
            if at < timestamp:
                low = number + count
            else:
                high = number
        first = min(low, end_number)
        for neighbour in (first - 1, first):
            if self.base_number <= neighbour < end_number:
                position = self.find(neighbour, limit)
                number, at, count = self._stamp_at(position)
                # The search used message counts, which no stamp covers. The number of the next record shows whether
                # they were right.
                is_right = self._number_behind(position, limit, end_number) == number + count
                if not is_right or (at < timestamp) != (neighbour < first):
                    raise self.corrupt(Damage(position, "a wrong count before this record misled the search by time"))
        return first

    def _number_behind(self, position: int, limit: int, end_number: int) -> int:
        """Returns the number of the first message after the record at `position`."""
        try:
            behind = self.next_record(self._format.next_blob(self.view, position, limit)[0], limit)
        except Damage as damage:
            raise self.corrupt(damage) from damage
        return end_number if behind >= limit else self._stamp_at(behind)[0]

    def _stamp_at(self, position: int) -> tuple[int, int, int]:
        """Returns first number, timestamp and count of the record at `position`."""
        try:
            return self._format.read_stamp(self.view, position, self.base_offset)
        except Damage as damage:
            raise self.corrupt(damage) from damage

    def end_after(self, number: int, limit: int) -> int:
        """Returns the position at which the record that holds message `number` ends. Looks at nothing behind it."""
        try:
            return self._format.next_blob(self.view, self.find(number, limit), limit)[0]
        except Damage as damage:
            raise self.corrupt(damage) from damage

    # --- Reading ---

    def is_verified(self, position: int, checksum: int) -> bool:
        """Returns whether this checksum of the record at `position` was verified since the block was mapped."""
        return self._verified.get(position) == checksum

    def remember_verified(self, position: int, checksum: int) -> None:
        """Remembers that the record matches its checksum. The record must be on disk, because then it does not change.

        If a recovery cuts the log and writes other records there, it also replaces the index, and readers open new
        blocks.
        """
        if len(self._verified) >= VERIFIED_MAX:
            with suppress(KeyError, StopIteration, RuntimeError):
                del self._verified[next(iter(self._verified))]
        self._verified[position] = checksum

    def read_head(self, position: int) -> RecordHead:
        """Returns the head of the record at `position`, its stamp checked. Not for version 1."""
        try:
            return read_head(self.view, position, self.base_offset)
        except Damage as damage:
            raise self.corrupt(damage) from damage

    def read(self, position: int, limit: int) -> DiskMessage:
        """Returns the record at `position`. Raises CorruptRecord if it does not match its checksums."""
        try:
            return self._format.read_record(self.view, position, limit, self.base_offset)
        except Damage as damage:
            raise self.corrupt(damage) from damage

    def read_packed(self, position: int, limit: int) -> tuple[Packed, int, int]:
        """Returns the checked record at `position` as it was packed, the number of its first message, and its end."""
        try:
            return read_packed(self.view, position, limit, self.base_offset)
        except Damage as damage:
            raise self.corrupt(damage) from damage

    def next_blob(self, position: int, limit: int) -> tuple[int, bool]:
        """Returns where the record or index message at `position` ends, and whether it is a record. Checks no more."""
        try:
            return self._format.next_blob(self.view, position, limit)
        except Damage as damage:
            raise self.corrupt(damage) from damage

    def next_record(self, position: int, limit: int) -> int:
        """Returns the position of the first record at or after `position`, or `limit` if there is none."""
        try:
            while position < limit:
                end, is_data = self._format.next_blob(self.view, position, limit)
                if is_data:
                    return position
                position = end
        except Damage as damage:
            raise self.corrupt(damage) from damage
        return limit


def end_of_block(format: Format) -> bytes:
    """Returns the bytes that follow the last record of a sealed block."""
    return SIZE_WORD.pack(END_OF_BLOCK).ljust(ALIGNMENT, b"\0") if format.has_meta_data else b""
