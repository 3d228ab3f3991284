"""The requests of one connection: a Produce that is laid out as the one before it is read by one operation."""

from __future__ import annotations

from typing import Final

from warren.protocol.api import ApiKey
from warren.protocol.codec import (
    ACKS_AND_TIMEOUT,
    INT16,
    INT32,
    KEY_AND_VERSION_SIZE,
    LONE_PRODUCE_FIELDS,
    compact_size,
    lone_produce_layout,
    size32,
)
from warren.protocol.heads import Request, read_request
from warren.protocol.produce import NO_TAGS, PRODUCE, LoneProduce, read_lone_produce
from warren.storage.layout import KAFKA_BATCH_HEAD, KafkaBatchHead

UNLIKE_MAX: Final = 16
"""After so many requests that were not like the one that is remembered another one is."""


class RequestReader:
    """Reads the requests of one connection. One thread at a time.

    Whoever produces sends the same again and again, but for the records: client, topic and all sizes but one are
    compared with those of a request before, and neither read nor checked once more.
    """

    def __init__(self) -> None:
        self._like: _Like | None = None
        self._unlike_count = 0

    def read(self, frame: memoryview) -> Request:
        """The request in `frame`, with all of it that was read; MalformedRequest where there is none."""
        like = self._like
        if like is not None:
            same = like.read(frame)
            if same is not None:
                return same
        request = read_request(frame)
        if request.api_key != ApiKey.PRODUCE:
            return request
        lone = read_lone_produce(request.version, request.body)
        if lone is None:
            return request
        self._unlike_count += 1
        if like is None or self._unlike_count >= UNLIKE_MAX:
            self._like, self._unlike_count = _Like(frame, request, lone), 0
        return request._replace(lone=lone)


class _Like:
    """What stays the same of a Produce of one batch, and where the rest lies."""

    __slots__ = ("_body_at", "_client", "_named", "_records_at", "_request", "_size", "_start", "_tail", "_unpack")

    def __init__(self, frame: memoryview, request: Request, lone: LoneProduce) -> None:
        is_flexible = request.version >= PRODUCE.flexible_from
        body_at = self._body_at = len(frame) - len(request.body)
        # Before this stands the transactional id, which is null.
        acks_at = body_at + (1 if is_flexible else INT16.size)
        named_at = acks_at + ACKS_AND_TIMEOUT.size
        # A topic, its name, and a partition: two counts and a size.
        counts_size = 3 if is_flexible else INT32.size + INT16.size + INT32.size
        partition_at = named_at + counts_size + len(lone.topic.encode())
        self._records_at = body_at + lone.records_at
        self._tail = len(NO_TAGS) if is_flexible else 0
        self._size = compact_size if is_flexible else size32
        size_size = self._records_at - partition_at - INT32.size
        client_at = KEY_AND_VERSION_SIZE + INT32.size
        self._start = bytes(frame[:KEY_AND_VERSION_SIZE])
        self._client, self._named = bytes(frame[client_at:acks_at]), bytes(frame[named_at:partition_at])
        self._unpack = lone_produce_layout(len(self._client), len(self._named), size_size).unpack_from
        self._request = request.api_key, request.version, request.client_id, lone.topic, lone.records_at

    def read(self, frame: memoryview) -> Request | None:
        """The request in `frame`; None where it is not like the one before."""
        records_at = self._records_at
        end = len(frame) - self._tail
        size = end - records_at
        if size < KAFKA_BATCH_HEAD.size:
            return None
        fields = self._unpack(frame)
        start, correlation_id, client, acks, timeout_ms, named, partition, size_bytes = fields[:LONE_PRODUCE_FIELDS]
        if start != self._start or client != self._client or named != self._named or size_bytes != self._size(size):
            return None
        if self._tail and frame[end:] != NO_TAGS:
            return None
        api_key, version, client_id, topic, lone_at = self._request
        # Made as tuples, which takes a third of the time.
        make, records = tuple.__new__, frame[records_at:end]
        head = make(KafkaBatchHead, fields[LONE_PRODUCE_FIELDS:])
        lone = make(LoneProduce, (acks, timeout_ms, topic, partition, records, lone_at, head))
        return make(Request, (api_key, version, correlation_id, client_id, frame[self._body_at :], lone))
