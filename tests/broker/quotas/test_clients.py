"""Quotas of a running broker: clients of Kafka and our own are throttled, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.broker.calls import Caller
from tests.support.broker.http import running_http, until
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.kafka_batches import batch_of
from tests.support.simulated_clock import SimulatedClock
from warren.broker.kafka.errors import Code
from warren.broker.quotas.entities import PRODUCED, TIME, Entity
from warren.broker.quotas.file import QuotasFile
from warren.broker.services.status import document_of
from warren.broker.settings import BrokerSettings
from warren.client.store import connect
from warren.protocol.api_keys import ApiKey

confluent_kafka = pytest.importorskip("confluent_kafka")


def batch(size: int) -> bytes:
    return batch_of([(None, bytes(size), [])])


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    with running_broker(tmp_path / "data") as running:
        running.broker.store.topic("orders")
        yield running


def set_quota(running: RunningBroker, entity: Entity, **values: float) -> None:
    """Sets it as another process does, and waits until the broker has noticed it."""
    QuotasFile(running.broker.store.path).alter([(entity, values)])
    until(lambda: running.broker.quotas._quotas.get(entity) is not None)


@pytest.mark.parametrize("version", [8, 9, 11])
def test_a_producer_over_its_quota_is_throttled(broker: RunningBroker, version: int) -> None:
    set_quota(broker, Entity("ANONYMOUS"), producer_byte_rate=10_000)
    part = {"index": 0, "records": batch(60_000)}
    values = {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": "orders", "partition_data": [part]}]}
    with Caller(broker) as caller:
        answer = caller.call(ApiKey.PRODUCE, version, values)
        connection = next(iter(broker.broker.connections))
        until(lambda: connection._muted is not None and connection._is_reading_paused)
        # As if the time had passed.
        broker.loop.call_soon_threadsafe(connection._unmute)
        after = caller.call(ApiKey.LIST_GROUPS, 0, {})

    assert 4_000 < answer.throttle_time_ms < 6_000
    assert after.error_code == Code.NONE
    assert broker.broker.quotas.throttled["ANONYMOUS"][0] == 1
    assert broker.broker.store.topic("orders").logs[0].end == 1


def test_requests_that_were_sent_already_wait_until_the_time_is_over(broker: RunningBroker) -> None:
    set_quota(broker, Entity("ANONYMOUS"), request_rate=2.0)
    with Caller(broker) as caller:
        answers = [caller.call(ApiKey.LIST_GROUPS, 1, {}) for _ in range(4)]

    assert answers[0].throttle_time_ms == 0
    assert answers[3].throttle_time_ms > 0


def test_a_consumer_gets_no_more_than_its_quota_and_is_throttled(broker: RunningBroker) -> None:
    with Caller(broker) as caller:
        for _ in range(5):
            caller.produce("orders", batch(4_000))
        set_quota(broker, Entity("ANONYMOUS"), consumer_byte_rate=10_000)
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        values = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1}
        values |= {"topics": [{"topic": "orders", "partitions": [part]}]}  # type: ignore[dict-item]
        answers = [caller.call(ApiKey.FETCH, 11, values) for _ in range(2)]

    sizes = [len(answer.responses[0].partitions[0].records) for answer in answers]
    assert max(sizes) < 13_000
    assert answers[1].throttle_time_ms > 0


def test_a_stop_does_not_wait_for_clients_that_are_throttled(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", settings=BrokerSettings(quotas={"request_rate": 0.2})) as running:
        with Caller(running) as caller:
            answer = caller.call(ApiKey.LIST_GROUPS, 1, {})
            running.loop.call_soon_threadsafe(running.broker.stop)
            until(lambda: not running.broker.connections)
        assert running.broker.stop_by_s > running.loop.time()

    assert answer.throttle_time_ms > 3000


def test_our_own_client_waits_before_it_sends_more(broker: RunningBroker) -> None:
    clock = SimulatedClock()
    with connect(broker.address) as store:
        topic = store.topic("orders")
        calls = store.calls
        set_quota(broker, Entity(None, "warren"), producer_byte_rate=100_000)
        topic.put(bytes(101_000))
        until_s = calls._throttled_until_s
        assert until_s > calls.clock.steady_s() - 60
        calls.clock = clock
        calls._throttled_until_s = clock.steady_s() + 5.0
        topic.put(b"small")

    assert until_s > 0
    assert clock.steady_s() == 5.0


def test_without_a_quota_the_throttle_time_is_zero(broker: RunningBroker) -> None:
    with connect(broker.address) as store:
        store.topic("orders").put(bytes(100_000))
        assert store.calls._throttled_until_s == 0.0


def _entry(each: Any) -> tuple[list[Any], list[Any]]:
    entity = [(one.entity_type, one.entity_name) for one in each.entity]
    return entity, [(one.key, one.value) for one in each.values]


def test_kafkas_admin_clients_set_see_and_remove_quotas(broker: RunningBroker) -> None:
    with Caller(broker) as caller:
        entity = [{"entity_type": "user", "entity_name": "ann"}]
        wrong = [{"entity_type": "group", "entity_name": "ann"}]
        op = {"key": PRODUCED, "value": 1000.0, "remove": False}
        entries = [{"entity": entity, "ops": [op]}, {"entity": wrong, "ops": [op]}]
        tried = caller.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": entries, "validate_only": True})
        none_yet = broker.broker.quotas.is_set
        altered = caller.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": entries, "validate_only": False})
        default = [{"entity_type": "user", "entity_name": None}, {"entity_type": "client-id", "entity_name": None}]
        entries = [{"entity": default, "ops": [{"key": TIME, "value": 50.0, "remove": False}]}]
        caller.call(ApiKey.ALTER_CLIENT_QUOTAS, 0, {"entries": entries, "validate_only": False})
        is_set = broker.broker.quotas.is_set

        def described(strict: bool, *components: tuple[str, int, str | None]) -> list[Any]:
            names = ("entity_type", "match_type", "match")
            filters = [dict(zip(names, each, strict=True)) for each in components]
            answer = caller.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": filters, "strict": strict})
            assert answer.error_code == Code.NONE, answer.error_message
            return [
                (
                    [(one.entity_type, one.entity_name) for one in each.entity],
                    [(one.key, one.value) for one in each.values],
                )
                for each in answer.entries
            ]

        ann = ([("user", "ann")], [(PRODUCED, 1000.0)])
        both = ([("user", None), ("client-id", None)], [(TIME, 50.0)])
        assert described(False) == [both, ann]
        assert described(True, ("user", 2, None)) == described(False, ("user", 0, "ann")) == [ann]
        assert (
            described(False, ("user", 1, None)) == described(True, ("user", 2, None), ("client-id", 1, None)) == [both]
        )
        assert described(False, ("ip", 2, None)) == []
        gone = [{"entity": entity, "ops": [{"key": PRODUCED, "value": 0.0, "remove": True}]}]
        caller.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": gone, "validate_only": False})
        assert described(False) == [both]
        bad = caller.call(
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            1,
            {"components": [{"entity_type": "x", "match_type": 2, "match": None}], "strict": False},
        )

    assert not none_yet
    assert [each.error_code for each in tried.entries] == [Code.NONE, Code.INVALID_REQUEST]
    assert [each.error_code for each in altered.entries] == [Code.NONE, Code.INVALID_REQUEST]
    assert is_set
    assert bad.error_code == Code.INVALID_REQUEST


def test_a_producer_of_confluent_is_throttled_and_loses_nothing(broker: RunningBroker) -> None:
    set_quota(broker, Entity(None, "greedy"), producer_byte_rate=200_000)
    throttles: list[float] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.address,
            "client.id": "greedy",
            "linger.ms": 0,
            "batch.num.messages": 1,
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        }
    )
    for _ in range(5):
        producer.produce("orders", bytes(50_000))
    assert producer.flush(30) == 0
    producer.poll(0)

    assert broker.broker.store.topic("orders").logs[0].end == 5
    assert broker.broker.quotas.throttled["ANONYMOUS"][0] >= 1
    assert throttles


def test_over_http_a_request_over_its_quota_gets_429_and_health_does_not(tmp_path: Path) -> None:
    settings = BrokerSettings(quotas={"request_rate": 0.2, "producer_byte_rate": 1_000_000.0})
    with running_http(tmp_path / "data", settings=settings) as served:
        first = served.ask("GET", "/v1/topics")
        second = served.ask("GET", "/v1/topics")
        health = served.ask("GET", "/healthz")
        metrics = served.ask("GET", "/metrics").data.decode()
        refused = served.broker.quotas.throttled["ANONYMOUS"][2]

    assert (first.status, health.status) == (200, 200)
    assert second.problem == (429, "quota_exceeded")
    assert 1 <= int(second.headers["Retry-After"]) <= 5
    assert refused == 1
    assert 'warren_quota_refusals_total{user="ANONYMOUS"} 1.0' in metrics
    assert 'warren_throttled_answers_total{user="ANONYMOUS"} 1.0' in metrics


def test_bodies_over_http_count_as_produced_and_consumed(tmp_path: Path) -> None:
    settings = BrokerSettings(quotas={"producer_byte_rate": 1_000.0, "consumer_byte_rate": 1e9})
    with running_http(tmp_path / "data", settings=settings) as served:
        served.put("orders", "x" * 5_000)

        assert served.ask("GET", "/v1/topics").problem == (429, "quota_exceeded")
        until(lambda: served.broker.quotas.throttled["ANONYMOUS"][0] == 1)
        quotas = document_of(served.broker)["quotas"]
        assert [(each["user"], each["throttled"], each["refused"]) for each in quotas] == [("ANONYMOUS", 1, 1)]


def test_a_user_has_no_more_connections_than_its_quota(tmp_path: Path) -> None:
    settings = BrokerSettings(sasl=True, quotas={"connections_max": 1.0})
    with running_broker(tmp_path / "data", settings=settings) as running:
        for user in ("ann", "bob"):
            running.broker.users.create(user, "a long password")
        with Caller(running) as first, Caller(running) as second, Caller(running) as third:
            codes = [caller.login(user, "a long password") for caller, user in ((first, "ann"), (second, "ann"))]
            codes.append(third.login("bob", "a long password"))

    assert codes == [Code.NONE, Code.SASL_AUTHENTICATION_FAILED, Code.NONE]


def test_an_address_over_its_rate_of_connections_is_refused(tmp_path: Path) -> None:
    settings = BrokerSettings(quotas={"connection_creation_rate": 0.01})
    with running_broker(tmp_path / "data", settings=settings) as running:
        with Caller(running) as first, Caller(running) as second:
            assert first.call(ApiKey.LIST_GROUPS, 0, {}).error_code == Code.NONE
            with pytest.raises((ConnectionError, AssertionError)):
                second.call(ApiKey.LIST_GROUPS, 0, {})

        assert running.broker.metrics.connections_refused == 1
