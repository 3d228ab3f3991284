"""Encodes and decodes an Append of one record, the most frequent of our own calls, by hand: as its schema says."""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

from warren.protocol.native_messages import AppendRequest, AppendResponse, WirePosition, WireRecord
from warren.protocol.primitives import (
    INT32,
    REQUEST_HEAD,
    SINGLE_ANSWER,
    SINGLE_APPEND,
    SINGLE_FRAME,
    UNREADABLE,
    VARINT_END,
    compact_size,
    read_compact_size,
)

SINGLE_BODY_SIZE_MAX: Final = 64 << 10
"""A single message whose body is not larger than this is packed and sent by a faster codec."""

VERSION: Final = 0
ONE: Final = 2
"""The count of an array of one element, which is sent as the count plus one."""
NO_TAGS: Final = b"\0"
NO_ERROR: Final = 0xFF
SINGLE_SIZE_MAX: Final = 2 * SINGLE_BODY_SIZE_MAX
"""A larger request is written and read by the schema, because copying its payload takes most of the time."""


class SingleAppend(NamedTuple):
    """A request to append one record with one message, as the broker reads it.

    If it is a retry, the broker searches for the record from number `since` on.
    """

    topic: str
    marker: bytes
    is_retry: bool
    since: int
    partition: int
    checksum: int
    payload: bytes

    def to_request(self) -> AppendRequest:
        """Returns the same request in the general form, as the schema reads it."""
        since = (WirePosition(self.partition, self.since),)
        record = WireRecord(self.partition, 1, self.checksum, self.payload)
        return AppendRequest(self.topic, self.marker, self.is_retry, True, since, (record,))


@functools.lru_cache(maxsize=1024)
def _topic(name: str) -> bytes:
    data = name.encode()
    return compact_size(len(data)) + data


def single_append_bytes(correlation_id: int, client_id: str, request: AppendRequest) -> bytes | None:
    """Returns the request as it is sent, with its size first; None if it is not of this kind.

    The bytes are those of the schema. A put takes 8 µs of the client's time instead of 12, and one with a key 25
    instead of 31.
    """
    # Clients request a receipt if they put a single message.
    if not request.is_receipt_wanted or len(request.records) != 1 or len(request.since) != 1:
        return None
    (record,), (since,) = request.records, request.since
    partition, payload, marker = record.partition, record.payload, request.marker
    if len(payload) > SINGLE_SIZE_MAX or record.message_count != 1 or since.partition != partition:
        return None
    client = client_id.encode()
    frame = b"".join(
        (
            REQUEST_HEAD.pack(AppendRequest.api_key, VERSION, correlation_id, len(client)),
            client,
            NO_TAGS,
            _topic(request.topic),
            compact_size(len(marker)),
            marker,
            SINGLE_APPEND.pack(
                request.is_retry, True, ONE, partition, since.number, 0, ONE, partition, 1, record.checksum
            ),
            compact_size(len(payload)),
            payload,
            NO_TAGS,
            NO_TAGS,
        )
    )
    return INT32.pack(len(frame)) + frame


def read_single_append(body: memoryview) -> SingleAppend | None:
    """Returns the request in `body`; None if it is not of this kind, or requests no receipt.

    Measured for a body of 100 bytes: 2.2 µs, and 6.7 µs by the schema.
    """
    if len(body) > SINGLE_SIZE_MAX:
        return None
    # A slice of bytes costs much less than a slice of a view, and these bytes are few.
    data = bytes(body)
    try:
        # A size of one byte is sent plus one. So it is also the distance from its own position to the end of its text.
        marker_at = data[0]
        at = marker_at + data[marker_at]
        if marker_at >= VARINT_END or at - marker_at >= VARINT_END:
            return None
        topic, marker = data[1:marker_at].decode(), data[marker_at + 1 : at]
        is_retry, is_wanted, since_count, place, since, tags, count, partition, messages, checksum = (
            SINGLE_APPEND.unpack_from(data, at)
        )
        size, at = read_compact_size(data, at + SINGLE_APPEND.size)
    except UNREADABLE:
        return None
    is_one = (is_wanted, since_count, place, tags, count, messages) == (True, ONE, partition, 0, ONE, 1)
    if not is_one or not marker or len(data) != at + size + 2 or not data.endswith(NO_TAGS * 2):
        return None
    return SingleAppend(topic, marker, is_retry, since, partition, checksum, data[at : at + size])


def single_answer_bytes(partition: int, number: int, offset: int, timestamp: int, partition_count: int) -> bytes:
    """Returns the body of the answer."""
    return SINGLE_ANSWER.pack(NO_ERROR, ONE, partition, number, 0, offset, timestamp, partition_count, 0)


def read_single_answer(frame: memoryview, correlation_id: int) -> AppendResponse | None:
    """Returns the answer to an append to one partition in `frame`; None if it is not of this kind."""
    if len(frame) != SINGLE_FRAME.size:
        return None
    answered_id, head_tags, error, count, partition, number, tags, offset, timestamp, partition_count, end = (
        SINGLE_FRAME.unpack(frame)
    )
    if (answered_id, head_tags, error, count, tags, end) != (correlation_id, 0, NO_ERROR, ONE, 0, 0):
        return None
    return AppendResponse(None, (WirePosition(partition, number),), offset, timestamp, partition_count)
