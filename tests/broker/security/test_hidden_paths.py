"""Clients do not learn the path of the store: errors name topic, partition and position, and the log has the path."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.calls import Caller
from tests.support.broker.http import Http, running_http
from tests.support.kafka_batches import batch_of
from tests.tidy.source import SOURCE
from warren.broker.services.hidden_paths import without_paths
from warren.errors import CorruptRecord, SyncFailed
from warren.protocol.api_keys import ApiKey

STORE = "/srv/my data"
SHOWN_ELSEWHERE = {"parked_records.py", "status.py", "identities.py", "configuration.py", "broker.py", "server.py"} | {
    # Of a replica that is not served as a store: its log, its connections to other brokers, and who leads.
    *("node.py", "registry_watch.py", "replica_host.py", "shard_registry.py", "forwarder.py"),
    *("kafka_answers.py", "master_link.py"),
    # A broker that does not start.
    "tls.py",
}
"""Modules in which the sentence of an error does not go into an answer unchanged."""


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f"{STORE}/topics/orders/0/000.block is damaged", "partition 0 of topic 'orders' is damaged"),
        (f"{STORE}/topics/orders/groups/g.1/ledger: no", "group 'g.1' of topic 'orders': no"),
        (f"{STORE}/topics/orders/topic.json (x)", "topic 'orders' (x)"),
        (f"{STORE}/topics/orders/delayed/hour/0.block", "topic 'orders'"),
        (f"[Errno 5] '{STORE}/users.json'; {STORE}", "[Errno 5] 'the store'; the store"),
        ("there is nothing at '/v1/topics'", "there is nothing at '/v1/topics'"),
    ],
)
def test_a_path_of_the_store_becomes_the_name_of_its_content(text: str, answer: str) -> None:
    assert without_paths(STORE, text) == answer


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Http]:
    with running_http(tmp_path / "the data") as running:
        running.broker.store.topic("orders").put(b"1")
        yield running


def ways(served: Http, is_put: bool) -> dict[str, Callable[[], str]]:
    """Yields, by protocol, a request that fails, and the error that its client gets."""
    new = {"topics": [{"name": "orders", "count": 2}], "timeout_ms": 1}
    parts = [{"index": 0, "records": batch_of([(None, b"1", [])])}]
    put = {"acks": -1, "timeout_ms": 1, "topic_data": [{"name": "orders", "partition_data": parts}]}

    def kafka() -> str:
        with Caller(served.running) as caller:
            if is_put:
                answer = caller.call(ApiKey.PRODUCE, 9, put)
                return str(answer.responses[0].partition_responses[0].error_message)
            return str(caller.call(ApiKey.CREATE_PARTITIONS, 3, new).results[0].error_message)

    def own() -> str:
        with warren.connect(served.running.address) as store:
            topic = store.topic("orders")
            with pytest.raises(warren.errors.WarrenError) as failed:
                topic.put(b"1") if is_put else topic.last(1)
        return f"{failed.value} {vars(failed.value)}"

    def http() -> str:
        body = {"messages": [{"body": "1"}]} if is_put else None
        return str(served.ask("POST" if is_put else "GET", "/v1/topics/orders/messages", body).document["detail"])

    return {"kafka": kafka, "own": own, "http": http}


def broken(served: Http, monkeypatch: pytest.MonkeyPatch, is_put: bool) -> str:
    """From now on a put, or a lookup of the topic, fails. Returns the path of the failing file."""
    path = f"{served.broker.store.path}/topics/orders/0/00000000000000000000.block"

    def fail(*arguments: Any, **named: Any) -> Any:
        raise SyncFailed(path, "EIO") if is_put else CorruptRecord(path, 77, "the checksum is wrong")

    queue, topics = served.broker.append_queue, served.broker.topics
    for owner, name in ((queue, "append"),) if is_put else ((topics, "find"),):
        monkeypatch.setattr(owner, name, fail)
    return path


@pytest.mark.parametrize("is_put", [True, False])
@pytest.mark.parametrize("door", ["kafka", "own", "http"])
def test_an_error_names_topic_and_partition_and_the_log_has_the_path(
    served: Http, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, door: str, is_put: bool
) -> None:
    path = broken(served, monkeypatch, is_put)

    with caplog.at_level(logging.WARNING, "warren.broker"):
        answer = ways(served, is_put)[door]()

    assert served.broker.store.path not in answer
    assert "partition 0 of topic 'orders'" in answer
    assert ("EIO" if is_put else "byte 77") in answer
    assert path in caplog.text


def test_the_fault_of_a_topic_is_shown_without_its_path(tmp_path: Path) -> None:
    with warren.open(tmp_path / "data") as store:
        store.topic("orders")
    (tmp_path / "data" / "topics" / "orders" / "topic.json").write_text("nothing")

    with running_http(tmp_path / "data") as served:
        (topic,) = served.get("/v1/topics")["topics"]

    assert topic["damage"].startswith("topic 'orders' cannot be read as settings")
    assert str(tmp_path) not in topic["damage"]


def test_no_answer_contains_the_unchanged_sentence_of_an_error() -> None:
    """Fails for each new module that builds an answer from an error without `without_paths`."""
    modules = [*(SOURCE / "warren" / "broker").rglob("*.py"), *(SOURCE / "warren" / "gateway").rglob("*.py")]
    plain = {
        path.name
        for path in modules
        if re.search(r"str\((error|failure)\)", path.read_text()) and path.name not in SHOWN_ELSEWHERE
    }

    # A malformed pattern, bytes that are not HTTP, and a value that a setting refuses: none names a file.
    assert plain == {"consumer_requests.py", "connection.py", "schemas.py"}
