"""Fetch: decodes a request, and encodes an answer by hand without copying its batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from warren.errors import MalformedRequest
from warren.protocol.api_keys import ApiKey, served
from warren.protocol.kafka.topic_reference import read_topic, write_topic
from warren.protocol.limits import REQUEST_ARRAY_COUNT_MAX
from warren.protocol.primitives import (
    FETCH_REQUEST_V4,
    FETCH_REQUEST_V7,
    FETCH_REQUEST_V15,
    FETCH_RESPONSE_V4,
    FETCH_RESPONSE_V7,
    FETCHED_PARTITION_V4,
    FETCHED_PARTITION_V5,
    INT32,
    UNREADABLE,
    WANTED_PARTITION_V4,
    WANTED_PARTITION_V5,
    WANTED_PARTITION_V9,
    WANTED_PARTITION_V12,
    Buffer,
    Read,
    compact_size,
    fixed_array_reader,
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

FETCH_PARTITIONS_MAX: Final = 10_000
"""The most partitions of all topics that one Fetch may name."""
FETCH_COPIED_SIZE_MAX: Final = 2 << 10
"""Up to this size the batches of a partition are copied, because each buffer of an answer costs more than that."""
FETCH_PIECE_SIZE: Final = 64 << 10
"""What was copied is sent in buffers of about this size."""

LOG_START_FROM: Final = 5
SESSIONS_FROM: Final = 7
EPOCHS_FROM: Final = 9
REPLICAS_FROM: Final = 11
LAST_EPOCHS_FROM: Final = 12
NO_REPLICA_ID_FROM: Final = 15
NO_REPLICA: Final = -1
NO_ERROR: Final = 0
NO_SESSION: Final = 0
NOT_THROTTLED: Final = 0
NO_TRANSACTIONS: Final = -1
"""The count that stands for a list that is null."""
_WRITE_TEXT: Final = text_writer(size16)
_WRITE_COMPACT_TEXT: Final = text_writer(compact_size)


class FetchPartition(NamedTuple):
    """The first number, and the largest number of bytes, that a consumer requests of one partition.

    `leader_epoch` is that of the leader as the consumer knows it; -1 if it does not say.
    """

    partition: int
    fetch_offset: int
    bytes_max: int
    leader_epoch: int = -1


class FetchTopic(NamedTuple):
    """The partitions of one topic that a consumer requests.

    The topic is identified by name, or from version 13 on by id. `rack` is where the consumer stands, if it says so.
    """

    name: str
    topic_id: bytes
    partitions: list[FetchPartition]
    rack: str = ""


class DecodedFetch(NamedTuple):
    """A Fetch request, without the fields that the broker does not use.

    It does not use them because it has no sessions, and only committed messages in its logs. `rack` is where the
    consumer stands; empty if it does not say.
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    topics: list[FetchTopic]
    rack: str = ""


class PartitionFetched(NamedTuple):
    """The answer for one partition. `records` are the buffers of its batches, and `size` counts their bytes.

    `preferred` is the broker that the consumer shall read from instead; -1 if it may stay here.
    """

    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Sequence[Buffer] = ()
    size: int = 0
    preferred: int = NO_REPLICA


class TopicFetched(NamedTuple):
    """The answers for the partitions of one topic, which is identified by name, or from version 13 on by id."""

    name: str
    topic_id: bytes
    partitions: Sequence[PartitionFetched]


class _FetchReaders(NamedTuple):
    """The readers of the parts of a request, flexible or not."""

    text: Read
    size: Read
    numbers: Read


_PLAIN: Final = _FetchReaders(
    text_reader(read_size16, is_nullable=False),
    read_size32,
    fixed_array_reader("int32", read_size32, is_nullable=False, count_max=FETCH_PARTITIONS_MAX),
)
_FLEXIBLE: Final = _FetchReaders(
    text_reader(read_compact_size, is_nullable=False),
    read_compact_size,
    fixed_array_reader("int32", read_compact_size, is_nullable=False, count_max=FETCH_PARTITIONS_MAX),
)


def decode_fetch(version: int, body: memoryview) -> DecodedFetch:
    """Returns the request in `body`. Raises UnsupportedRequest or MalformedRequest if it cannot be read.

    Steps over the body from part to part:

        | waits and sizes | topic count | topic … | forgotten count | forgotten … | rack id | tags |
          layout                                    from SESSIONS_FROM on           from REPLICAS_FROM on

        topic:      | name or id | partition count | partition … | tags |
        partition:  | number, first number, largest size, … | tags |       (one struct, `_read_partitions`)
        forgotten:  | name or id | partition count | numbers | tags |      (checked and dropped: there are no sessions)

    `left` counts down the partitions that the request may still name. Only flexible versions have tags.
    """
    is_flexible = served(ApiKey.FETCH, version).is_flexible(version)
    readers, layout, rack = _FLEXIBLE if is_flexible else _PLAIN, FETCH_REQUEST_V4, ""
    if version >= SESSIONS_FROM:
        layout = FETCH_REQUEST_V15 if version >= NO_REPLICA_ID_FROM else FETCH_REQUEST_V7
    try:
        max_wait_ms, min_bytes, max_bytes = layout.unpack_from(body)
        topic_count, position = read_count(readers.size, body, layout.size, REQUEST_ARRAY_COUNT_MAX)
        topics, left = [], FETCH_PARTITIONS_MAX
        for _ in range(topic_count):
            name, topic_id, position = read_topic(body, position, version, readers.text)
            partitions, position = _read_partitions(body, position, version, readers, is_flexible, left)
            left -= len(partitions)
            topics.append(FetchTopic(name, topic_id, partitions))
        if version >= SESSIONS_FROM:
            forgotten_count, position = read_count(readers.size, body, position, REQUEST_ARRAY_COUNT_MAX)
            left = FETCH_PARTITIONS_MAX
            for _ in range(forgotten_count):
                _, _, position = read_topic(body, position, version, readers.text)
                numbers, position = readers.numbers(body, position)
                left -= len(numbers)
                if left < 0:
                    raise ValueError(f"more than {FETCH_PARTITIONS_MAX} partitions to forget")
                position = skip_tags(body, position) if is_flexible else position
        if version >= REPLICAS_FROM:
            rack, position = readers.text(body, position)
        if is_flexible:
            skip_tags(body, position)
    except UNREADABLE as error:
        raise MalformedRequest(f"FetchRequest of version {version}", str(error)) from error
    return DecodedFetch(max_wait_ms, min_bytes, max_bytes, topics, rack)


def _read_partitions(
    body: memoryview, position: int, version: int, readers: _FetchReaders, is_flexible: bool, count_max: int
) -> tuple[list[FetchPartition], int]:
    layout = WANTED_PARTITION_V5 if version >= LOG_START_FROM else WANTED_PARTITION_V4
    if version >= EPOCHS_FROM:
        layout = WANTED_PARTITION_V12 if version >= LAST_EPOCHS_FROM else WANTED_PARTITION_V9
    count, position = read_count(readers.size, body, position, count_max)
    partitions = []
    for _ in range(count):
        values = layout.unpack_from(body, position)
        if version >= EPOCHS_FROM:
            number, leader_epoch, offset, bytes_max = values
            partitions.append(FetchPartition(number, offset, bytes_max, leader_epoch))
        else:
            partitions.append(FetchPartition(*values))
        position += layout.size
        if is_flexible:
            position = skip_tags(body, position)
    if is_flexible:
        position = skip_tags(body, position)
    return partitions, position


def encode_fetch_response(version: int, topics: Sequence[TopicFetched]) -> list[Buffer]:
    """Returns the body of the answer, as buffers to send one after the other. Copies only small batches.

    It lists no aborted transactions, because no message of a transaction is in a log before the commit. Large batches
    stay buffers, so that they go from the mapped file to the socket without a copy; small ones are joined to the rest:

        buffers:    | head, topic, partition, small batches, partition | batch | batch | partition | … | tags |
                      bytes                                              views of the log            bytes

        partition:  | number, error, ends | -1 (no transactions) | replica | size of the batches |
                      FETCHED_PARTITION                            from REPLICAS_FROM on
    """
    is_flexible = served(ApiKey.FETCH, version).is_flexible(version)
    size, write_text = (compact_size, _WRITE_COMPACT_TEXT) if is_flexible else (size32, _WRITE_TEXT)
    tags = b"\0" if is_flexible else b""
    buffers: list[Buffer] = []
    if version >= SESSIONS_FROM:
        out = bytearray(FETCH_RESPONSE_V7.pack(NOT_THROTTLED, NO_ERROR, NO_SESSION))
    else:
        out = bytearray(FETCH_RESPONSE_V4.pack(NOT_THROTTLED))
    out += size(len(topics))
    for topic in topics:
        write_topic(out, version, topic.name, topic.topic_id, write_text)
        out += size(len(topic.partitions))
        for fetched in topic.partitions:
            if version >= LOG_START_FROM:
                out += FETCHED_PARTITION_V5.pack(*fetched[:5])
            else:
                out += FETCHED_PARTITION_V4.pack(*fetched[:4])
            out += size(NO_TRANSACTIONS)
            if version >= REPLICAS_FROM:
                out += INT32.pack(fetched.preferred)
            out += size(fetched.size)
            if fetched.size > FETCH_COPIED_SIZE_MAX:
                buffers += (bytes(out), *fetched.records)
                out = bytearray()
            else:
                for records in fetched.records:
                    out += records
            out += tags
            if len(out) > FETCH_PIECE_SIZE:
                buffers.append(bytes(out))
                out = bytearray()
        out += tags
    out += tags
    if out:
        buffers.append(bytes(out))
    return buffers
