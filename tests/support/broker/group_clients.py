"""Kafka clients in groups, with one interface: created, and polled until a condition holds."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable
from itertools import chain
from time import monotonic
from typing import Any

from tests.support.broker.running import PATIENCE_S, RunningBroker
from tests.support.message_values import Fields, decode_response, encode_request
from warren.protocol.api_keys import APIS, ApiKey
from warren.protocol.headers import Request, request_frame
from warren.protocol.primitives import read_size32, size32

POLL_S = 0.02
QUICK = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 100}


def consumer(broker: RunningBroker, **config: Any) -> Any:
    from confluent_kafka import Consumer

    settings = {
        "bootstrap.servers": broker.address,
        "log_level": 0,
        "group.id": "readers",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "topic.metadata.refresh.interval.ms": 500,
    }
    return Consumer(settings | config)


def admin_client(broker: RunningBroker) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": broker.address, "log_level": 0})


def make_topic(broker: RunningBroker, name: str, partitions: int) -> None:
    broker.broker.store.topic(name, partitions=partitions)


def produce(broker: RunningBroker, topic: str, numbers: Iterable[int]) -> None:
    """Puts each number as its own message, over all partitions in turn."""
    stored = broker.broker.store.topic(topic)
    for number in numbers:
        stored.put(b"%d" % number)


def consumed(members: list[Any], count: int, before: Iterable[Any] = ()) -> list[Any]:
    """Returns `count` messages that are not in `before`, of any member."""
    earlier = {message.value() for message in before}
    by_value: dict[bytes, Any] = {}
    deadline = monotonic() + PATIENCE_S
    while len(by_value) < count and monotonic() < deadline:
        for message in polled(members):
            if message.value() not in earlier:
                by_value[message.value()] = message
    return list(by_value.values())


def until(is_so: Callable[[], bool], members: list[Any]) -> list[Any]:
    """Polls until `is_so`. Returns the messages that came in between."""
    messages: list[Any] = []
    deadline = monotonic() + PATIENCE_S
    while not is_so():
        assert monotonic() < deadline, "it did not come to that"
        messages += polled(members)
    return messages


def polled(members: list[Any]) -> list[Any]:
    """Returns the messages that each member has now, if any."""
    messages = []
    for each in members:
        message = each.poll(POLL_S)
        if message is not None:
            assert message.error() is None, message.error()
            messages.append(message)
    return messages


class OfKafkaPython:
    """A member of kafka-python that is polled like the others."""

    def __init__(self, broker: RunningBroker) -> None:
        from kafka import KafkaConsumer
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        self._consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=broker.address,
            group_id="readers",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
            session_timeout_ms=6000,
            partition_assignment_strategy=[RangePartitionAssignor],
        )

    def poll(self, timeout_s: float) -> list[bytes]:
        return [each.value for each in chain(*self._consumer.poll(int(timeout_s * 1000)).values())]

    def owned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class OfAiokafka:
    """A member of aiokafka, on an event loop in a thread."""

    def __init__(self, broker: RunningBroker) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._consumer: Any = self._run(self._start(broker.address))

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    @staticmethod
    async def _start(address: str) -> Any:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        made = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=address,
            group_id="readers",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
            session_timeout_ms=6000,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        await made.start()
        return made

    def poll(self, timeout_s: float) -> list[bytes]:
        batches = self._run(self._consumer.getmany(timeout_ms=int(timeout_s * 1000)))
        return [each.value for each in chain(*batches.values())]

    def owned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def close(self) -> None:
        self._run(self._consumer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class OfConfluent:
    """A member of confluent-kafka that is polled like the others."""

    def __init__(self, broker: RunningBroker) -> None:
        self._consumer = consumer(broker, **QUICK, **{"partition.assignment.strategy": "range"})
        self._consumer.subscribe(["orders"])

    def poll(self, timeout_s: float) -> list[bytes]:
        return [each.value() for each in self._consumer.consume(100, timeout_s)]

    def owned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class Wire:
    """Requests as bytes, which no other client would send."""

    def __init__(self, broker: RunningBroker) -> None:
        host, port = broker.broker.advertised
        self._socket = socket.create_connection((host, port), PATIENCE_S)
        self._file = self._socket.makefile("rwb")

    def ask(self, key: ApiKey, version: int, **values: Any) -> Fields:
        """The answer to one request."""
        is_flexible = APIS[key].is_flexible(version)
        body = memoryview(encode_request(key, version, values))
        frame = request_frame(Request(key, version, 1, "test", body), is_flexible=is_flexible)
        self._file.write(size32(len(frame)) + frame)
        self._file.flush()
        size, _ = read_size32(memoryview(self._file.read(4)), 0)
        answer = memoryview(self._file.read(size))
        return decode_response(key, version, answer[5 if is_flexible else 4 :])

    def close(self) -> None:
        self._file.close()
        self._socket.close()
