"""confluent-kafka as a contender: its produces and consumes, and their seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle, islice
from time import perf_counter
from typing import Any, Final

from confluent_kafka import Consumer, Producer

WAIT_S_MAX: Final = 60.0
QUEUED_MAX: Final = 2_000_000
TAKEN_AT_ONCE: Final = 10_000
PRODUCER: Final[dict[str, Any]] = {
    "acks": "all",
    "linger.ms": 5,
    "queue.buffering.max.messages": QUEUED_MAX,
    "queue.buffering.max.kbytes": QUEUED_MAX,
}
Timed = Callable[[Callable[[], None]], float]
"""Runs something, and returns the seconds that it took."""
CONSUMER: Final[dict[str, Any]] = {
    "queued.min.messages": 1_000_000,
    "fetch.queue.backoff.ms": 10,
    "auto.offset.reset": "earliest",
}


def seconds_of(run: Callable[[], None]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def producer(address: str, topic: str, body: bytes, **settings: Any) -> Producer:
    """A producer that is connected, and has put one message."""
    made = Producer({"bootstrap.servers": address, **PRODUCER, **settings})
    made.produce(topic, body)
    assert made.flush(WAIT_S_MAX) == 0
    return made


def produce(address: str, topic: str, bodies: Sequence[bytes], count: int, timed: Timed = seconds_of) -> float:
    """Returns the seconds until `count` messages are acknowledged."""
    made = producer(address, topic, bodies[0])

    def run() -> None:
        put = made.produce
        for body in islice(cycle(bodies), count):
            put(topic, body)
        unsent_count = made.flush(WAIT_S_MAX)
        assert unsent_count == 0, f"{unsent_count} messages were not acknowledged"

    return timed(run)


def put_each(address: str, topic: str, bodies: Sequence[bytes], count: int) -> float:
    """Returns the seconds for `count` messages, each acknowledged before the next is put."""
    made = producer(address, topic, bodies[0], **{"linger.ms": 0})
    put, flush = made.produce, made.flush
    start = perf_counter()
    for body in islice(cycle(bodies), count):
        put(topic, body)
        flush()
    return perf_counter() - start


def consume(address: str, topic: str, group: str, count: int, timed: Timed = seconds_of) -> float:
    """Returns the seconds from the first of `count` messages to the last, with a commit after it."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, **CONSUMER})
    consumer.subscribe([topic])
    # The time for joining the group is not measured.
    first = len(consumer.consume(1, WAIT_S_MAX))

    def run() -> None:
        read_count = first
        while read_count < count:
            messages = consumer.consume(TAKEN_AT_ONCE, WAIT_S_MAX)
            assert messages, f"{read_count} of {count} messages came"
            read_count += len(messages)
        consumer.commit(asynchronous=False)

    try:
        return timed(run)
    finally:
        consumer.close()
