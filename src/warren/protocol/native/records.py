"""Messages as our own calls carry them: packed records, and for each message what a log or a group knows about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, Final

import numpy as np

from warren.errors import BadBatch, MessageTooLarge, TooLarge
from warren.message import NO_CORR_OFFSET, Message
from warren.protocol.limits import ANSWER_SIZE_MAX
from warren.protocol.native_messages import WireMessages, WireRecord
from warren.storage.format import columns
from warren.storage.format.columns import Batch, Columns
from warren.storage.format.layout import (
    CODEC_COLUMNS,
    PAYLOAD_HEAD,
    SECTION_BODY_ENDS,
    SECTION_CORR_OFFSETS,
    SECTION_HEADERS_ENDS,
    SECTION_ID_ENDS,
    SECTION_KEY_ENDS,
    SECTION_TAG_CODES,
)
from warren.storage.format.limits import BATCH_SIZE_TARGET, RAW_SIZE_MAX
from warren.storage.format.packing import pack_batch
from warren.storage.format.record import Damage, DiskMessage, Packed, check_size, read_unstored

ALL: Final = slice(None)
COMPRESSION_FIELD: Final = 5
"""The place of the compression code in the head of a payload."""
PLACE_SIZE: Final = 64
"""An upper bound of the bytes that an answer adds to each message: its partition, number, offset, time and attempt."""


def wire_record(partition: int, packed: Packed) -> WireRecord:
    """Returns a packed record as it is sent."""
    # Any kind of buffer can be sent; the payload of a received record is bytes.
    payload: Any = packed.payload
    return WireRecord(partition, packed.message_count, packed.checksum, payload)


def is_compressed(payload: bytes) -> bool:
    """Returns whether the body of a packed record is compressed; False if its head cannot be read."""
    return len(payload) >= PAYLOAD_HEAD.size and bool(PAYLOAD_HEAD.unpack_from(payload)[COMPRESSION_FIELD])


def packed_of(record: WireRecord, body_size_max: int) -> Packed:
    """Checks every byte of a record that was sent, and returns it as a packed record.

    Raises BadBatch if a reader could not unpack it, and TooLarge if a body is over `body_size_max`.
    """
    packed = Packed(record.payload, record.checksum, record.message_count)
    check_packed(packed, body_size_max)
    return packed


def check_packed(packed: Packed, body_size_max: int) -> None:
    """Checks every byte of a record. Raises what `packed_of` raises."""
    _, unpacked = _unpacked(packed)
    _check(unpacked, body_size_max)


def batch_of(records: Sequence[WireRecord], body_size_max: int) -> Batch:
    """Returns the messages of the records, in their order, as the columns that `append_many` takes."""
    messages: list[Message] = []
    for each in records:
        record, unpacked = _unpacked(Packed(each.payload, each.checksum, each.message_count))
        _check(unpacked, body_size_max)
        messages += columns.messages(record, unpacked, ALL, topic="", partition=0)
    return batch_of_messages(messages)


def batch_of_messages(messages: Sequence[Message]) -> Batch:
    """Returns the columns of messages, without those in which no message has a value."""
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
    """Returns the records of a batch that the receiver splits again."""
    batch.check()
    return list(pack_batch(batch, tag, 0, RAW_SIZE_MAX))


def wire_messages(messages: Sequence[Message]) -> WireMessages:
    """Returns messages that were read as they are sent."""
    if not messages:
        return WireMessages()
    numbers, offsets, partitions, _, timestamps, *_, attempts = zip(*messages, strict=True)
    packed = pack_batch(batch_of_messages(messages), "", 0, BATCH_SIZE_TARGET * 2)
    records = [wire_record(0, each) for each in packed]
    return WireMessages(partitions, numbers, offsets, timestamps, attempts, records)


def carried(messages: Sequence[Message]) -> tuple[WireMessages, int]:
    """Returns the messages that fit into one answer, from the first on, and how many these are.

    Raises MessageTooLarge if the first one is too large for an answer: a Kafka client may put bodies, keys and headers
    that are larger than ours.
    """
    count = len(messages)
    while True:
        try:
            sent = wire_messages(messages[:count])
        except TooLarge as error:
            fitting, reason = _count_alone(messages[:count]), str(error)
        else:
            size = sum(len(record.payload) for record in sent.records)
            if size <= ANSWER_SIZE_MAX - count * PLACE_SIZE:
                return sent, count
            fitting, reason = count // 2, f"{size} bytes are over the limit of {ANSWER_SIZE_MAX} bytes"
        if not fitting:
            first = messages[0]
            raise MessageTooLarge(str(first.topic), first.partition, first.number, first.attempt, reason)
        count = fitting


def _count_alone(messages: Sequence[Message]) -> int:
    """Returns how many messages, from the first on, can each be packed alone."""
    for count, message in enumerate(messages):
        try:
            wire_messages([message])
        except TooLarge:
            return count
    return len(messages) // 2


def messages_of(sent: WireMessages, topic: str) -> list[Message]:
    """Returns the messages of an answer, as a log or group of `topic` returns them."""
    plain: list[Message] = []
    for each in sent.records:
        record, unpacked = _unpacked(Packed(each.payload, each.checksum, each.message_count))
        plain += columns.messages(record, unpacked, ALL, topic=topic, partition=0)
    if not plain:
        return []
    per_message: list[Sequence[Any]] = [sent.numbers, sent.offsets, sent.partitions, sent.timestamps, sent.attempts]
    if any(len(column) != len(plain) for column in per_message):
        raise BadBatch("the counts of numbers and messages differ")
    _, _, _, _, _, *rest, _ = zip(*plain, strict=True)
    numbers, offsets, partitions, timestamps, attempts = per_message
    rows: Iterable[Any] = zip(numbers, offsets, partitions, repeat(topic), timestamps, *rest, attempts, strict=False)
    return list(map(tuple.__new__, repeat(Message), rows))


def _unpacked(packed: Packed) -> tuple[DiskMessage, Columns]:
    """Unpacks a record as if it was read from a log. Raises BadBatch if it cannot be unpacked."""
    try:
        record = read_unstored(packed)
        if record.codec != CODEC_COLUMNS or record.message_count != packed.message_count:
            raise BadBatch("it is not a record of columns, or its count is wrong")
        return record, Columns(record.area, record.message_count)
    except Damage as damage:
        raise BadBatch(damage.reason) from damage
    except (ValueError, OverflowError) as error:
        raise BadBatch(str(error)) from error


def _check(unpacked: Columns, body_size_max: int) -> None:
    """Checks that every column can be read, without making Python values of bodies."""
    try:
        ends, size = unpacked.ends(SECTION_BODY_ENDS), 0
        if unpacked.size > body_size_max:
            size = int(np.diff(ends).max(initial=0))
        if SECTION_TAG_CODES in unpacked:
            unpacked.tag_codes(len(unpacked.tags()))
        if SECTION_KEY_ENDS in unpacked:
            unpacked.ends(SECTION_KEY_ENDS)
            unpacked.keys_present()
        if SECTION_ID_ENDS in unpacked:
            unpacked.texts(SECTION_ID_ENDS, ALL)
        if SECTION_HEADERS_ENDS in unpacked:
            unpacked.headers(ALL)
        if SECTION_CORR_OFFSETS in unpacked:
            unpacked.corr_offsets()
    except Damage as damage:
        raise BadBatch(damage.reason) from damage
    except ValueError as error:
        raise BadBatch(str(error)) from error
    check_size("body", size, body_size_max)
