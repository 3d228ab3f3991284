"""Kafka's own clients against the broker: they consume what they produce, and Warren reads it too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import warren
from tests.support.broker.running import PATIENCE_S, RunningBroker, running_broker

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

COMPRESSIONS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture(params=["os", "commit"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data", durability=request.param) as running:
        yield running


def producer(broker: RunningBroker, **config: Any) -> Any:
    return confluent_kafka.Producer(
        {"bootstrap.servers": broker.address, "log_level": 0, "acks": "all", "linger.ms": 5, **config}
    )


def consumer(broker: RunningBroker, **config: Any) -> Any:
    settings = {
        "bootstrap.servers": broker.address,
        "log_level": 0,
        "group.id": "readers",
        "auto.offset.reset": "earliest",
    }
    return confluent_kafka.Consumer(settings | config)


def consumed(consumers: list[Any], count: int) -> list[Any]:
    """Polls in turns, without a pause as long as one of the consumers has messages."""
    messages: list[Any] = []
    deadline = monotonic() + PATIENCE_S
    wait_s = 0.0
    while len(messages) < count and monotonic() < deadline:
        count_before = len(messages)
        for each in consumers:
            message = each.poll(wait_s)
            if message is not None:
                assert message.error() is None
                messages.append(message)
        wait_s = 0.0 if len(messages) > count_before else 0.05
    return messages


def make_topic(broker: RunningBroker, name: str, partitions: int) -> None:
    client = admin.AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    client.create_topics([admin.NewTopic(name, partitions)])[name].result(PATIENCE_S)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_produced_messages_are_consumed_and_readable_by_warren(broker: RunningBroker, compression: str) -> None:
    make_topic(broker, "orders", 3)
    bodies = [b"order %d" % number + b"." * 100 for number in range(300)]
    out = producer(broker, **{"compression.type": compression})
    for number, body in enumerate(bodies):
        headers = {"trace": b"%d" % number, "warren.tag": b"eu.de"}
        out.produce("orders", body, key=b"customer-%d" % (number % 7), headers=headers)
    assert out.flush(PATIENCE_S) == 0

    into = consumer(broker)
    into.subscribe(["orders"])
    messages = consumed([into], len(bodies))
    into.close()

    assert sorted(message.value() for message in messages) == sorted(bodies)
    topic = broker.broker.store.topic("orders")
    stored = [message for log in topic.logs for message in log.read(0, limit=1000)]
    assert sorted(message.body for message in stored) == sorted(bodies)
    assert {message.tag for message in stored} == {"eu.de"}
    assert {(message.key, message.partition) for message in stored} == {
        (message.key(), message.partition()) for message in messages
    }


def test_two_members_share_the_partitions_and_warren_shows_how_far_they_are(broker: RunningBroker) -> None:
    make_topic(broker, "orders", 4)
    out = producer(broker)
    for number in range(400):
        out.produce("orders", b"%d" % number)
    assert out.flush(PATIENCE_S) == 0
    members = [consumer(broker, **{"session.timeout.ms": 6000}) for _ in range(2)]
    for member in members:
        member.subscribe(["orders"])

    messages = consumed(members, 400)

    assert sorted(int(message.value()) for message in messages) == list(range(400))
    assert sorted(partition.partition for member in members for partition in member.assignment()) == [0, 1, 2, 3]
    for member in members:
        # The later member may have nothing to commit: the other had committed everything when it gave up its
        # partitions.
        with suppress(confluent_kafka.KafkaException):
            member.commit(asynchronous=False)
        member.close()
    topic = broker.broker.store.topic("orders")
    with topic.group("readers") as group:
        assert group.lag() == {0: 0, 1: 0, 2: 0, 3: 0}


def test_kafka_consumers_get_messages_of_the_embedded_api(broker: RunningBroker) -> None:
    with warren.open(broker.broker.store.path) as store:
        topic = store.topic("orders", partitions=1)
        topic.put(b"one", key=b"k", tag="eu.de", headers={"trace": b"1"}, id="id-1")
        topic.put_many([b"two", b"three"], tag="eu.fr")

    into = consumer(broker)
    into.subscribe(["orders"])
    messages = consumed([into], 3)
    into.close()

    assert [message.value() for message in messages] == [b"one", b"two", b"three"]
    assert [message.offset() for message in messages] == [0, 1, 2]
    assert dict(messages[0].headers()) == {"trace": b"1", "warren.tag": b"eu.de", "warren.id": b"id-1"}
    assert dict(messages[1].headers()) == {"warren.tag": b"eu.fr"}


def test_a_waiting_fetch_is_woken_by_a_put_of_another_process(broker: RunningBroker) -> None:
    broker.broker.store.topic("orders")
    into = consumer(broker, **{"fetch.wait.max.ms": 20000})
    into.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    assert into.poll(0.5) is None

    with warren.open(broker.broker.store.path) as store:
        store.topic("orders").put(b"now")
    messages = consumed([into], 1)
    into.close()

    assert [message.value() for message in messages] == [b"now"]
