"""Kafka's own clients and their transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker.kafka_python import LEAVES_SOCKETS
from tests.support.broker.running import PATIENCE_S, RunningBroker, running_broker
from warren.broker.kafka.errors import Code

pytestmark = LEAVES_SOCKETS


@pytest.fixture(params=["os", "commit"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data", durability=request.param) as running:
        running.broker.store.topic("orders", 2)
        yield running


def bodies(broker: RunningBroker, topic: str = "orders") -> list[bytes]:
    return [message.body for log in broker.broker.store.topic(topic).logs for message in log.read(0, limit=1000)]


def test_confluent_kafka_reads_processes_and_writes_exactly_once(broker: RunningBroker) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    topic = broker.broker.store.topic("orders")
    for number in range(10):
        topic.put(b"%d" % number, partition=number % 2)
    into = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.address,
            "log_level": 0,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    into.subscribe(["orders"])
    out = confluent_kafka.Producer({"bootstrap.servers": broker.address, "log_level": 0, "transactional.id": "worker"})
    out.init_transactions(PATIENCE_S)

    count = 0
    while count < 10:
        messages = into.consume(5, PATIENCE_S)
        out.begin_transaction()
        for message in messages:
            out.produce("results", b"result of " + message.value())
        positions = into.position(into.assignment())
        out.send_offsets_to_transaction(positions, into.consumer_group_metadata(), PATIENCE_S)
        out.commit_transaction(PATIENCE_S)
        count += len(messages)
    out.begin_transaction()
    out.produce("results", b"never")
    out.flush(PATIENCE_S)
    out.abort_transaction(PATIENCE_S)
    into.close()

    assert sorted(bodies(broker, "results")) == sorted(b"result of %d" % number for number in range(10))
    committed = broker.broker.positions.find(topic, "readers")
    assert {partition: position.number for partition, position in committed.items()} == {0: 5, 1: 5}


def test_confluent_kafka_learns_that_it_was_fenced(broker: RunningBroker) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    config = {"bootstrap.servers": broker.address, "log_level": 0, "transactional.id": "worker"}
    old, new = confluent_kafka.Producer(config), confluent_kafka.Producer(config)
    old.init_transactions(PATIENCE_S)
    old.begin_transaction()
    old.produce("orders", b"of the old one", partition=0)
    old.flush(PATIENCE_S)

    new.init_transactions(PATIENCE_S)
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        old.commit_transaction(PATIENCE_S)
    new.begin_transaction()
    new.produce("orders", b"of the new one", partition=0)
    new.commit_transaction(PATIENCE_S)

    assert raised.value.args[0].code() in (confluent_kafka.KafkaError._FENCED, Code.PRODUCER_FENCED)
    assert bodies(broker) == [b"of the new one"]


def test_kafka_python_commits_and_aborts(broker: RunningBroker) -> None:
    kafka = pytest.importorskip("kafka")
    out = kafka.KafkaProducer(bootstrap_servers=broker.address, transactional_id="worker")
    out.init_transactions()

    out.begin_transaction()
    sent = [out.send("orders", b"%d" % number, partition=0) for number in range(5)]
    out.commit_transaction()
    out.begin_transaction()
    out.send("orders", b"never", partition=0).get(PATIENCE_S)
    out.abort_transaction()
    out.close()

    assert [future.get(PATIENCE_S).offset for future in sent] == list(range(5))
    assert bodies(broker) == [b"%d" % number for number in range(5)]


def test_aiokafka_commits_and_aborts(broker: RunningBroker) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    topic = broker.broker.store.topic("orders")
    topic.put(b"in", partition=1)

    async def work() -> None:
        out = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.address, transactional_id="worker")
        await out.start()
        try:
            async with out.transaction():
                await out.send_and_wait("orders", b"yes", partition=0)
                await out.send_offsets_to_transaction({aiokafka.TopicPartition("orders", 1): 1}, "readers")
            await out.begin_transaction()
            await out.send_and_wait("orders", b"never", partition=0)
            await out.abort_transaction()
        finally:
            await out.stop()

    asyncio.run(work())

    assert bodies(broker) == [b"yes", b"in"]
    assert broker.broker.positions.find(topic, "readers")[1].number == 1
