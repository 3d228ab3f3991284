"""Requests as a client of Kafka sends them, ready to be sent again and again."""

from __future__ import annotations

from typing import Final

from warren.message import Message
from warren.protocol.api_keys import ApiKey
from warren.protocol.kafka.record_batch import build
from warren.protocol.native.calls import request_bytes

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
    return request_bytes(ApiKey.PRODUCE, PRODUCE_VERSION, 1, CLIENT_ID, values)


def fetch_frame(topic: str, number: int, wait_ms: int) -> bytes:
    """Whatever there is from `number` on in the first partition, after a wait for it."""
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
    return request_bytes(ApiKey.FETCH, FETCH_VERSION, 1, CLIENT_ID, values)
