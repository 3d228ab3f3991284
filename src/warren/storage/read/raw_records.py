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
from warren.storage.format.record import Damage, Packed
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


class ChecksMore(Exception):
    """The checksums of more bytes have to be taken than the caller allows."""


class CheckRoom:
    """Of how many bytes a caller may still take checksums; None for no limit."""

    __slots__ = ("left",)

    def __init__(self, left: int | None) -> None:
        self.left = left

    def use(self, size: int) -> None:
        """Raises ChecksMore, before the checksum is taken, if `size` bytes are too many."""
        if self.left is not None:
            self.left -= size
            if self.left < 0:
                raise ChecksMore


def read_stored(view: LogView, number: int, bytes_max: int, checked_max: int | None = None) -> list[StoredRun]:
    """Returns the records that hold the messages from `number` on: about `bytes_max` bytes, and at least one record.

    The first record may hold messages before `number`. Returns nothing past the published end, and nothing behind
    damage. Raises CorruptRecord if the damage comes first, and NumberRetired if `number` is before the first message.
    Raises ChecksMore if more than `checked_max` bytes of batches were not checked before.
    """
    first, end = number, view.end
    stored: list[StoredRun] = []
    room = CheckRoom(checked_max)
    try:
        while number < end and bytes_max > 0:
            block, limit, end_number = view.locate(number, end)
            synced, end_here, position = view.synced, min(end, end_number), block.find(number, limit)
            while number < end_here:
                position = block.next_record(position, limit)
                head = block.read_head(position)
                size, count = SIZE_WORD.size + head.size_word, head.message_count
                if not count:
                    raise block.corrupt(Damage(position, "a record without messages"))
                if head.number != number and not head.number < number == first < head.number + count:
                    raise block.corrupt(Damage(position, f"message {head.number} where {number} should be"))
                # A record that is too large by itself is taken only if it is the first.
                if stored and size > bytes_max:
                    return stored
                if head.codec == CODEC_KAFKA:
                    batch = _kafka_batch(block, head, position, synced, room)
                    stored.append(StoredRun(head.number, count, size, batch))
                elif stored and stored[-1].batch is None:
                    # Only the stamps were checked here. The reader of these messages checks the rest of their records.
                    run = stored[-1]
                    stored[-1] = StoredRun(run.number, run.message_count + count, run.size + size, None)
                else:
                    stored.append(StoredRun(head.number, count, size, None))
                number, position, bytes_max = head.number + count, position + aligned(size), bytes_max - size
    except CorruptRecord:
        # The records before the damage are good, and may be all that the caller needs.
        if not stored:
            raise
    return stored


def _kafka_batch(block: Block, head: RecordHead, position: int, synced: int, room: CheckRoom) -> memoryview:
    """Returns a Kafka batch as it lies in the mapped block, checked. Messages below `synced` are on disk.

    | head        | marker       | Kafka batch head | Kafka records | padding | next record …
    ^ position    ^ RECORD_HEAD  ^ batch            (the payload ends here) ^ position + aligned(size)
                    headers_size
    """
    data, end = memoryview(block.view), position + SIZE_WORD.size + head.size_word
    if not block.is_verified(position, head.checksum):
        room.use(end - position)
        if crc32c(data[position + PAYLOAD_AT : end]) != head.checksum:
            raise block.corrupt(Damage(position, "the payload does not match its checksum"))
        if head.number + head.message_count <= synced:
            block.remember_verified(position, head.checksum)
    batch = data[position + RECORD_HEAD.size + head.headers_size : end]
    is_plain = head.key_size == NO_KEY and not (head.id_size or head.tag_size or head.compression)
    if len(batch) < KAFKA_BATCH_HEAD.size or not is_plain:
        raise block.corrupt(Damage(position, "no head of a Kafka batch"))
    return batch


def read_packed(view: LogView, start: int, end: int) -> Iterator[Packed]:
    """Yields the records of the messages from `start` up to `end` or the published end.

    Raises BadInput if a record also holds messages outside these numbers.
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
                raise block.corrupt(Damage(position, f"message {at} was found where {number} was expected"))
            if number + packed.message_count > end:
                raise BadInput(f"message {end} is in a record that starts with message {number}")
            yield packed
            number, position = number + packed.message_count, behind
