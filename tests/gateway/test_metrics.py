"""Metrics in the format of Prometheus, with the right counts: requests, bytes, errors, puts, commits and lag."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.broker.http import Http, running_http, until
from tests.support.broker.running import PATIENCE_S
from warren.broker.kafka.errors import has_error
from warren.broker.services.metrics import Histogram
from warren.broker.services.status import quantile
from warren.protocol.kafka_messages import (
    MetadataResponse,
    MetadataResponseTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    SyncGroupResponse,
)
from warren.protocol.wire_struct import WireStruct

confluent_kafka = pytest.importorskip("confluent_kafka")
parser = pytest.importorskip("prometheus_client.parser")

WORKERS = frozenset({("topic", "orders"), ("group", "workers")})
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Http]:
    with running_http(tmp_path / "data", durability="commit") as server:
        yield server


def samples(served: Http) -> Samples:
    answered = served.ask("GET", "/metrics")
    assert answered.status == 200
    families = list(parser.text_string_to_metric_families(answered.data.decode()))
    assert len({family.name for family in families}) == len(families)
    assert all(family.documentation for family in families)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(metrics: Samples, name: str, **labels: str) -> float:
    return metrics[name, frozenset(labels.items())]


def produced(served: Http, topic: str, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": served.running.address, "linger.ms": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(PATIENCE_S) == 0


def test_requests_bytes_and_seconds_are_counted_by_api(served: Http) -> None:
    produced(served, "orders", 10)

    metrics = samples(served)

    requests = value(metrics, "warren_requests_total", api="Produce")
    assert requests >= 1
    assert value(metrics, "warren_request_bytes_total", api="Produce") > 10 * requests
    assert value(metrics, "warren_response_bytes_total", api="Produce") >= 10 * requests
    assert value(metrics, "warren_request_seconds_count", api="Produce") == requests
    assert value(metrics, "warren_request_seconds_bucket", api="Produce", le="+Inf") == requests
    assert value(metrics, "warren_request_seconds_sum", api="Produce") > 0
    assert value(metrics, "warren_request_errors_total", api="Produce") == 0
    assert value(metrics, "warren_connections_opened_total") >= 1
    assert value(metrics, "process_cpu_seconds_total") > 0


def test_fetches_and_waiting_consumers_are_counted(served: Http) -> None:
    produced(served, "orders", 3)
    settings = {"bootstrap.servers": served.running.address, "group.id": "g", "fetch.wait.max.ms": 50_000}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    for _ in range(3):
        assert consumer.poll(PATIENCE_S) is not None
    until(lambda: served.broker.long_polls.parked_count == 1)

    metrics = samples(served)
    produced(served, "orders", 1)
    assert consumer.poll(PATIENCE_S) is not None
    consumer.close()

    assert value(metrics, "warren_long_polls") == 1
    assert value(metrics, "warren_requests_total", api="Fetch") >= 1
    assert value(metrics, "warren_response_bytes_total", api="Fetch") > 0
    until(lambda: value(samples(served), "warren_connections") == 0)


def test_refused_requests_are_counted_as_errors(served: Http) -> None:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": served.running.address, "group.id": "g", "allow.auto.create.topics": False}
    )
    metadata = consumer.list_topics("none", timeout=PATIENCE_S)
    consumer.close()

    metrics = samples(served)

    assert metadata.topics["none"].error is not None
    assert value(metrics, "warren_request_errors_total", api="Metadata") >= 1


def test_puts_that_wait_together_share_a_commit(served: Http) -> None:
    served.put("orders", "first")
    before = samples(served)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: served.put("orders", str(number)), range(64)))

    after = samples(served)

    commits = value(after, "warren_commit_puts_count") - value(before, "warren_commit_puts_count")
    assert value(after, "warren_puts_total") - value(before, "warren_puts_total") == 64
    assert value(after, "warren_commit_puts_sum") - value(before, "warren_commit_puts_sum") == 64
    assert 1 <= commits <= 64
    assert value(after, "warren_waiting_puts") == 0


def test_topics_groups_and_parked_messages_have_metrics(served: Http) -> None:
    served.put("orders", "a", "b", "c")
    served.put("orders", "later", delay_s=3600)
    store = served.broker.store
    with store.topic("orders").group("readers") as group:
        group.read(limit=2)
        group.commit()
        served.ask("POST", "/v1/topics/orders/groups/workers/take", {"limit": 1})
        # A result from a moment ago may be returned again.
        until(lambda: ("warren_group_leased", WORKERS) in samples(served))

        metrics = samples(served)

    assert value(metrics, "warren_partition_end_number", topic="orders", partition="0") == 3
    assert value(metrics, "warren_partition_first_number", topic="orders", partition="0") == 0
    assert value(metrics, "warren_partition_bytes", topic="orders", partition="0") > 0
    assert value(metrics, "warren_topic_parked", topic="orders") == 1
    assert value(metrics, "warren_topic_damaged", topic="orders") == 0
    assert value(metrics, "warren_group_lag", topic="orders", group="readers", partition="0") == 1
    assert value(metrics, "warren_group_members", topic="orders", group="readers") == 1
    assert value(metrics, "warren_group_leased", topic="orders", group="workers") == 1


def test_a_waiting_request_is_counted(served: Http) -> None:
    served.put("orders", "a")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(served.get, "/v1/topics/orders/messages?number=1&wait_s=20")
        until(lambda: served.broker.long_polls.parked_count == 1)
        metrics = samples(served)
        served.put("orders", "b")

        assert waiting.result(PATIENCE_S)["next"] == 2

    assert value(metrics, "warren_long_polls") == 1
    assert value(samples(served), "warren_long_polls") == 0


def test_requests_over_http_are_counted_by_route_and_status(served: Http) -> None:
    served.put("orders", "a", "b")
    for path in ("/none", "/nowhere/either", "/v1/topics/gone"):
        served.ask("GET", path)

    metrics = samples(served)

    put, describe = "POST /v1/topics/{topic}/messages", "GET /v1/topics/{topic}"
    assert value(metrics, "warren_http_requests_total", route=put, status="201") == 1
    assert value(metrics, "warren_http_requests_total", route=describe, status="404") == 1
    assert value(metrics, "warren_http_requests_total", route="none", status="404") == 2
    assert value(metrics, "warren_http_request_bytes_total") == len(b'{"messages": [{"body": "a"}, {"body": "b"}]}')
    assert value(metrics, "warren_http_response_bytes_total") > 0


def test_an_unreadable_topic_is_reported_and_the_others_are_shown(served: Http) -> None:
    served.put("good", "a")
    served.put("bad", "a")
    Path(served.broker.store.path, "topics", "bad", "topic.json").write_text("{")
    until(lambda: value(samples(served), "warren_topic_damaged", topic="bad") == 1)

    page = served.ask("GET", "/")

    assert value(samples(served), "warren_topic_damaged", topic="good") == 0
    assert b"damaged" in page.data


def test_the_page_shows_topics_and_groups_without_scripts_or_anything_from_elsewhere(served: Http) -> None:
    served.put("orders", "a", "b")
    served.ask("POST", "/v1/topics/orders/groups/workers/take", {"limit": 1})

    page = served.ask("GET", "/")

    text = page.data.decode()
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "<script" not in text
    assert "http:" not in text
    assert '<th scope="row">orders</th>' in text
    assert '<th scope="row">workers</th>' in text


def test_a_narrow_screen_shows_only_names_and_lags(served: Http) -> None:
    served.put("orders", "a")
    served.ask("POST", "/v1/topics/orders/groups/workers/take", {"limit": 1})

    text = served.ask("GET", "/").data.decode()

    narrow = re.findall(r'<th scope="col"(?: class="number")?>(\w+)</th>', text)
    assert narrow == ["topic", "messages", "parked", "group", "behind", "topic"]
    assert "@media (max-width: 40rem) { .wide { display: none; }" in text
    assert re.search(r"tbody th \{[^}]*min-width: 8rem", text)


def test_a_histogram_counts_up_to_its_bounds() -> None:
    histogram = Histogram((1.0, 2.0))
    for number in (0.5, 1.0, 1.5, 99.0):
        histogram.add(number)

    assert histogram.cumulated() == [2, 3, 4]
    assert (histogram.count, histogram.sum) == (4, 102.0)
    assert [quantile(histogram, part) for part in (0.5, 0.75, 0.99)] == [1.0, 2.0, None]
    assert quantile(Histogram((1.0,)), 0.5) is None


@pytest.mark.parametrize(
    ("answer", "is_one"),
    [
        (OffsetDeleteResponse(topics=[]), False),
        (OffsetDeleteResponse(error_code=3), True),
        (MetadataResponse(topics=[MetadataResponseTopic(0, "a"), MetadataResponseTopic(3, "b")]), True),
        (OffsetDeleteResponse(topics=[OffsetDeleteResponseTopic("a", [OffsetDeleteResponsePartition(0, 6)])]), True),
        (SyncGroupResponse(protocol_name="error", assignment=b"abc"), False),
    ],
)
def test_an_error_in_an_answer_is_recognised(answer: WireStruct, is_one: bool) -> None:
    assert has_error(answer) is is_one
