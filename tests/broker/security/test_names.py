"""Names that would be paths are refused by every request, and no file is created for them."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fuzz.valid import Knowledge, values_for
from tests.support.broker.calls import Caller
from tests.support.broker.named_topics import errors_of, requests_for
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.kafka_batches import batch_of
from tests.support.protocol_values import message_named
from warren.broker.kafka.errors import Code
from warren.protocol.api_keys import APIS, ApiKey
from warren.protocol.native.calls import wire_settings
from warren.protocol.native_schemas import NativeKey
from warren.queue.state.settings import ALLOWED

PATHS: Final = ("../evil", "..", "/tmp/evil", "a/../../evil", "a\0b", ".hidden", "x" * 250)
SKIPPED: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS, ApiKey.PRODUCE)

"""The code for settings of a new topic that may not be read. The broker never sends it."""


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    with running_broker(tmp_path / "here" / "data") as running:
        yield running


@pytest.mark.parametrize("path", PATHS)
def test_every_request_refuses_a_path_for_a_topic(broker: RunningBroker, path: str, tmp_path: Path) -> None:
    made = {"name": path, "num_partitions": 1, "replication_factor": 1}
    requests = {**requests_for(path), ApiKey.CREATE_TOPICS: (5, {"topics": [made], "timeout_ms": 1000})}
    with Caller(broker) as caller:
        errors_by_key = {key: errors_of(caller.call(key, *request), path) for key, request in requests.items()}

    assert {key: errors for key, errors in errors_by_key.items() if not errors or Code.NONE in errors} == {}
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
    """Returns the request with the path in place of every text, except texts that name an action."""
    if isinstance(value, dict):
        unchanged = ("action", "mode", "to", "protocol_type")
        return {name: one if name in unchanged else _renamed(one, path) for name, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, path) for one in value]
    return path if isinstance(value, str) else value
