"""Requests as a client of Kafka sends them, ready to be sent repeatedly."""

from __future__ import annotations

from typing import Final

from tests.support.message_values import Values, encode_request
from warren.message import Message
from warren.protocol.api_keys import APIS, ApiKey
from warren.protocol.headers import Request, request_frame
from warren.protocol.kafka.record_batch import build
from warren.protocol.primitives import INT32

CLIENT_ID: Final = "load"
PRODUCE_VERSION: Final = 7
FETCH_VERSION: Final = 11
BYTES_MAX: Final = 1 << 20


def produce_frame(topic: str, body: bytes) -> bytes:
    """One message to the first partition, acks=all."""
    message = Message(0, 0, 0, topic, 0, "", "", None, {}, -1, body, 0)
    partition = {"index": 0, "records": b"".join(build([message]))}
    values = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 30_000,
        "topic_data": [{"name": topic, "partition_data": [partition]}],
    }
    return _sized(ApiKey.PRODUCE, PRODUCE_VERSION, values)


def fetch_frame(topic: str, number: int, wait_ms: int) -> bytes:
    """All messages from `number` on in the first partition, after a wait for them."""
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": number,
        "log_start_offset": -1,
        "partition_max_bytes": BYTES_MAX,
    }
    values = {
        "replica_id": -1,
        "max_wait_ms": wait_ms,
        "min_bytes": 1,
        "max_bytes": BYTES_MAX,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }
    return _sized(ApiKey.FETCH, FETCH_VERSION, values)


def _sized(key: ApiKey, version: int, values: Values) -> bytes:
    request = Request(key, version, 1, CLIENT_ID, memoryview(encode_request(key, version, values)))
    frame = request_frame(request, is_flexible=APIS[key].is_flexible(version))
    return INT32.pack(len(frame)) + frame
