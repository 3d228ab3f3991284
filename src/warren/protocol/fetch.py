"""Fetch, the hot path out: what a consumer asks for, and an answer whose batches are sent from where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from warren.protocol.api import ApiKey, served
from warren.protocol.codec import (
    ABORTED_TRANSACTION,
    FETCH_RESPONSE_V4,
    FETCH_RESPONSE_V7,
    FETCHED_PARTITION_V4,
    FETCHED_PARTITION_V5,
    INT32,
    Buffer,
    compact_size,
    size16,
    size32,
    text_writer,
)

LOG_START_FROM: Final = 5
SESSIONS_FROM: Final = 7
REPLICAS_FROM: Final = 11
TOPIC_IDS_FROM: Final = 13
NO_REPLICA: Final = -1
_WRITE_TEXT: Final = text_writer(size16)
_WRITE_COMPACT_TEXT: Final = text_writer(compact_size)


class PartitionFetched(NamedTuple):
    """The answer for one partition. `records` are the buffers of its batches, and `size` their bytes in all.

    `aborted` are transactions whose messages a consumer has to leave out, by producer id and first offset; Warren has
    none, since nothing of a transaction is in a log before it is committed.
    """

    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Sequence[Buffer] = ()
    size: int = 0
    aborted: Sequence[tuple[int, int]] | None = None


class TopicFetched(NamedTuple):
    """The answers for the partitions of one topic, which is known by its name, or from version 13 on by its id."""

    name: str
    topic_id: bytes
    partitions: Sequence[PartitionFetched]


def encode_fetch_response(
    version: int, topics: Sequence[TopicFetched], *, throttle_time_ms: int = 0, error_code: int = 0, session_id: int = 0
) -> list[Buffer]:
    """The body of the answer, as buffers to send one behind the other."""
    is_flexible = served(ApiKey.FETCH, version).is_flexible(version)
    size, write_text = (compact_size, _WRITE_COMPACT_TEXT) if is_flexible else (size32, _WRITE_TEXT)
    tags = b"\0" if is_flexible else b""
    buffers: list[Buffer] = []
    if version >= SESSIONS_FROM:
        out = bytearray(FETCH_RESPONSE_V7.pack(throttle_time_ms, error_code, session_id))
    else:
        out = bytearray(FETCH_RESPONSE_V4.pack(throttle_time_ms))
    out += size(len(topics))
    for topic in topics:
        if version >= TOPIC_IDS_FROM:
            out += topic.topic_id
        else:
            write_text(out, topic.name)
        out += size(len(topic.partitions))
        for fetched in topic.partitions:
            if version >= LOG_START_FROM:
                out += FETCHED_PARTITION_V5.pack(*fetched[:5])
            else:
                out += FETCHED_PARTITION_V4.pack(*fetched[:4])
            if fetched.aborted is None:
                out += size(-1)
            else:
                out += size(len(fetched.aborted))
                for transaction in fetched.aborted:
                    out += ABORTED_TRANSACTION.pack(*transaction) + tags
            if version >= REPLICAS_FROM:
                out += INT32.pack(NO_REPLICA)
            out += size(fetched.size)
            if fetched.size:
                buffers += (bytes(out), *fetched.records)
                out = bytearray()
            out += tags
        out += tags
    out += tags
    if out:
        buffers.append(bytes(out))
    return buffers
