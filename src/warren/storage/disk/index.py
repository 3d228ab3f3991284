"""Index: the mapped table of a log's blocks, with the published end. All fields but flag and
extension can be rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from warren.clock import Clock
from warren.errors import BadInput, CorruptRecord, NotALog, SyncFailed, TooLarge, UnknownVersion
from warren.storage.disk.filesystem import File
from warren.storage.disk.notify import Bell
from warren.storage.format import layout
from warren.storage.format.checksum import crc32c
from warren.storage.format.layout import (
    BLOCK_RANGE_AT,
    BOOT_ID_AT,
    BOOT_ID_SIZE,
    FLAG_AT,
    INDEX_HEADER_SIZE,
    INDEX_STATE_AT,
    MESSAGE_COUNT_LOW_AT,
    NATIVE_WORD,
    SLOT_WORD_END_OFFSET,
    SLOT_WORD_UPDATED,
    STATE_CLEAN,
    STATE_FAILED,
    STATE_OPEN,
    STATE_REPLACED,
    VISIBLE_AT,
    WORD_CHECKSUM,
    WORD_MESSAGE_COUNT,
    WORD_RECOVERED,
    WORD_STATE,
    WORD_SYNCED,
    WORD_VISIBLE,
    WORD_WAITING,
    WORD_WRITING,
    Slot,
    SlotV1,
)
from warren.storage.format.record import text_bytes

SNAPSHOT_TRIES_MAX: Final = 1000
FIRST_KEY: Final = "warren.first"
"""The extension key for the number of the first message that is not deleted. Its value contains its own checksum."""


def _swapped(value: int) -> int:
    """Returns `value` with its bytes in reverse order."""
    return int.from_bytes(value.to_bytes(8, "big"), "little")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFields:
    """The positions of the fields in the index of one version. Times are ms in a version 1 index, and µs in memory."""

    slot: Struct
    block_range: Struct
    flag: Struct
    message_count_at: int
    extension_at: int
    us_per_tick: int


FIELDS: Final[Mapping[int, IndexFields]] = {
    1: IndexFields(
        slot=layout.SLOT_V1,
        block_range=layout.BLOCK_RANGE_V1,
        flag=layout.FLAG_V1,
        message_count_at=layout.MESSAGE_COUNT_AT_V1,
        extension_at=layout.INDEX_HEADER_V1.size,
        us_per_tick=1000,
    ),
    2: IndexFields(
        slot=layout.SLOT,
        block_range=layout.BLOCK_RANGE,
        flag=layout.FLAG,
        message_count_at=layout.MESSAGE_COUNT_AT,
        extension_at=layout.INDEX_HEADER.size,
        us_per_tick=1,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The live blocks at one moment: the number of the first, and a slot for each."""

    start: int
    slots: Sequence[Slot]


class Index:
    """The live blocks of a log, and how many messages it holds. One writer; any number of readers.

    Invariant: every message below `message_count` is in the blocks. That field is the published end. It changes by one
    aligned store, after all bytes that it covers, and readers trust nothing else.
    """

    def __init__(self, file: File, *, writable: bool) -> None:
        size = file.size()
        if size < INDEX_HEADER_SIZE:
            raise NotALog(file.path, f"an index has at least {INDEX_HEADER_SIZE} bytes, but this one has {size}")
        self.path, self._file, self._writable = file.path, file, writable
        self._map = file.map(size, writable=writable)
        self.version = _version(file.path, bytes(self._map[:4]))
        self._fields = FIELDS[self.version]
        self._size = size - size % 8
        self.words = memoryview(self._map)[: self._size].cast("Q")
        self.max_block_count = (size - INDEX_HEADER_SIZE) // self._fields.slot.size
        if self.version == 2:
            header = layout.IndexHeader._make(layout.INDEX_HEADER.unpack_from(self._map))
            if not 0 < header.max_block_count <= self.max_block_count:
                raise CorruptRecord(file.path, 20, f"{header.max_block_count} slots in a file of {size} bytes")
            self.max_block_count = header.max_block_count
        self._has_visible = self._extension_end() <= VISIBLE_AT
        """Whether the word `visible` is one: an earlier release may have stored an extension over it."""
        self.shows_all = False
        """Whether readers through this object see up to the published end, regardless of `visible`."""

    # --- What readers use ---

    @property
    def message_count(self) -> int:
        """The published end: how many messages were ever appended."""
        if self.version == 2:
            return self.words[WORD_MESSAGE_COUNT]
        return _swapped(NATIVE_WORD.unpack_from(self._map, self._fields.message_count_at)[0])

    @property
    def visible(self) -> int | None:
        """The end up to which readers may see the log, if that is not the published end."""
        word = self.words[WORD_VISIBLE]
        return word - 1 if word and self._has_visible else None

    @visible.setter
    def visible(self, end: int | None) -> None:
        assert self._has_visible, "the extension was rewritten when the log was made a replica"
        self.words[WORD_VISIBLE] = 0 if end is None else end + 1

    @property
    def readable_end(self) -> int:
        """The end that readers see: the published end, or `visible` on a replica that does not lead."""
        words = self.words
        if not words[WORD_VISIBLE] and self.version == 2:
            # The common case, without further calls.
            return words[WORD_MESSAGE_COUNT]
        if not self.is_bounded:
            return self.message_count
        # A replica that gets a log from its middle on does not know an end yet: what is retired was committed.
        start, count = self.block_range()
        first = max(self.slot(start).base_number if count else 0, self.first_kept)
        return min(self.message_count, max(words[WORD_VISIBLE] - 1, first))

    @property
    def is_bounded(self) -> bool:
        """Whether readers may see less than what is published."""
        return self.words[WORD_VISIBLE] != 0 and not self.shows_all and self._has_visible

    def block_range(self) -> tuple[int, int]:
        """Returns the number of the first live block, and how many there are."""
        count, start = self._fields.block_range.unpack_from(self._map, BLOCK_RANGE_AT)
        return start, count

    def blocks(self) -> Blocks:
        """Returns the live blocks as they were at one moment."""
        for _ in range(SNAPSHOT_TRIES_MAX):
            start, count = self.block_range()
            if count <= self.max_block_count:
                slots = [self.slot(number) for number in range(start, start + count)]
                if self.block_range() == (start, count):
                    return Blocks(start=start, slots=slots)
        raise CorruptRecord(self.path, BLOCK_RANGE_AT, "the range of blocks keeps changing or is not valid")

    def slot(self, block_number: int) -> Slot:
        """Returns the slot of a block. The index of version 1 stores no message numbers: they are 0 here."""
        values = self._fields.slot.unpack_from(self._map, self.slot_position(block_number))
        if self.version == 2:
            return Slot._make(values)
        old, us = SlotV1._make(values), self._fields.us_per_tick
        return Slot(old.base_offset, old.end_offset, old.created * us, old.updated * us, 0, 0, 0, 0)

    def end_offset(self, block_number: int) -> int:
        """Returns the offset at which the records of a block end."""
        offset = self.words[self.slot_position(block_number) // 8 + SLOT_WORD_END_OFFSET]
        return offset if self.version == 2 else _swapped(offset)

    def slot_position(self, block_number: int) -> int:
        """Returns the position of a block's slot. Block numbers wrap around the slots."""
        return INDEX_HEADER_SIZE + block_number % self.max_block_count * self._fields.slot.size

    @property
    def flag(self) -> int:
        value: int = self._fields.flag.unpack_from(self._map, FLAG_AT)[0]
        return value

    def extension(self) -> dict[str, str]:
        """Returns the key-value pairs, without those that do not parse."""
        return {
            self._map[key_at:value_at].decode(errors="replace"): self._map[value_at:end].decode(errors="replace")
            for key_at, value_at, end in self._extension_places()
        }

    def _extension_places(self) -> Iterator[tuple[int, int, int]]:
        """Yields where each key and its value begin, and where the value ends."""
        position = self._fields.extension_at
        while position + layout.EXTENSION_SIZES.size < INDEX_STATE_AT:
            key_size, value_size = layout.EXTENSION_SIZES.unpack_from(self._map, position)
            position += layout.EXTENSION_SIZES.size
            value_at, end = position + key_size, position + key_size + value_size
            if not key_size or end > INDEX_STATE_AT:
                break
            yield position, value_at, end
            position = end

    def _extension_end(self) -> int:
        return max((end for _, _, end in self._extension_places()), default=self._fields.extension_at)

    @property
    def first_kept(self) -> int:
        """The number below which messages are deleted, even if their block still exists; 0 if none are."""
        value = self.extension().get(FIRST_KEY, "")
        number = value.partition(" ")[0]
        return int(number) if number.isdecimal() and value == _first_value(int(number)) else 0

    # --- How the log was left ---

    @property
    def state(self) -> int:
        return self.words[WORD_STATE]

    @state.setter
    def state(self, value: int) -> None:
        self.words[WORD_STATE] = value

    @property
    def synced(self) -> int:
        """The number below which every message is on disk."""
        return self.words[WORD_SYNCED]

    @synced.setter
    def synced(self, number: int) -> None:
        self.words[WORD_SYNCED] = number

    @property
    def writing(self) -> int:
        """The id of the process that is changing the log, or that died during a change; 0 if there is none."""
        return self.words[WORD_WRITING]

    @writing.setter
    def writing(self, pid: int) -> None:
        self.words[WORD_WRITING] = pid

    @property
    def waiting(self) -> int:
        """The time in µs until which a reader waits to be woken."""
        return self.words[WORD_WAITING]

    @waiting.setter
    def waiting(self, until_us: int) -> None:
        self.words[WORD_WAITING] = until_us

    @property
    def boot_id(self) -> bytes:
        return bytes(self._map[BOOT_ID_AT : BOOT_ID_AT + BOOT_ID_SIZE])

    @property
    def recovered_us(self) -> int:
        """The time in µs of the last recovery during which no other process vouched; 0 if there was none."""
        return self.words[WORD_RECOVERED]

    def vouch(self) -> None:
        """Marks the index, as long as this opening lasts: the log was undamaged and has been open since."""
        self._file.vouch()

    def is_vouched(self) -> bool | None:
        """Returns whether another opening, in any process, has marked the index; None if the system cannot tell."""
        return self._file.is_vouched()

    def is_clean(self) -> bool:
        """Returns whether the log was closed properly and no byte of the index changed since."""
        return self.state == STATE_CLEAN and self.words[WORD_CHECKSUM] == self._checksum()

    def _checksum(self) -> int:
        head, slots = self._map[:INDEX_STATE_AT], self._map[INDEX_HEADER_SIZE : self._size]
        if self._has_visible:
            # It is stored while other processes read the log, and says nothing of what the log holds.
            head = head[:VISIBLE_AT] + bytes(INDEX_STATE_AT - VISIBLE_AT)
        return crc32c(head + NATIVE_WORD.pack(self.synced) + slots)

    # --- What the holder of the writer lock uses ---

    def publish(self, block_number: int, end_offset: int, updated: int, message_count: int) -> None:
        """Lets readers see everything below `message_count`.

        The caller has stored it, and synced it if it must be durable.
        """
        slot_word, updated = self.slot_position(block_number) // 8, updated // self._fields.us_per_tick
        if self.version == 1:
            end_offset, updated, message_count = map(_swapped, (end_offset, updated, message_count))
        self.words[slot_word + SLOT_WORD_END_OFFSET] = end_offset
        self.words[slot_word + SLOT_WORD_UPDATED] = updated
        at = self._fields.message_count_at
        # Not with `pack_into`, which clears the bytes first: another process would see an empty log.
        self._map[at : at + NATIVE_WORD.size] = NATIVE_WORD.pack(message_count)

    def put_slot(self, block_number: int, slot: Slot) -> None:
        position = self.slot_position(block_number)
        self._map[position : position + self._fields.slot.size] = _slot_bytes(self._fields, slot)

    def put_block_range(self, start: int, count: int) -> None:
        end = BLOCK_RANGE_AT + self._fields.block_range.size
        self._map[BLOCK_RANGE_AT:end] = self._fields.block_range.pack(count, start)

    def put_flag(self, value: int) -> None:
        self._map[FLAG_AT : FLAG_AT + self._fields.flag.size] = self._fields.flag.pack(value)

    def open_for(self, boot_id: bytes, state: int) -> None:
        """Stores the state durably, because the next process to open the log must see it before the first append."""
        if state == STATE_CLEAN:
            # The rest of the index is synced before the word that vouches for it, so that a power cut cannot separate
            # them.
            self.sync()
        before = self.state, self.words[WORD_CHECKSUM]
        self._map[BOOT_ID_AT : BOOT_ID_AT + BOOT_ID_SIZE] = boot_id
        self.state, self.words[WORD_CHECKSUM] = state, self._checksum() if state == STATE_CLEAN else 0
        try:
            self.sync()
        except SyncFailed:
            # After the failure the system considers the page clean: only another store makes it write the page again.
            self.state, self.words[WORD_CHECKSUM] = before
            raise

    def is_credible(self) -> bool:
        """Returns whether the index can be trusted: an index that was closed must match its checksum."""
        return self.is_clean() or self.state in (STATE_OPEN, STATE_REPLACED, STATE_FAILED)

    def sync(self) -> None:
        self._file.sync()

    def bell(self, clock: Clock) -> Bell:
        """Returns the bell that readers sleep on while they wait for messages."""
        return Bell(self._map, MESSAGE_COUNT_LOW_AT, clock, writable=self._writable)


def _version(path: str, head: bytes) -> int:
    """Returns the version of an index. Version 1 stores it big-endian, version 2 little-endian."""
    if head == (1).to_bytes(4, "big"):
        return 1
    version = int.from_bytes(head, "little")
    if version != 2:
        raise UnknownVersion(path, version)
    return version


def _slot_bytes(fields: IndexFields, slot: Slot) -> bytes:
    if fields.slot is layout.SLOT:
        return fields.slot.pack(*slot)
    us = fields.us_per_tick
    return fields.slot.pack(slot.base_offset, slot.end_offset, slot.created // us, slot.updated // us)


def with_first(pairs: Mapping[str, str], number: int) -> dict[str, str]:
    """Returns the pairs with the one that marks messages below `number` as deleted; without it for 0."""
    others = {key: value for key, value in pairs.items() if key != FIRST_KEY}
    return {**others, FIRST_KEY: _first_value(number)} if number else others


def _first_value(number: int) -> str:
    return f"{number} {crc32c(str(number).encode()):08x}"


def extension_bytes(extension: Mapping[str, str], version: int, end: int = VISIBLE_AT) -> bytes:
    """Returns the pairs as they follow the header. Raises TooLarge if they do not fit there, up to `end`."""
    parts: list[bytes] = []
    for key, value in extension.items():
        key_data = text_bytes("extension key", key, 255)
        value_data = text_bytes(f"extension value of {key!r}", value, INDEX_STATE_AT)
        if not key_data:
            raise BadInput("an extension key needs at least one byte")
        parts += (layout.EXTENSION_SIZES.pack(len(key_data), len(value_data)), key_data, value_data)
    data = b"".join(parts)
    size_max = end - FIELDS[version].extension_at
    if len(data) > size_max:
        raise TooLarge("the extension", len(data), size_max)
    return data


def index_bytes(
    *,
    version: int,
    max_block_count: int,
    blocks: Blocks,
    message_count: int,
    flag: int = 0,
    extension: Mapping[str, str],
    synced: int,
    boot_id: bytes,
    state: int,
    writing: int = 0,
    recovered_us: int = 0,
    visible: int | None = None,
) -> bytes:
    """Returns the bytes of a whole index file."""
    fields = FIELDS[version]
    count = len(blocks.slots)
    if version == 2:
        head = layout.INDEX_HEADER.pack(2, count, blocks.start, flag, max_block_count, message_count)
    else:
        head = layout.INDEX_HEADER_V1.pack(1, count, blocks.start, flag, message_count)
    # Up to the state: an earlier release may have stored an extension that leaves no room for `visible`.
    head = (head + extension_bytes(extension, version, INDEX_STATE_AT)).ljust(INDEX_STATE_AT, b"\0")
    table = bytearray(max_block_count * fields.slot.size)
    for number, slot in enumerate(blocks.slots, blocks.start):
        position = number % max_block_count * fields.slot.size
        table[position : position + fields.slot.size] = _slot_bytes(fields, slot)
    checksum = crc32c(head + NATIVE_WORD.pack(synced) + bytes(table)) if state == STATE_CLEAN else 0
    if visible is not None:
        head = head[:VISIBLE_AT] + NATIVE_WORD.pack(visible + 1)
    return head + layout.INDEX_STATE.pack(state, checksum, synced, writing, 0, boot_id, recovered_us) + bytes(table)


def slots_by_base(index: Index | None) -> dict[int, tuple[int, Slot]]:
    """Returns block number and slot by base offset, as far as the old index can be trusted.

    Stops at the first base offset that does not increase, because a power cut may keep the block count and lose the
    last slot.
    """
    if index is None:
        return {}
    try:
        blocks = index.blocks()
    except CorruptRecord:
        return {}
    slots: dict[int, tuple[int, Slot]] = {}
    last_base = -1
    for number, slot in enumerate(blocks.slots, blocks.start):
        if slot.base_offset <= last_base:
            break
        slots[slot.base_offset], last_base = (number, slot), slot.base_offset
    return slots
