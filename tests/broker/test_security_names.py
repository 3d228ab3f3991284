"""Names that would be paths: refused by every request that takes one, and no file is made of them."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fuzz.valid import Knowledge, values_for
from tests.support.broker.calls import Caller
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.kafka_batches import batch_of
from tests.support.protocol_values import message_named
from warren.broker.kafka.errors import Code
from warren.protocol.api_keys import APIS, ApiKey
from warren.protocol.native.calls import wire_settings
from warren.protocol.native_schemas import NativeKey
from warren.protocol.wire_struct import WireStruct, fields_of
from warren.queue.state.settings import ALLOWED

PATHS: Final = ("../evil", "..", "/tmp/evil", "a/../../evil", "a\0b", ".hidden", "x" * 250)
SKIPPED: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS, ApiKey.PRODUCE)

CONFIG_ERROR: Final = "topic_config_error_code"
"""Says that the settings of a new topic may not be read. The broker never sends it."""


def errors_of(answer: Any, name: str) -> list[int]:
    """Every error that an answer has for what is called so."""
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


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    with running_broker(tmp_path / "here" / "data") as running:
        yield running


@pytest.mark.parametrize("path", PATHS)
def test_every_request_refuses_a_path_for_a_topic(broker: RunningBroker, path: str, tmp_path: Path) -> None:
    made = {"name": path, "num_partitions": 1, "replication_factor": 1}
    asked = {**requests_for(path), ApiKey.CREATE_TOPICS: (5, {"topics": [made], "timeout_ms": 1000})}
    with Caller(broker) as caller:
        found = {key: errors_of(caller.call(key, *request), path) for key, request in asked.items()}

    assert {key: errors for key, errors in found.items() if not errors or Code.NONE in errors} == {}
    assert [each.name for each in tmp_path.iterdir()] == ["here"]
    assert broker.broker.store.topics() == []


@pytest.mark.parametrize("path", PATHS)
def test_no_request_makes_a_file_of_a_path(broker: RunningBroker, path: str, tmp_path: Path) -> None:
    with Caller(broker) as caller:
        caller.produce("orders", batch_of([(None, b"1", [])]))
        caller.call(NativeKey.OPEN_SESSION, 0, {"session": bytes(15) + b"\1"})
        for api in APIS.values():
            if api.key in SKIPPED:
                continue
            values = values_for(message_named(f"{api.name}Request").fields, api.last, random.Random(1), Knowledge())
            caller.call(api.key, api.last, _renamed(values, path))  # type: ignore[arg-type]

    assert [each.name for each in tmp_path.iterdir()] == ["here"]
    assert [each.name for each in (tmp_path / "here").iterdir()] == ["data"]
    topics = tmp_path / "here" / "data" / "topics"
    assert all(ALLOWED.fullmatch(each.name) for each in topics.rglob("*"))


def test_a_path_outside_the_store_is_no_topic(broker: RunningBroker, tmp_path: Path) -> None:
    broker.broker.store.topic("orders")
    elsewhere = tmp_path / "here" / "evil"
    shutil.copytree(tmp_path / "here" / "data" / "topics" / "orders", elsewhere)
    before = {each: each.read_bytes() for each in elsewhere.rglob("*") if each.is_file()}
    path = "../../evil"
    with Caller(broker) as caller:
        caller.call(NativeKey.OPEN_SESSION, 0, {"session": bytes(15) + b"\1"})
        for api in APIS.values():
            if api.key in SKIPPED:
                continue
            values = _renamed(
                values_for(message_named(f"{api.name}Request").fields, api.last, random.Random(2), Knowledge()), path
            )
            if api.key == NativeKey.CONFIGURE_TOPIC:
                values["settings"] = wire_settings({"retention_bytes": 12345})
            caller.call(api.key, api.last, values)  # type: ignore[arg-type]

    assert {each: each.read_bytes() for each in elsewhere.rglob("*") if each.is_file()} == before


def _renamed(value: Any, path: str) -> Any:
    """The same, with the path for every text but those that say what is to be done."""
    if isinstance(value, dict):
        kept = ("action", "mode", "to", "protocol_type")
        return {name: one if name in kept else _renamed(one, path) for name, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, path) for one in value]
    return path if isinstance(value, str) else value
