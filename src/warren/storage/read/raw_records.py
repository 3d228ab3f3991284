"""Reads records without unpacking them: Kafka batches to send on, and packed records to append to another log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from warren.errors import BadInput, CorruptRecord, NumberRetired
from warren.storage.disk.block import Block
from warren.storage.format.checksum import crc32c
from warren.storage.format.layout import (
    CODEC_KAFKA,
    KAFKA_BATCH_HEAD,
    NO_KEY,
    PAYLOAD_AT,
    RECORD_HEAD,
    SIZE_WORD,
    RecordHead,
    aligned,
)
from warren.storage.format.record import Damage, Packed, read_head
from warren.storage.read.log_view import LogView


class StoredRun(NamedTuple):
    """Consecutive messages: those of one Kafka batch, or of several records that are not Kafka batches.

    `batch` is the checked Kafka batch in the mapped file, or None if the caller has to read the messages. `size` is how
    many bytes of the log they take.
    """

    number: int
    message_count: int
    size: int
    batch: memoryview | None


def read_stored(view: LogView, number: int, bytes_max: int) -> list[StoredRun]:
    """Returns the records that hold the messages from `number` on: about `bytes_max` bytes, and at least one record.

    The first record may hold messages before `number`. Returns nothing past the published end, and nothing behind
    damage. Raises CorruptRecord if the damage comes first, and NumberRetired if `number` is before the first message.
    """
    end = view.end
    stored: list[StoredRun] = []
    try:
        while number < end and bytes_max > 0:
            block, limit, end_number = view.locate(number, end)
            filling = _Filling(block, limit, view.synced, stored)
            number, bytes_max = filling.take(number, min(end, end_number), bytes_max)
    except CorruptRecord:
        # The records before the damage are whole, and may be all that the caller wants.
        if not stored:
            raise
    return stored


class _Filling:
    """Collects the records of one block."""

    def __init__(self, block: Block, limit: int, synced: int, stored: list[StoredRun]) -> None:
        self._block, self._limit, self._synced, self._stored = block, limit, synced, stored
        self._bytes = memoryview(block.view)

    def take(self, number: int, end: int, bytes_max: int) -> tuple[int, int]:
        """Collects records from the one that holds `number` on.

        Returns the number to go on from, and how many bytes are left.

        A Kafka batch is returned as it lies in the mapped block:

            | head        | marker       | Kafka batch head | Kafka records | padding | next record …
            ^ position    ^ RECORD_HEAD  ^ batch            (the payload ends here) ^ position + aligned(size)
                            headers_size
        """
        block, limit, first = self._block, self._limit, number
        position = block.find(number, limit)
        while number < end:
            position = block.next_record(position, limit)
            head, size = self._head(position)
            if head.number != number and not (head.number < number == first < head.number + head.message_count):
                raise block.corrupt(Damage(position, f"message {head.number} where {number} should be"))
            # A record that is too large by itself is taken only if it is the first.
            if self._stored and size > bytes_max:
                return number, 0
            self._add(head, position, size)
            number, position, bytes_max = head.number + head.message_count, position + aligned(size), bytes_max - size
        return number, bytes_max

    def _head(self, position: int) -> tuple[RecordHead, int]:
        """Returns the head of the record at `position`, its stamp checked, and the size of the record."""
        try:
            head = read_head(self._block.view, position, self._block.base_offset)
        except Damage as damage:
            raise self._block.corrupt(damage) from damage
        if not head.message_count:
            raise self._block.corrupt(Damage(position, "a record without messages"))
        return head, SIZE_WORD.size + head.size_word

    def _add(self, head: RecordHead, position: int, size: int) -> None:
        if head.codec == CODEC_KAFKA:
            batch = self._batch(head, position, position + size)
            self._stored.append(StoredRun(head.number, head.message_count, size, batch))
        elif self._stored and self._stored[-1].batch is None:
            # Only the stamps were checked here. The reader of these messages checks the rest of their records.
            number, count, size_before, _ = self._stored[-1]
            self._stored[-1] = StoredRun(number, count + head.message_count, size_before + size, None)
        else:
            self._stored.append(StoredRun(head.number, head.message_count, size, None))

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


def read_packed(view: LogView, start: int, end: int) -> Iterator[Packed]:
    """Yields the records of the messages from `start` up to `end` or the published end.

    Raises BadInput if a record also holds messages outside of these numbers.
    """
    first, end = view.first, min(end, view.end)
    if start < first:
        raise NumberRetired(start, first)
    return _packed(view, start, end)


def _packed(view: LogView, number: int, end: int) -> Iterator[Packed]:
    start = number
    while number < end:
        block, limit, end_number = view.locate(number, end)
        end_here, position = min(end, end_number), block.find(number, limit)
        while number < end_here:
            position = block.next_record(position, limit)
            packed, at, behind = block.read_packed(position, limit)
            if number == start and at < number:
                raise BadInput(f"message {number} is in a record that starts with message {at}")
            if at != number:
                raise block.corrupt(Damage(position, f"message {at} where {number} should be"))
            if number + packed.message_count > end:
                raise BadInput(f"message {end} is in a record that starts with message {number}")
            yield packed
            number, position = number + packed.message_count, behind
