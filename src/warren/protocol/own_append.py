"""Append of one record, the most frequent of our own calls, as bytes: what the schema says, without a look at it."""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

from warren.config import LONE_BODY_SIZE_MAX
from warren.protocol.codec import (
    INT32,
    LONE_ANSWER,
    LONE_APPEND,
    LONE_FRAME,
    REQUEST_HEAD,
    UNREADABLE,
    VARINT_END,
    compact_size,
    read_compact_size,
)
from warren.protocol.own_schemas import OwnKey

VERSION: Final = 0
ONE: Final = 2
"""An array of one element, as a varint of one more."""
NO_TAGS: Final = b"\0"
NO_ERROR: Final = 0xFF
BODY_SIZE_MAX: Final = 2 * LONE_BODY_SIZE_MAX
"""A request that is larger is not read in this way: there would be nothing to gain."""


class LoneAppend(NamedTuple):
    """A request to append one record with one message, which starts to look for itself at `since` if it is a retry."""

    topic: str
    marker: bytes
    is_retry: bool
    since: int
    partition: int
    checksum: int
    payload: bytes | memoryview


class LoneAppended(NamedTuple):
    """Its answer, or that of any append to one partition: with the attributes of an answer of many fields."""

    partition: int
    number: int
    offset: int
    timestamp: int
    partition_count: int

    @property
    def error(self) -> None:
        """An error is told by an answer of many fields."""
        return

    @property
    def positions(self) -> tuple[LoneAppended]:
        """The only one."""
        return (self,)


@functools.lru_cache(maxsize=1024)
def _topic(name: str) -> bytes:
    data = name.encode()
    return compact_size(len(data)) + data


def lone_append_bytes(correlation_id: int, client_id: str, asked: LoneAppend) -> bytes:
    """The request as it goes over the wire, its size first."""
    topic, marker, is_retry, since, partition, checksum, payload = asked
    client = client_id.encode()
    frame = b"".join(
        (
            REQUEST_HEAD.pack(OwnKey.APPEND, VERSION, correlation_id, len(client)),
            client,
            NO_TAGS,
            _topic(topic),
            compact_size(len(marker)),
            marker,
            LONE_APPEND.pack(is_retry, True, ONE, partition, since, 0, ONE, partition, 1, checksum),
            compact_size(len(payload)),
            payload,
            NO_TAGS,
            NO_TAGS,
        )
    )
    return INT32.pack(len(frame)) + frame


def read_lone_append(body: memoryview) -> LoneAppend | None:
    """The request in `body`; None where it is not of this kind, or wants no receipt."""
    if len(body) > BODY_SIZE_MAX:
        return None
    # Of bytes a slice costs much less than of a view, and these are few.
    data = bytes(body)
    try:
        # Of sizes that take one byte: each is one more than it is, and so the place where what follows it ends.
        marker_at = data[0]
        at = marker_at + data[marker_at]
        if marker_at >= VARINT_END or at - marker_at >= VARINT_END:
            return None
        topic, marker = data[1:marker_at].decode(), data[marker_at + 1 : at]
        is_retry, is_wanted, since_count, place, since, tags, count, partition, messages, checksum = (
            LONE_APPEND.unpack_from(data, at)
        )
        size, at = read_compact_size(data, at + LONE_APPEND.size)
    except UNREADABLE:
        return None
    is_one = (is_wanted, since_count, place, tags, count, messages) == (True, ONE, partition, 0, ONE, 1)
    if not is_one or not marker or len(data) != at + size + 2 or not data.endswith(NO_TAGS * 2):
        return None
    return LoneAppend(topic, marker, is_retry, since, partition, checksum, data[at : at + size])


def lone_answer_bytes(partition: int, number: int, offset: int, timestamp: int, partition_count: int) -> bytes:
    """The answer's body."""
    return LONE_ANSWER.pack(NO_ERROR, ONE, partition, number, 0, offset, timestamp, partition_count, 0)


def read_lone_answer(frame: memoryview, correlation_id: int) -> LoneAppended | None:
    """The answer to this request in `frame`; None where it is not of this kind."""
    if len(frame) != LONE_FRAME.size:
        return None
    found, head_tags, error, count, partition, number, tags, offset, timestamp, partition_count, end = (
        LONE_FRAME.unpack(frame)
    )
    if (found, head_tags, error, count, tags, end) != (correlation_id, 0, NO_ERROR, ONE, 0, 0):
        return None
    return LoneAppended(partition, number, offset, timestamp, partition_count)
