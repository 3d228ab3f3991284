"""Kafka's own consumers skip batches that no reader can unpack: the broker notices that they do not continue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.broken_batches import broken_batch
from tests.support.broker.calls import Caller
from tests.support.broker.kafka_python import LEAVES_SOCKETS
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.kafka_batches import batch_of
from tests.support.patience import WAIT_S
from warren.protocol.api_keys import ApiKey
from warren.storage.format.kafka_batch import pack_kafka

pytestmark = [*LEAVES_SOCKETS, pytest.mark.filterwarnings("ignore:.* is deprecated:DeprecationWarning")]
GOOD = batch_of([(b"key", b"good", [])])
BROKEN = {
    "random bytes": broken_batch(),
    "zstd": broken_batch(compression=4),
    "gzip": broken_batch(compression=1),
    "lz4": broken_batch(compression=3),
    "many": broken_batch(20_000),
}


@pytest.fixture(params=BROKEN)
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RunningBroker]:
    """A broker with messages 0 and 1, two broken batches, and two messages."""
    with running_broker(tmp_path / "data") as running:
        put(running, GOOD, GOOD, BROKEN[request.param], BROKEN[request.param], GOOD, GOOD)
        yield running


def put(running: RunningBroker, *batches: bytes) -> None:
    log = running.broker.store.topic("orders").partition(0)
    for batch in batches:
        log.append_packed([pack_kafka(batch)])


def readable(running: RunningBroker) -> list[int]:
    end = running.broker.store.topic("orders").partition(0).end
    return [0, 1, end - 2, end - 1]


def passed_over(running: RunningBroker) -> int:
    return running.broker.store.topic("orders").partition(0).inspect().passed_over


def test_confluent_kafka_continues_after_them(broker: RunningBroker) -> None:
    pytest.importorskip("confluent_kafka")
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g", "enable.auto.commit": False})
    offsets, errors = list[int](), 0
    deadline_s = time.monotonic() + WAIT_S
    with closing(consumer):
        consumer.assign([TopicPartition("orders", 0, 0)])
        while len(offsets) < 4 and time.monotonic() < deadline_s:
            message = consumer.poll(0.2)
            if message is not None and message.error():
                errors += 1
            elif message is not None:
                offsets.append(message.offset() or 0)

    assert offsets == readable(broker)
    # The batch that is in the same answer as the messages before it.
    assert errors <= 1
    assert passed_over(broker) >= 2


def test_aiokafka_continues_after_them(broker: RunningBroker) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> tuple[list[int], int]:
        partition, offsets, errors = TopicPartition("orders", 0), list[int](), 0
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.address, enable_auto_commit=False)
        await consumer.start()
        try:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            async with asyncio.timeout(WAIT_S):
                while len(offsets) < 4:
                    try:
                        offsets.append((await consumer.getone()).offset)
                    except Exception:  # noqa: BLE001  # Each kind of broken batch has an error of its own.
                        errors += 1
        finally:
            await consumer.stop()
        return offsets, errors

    offsets, errors = asyncio.run(read())

    assert offsets == readable(broker)
    assert errors <= 1
    assert passed_over(broker) >= 2


def test_a_consumer_that_failed_on_them_continues_over_a_new_connection(broker: RunningBroker) -> None:
    from kafka import KafkaConsumer, TopicPartition

    # kafka-python fails inside of its own loop, and never asks again: only a restart helps.
    consumer = KafkaConsumer(bootstrap_servers=broker.address, enable_auto_commit=False)
    partition, offsets = TopicPartition("orders", 0), list[int]()
    deadline_s = time.monotonic() + WAIT_S
    with closing(consumer):
        consumer.assign([partition])
        consumer.seek(partition, 2)
        while len(offsets) < 2 and time.monotonic() < deadline_s:
            for messages in consumer.poll(500).values():
                offsets += [message.offset for message in messages]

    assert offsets == readable(broker)[2:]


def fetched(caller: Caller, offset: int) -> list[Any]:
    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    values = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1}
    fields = values | {"topics": [{"topic": "orders", "partitions": [part]}]}
    answer = caller.call(ApiKey.FETCH, 11, fields).responses[0].partitions[0]
    return [answer.error_code, bytes(answer.records or b"")]


def test_only_a_fetch_that_does_not_continue_is_checked(broker: RunningBroker) -> None:
    end = broker.broker.store.topic("orders").partition(0).end
    with Caller(broker) as caller:
        whole = fetched(caller, 0)[1]
        assert len(whole) > 4 * len(GOOD)
        assert passed_over(broker) == 0

        assert len(fetched(caller, 2)[1]) == 2 * len(GOOD)
        assert passed_over(broker) == 2
        assert fetched(caller, end) == [0, b""]
        put(broker, broken_batch())
        # It continues where it was, so nothing is checked, and asks again when it cannot read the answer.
        assert len(fetched(caller, end)[1]) == len(broken_batch())
        assert fetched(caller, end) == [0, b""]
        put(broker, GOOD)
        assert len(fetched(caller, end)[1]) == len(GOOD)
