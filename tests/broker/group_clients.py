"""Kafka clients in groups, for the tests of groups: made, polled until something is so, and told apart by nothing."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from tests.broker.running import PATIENCE_S, RunningBroker
from warren.protocol.api import APIS, ApiKey
from warren.protocol.codec import read_size32, size32
from warren.protocol.heads import Request, request_frame
from warren.protocol.kafka_codec import Fields, decode_response, encode_request

POLL_S = 0.02


def consumer(broker: RunningBroker, **config: Any) -> Any:
    from confluent_kafka import Consumer

    settings = {
        "bootstrap.servers": broker.address,
        "group.id": "readers",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "topic.metadata.refresh.interval.ms": 500,
    }
    return Consumer(settings | config)


def admin_client(broker: RunningBroker) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": broker.address})


def make_topic(broker: RunningBroker, name: str, partitions: int) -> None:
    broker.broker.store.topic(name, partitions=partitions)


def produce(broker: RunningBroker, topic: str, numbers: Iterable[int]) -> None:
    """Put each number as a message of its own, over all partitions in turn."""
    kept = broker.broker.store.topic(topic)
    for number in numbers:
        kept.put(b"%d" % number)


def consumed(members: list[Any], count: int, before: Iterable[Any] = ()) -> list[Any]:
    """`count` messages that are not in `before`, of whichever member."""
    known = {message.value() for message in before}
    found: dict[bytes, Any] = {}
    deadline = monotonic() + PATIENCE_S
    while len(found) < count and monotonic() < deadline:
        for message in polled(members):
            if message.value() not in known:
                found[message.value()] = message
    return list(found.values())


def until(is_so: Callable[[], bool], members: list[Any]) -> list[Any]:
    """Poll until `is_so`; the messages that came meanwhile."""
    found: list[Any] = []
    deadline = monotonic() + PATIENCE_S
    while not is_so():
        assert monotonic() < deadline, "it did not come to that"
        found += polled(members)
    return found


def polled(members: list[Any]) -> list[Any]:
    """What each member has now, if anything."""
    found = []
    for each in members:
        message = each.poll(POLL_S)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message)
    return found


class Wire:
    """Requests word for word, for what no client of others would say."""

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
