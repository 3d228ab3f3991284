"""Kafka members and embedded members of a group never own a partition at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.group_clients import (
    OfAiokafka,
    OfKafkaPython,
    consumed,
    consumer,
    make_topic,
    polled,
    produce,
    until,
)
from tests.support.broker.kafka_python import LEAVES_SOCKETS
from tests.support.broker.running import PATIENCE_S, RunningBroker, running_broker
from warren.queue.stream.stream_group import StreamGroup

pytest.importorskip("confluent_kafka")
pytest.importorskip("kafka")
pytest.importorskip("aiokafka")
pytestmark = LEAVES_SOCKETS
PROTOCOLS = ["classic", "consumer"]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data") as running:
        make_topic(running, "orders", 3)
        yield running


@pytest.fixture
def store(broker: RunningBroker) -> Iterator[warren.Store]:
    with warren.open(broker.broker.store.path) as opened:
        yield opened


def read(member: StreamGroup, count: int) -> list[int]:
    """An embedded member reads until it has `count` messages, and commits."""
    values: list[int] = []
    while len(values) < count:
        messages = member.read(wait=PATIENCE_S)
        assert messages, f"{len(values)} of {count} came"
        values += [int(message.body) for message in messages]
    member.commit()
    return values


def numbers(messages: list[Any]) -> list[int]:
    return sorted(int(message.value()) for message in messages)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_embedded_members_own_nothing_while_kafka_members_live_and_continue_at_their_commits(
    broker: RunningBroker, store: warren.Store, protocol: str
) -> None:
    produce(broker, "orders", range(30))
    reader = consumer(broker, **{"group.protocol": protocol})
    reader.subscribe(["orders"])
    earlier = consumed([reader], 30)
    reader.commit(asynchronous=False)

    with store.topic("orders").group("readers") as member:
        assert (member.partitions, member.read(wait=0.3)) == ([], [])
        reader.close()
        produce(broker, "orders", range(30, 40))
        later = read(member, 10)

    assert numbers(earlier) == list(range(30))
    assert sorted(later) == list(range(30, 40))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_kafka_members_wait_while_embedded_members_live_and_continue_at_their_commits(
    broker: RunningBroker, store: warren.Store, protocol: str
) -> None:
    produce(broker, "orders", range(30))
    errors: list[Any] = []
    reader = consumer(broker, **{"group.protocol": protocol, "error_cb": errors.append})

    with store.topic("orders").group("readers") as member:
        earlier = read(member, 30)
        reader.subscribe(["orders"])
        for _ in range(50):
            assert polled([reader]) == []
        assert member.partitions == [0, 1, 2]
        produce(broker, "orders", range(30, 40))
        earlier += read(member, 10)
    produce(broker, "orders", range(40, 50))
    later = consumed([reader], 10)
    reader.close()

    assert (sorted(earlier), numbers(later), errors) == (list(range(40)), list(range(40, 50)), [])


@pytest.mark.parametrize("kind", [OfKafkaPython, OfAiokafka])
def test_members_of_other_clients_wait_quietly_as_well(broker: RunningBroker, store: warren.Store, kind: Any) -> None:
    produce(broker, "orders", range(30))
    bodies: list[bytes] = []
    with ThreadPoolExecutor(1) as pool, store.topic("orders").group("readers") as member:
        earlier = read(member, 30)
        made = pool.submit(kind, broker)
        wait([made], timeout=0.5)
        if made.done():
            bodies += made.result().poll(0.5)
        assert (bodies, member.partitions) == ([], [0, 1, 2])
        member.close()
        reader = made.result(PATIENCE_S)

    produce(broker, "orders", range(30, 40))
    until(lambda: len(bodies) == 10, [Feeding(reader, bodies)])
    reader.close()

    assert (sorted(earlier), sorted(map(int, bodies))) == (list(range(30)), list(range(30, 40)))


class Feeding:
    """A member that appends its messages to a list."""

    def __init__(self, member: Any, bodies: list[bytes]) -> None:
        self._member, self._bodies = member, bodies

    def poll(self, timeout_s: float) -> None:
        self._bodies += self._member.poll(timeout_s)


def test_a_topic_that_members_subscribe_to_no_longer_is_let_go_of(broker: RunningBroker, store: warren.Store) -> None:
    make_topic(broker, "invoices", 1)
    produce(broker, "orders", range(3))
    produce(broker, "invoices", [7])
    reader = consumer(broker)
    reader.subscribe(["orders"])
    consumed([reader], 3)
    reader.subscribe(["invoices"])
    consumed([reader], 1)

    with store.topic("orders").group("readers") as orders, store.topic("invoices").group("readers") as invoices:
        until(lambda: bool(orders.read()) or orders.partitions == [0, 1, 2], [reader])
        owned = invoices.partitions
    reader.close()

    assert owned == []


def test_a_broker_that_stops_lets_go_of_everything(tmp_path: Path) -> None:
    with running_broker(tmp_path / "other") as running:
        make_topic(running, "orders", 2)
        produce(running, "orders", range(4))
        reader = consumer(running)
        reader.subscribe(["orders"])
        consumed([reader], 4)
        reader.commit(asynchronous=False)
    reader.close()

    with warren.open(tmp_path / "other") as store, store.topic("orders").group("readers") as member:
        assert member.partitions == [0, 1]
        assert member.lag() == {0: 0, 1: 0}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_kafka_members_of_a_queue_group_get_an_error(broker: RunningBroker, store: warren.Store, protocol: str) -> None:
    store.topic("orders").group("readers", mode="queue").close()
    reader = consumer(broker, **{"group.protocol": protocol})
    reader.subscribe(["orders"])

    answer = reader.poll(PATIENCE_S)
    reader.close()

    assert "Inconsistent group protocol" in answer.error().str()


def test_a_client_that_is_no_member_commits_only_unowned_partitions(broker: RunningBroker, store: warren.Store) -> None:
    from confluent_kafka import KafkaException, TopicPartition

    produce(broker, "orders", range(9))
    loner = consumer(broker)
    loner.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)

    with store.topic("orders").group("readers") as member:
        assert member.position(0) == 2
        with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
            loner.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        assert member.position(0) == 2
    loner.close()
