"""Produce, the hot path in: a request taken apart without copying its batches, and the answer put together by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from warren.errors import MalformedRequest
from warren.protocol.api import ApiKey, served
from warren.protocol.codec import (
    ACKS_AND_TIMEOUT,
    INT32,
    PRODUCED_PARTITION,
    PRODUCED_PARTITION_V5,
    UNREADABLE,
    UUID_SIZE,
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

TOPIC_IDS_FROM: Final = 13
TIMES_OF_LOG_FROM: Final = 5
RECORD_ERRORS_FROM: Final = 8


class ProducedPartition(NamedTuple):
    """What a request has for one partition: its record batches where they lie in the request; None for null."""

    partition: int
    records: memoryview | None


class ProducedTopic(NamedTuple):
    """What a request has for one topic, which is known by its name, or from version 13 on by its id."""

    name: str
    topic_id: bytes
    partitions: list[ProducedPartition]


class ProduceRequest(NamedTuple):
    """A Produce request. With `acks` 0 nobody waits for an answer."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProducedTopic]


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


class _Readers(NamedTuple):
    """How the parts of a request are read, flexible or not."""

    text: Read
    name: Read
    size: Read
    records: Read


_PLAIN: Final = _Readers(
    text_reader(read_size16, is_nullable=True),
    text_reader(read_size16, is_nullable=False),
    read_size32,
    bytes_reader(read_size32, is_nullable=True, is_view=True),
)
_FLEXIBLE: Final = _Readers(
    text_reader(read_compact_size, is_nullable=True),
    text_reader(read_compact_size, is_nullable=False),
    read_compact_size,
    bytes_reader(read_compact_size, is_nullable=True, is_view=True),
)
_WRITE_TEXT: Final = text_writer(size16)
_WRITE_COMPACT_TEXT: Final = text_writer(compact_size)


def decode_produce(version: int, body: memoryview) -> ProduceRequest:
    """The request in `body`. UnsupportedRequest or MalformedRequest where there is none."""
    is_flexible = served(ApiKey.PRODUCE, version).is_flexible(version)
    try:
        return _read_request(body, version, _FLEXIBLE if is_flexible else _PLAIN, is_flexible)
    except UNREADABLE as error:
        raise MalformedRequest(f"ProduceRequest of version {version}", str(error)) from error


def _read_request(body: memoryview, version: int, readers: _Readers, is_flexible: bool) -> ProduceRequest:
    transactional_id, position = readers.text(body, 0)
    acks, timeout_ms = ACKS_AND_TIMEOUT.unpack_from(body, position)
    topic_count, position = read_count(readers.size, body, position + ACKS_AND_TIMEOUT.size)
    topics = []
    for _ in range(topic_count):
        name, topic_id = "", b""
        if version >= TOPIC_IDS_FROM:
            topic_id = bytes(body[position : position + UUID_SIZE])
            position += UUID_SIZE
        else:
            name, position = readers.name(body, position)
        partition_count, position = read_count(readers.size, body, position)
        partitions = []
        for _ in range(partition_count):
            (partition,) = INT32.unpack_from(body, position)
            records, position = readers.records(body, position + INT32.size)
            if is_flexible:
                position = skip_tags(body, position)
            partitions.append(ProducedPartition(partition, records))
        if is_flexible:
            position = skip_tags(body, position)
        topics.append(ProducedTopic(name, topic_id, partitions))
    if is_flexible:
        skip_tags(body, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def encode_produce_response(version: int, topics: Sequence[TopicStored], throttle_time_ms: int = 0) -> bytes:
    """The body of the answer."""
    is_flexible = served(ApiKey.PRODUCE, version).is_flexible(version)
    size, write_text = (compact_size, _WRITE_COMPACT_TEXT) if is_flexible else (size32, _WRITE_TEXT)
    tags = b"\0" if is_flexible else b""
    out = bytearray(size(len(topics)))
    for topic in topics:
        if version >= TOPIC_IDS_FROM:
            out += topic.topic_id
        else:
            write_text(out, topic.name)
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
    out += INT32.pack(throttle_time_ms) + tags
    return bytes(out)
