"""Requests that name topics, and the errors of their answers, by name."""

from __future__ import annotations

from typing import Any, Final

from tests.support.kafka_batches import batch_of
from warren.protocol.api_keys import ApiKey
from warren.protocol.wire_struct import WireStruct, fields_of

CONFIG_ERROR: Final = "topic_config_error_code"


def errors_of(answer: Any, name: str) -> list[int]:
    """Returns every error that an answer has for the topic or group of this name."""
    if isinstance(answer, list | tuple):
        return [error for one in answer for error in errors_of(one, name)]
    if not isinstance(answer, WireStruct):
        return []
    if name in [value for value in fields_of(answer).values() if isinstance(value, str)]:
        return _all_errors(answer)
    return [error for value in fields_of(answer).values() for error in errors_of(value, name)]


def _all_errors(answer: Any) -> list[int]:
    if isinstance(answer, list | tuple):
        return [error for one in answer for error in _all_errors(one)]
    if not isinstance(answer, WireStruct):
        return []
    mine = [value for name, value in fields_of(answer).items() if name.endswith("error_code") and name != CONFIG_ERROR]
    return [*mine, *(error for value in fields_of(answer).values() for error in _all_errors(value))]


def requests_for(*topics: str) -> dict[ApiKey, tuple[int, dict[str, Any]]]:
    """A request of each kind that names topics, with its version."""
    parts = [{"partition_index": 0}]
    fetched = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    configs = [{"resource_type": 2, "resource_name": topic, "configs": []} for topic in topics]
    retention = {"name": "retention.ms", "value": "3600000"}
    produced = [{"index": 0, "records": batch_of([(None, b"1", [])])}]
    committed = [{"partition_index": 0, "committed_offset": 0}]
    return {
        ApiKey.METADATA: (9, {"topics": [{"name": topic} for topic in topics], "allow_auto_topic_creation": True}),
        ApiKey.PRODUCE: (
            9,
            {
                "acks": -1,
                "timeout_ms": 1000,
                "topic_data": [{"name": topic, "partition_data": produced} for topic in topics],
            },
        ),
        ApiKey.FETCH: (
            11,
            {"max_bytes": 1000, "topics": [{"topic": topic, "partitions": fetched} for topic in topics]},
        ),
        ApiKey.LIST_OFFSETS: (
            7,
            {"topics": [{"name": topic, "partitions": [{**parts[0], "timestamp": -1}]} for topic in topics]},
        ),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (
            3,
            {"topics": [{"topic": topic, "partitions": [{"partition": 0, "leader_epoch": 0}]} for topic in topics]},
        ),
        ApiKey.DESCRIBE_CONFIGS: (
            4,
            {"resources": [{**one, "configuration_keys": None} for one in _without(configs, "configs")]},
        ),
        ApiKey.ALTER_CONFIGS: (2, {"resources": [{**one, "configs": [retention]} for one in configs]}),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (
            1,
            {"resources": [{**one, "configs": [{**retention, "config_operation": 0}]} for one in configs]},
        ),
        ApiKey.OFFSET_COMMIT: (
            7,
            {
                "group_id": "billing",
                "generation_id_or_member_epoch": -1,
                "topics": [{"name": topic, "partitions": committed} for topic in topics],
            },
        ),
        ApiKey.DELETE_RECORDS: (
            2,
            {"topics": [{"name": topic, "partitions": [{**parts[0], "offset": 0}]} for topic in topics]},
        ),
        ApiKey.CREATE_PARTITIONS: (
            3,
            {"topics": [{"name": topic, "count": 2, "assignments": None} for topic in topics], "timeout_ms": 1000},
        ),
        ApiKey.DELETE_TOPICS: (5, {"topic_names": list(topics), "timeout_ms": 1000}),
    }


def _without(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != name} for row in rows]
