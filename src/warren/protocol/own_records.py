"""Messages as our own calls carry them: packed records, and beside them what a log or a group knows of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, Final

import numpy as np

from warren.config import ANSWER_SIZE_MAX, BATCH_SIZE_TARGET, RAW_SIZE_MAX
from warren.errors import BadBatch, MessageTooLarge, TooLarge
from warren.message import NO_CORR_OFFSET, Message
from warren.protocol.kafka_codec import Fields, Values
from warren.storage import columns
from warren.storage.columns import Batch, Columns
from warren.storage.layout import (
    CODEC_COLUMNS,
    PAYLOAD_HEAD,
    SECTION_BODY_ENDS,
    SECTION_CORR_OFFSETS,
    SECTION_HEADERS_ENDS,
    SECTION_ID_ENDS,
    SECTION_KEY_ENDS,
    SECTION_TAG_CODES,
)
from warren.storage.packing import pack_batch
from warren.storage.record import Damage, DiskMessage, Packed, read_record, record_size, stamp

ALL: Final = slice(None)
COMPRESSION_FIELD: Final = 5
"""Its place in the head of a payload."""
PLACE_SIZE: Final = 64
"""What an answer has at most beside each message: its partition, number, offset, time and attempt."""


def record_values(partition: int, packed: Packed) -> Values:
    """The fields of a packed record."""
    return {
        "partition": partition,
        "message_count": packed.message_count,
        "checksum": packed.checksum,
        "payload": packed.payload,
    }


def is_compressed(payload: bytes) -> bool:
    """Whether the body of a packed record is, as far as its head can be read."""
    return len(payload) >= PAYLOAD_HEAD.size and bool(PAYLOAD_HEAD.unpack_from(payload)[COMPRESSION_FIELD])


def packed_of(fields: Fields, body_size_max: int) -> Packed:
    """The record in these fields, every byte of it checked: BadBatch for what no reader could take apart.

    TooLarge where a body is over `body_size_max`.
    """
    packed = Packed(fields.payload, fields.checksum, fields.message_count)
    _, found = _unpacked(packed)
    _check(found, body_size_max)
    return packed


def batch_of(records: Sequence[Fields], body_size_max: int) -> Batch:
    """The messages of records, one behind the other, as `append_many` takes them."""
    messages: list[Message] = []
    for fields in records:
        record, found = _unpacked(Packed(fields.payload, fields.checksum, fields.message_count))
        _check(found, body_size_max)
        messages += columns.messages(record, found, ALL, topic="", partition=0)
    return batch_of_messages(messages)


def batch_of_messages(messages: Sequence[Message]) -> Batch:
    """The columns of messages; one that nobody has a value in is left out."""
    if not messages:
        return Batch([])
    _, _, _, _, _, ids, tags, keys, headers, corr_offsets, bodies, _ = zip(*messages, strict=True)
    return Batch(
        bodies,
        tags if any(tags) else None,
        keys if keys.count(None) < len(keys) else None,
        ids if any(ids) else None,
        headers if any(headers) else None,
        corr_offsets if corr_offsets.count(NO_CORR_OFFSET) < len(corr_offsets) else None,
    )


def pack(batch: Batch, tag: str = "") -> list[Packed]:
    """The records of a batch that is taken apart again by whoever gets it."""
    batch.check()
    return list(pack_batch(batch, tag, 0, RAW_SIZE_MAX))


def message_values(messages: Sequence[Message]) -> Values:
    """The fields of messages that were read."""
    if not messages:
        return {}
    numbers, offsets, partitions, _, timestamps, *_, attempts = zip(*messages, strict=True)
    packed = pack_batch(batch_of_messages(messages), "", 0, BATCH_SIZE_TARGET * 2)
    return {
        "partitions": partitions,
        "numbers": numbers,
        "offsets": offsets,
        "timestamps": timestamps,
        "attempts": attempts,
        "records": [record_values(0, each) for each in packed],
    }


def carried(messages: Sequence[Message]) -> tuple[Values, int]:
    """The fields of as many of the messages, from the first on, as one answer carries, and how many these are.

    Raises MessageTooLarge if the first one fits into no answer: a Kafka client may put bodies, keys and headers that
    are larger than ours.
    """
    count = len(messages)
    while True:
        try:
            values = message_values(messages[:count])
        except TooLarge as error:
            fitting, reason = _count_alone(messages[:count]), str(error)
        else:
            size = sum(len(record["payload"]) for record in values.get("records", ()))
            if size <= ANSWER_SIZE_MAX - count * PLACE_SIZE:
                return values, count
            fitting, reason = count // 2, f"{size} bytes are over the limit of {ANSWER_SIZE_MAX} bytes"
        if not fitting:
            first = messages[0]
            raise MessageTooLarge(str(first.topic), first.partition, first.number, first.attempt, reason)
        count = fitting


def _count_alone(messages: Sequence[Message]) -> int:
    """How many messages, from the first on, can be packed each by itself."""
    for count, message in enumerate(messages):
        try:
            message_values([message])
        except TooLarge:
            return count
    return len(messages) // 2


def messages_of(fields: Fields, topic: str) -> list[Message]:
    """The messages in these fields, as a log or group of `topic` gives them."""
    plain: list[Message] = []
    for record_fields in fields.records:
        packed = Packed(record_fields.payload, record_fields.checksum, record_fields.message_count)
        record, found = _unpacked(packed)
        plain += columns.messages(record, found, ALL, topic=topic, partition=0)
    if not plain:
        return []
    known: list[Sequence[Any]] = [fields.numbers, fields.offsets, fields.partitions, fields.timestamps, fields.attempts]
    if any(len(column) != len(plain) for column in known):
        raise BadBatch("not as many numbers as messages")
    _, _, _, _, _, *rest, _ = zip(*plain, strict=True)
    numbers, offsets, partitions, timestamps, attempts = known
    rows: Iterable[Any] = zip(numbers, offsets, partitions, repeat(topic), timestamps, *rest, attempts, strict=False)
    return list(map(tuple.__new__, repeat(Message), rows))


def _unpacked(packed: Packed) -> tuple[DiskMessage, Columns]:
    """The record taken apart, as it is when it was read from a log."""
    try:
        data = stamp(packed, 0, 0, 0).ljust(record_size(packed), b"\0")
        record = read_record(data, 0, len(data), 0)  # type: ignore[arg-type]  # bytes do as well as a mapped file
        if record.codec != CODEC_COLUMNS or record.message_count != packed.message_count:
            raise BadBatch("not a record of columns with as many messages as it says")
        return record, Columns(record.area, record.message_count)
    except Damage as damage:
        raise BadBatch(damage.reason) from damage
    except (ValueError, OverflowError) as error:
        raise BadBatch(str(error)) from error


def _check(found: Columns, body_size_max: int) -> None:
    """See to it that every column can be read, without making Python values of bodies."""
    try:
        ends, size = found.ends(SECTION_BODY_ENDS), 0
        if found.size > body_size_max:
            size = int(np.diff(ends).max(initial=0))
        if SECTION_TAG_CODES in found:
            found.tag_codes(len(found.tags()))
        if SECTION_KEY_ENDS in found:
            found.ends(SECTION_KEY_ENDS)
            found.keys_present()
        if SECTION_ID_ENDS in found:
            found.texts(SECTION_ID_ENDS, ALL)
        if SECTION_HEADERS_ENDS in found:
            found.headers(ALL)
        if SECTION_CORR_OFFSETS in found:
            found.corr_offsets()
    except Damage as damage:
        raise BadBatch(damage.reason) from damage
    except ValueError as error:
        raise BadBatch(str(error)) from error
    if size > body_size_max:
        raise TooLarge("body", size, body_size_max)
