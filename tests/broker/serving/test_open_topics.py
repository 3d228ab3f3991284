"""A broker opens topics before they are requested, so that no request waits on the event loop until one is open."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.calls import Caller
from tests.support.broker.http import running_http
from tests.support.broker.running import running_broker
from tests.support.kafka_batches import batch_of
from tests.support.patience import until
from warren.broker.services import open_topics
from warren.broker.services.batch_checks import BATCHES_LOOKED_INTO_FIRST
from warren.broker.services.topics import Topics
from warren.protocol.api_keys import ApiKey
from warren.protocol.native_schemas import NativeKey
from warren.queue.topic import Topic


def test_all_topics_are_open_before_the_first_connection(tmp_path: Path) -> None:
    with warren.open(tmp_path / "data") as store:
        store.topic("orders", partitions=3)
        store.topic("bills")

    with running_broker(tmp_path / "data") as running:
        opened = [running.broker.store.opened_topic(name) for name in ("bills", "orders")]

    assert all(topic is not None for topic in opened)


def test_a_topic_that_another_process_makes_is_opened_unasked(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as running:
        with warren.open(tmp_path / "data") as other:
            other.topic("orders")

        until(lambda: running.broker.store.opened_topic("orders") is not None)


def test_a_topic_that_cannot_be_opened_is_logged_once_and_keeps_no_other_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with warren.open(tmp_path / "data") as store:
        store.topic("bills")
        store.topic("orders")
    (tmp_path / "data" / "topics" / "bills" / "topic.json").write_text("{")

    with caplog.at_level(logging.WARNING, "warren.broker"), running_broker(tmp_path / "data") as running:
        with warren.open(tmp_path / "data") as other:
            other.topic("late")
        # A check after the first one has read the damaged topic twice.
        until(lambda: running.broker.store.opened_topic("late") is not None)
        opened = running.broker.store.opened_topic("orders")

    assert opened is not None
    failures = [record.getMessage() for record in caplog.records if record.name == "warren.broker"]
    assert [failure.split(":")[0] for failure in failures] == ["topic bills cannot be opened"]


# --- Topics that a request names before the broker has looked for them ---


@pytest.fixture
def unlooked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker does not look for topics that others make."""
    monkeypatch.setattr(open_topics, "TOPICS_LOOK_S", 3600.0)


def threads_that_open(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that open topics from now on."""
    threads: list[str] = []
    init = Topic.__init__

    def opened(*arguments: Any, **named: Any) -> None:
        threads.append(threading.current_thread().name.split("_")[0])
        init(*arguments, **named)

    monkeypatch.setattr(Topic, "__init__", opened)
    return threads


def test_our_own_requests_have_topics_opened_off_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unlooked: None
) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        with warren.open(tmp_path / "data") as store:
            for name in ("read", "timed", "scanned"):
                store.topic(name).put(b"x")
        threads = threads_that_open(monkeypatch)
        positions = [{"partition": 0, "number": 0}]
        caller.call(NativeKey.READ, 0, {"topic": "read", "positions": positions, "limit": 1})
        caller.call(NativeKey.FIND_TIME, 0, {"topic": "timed", "time": 0})
        caller.call(
            NativeKey.SCAN, 0, {"topic": "scanned", "partition": 0, "start": 0, "end": -1, "columns": ["number"]}
        )

    assert threads == ["warren-broker"] * 3


NOTHING = -100
"""Stands for an answer without an error and without the message."""


def ask_of_kafka(caller: Caller, kind: str, topic: str) -> int:
    """Asks something about the only message of a topic. Returns the error."""
    named: dict[str, Any] = {"name": topic}
    if kind == "produce":
        return caller.produce(topic, batch_of([(None, b"y", [])]))[0]
    if kind == "fetch":
        parts = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
        limits = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1000, "session_epoch": -1}
        answer = caller.call(ApiKey.FETCH, 11, limits | {"topics": [{"topic": topic, "partitions": parts}]})
        part = answer.responses[0].partitions[0]
        return int(part.error_code) or (NOTHING if not part.records else 0)
    if kind == "list":
        named["partitions"] = [{"partition_index": 0, "timestamp": -1}]
        answer = caller.call(ApiKey.LIST_OFFSETS, 5, {"replica_id": -1, "topics": [named]})
        return int(answer.topics[0].partitions[0].error_code)
    values: dict[str, Any] = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": ""}
    if kind == "commit":
        named["partitions"] = [{"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}]
        answer = caller.call(ApiKey.OFFSET_COMMIT, 8, values | {"topics": [named]})
        return int(answer.topics[0].partitions[0].error_code)
    named["partition_indexes"] = [0]
    groups = [{"group_id": "g", "topics": [named]}]
    answer = caller.call(ApiKey.OFFSET_FETCH, 8, {"groups": groups, "require_stable": False})
    return int(answer.groups[0].topics[0].partitions[0].error_code)


KAFKA_REQUESTS = ("produce", "fetch", "list", "commit", "committed")


def test_kafkas_requests_have_topics_opened_off_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unlooked: None
) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        broker.broker.store.topic("known")
        # The first batches of a connection take a way of their own, and later ones another.
        assert [ask_of_kafka(caller, "produce", "known") for _ in range(BATCHES_LOOKED_INTO_FIRST)] == [0, 0]
        with warren.open(tmp_path / "data") as store:
            for name in ("new", *KAFKA_REQUESTS):
                store.topic(name).put(b"x")
        threads = threads_that_open(monkeypatch)

        errors = [ask_of_kafka(caller, kind, kind) for kind in KAFKA_REQUESTS]
        with Caller(broker) as fresh:
            errors.append(ask_of_kafka(fresh, "produce", "new"))

    assert errors == [0] * 6
    assert threads == ["warren-broker"] * 6


def test_a_topic_that_many_partitions_of_a_request_wait_for_is_opened_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unlooked: None
) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        with warren.open(tmp_path / "data") as store:
            store.topic("orders", 20)
        threads = threads_that_open(monkeypatch)
        works: list[str] = []
        in_thread = broker.broker.open_topics._in_thread

        def noted(work: Any, *arguments: Any) -> Any:
            works.append(work.__name__)
            return in_thread(work, *arguments)

        broker.broker.open_topics._in_thread = noted  # type: ignore[assignment]
        parts = [{"index": number, "records": batch_of([(None, b"y", [])])} for number in range(20)]
        values = {"transactional_id": None, "acks": -1, "timeout_ms": 1000}
        answer = caller.call(ApiKey.PRODUCE, 9, values | {"topic_data": [{"name": "orders", "partition_data": parts}]})

    assert [part.error_code for part in answer.responses[0].partition_responses] == [0] * 20
    assert (threads, works) == (["warren-broker"], ["_open_each"])


@pytest.mark.parametrize("kind", KAFKA_REQUESTS)
def test_a_request_for_a_topic_that_cannot_be_opened_is_answered_with_an_error(
    tmp_path: Path, unlooked: None, kind: str
) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        with warren.open(tmp_path / "data") as store:
            store.topic("orders").put(b"x")
        (tmp_path / "data" / "topics" / "orders" / "topic.json").write_text("{")

        assert ask_of_kafka(caller, kind, "orders") not in (0, NOTHING)
        # A Produce to a topic that does not exist would make it.
        assert kind == "produce" or ask_of_kafka(caller, kind, "nowhere") == (0 if kind == "committed" else 3)


def test_http_has_topics_opened_off_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unlooked: None
) -> None:
    with running_http(tmp_path / "data") as http:
        with warren.open(tmp_path / "data") as store:
            for name in ("read", "groups"):
                store.topic(name).put(b"x")
        threads = threads_that_open(monkeypatch)

        assert len(http.get("/v1/topics/read/messages")["messages"]) == 1
        http.get("/v1/topics/groups/groups")

    assert threads == ["warren-broker"] * 2


def test_the_id_of_a_topic_is_found_without_opening_other_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with warren.open(tmp_path / "data") as store:
        id = Topics(store).id_of(store.topic("orders"))
        store.topic("bills")
    threads = threads_that_open(monkeypatch)
    with warren.open(tmp_path / "data") as store:
        topic = Topics(store).find_by_id(id)

    assert str(topic.name) == "orders"
    assert len(threads) == 1
