"""The header `warren.deliver-at` of records that Kafka clients send: found in a batch, which is taken apart by it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from warren.clock import microseconds
from warren.config import BATCH_SIZE_TARGET, DELAY_S_MAX, RAW_SIZE_MAX
from warren.errors import BadBatch, BadRecord
from warren.message import Message
from warren.protocol.record_batch import NO_PRODUCER, Batch
from warren.protocol.searching import holds
from warren.storage import columns
from warren.storage.kafka_batch import UnpacksToMore, pack_kafka, records_of
from warren.storage.kafka_columns import columns_of
from warren.storage.layout import KAFKA_BATCH_HEAD, KAFKA_COMPRESSION, KAFKA_LENGTH_END, KAFKA_MAGIC
from warren.storage.record import Damage, read_record, record_size, stamp

DELIVER_AT: Final = "warren.deliver-at"
NAME: Final = DELIVER_AT.encode()
MILLISECONDS_DIGITS_MAX: Final = 15
VALUE_SHOWN_MAX: Final = 40
AT_ONCE_SIZE_MAX: Final = 8 << 10
AT_ONCE_UNPACKED_SIZE_MAX: Final = 256 << 10
"""A compressed batch of so many bytes, and so many when unpacked, is looked into while others wait: a moment."""


class Delayed(NamedTuple):
    """A record that is to be delivered later, as the message it will be, and when it is due, in µs."""

    message: Message
    due_us: int


class Split(NamedTuple):
    """A batch taken apart: what is delayed, and batches of all others, in their order; none where there are none."""

    delayed: list[Delayed]
    rest: list[bytes]

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        return sum(len(each.message.body) for each in self.delayed) + sum(map(len, self.rest))


def may_be_delayed(batch: Batch, *, sees_compressed: bool) -> bool:
    """Whether the name of the header stands in the batch; also where it would take long to find out.

    Without `sees_compressed` a batch that is compressed is not looked into, and has none.
    """
    if not batch.head.attributes & KAFKA_COMPRESSION:
        return batch.is_named if batch.is_named is not None else holds(batch.data, NAME)
    if not sees_compressed:
        return False
    try:
        return len(batch.data) > AT_ONCE_SIZE_MAX or holds(_records(batch, AT_ONCE_UNPACKED_SIZE_MAX), NAME)
    except UnpacksToMore:
        return True


def _records(batch: Batch, size_max: int) -> memoryview:
    try:
        return memoryview(records_of(batch.data, batch.head.record_count, size_max))
    except UnpacksToMore as error:
        if size_max < RAW_SIZE_MAX:
            raise
        raise BadBatch(str(error)) from error
    except ValueError as error:
        raise BadBatch(str(error)) from error


def split_delayed(batch: Batch, now_us: int, size_max: int = RAW_SIZE_MAX) -> Split | None:
    """The batch taken apart by what is due after `now_us`; None where nothing of it is.

    BadRecord where the header of one cannot be read, BadBatch where the batch itself cannot. Takes as much memory as
    the batch unpacks to. Raises UnpacksToMore if that is more than `size_max`, if that is less than any reader unpacks.
    """
    delayed: dict[int, Delayed] = {}
    if batch.head.attributes & KAFKA_COMPRESSION and not holds(_records(batch, size_max), NAME):
        return None
    for row, message in enumerate(_messages(batch)):
        value = message.headers.get(DELIVER_AT)
        if value is not None:
            due_us = _due_us(row, value, now_us)
            headers = {name: each for name, each in message.headers.items() if name != DELIVER_AT}
            if due_us > now_us:
                delayed[row] = Delayed(message._replace(headers=headers), due_us)
    return Split(list(delayed.values()), list(_rest(batch, delayed))) if delayed else None


def _messages(batch: Batch) -> list[Message]:
    try:
        packed = pack_kafka(batch.data)
        data = stamp(packed, 0, 0, 0).ljust(record_size(packed), b"\0")
        record = read_record(data, 0, len(data), 0)  # type: ignore[arg-type]  # bytes do as well as a mapped file
        return columns.messages(record, columns_of(record), slice(None), topic="", partition=0)
    except Damage as damage:
        raise BadBatch(damage.reason) from damage


def _due_us(row: int, value: bytes, now_us: int) -> int:
    """When a message is due, as the header tells it: milliseconds since the epoch, or a time such as ISO 8601 has."""
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
        shown = text if len(text) <= VALUE_SHOWN_MAX else f"{text[:VALUE_SHOWN_MAX]}…"
        expected = "milliseconds since 1970, or a time such as 2026-03-01T12:00Z, at most a century from now"
        raise BadRecord(row, f"the header {DELIVER_AT} is {shown!r}: expected {expected}")
    return due_us


def _rest(batch: Batch, left_out: Collection[int]) -> Iterator[bytes]:
    """Batches of the records that are not left out. They name no producer: who sent them is remembered elsewhere."""
    from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

    def begun() -> DefaultRecordBatchBuilder:
        return DefaultRecordBatchBuilder(
            magic=KAFKA_MAGIC,
            compression_type=0,
            is_transactional=0,
            producer_id=NO_PRODUCER,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=BATCH_SIZE_TARGET,
        )

    builder, count = begun(), 0
    try:
        for row, record in enumerate(DefaultRecordBatch(_plain(batch))):
            if row in left_out:
                continue
            fields = record.timestamp, record.key, record.value, record.headers
            if builder.append(count, *fields) is None:
                yield bytes(builder.build())
                builder, count = begun(), 0
                builder.append(count, *fields)
            count += 1
    except UnicodeDecodeError as error:
        raise BadBatch(f"the name of a header is no text: {error}") from error
    if count:
        yield bytes(builder.build())


def _plain(batch: Batch) -> bytes:
    """The batch without its compression."""
    records = _records(batch, RAW_SIZE_MAX)
    attributes = batch.head.attributes & ~KAFKA_COMPRESSION
    size = KAFKA_BATCH_HEAD.size - KAFKA_LENGTH_END + len(records)
    return KAFKA_BATCH_HEAD.pack(*batch.head._replace(attributes=attributes, batch_length=size)) + bytes(records)
