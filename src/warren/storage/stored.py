"""Records as whoever sends them on wants them: a Kafka batch as it lies, and of all others which messages they hold."""

from __future__ import annotations

from typing import NamedTuple

from warren.errors import CorruptRecord, UnsupportedByVersion
from warren.storage.block import Block
from warren.storage.checksum import crc32c
from warren.storage.layout import (
    CODEC_KAFKA,
    KAFKA_BATCH_HEAD,
    NO_KEY,
    PAYLOAD_AT,
    RECORD_HEAD,
    SIZE_WORD,
    RecordHead,
    aligned,
)
from warren.storage.record import Damage, read_stamp
from warren.storage.view import LogView


class Stored(NamedTuple):
    """Messages that lie one behind the other: those of one Kafka batch, or of records that hold none.

    `batch` is the Kafka batch as it lies in the mapped file, checked; None where the messages have to be read instead.
    `size` is how many bytes of the log they take.
    """

    number: int
    message_count: int
    size: int
    batch: memoryview | None


def read_stored(view: LogView, version: int, number: int, bytes_max: int) -> list[Stored]:
    """What holds the messages from `number` on, of about `bytes_max` bytes in all, at least one record.

    The first may hold messages before `number`. What lies behind damage is not given; CorruptRecord where that is what
    comes first. Past the published end there is nothing; what came before the first
    block is NumberRetired.
    """
    if version == 1:
        raise UnsupportedByVersion("reading records as they are stored", 1)
    end = view.end
    found: list[Stored] = []
    try:
        while number < end and bytes_max > 0:
            block, limit, end_number = view.locate(number, end)
            filling = _Filling(block, limit, view.synced, found)
            number, bytes_max = filling.take(number, min(end, end_number), bytes_max)
    except CorruptRecord:
        # What comes before the damage is whole, and may be all that is wanted.
        if not found:
            raise
    return found


class _Filling:
    """Takes records of one block."""

    def __init__(self, block: Block, limit: int, synced: int, found: list[Stored]) -> None:
        self._block, self._limit, self._synced, self._found = block, limit, synced, found
        self._bytes = memoryview(block.view)

    def take(self, number: int, end: int, bytes_max: int) -> tuple[int, int]:
        """Take records from the one that holds `number` on; the number to go on from, and how many bytes are left."""
        block, limit, first = self._block, self._limit, number
        position = block.find(number, limit)
        while number < end:
            position = block.next_record(position, limit)
            head, size = self._head(position)
            if head.number != number and not (head.number < number == first < head.number + head.message_count):
                raise block.corrupt(Damage(position, f"message {head.number} where {number} should be"))
            # One that alone is too much is taken where it is the first.
            if self._found and size > bytes_max:
                return number, 0
            self._add(head, position, size)
            number, position, bytes_max = head.number + head.message_count, position + aligned(size), bytes_max - size
        return number, bytes_max

    def _head(self, position: int) -> tuple[RecordHead, int]:
        """The head of the record that stands at `position` and fits there, its stamp checked; and its size."""
        try:
            read_stamp(self._block.view, position, self._block.base_offset)
        except Damage as damage:
            raise self._block.corrupt(damage) from damage
        head: RecordHead = tuple.__new__(RecordHead, RECORD_HEAD.unpack_from(self._bytes, position))
        if not head.message_count:
            raise self._block.corrupt(Damage(position, "a record without messages"))
        return head, SIZE_WORD.size + head.size_word

    def _add(self, head: RecordHead, position: int, size: int) -> None:
        if head.codec == CODEC_KAFKA:
            batch = self._batch(head, position, position + size)
            self._found.append(Stored(head.number, head.message_count, size, batch))
        elif self._found and self._found[-1].batch is None:
            # Whoever reads these messages checks the rest of their records.
            number, count, size_before, _ = self._found[-1]
            self._found[-1] = Stored(number, count + head.message_count, size_before + size, None)
        else:
            self._found.append(Stored(head.number, head.message_count, size, None))

    def _batch(self, head: RecordHead, position: int, end: int) -> memoryview:
        block = self._block
        if not block.is_verified(position, head.checksum):
            if crc32c(self._bytes[position + PAYLOAD_AT : end]) != head.checksum:
                raise block.corrupt(Damage(position, "the payload does not match its checksum"))
            if head.number + head.message_count <= self._synced:
                block.remember_verified(position, head.checksum)
        batch = self._bytes[position + RECORD_HEAD.size + head.headers_size : end]
        is_plain = head.key_size == NO_KEY and not (head.id_size or head.tag_size or head.compression)
        if len(batch) < KAFKA_BATCH_HEAD.size or not is_plain:
            raise block.corrupt(Damage(position, "no head of a Kafka batch"))
        return batch
