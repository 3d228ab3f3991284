"""Produce: decodes a request without copying its batches, and encodes the answer by hand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from warren.errors import MalformedRequest
from warren.protocol.api_keys import APIS, ApiKey, served
from warren.protocol.kafka.topic_reference import TOPIC_IDS_FROM, read_topic, write_topic
from warren.protocol.limits import REQUEST_ARRAY_COUNT_MAX
from warren.protocol.primitives import (
    ACKS_AND_TIMEOUT,
    INT32,
    PRODUCED_PARTITION,
    PRODUCED_PARTITION_V5,
    UNREADABLE,
    Read,
    bytes_reader,
    compact_size,
    read_compact_size,
    read_count,
    read_size16,
    read_size32,
    size16,
    size32,
    skip_tags,
    text_reader,
    text_writer,
)
from warren.storage.format.layout import KafkaBatchHead

PRODUCE_PARTITIONS_MAX: Final = 10_000
"""The most partitions of all topics that one Produce may name."""

PRODUCE: Final = APIS[ApiKey.PRODUCE]
NO_TAGS: Final = bytes(3)
"""The ends of a partition, a topic and a request that have no tagged fields."""
TOPICS_ANSWERED_MAX: Final = 1000
TIMES_OF_LOG_FROM: Final = 5
RECORD_ERRORS_FROM: Final = 8
NOT_THROTTLED: Final = 0


class ProducedPartition(NamedTuple):
    """The record batches of a request for one partition, which are not copied; None for null."""

    partition: int
    records: memoryview | None
    records_at: int = 0
    """The position of the records in the body of the request."""


class ProducedTopic(NamedTuple):
    """The part of a request for one topic, which it names, or from version 13 on identifies by its id."""

    name: str
    topic_id: bytes
    partitions: list[ProducedPartition]


class DecodedProduce(NamedTuple):
    """A Produce request. With `acks` 0 the client expects no answer."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProducedTopic]


class SingleProduce(NamedTuple):
    """The most common request: batches for one partition of a topic with a name, without a transaction.

    It has no tagged fields, and no bytes follow it.
    """

    acks: int
    timeout_ms: int
    topic: str
    partition: int
    records: memoryview
    records_at: int
    """The position of the records in the body of the request."""
    head: KafkaBatchHead | None = None
    """The head of the first batch, if it was read together with the request."""

    def to_request(self) -> DecodedProduce:
        """Returns the same request in the general form."""
        topic = ProducedTopic(self.topic, b"", [ProducedPartition(self.partition, self.records, self.records_at)])
        return DecodedProduce(None, self.acks, self.timeout_ms, [topic])


class PartitionStored(NamedTuple):
    """The answer for one partition: an error, or the number of the first message."""

    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None


class TopicStored(NamedTuple):
    """The answers for the partitions of one topic."""

    name: str
    topic_id: bytes
    partitions: Sequence[PartitionStored]


class _ProduceReaders(NamedTuple):
    """The readers of the parts of a request, flexible or not."""

    text: Read
    name: Read
    size: Read
    records: Read


_PLAIN: Final = _ProduceReaders(
    text_reader(read_size16, is_nullable=True),
    text_reader(read_size16, is_nullable=False),
    read_size32,
    bytes_reader(read_size32, is_nullable=True, is_view=True),
)
_FLEXIBLE: Final = _ProduceReaders(
    text_reader(read_compact_size, is_nullable=True),
    text_reader(read_compact_size, is_nullable=False),
    read_compact_size,
    bytes_reader(read_compact_size, is_nullable=True, is_view=True),
)
_WRITE_TEXT: Final = text_writer(size16)
_WRITE_COMPACT_TEXT: Final = text_writer(compact_size)


def decode_produce(version: int, body: memoryview) -> DecodedProduce:
    """Returns the request in `body`. Raises UnsupportedRequest or MalformedRequest if it cannot be read."""
    is_flexible = served(ApiKey.PRODUCE, version).is_flexible(version)
    try:
        return _read_request(body, version, _FLEXIBLE if is_flexible else _PLAIN, is_flexible)
    except UNREADABLE as error:
        raise MalformedRequest(f"ProduceRequest of version {version}", str(error)) from error


def read_produce(version: int, body: memoryview) -> SingleProduce | DecodedProduce:
    """Returns the request in `body`, as a SingleProduce if it is one. Raises as `decode_produce` does."""
    request = decode_produce(version, body)
    transactional_id, acks, timeout_ms, topics = request
    if transactional_id is not None or version >= TOPIC_IDS_FROM or len(topics) != 1 or len(topics[0].partitions) != 1:
        return request
    name, _, ((partition, records, records_at),) = topics[0]
    tail = NO_TAGS if PRODUCE.is_flexible(version) else b""
    if records is None or body[records_at + len(records) :] != tail:
        return request
    return SingleProduce(acks, timeout_ms, name, partition, records, records_at)


def _read_request(body: memoryview, version: int, readers: _ProduceReaders, is_flexible: bool) -> DecodedProduce:
    """Steps over the body of a request from part to part. The records stay where they are:

        | transactional id | acks, timeout | topic count | topic … | topic … | tags |

        topic:      | name or id | partition count | partition … | partition … | tags |
        partition:  | number | size of the records | records … | tags |
                             ^ readers.records     ^ records_at

    `left` counts down the partitions that the request may still name. Only flexible versions have tags.
    """
    transactional_id, position = readers.text(body, 0)
    acks, timeout_ms = ACKS_AND_TIMEOUT.unpack_from(body, position)
    topic_count, position = read_count(readers.size, body, position + ACKS_AND_TIMEOUT.size, REQUEST_ARRAY_COUNT_MAX)
    topics, left = [], PRODUCE_PARTITIONS_MAX
    for _ in range(topic_count):
        name, topic_id, position = read_topic(body, position, version, readers.name)
        partition_count, position = read_count(readers.size, body, position, left)
        left -= max(partition_count, 0)
        partitions = []
        for _ in range(partition_count):
            (partition,) = INT32.unpack_from(body, position)
            records, position = readers.records(body, position + INT32.size)
            records_at = position - len(records or b"")
            if is_flexible:
                position = skip_tags(body, position)
            partitions.append(ProducedPartition(partition, records, records_at))
        if is_flexible:
            position = skip_tags(body, position)
        topics.append(ProducedTopic(name, topic_id, partitions))
    if is_flexible:
        skip_tags(body, position)
    return DecodedProduce(transactional_id, acks, timeout_ms, topics)


def encode_single_stored(version: int, topic: str, partition: int, number: int, log_start: int) -> bytes:
    """Returns the body of the answer to a request for one partition, if its batch was stored."""
    if version < TIMES_OF_LOG_FROM:
        stored = PartitionStored(partition, 0, number, -1, log_start)
        return encode_produce_response(version, [TopicStored(topic, b"", [stored])])
    before, after = _around_one(version, topic)
    return before + PRODUCED_PARTITION_V5.pack(partition, 0, number, -1, log_start) + after


@lru_cache(TOPICS_ANSWERED_MAX)
def _around_one(version: int, name: str) -> tuple[bytes, bytes]:
    """Returns the bytes before and after the numbers of an answer for one partition. They never change."""
    nothing = PartitionStored(0)
    whole = encode_produce_response(version, [TopicStored(name, b"", [nothing])])
    numbers = PRODUCED_PARTITION_V5.pack(*nothing[:5])
    at = whole.index(numbers)
    return whole[:at], whole[at + len(numbers) :]


def encode_produce_response(version: int, topics: Sequence[TopicStored]) -> bytes:
    """Returns the body of the answer.

    Each answered partition is one struct, followed by the list of failed records, which is always empty, and the
    message of its error:

        partition:  | number, error, base offset, append time, log start | 0 | error message | tags |
                      PRODUCED_PARTITION, or _V5 with the log start        from RECORD_ERRORS_FROM on
    """
    is_flexible = served(ApiKey.PRODUCE, version).is_flexible(version)
    size, write_text = (compact_size, _WRITE_COMPACT_TEXT) if is_flexible else (size32, _WRITE_TEXT)
    tags = b"\0" if is_flexible else b""
    out = bytearray(size(len(topics)))
    for topic in topics:
        write_topic(out, version, topic.name, topic.topic_id, write_text)
        out += size(len(topic.partitions))
        for stored in topic.partitions:
            if version >= TIMES_OF_LOG_FROM:
                out += PRODUCED_PARTITION_V5.pack(*stored[:5])
            else:
                out += PRODUCED_PARTITION.pack(*stored[:4])
            if version >= RECORD_ERRORS_FROM:
                out += size(0)
                write_text(out, stored.error_message)
            out += tags
        out += tags
    out += INT32.pack(NOT_THROTTLED) + tags
    return bytes(out)
