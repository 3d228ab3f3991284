"""Append of one record, the most frequent of our own calls, as bytes: what the schema says, without a look at it."""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

from warren.protocol.codec import (
    INT32,
    LONE_ANSWER,
    LONE_APPEND,
    REQUEST_HEAD,
    UNREADABLE,
    compact_size,
    read_compact_size,
    size16,
)
from warren.protocol.own_schemas import OwnKey

VERSION: Final = 0
ONE: Final = 2
"""An array of one element, as a varint of one more."""
NO_TAGS: Final = b"\0"
NO_ERROR: Final = 0xFF


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


@functools.lru_cache(maxsize=16)
def _client_id(client_id: str) -> bytes:
    data = client_id.encode()
    return size16(len(data)) + data + NO_TAGS


def lone_append_bytes(correlation_id: int, client_id: str, asked: LoneAppend) -> bytes:
    """The request as it goes over the wire, its size first."""
    topic, marker, is_retry, since, partition, checksum, payload = asked
    frame = b"".join(
        (
            REQUEST_HEAD.pack(OwnKey.APPEND, VERSION, correlation_id),
            _client_id(client_id),
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
    try:
        size, at = read_compact_size(body, 0)
        topic = str(body[at : at + size], "utf-8")
        size, at = read_compact_size(body, at + size)
        marker, at = bytes(body[at : at + size]), at + size
        is_retry, is_wanted, since_count, place, since, tags, count, partition, messages, checksum = (
            LONE_APPEND.unpack_from(body, at)
        )
        size, at = read_compact_size(body, at + LONE_APPEND.size)
    except UNREADABLE:
        return None
    is_one = (is_wanted, since_count, place, tags, count, messages) == (True, ONE, partition, 0, ONE, 1)
    if not is_one or not marker or len(body) != at + size + 2 or body[at + size :] != NO_TAGS * 2:
        return None
    return LoneAppend(topic, marker, is_retry, since, partition, checksum, bytes(body[at : at + size]))


def lone_answer_bytes(answer: LoneAppended) -> bytes:
    """The answer's body."""
    partition, number, offset, timestamp, partition_count = answer
    return LONE_ANSWER.pack(NO_ERROR, ONE, partition, number, 0, offset, timestamp, partition_count, 0)


def read_lone_answer(body: memoryview) -> LoneAppended | None:
    """The answer in `body`; None where it is not of this kind."""
    if len(body) != LONE_ANSWER.size:
        return None
    error, count, partition, number, tags, offset, timestamp, partition_count, end = LONE_ANSWER.unpack(body)
    if (error, count, tags, end) != (NO_ERROR, ONE, 0, 0):
        return None
    return LoneAppended(partition, number, offset, timestamp, partition_count)
