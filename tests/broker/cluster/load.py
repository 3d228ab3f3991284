"""Load on a shard of processes: puts of our client and of Kafka's, and a check that all acknowledged ones are there."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

import warren
from tests.broker.cluster.processes import PATIENCE_S, ProcessCluster
from warren.errors import OutcomeUnknown

OWN, KAFKA = "own", "kafka"
KAFKA_SILENT_MS = 10_000


class Load:
    """Puts of our client and of an idempotent Kafka producer, and which of them were acknowledged."""

    def __init__(self, brokers: str) -> None:
        self._brokers, self._is_over = brokers, threading.Event()
        self.own: list[bytes] = []
        self.unknown: list[bytes] = []
        self.kafka: list[bytes] = []
        self.errors: list[str] = []
        self.longest_gap_s = 0.0
        """The longest time between two acknowledgements of our client."""
        self._threads = [threading.Thread(target=each) for each in (self._put_own, self._put_kafka)]

    def start(self) -> None:
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        self._is_over.set()
        for each in self._threads:
            each.join(PATIENCE_S)
            assert not each.is_alive()

    def wait_for_more(self, count: int = 50) -> None:
        """Waits until both have received this many more acknowledgements."""
        own, kafka = len(self.own) + count, len(self.kafka) + count
        deadline = time.monotonic() + PATIENCE_S
        while len(self.own) < own or len(self.kafka) < kafka:
            assert time.monotonic() < deadline, f"{len(self.own)} of {own}, {len(self.kafka)} of {kafka}: {self.errors}"
            time.sleep(0.02)

    def _put_own(self) -> None:
        with warren.connect(self._brokers, timeout=PATIENCE_S) as store:
            topic, number, last_s = store.topic(OWN), 0, time.monotonic()
            while not self._is_over.is_set():
                number += 1
                body = b"%d" % number
                try:
                    topic.put(body)
                    self.own.append(body)
                    self.longest_gap_s, last_s = max(self.longest_gap_s, time.monotonic() - last_s), time.monotonic()
                except OutcomeUnknown:
                    self.unknown.append(body)
                except Exception as error:  # noqa: BLE001  # The test shows it.
                    self.errors.append(repr(error))

    def _put_kafka(self) -> None:
        def done(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.kafka.append(message.value() or b"")
            else:
                self.errors.append(str(error))

        settings = {"bootstrap.servers": self._brokers, "enable.idempotence": True, "log_level": 0}
        # Kafka's client waits 60 seconds for a paused broker otherwise.
        producer = Producer(settings | {"socket.timeout.ms": KAFKA_SILENT_MS})
        number = 0
        while not self._is_over.is_set():
            number += 1
            producer.produce(KAFKA, b"%d" % number, callback=done)
            producer.poll(0.002)
        assert producer.flush(PATIENCE_S) == 0


@contextmanager
def load(cluster: ProcessCluster) -> Iterator[Load]:
    """Puts to the cluster, and checks afterwards that everything acknowledged is there once and in order."""
    running = Load(cluster.brokers)
    running.start()
    try:
        running.wait_for_more()
        yield running
        running.wait_for_more()
    finally:
        running.stop()
    assert running.errors == []
    check(running.own, running.unknown, all_of(cluster, OWN))
    check(running.kafka, [], all_of(cluster, KAFKA))


def check(acknowledged: list[bytes], unknown: list[bytes], stored: list[bytes]) -> None:
    assert not set(acknowledged) - set(stored), "lost"
    assert len(stored) == len(set(stored)), "doubled"
    assert not set(stored) - set(acknowledged) - set(unknown), "never put"
    assert stored == sorted(stored, key=int), "reordered"


def all_of(cluster: ProcessCluster, topic: str) -> list[bytes]:
    """Reads the one partition of a topic up to its end."""
    settings = {"bootstrap.servers": cluster.brokers, "group.id": "check", "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer(settings)
    # Not as a member of the group: if the lead changes now, a member joins again, and reads from the start again.
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    bodies: list[bytes] = []
    errors: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for message in consumer.consume(1000, 1.0):
            error = message.error()
            if error is None:
                bodies.append(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                consumer.close()
                return bodies
            else:
                errors.append(str(error))
    raise AssertionError(f"the end of {topic} did not come after {len(bodies)} messages: {errors}\n{cluster.logs()}")
