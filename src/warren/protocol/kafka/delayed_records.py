"""Finds the header `warren.deliver-at` in batches of Kafka clients, and separates the records that it delays."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from warren.clock import microseconds
from warren.errors import BadBatch, BadRecord
from warren.limits import DELAY_S_MAX
from warren.message import Message
from warren.protocol.kafka.byte_search import holds
from warren.protocol.kafka.record_batch import RecordBatch, begin_batch
from warren.storage.format import columns
from warren.storage.format.kafka_batch import UnpacksToMore, pack_kafka, records_of
from warren.storage.format.kafka_columns import columns_of
from warren.storage.format.layout import KAFKA_BATCH_HEAD, KAFKA_COMPRESSION, KAFKA_LENGTH_END
from warren.storage.format.limits import BATCH_SIZE_TARGET, RAW_SIZE_MAX
from warren.storage.format.record import Damage, read_unstored

DELIVER_AT: Final = "warren.deliver-at"
NAME: Final = DELIVER_AT.encode()
MILLISECONDS_DIGITS_MAX: Final = 15
VALUE_SHOWN_MAX: Final = 40
DELAYED_SIZE: Final = 400
"""The memory of a delayed record without its body. Measured: 362 bytes without key and headers."""
AT_ONCE_SIZE_MAX: Final = 8 << 10
AT_ONCE_UNPACKED_SIZE_MAX: Final = 256 << 10
"""The event loop searches a compressed batch itself if it is within these sizes, packed and unpacked.

A thread searches larger ones.
"""


class DelayedRecord(NamedTuple):
    """A delayed record, converted to a message, and the time at which it is due, in µs."""

    message: Message
    due_us: int


class Split(NamedTuple):
    """The delayed records of a batch, and batches of all other records in their order, if there are any."""

    delayed: list[DelayedRecord]
    rest: list[bytes]

    @property
    def size(self) -> int:
        """About how many bytes of memory the split takes."""
        delayed = sum(DELAYED_SIZE + len(each.message.body) for each in self.delayed)
        return delayed + sum(map(len, self.rest))


def may_be_delayed(batch: RecordBatch, *, sees_compressed: bool) -> bool:
    """Returns whether the batch contains the name of the header, or is too large to search here.

    Returns False for a compressed batch without `sees_compressed`, because it is not unpacked.
    """
    if not batch.head.attributes & KAFKA_COMPRESSION:
        return batch.is_named if batch.is_named is not None else holds(batch.data, NAME)
    if not sees_compressed:
        return False
    try:
        return len(batch.data) > AT_ONCE_SIZE_MAX or holds(_records(batch, AT_ONCE_UNPACKED_SIZE_MAX), NAME)
    except UnpacksToMore:
        return True


def _records(batch: RecordBatch, size_max: int) -> memoryview:
    try:
        return memoryview(records_of(batch.data, batch.head.record_count, size_max))
    except UnpacksToMore as error:
        if size_max < RAW_SIZE_MAX:
            raise
        raise BadBatch(str(error)) from error
    except ValueError as error:
        raise BadBatch(str(error)) from error


def split_delayed(batch: RecordBatch, now_us: int, size_max: int = RAW_SIZE_MAX) -> Split | None:
    """Separates the records that are due after `now_us`. Returns None if there are none.

    Raises BadRecord if the header of a record is not a time, BadBatch if the batch cannot be read, and UnpacksToMore if
    it unpacks to more than `size_max` bytes, if that is less than readers unpack. Takes memory for all records.
    """
    delayed: dict[int, DelayedRecord] = {}
    if batch.head.attributes & KAFKA_COMPRESSION and not holds(_records(batch, size_max), NAME):
        return None
    for row, message in enumerate(_messages(batch)):
        value = message.headers.get(DELIVER_AT)
        if value is not None:
            due_us = _due_us(row, value, now_us)
            headers = {name: each for name, each in message.headers.items() if name != DELIVER_AT}
            if due_us > now_us:
                delayed[row] = DelayedRecord(message._replace(headers=headers), due_us)
    return Split(list(delayed.values()), list(_rest(batch, delayed))) if delayed else None


def _messages(batch: RecordBatch) -> list[Message]:
    try:
        record = read_unstored(pack_kafka(batch.data))
        return columns.messages(record, columns_of(record), slice(None), topic="", partition=0)
    except Damage as damage:
        raise BadBatch(damage.reason) from damage


def _due_us(row: int, value: bytes, now_us: int) -> int:
    """Returns when a message is due. The header holds milliseconds since the epoch, or a time in ISO 8601."""
    text, due_us = value.decode("ascii", "replace").strip(), -1
    try:
        if text.isdecimal() and len(text) <= MILLISECONDS_DIGITS_MAX:
            due_us = int(text) * 1000
        else:
            when = datetime.fromisoformat(text)
            due_us = microseconds(when if when.tzinfo is not None else when.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        due_us = -1
    if not 0 <= due_us <= now_us + int(DELAY_S_MAX) * 1_000_000:
        excerpt = text if len(text) <= VALUE_SHOWN_MAX else f"{text[:VALUE_SHOWN_MAX]}…"
        expected = "milliseconds since 1970, or a time such as 2026-03-01T12:00Z, at most a century from now"
        raise BadRecord(row, f"the header {DELIVER_AT} is {excerpt!r}: expected {expected}")
    return due_us


def _rest(batch: RecordBatch, left_out: Collection[int]) -> Iterator[bytes]:
    """Yields batches of the other records. They have no producer, because its sequence numbers are stored elsewhere."""
    from aiokafka.record.default_records import DefaultRecordBatch

    builder, count = begin_batch(BATCH_SIZE_TARGET), 0
    try:
        for row, record in enumerate(DefaultRecordBatch(_plain(batch))):
            if row in left_out:
                continue
            fields = record.timestamp, record.key, record.value, record.headers
            if builder.append(count, *fields) is None:
                yield bytes(builder.build())
                builder, count = begin_batch(BATCH_SIZE_TARGET), 0
                builder.append(count, *fields)
            count += 1
    except UnicodeDecodeError as error:
        raise BadBatch(f"the name of a header is not text: {error}") from error
    if count:
        yield bytes(builder.build())


def _plain(batch: RecordBatch) -> bytes:
    """Returns the batch without its compression."""
    records = _records(batch, RAW_SIZE_MAX)
    attributes = batch.head.attributes & ~KAFKA_COMPRESSION
    size = KAFKA_BATCH_HEAD.size - KAFKA_LENGTH_END + len(records)
    return KAFKA_BATCH_HEAD.pack(*batch.head._replace(attributes=attributes, batch_length=size)) + bytes(records)
