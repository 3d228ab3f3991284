"""Consumers that name the rack of a slave read there what is committed, and continue at the master when it dies."""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.broker.cluster.processes import PATIENCE_S, ProcessCluster, process_cluster
from tests.integration.registry.servers import RunningServer

TOPIC = "orders"
MESSAGES = 1_000
STATISTICS_MS = 100


def produce(cluster: ProcessCluster, start: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.brokers, "enable.idempotence": True, "log_level": 0})
    for number in range(start, end):
        producer.produce(TOPIC, b"%d" % number, partition=0)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


class Reading:
    """A consumer in a rack, what it has read, and from which broker it fetches, as its library says."""

    def __init__(self, cluster: ProcessCluster, replica: int) -> None:
        self.bodies: list[bytes] = []
        self.errors: list[str] = []
        self.broker = -1
        self.consumer = Consumer(
            {
                "bootstrap.servers": cluster.brokers,
                "group.id": f"readers-{uuid.uuid4().hex}",
                "auto.offset.reset": "error",
                "client.rack": f"rack-{replica}",
                "statistics.interval.ms": STATISTICS_MS,
                "stats_cb": self._measured,
                "log_level": 0,
            }
        )
        self.consumer.assign([TopicPartition(TOPIC, 0, 0)])

    def _measured(self, text: str) -> None:
        topic: dict[str, Any] = json.loads(text)["topics"].get(TOPIC, {})
        self.broker = topic.get("partitions", {}).get("0", {}).get("broker", -1)

    def _consume(self) -> None:
        for message in self.consumer.consume(500, 0.1):
            error = message.error()
            if error is None:
                self.bodies.append(message.value() or b"")
            else:
                self.errors.append(str(error))

    def until(self, count: int) -> None:
        """Reads up to `count` messages in all, and checks them."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.bodies) < count and time.monotonic() < deadline:
            self._consume()
        assert self.errors == []
        assert self.bodies == [b"%d" % number for number in range(count)]

    def until_at(self, broker: int) -> None:
        """Reads until it fetches from a broker."""
        deadline = time.monotonic() + PATIENCE_S
        while self.broker != broker and time.monotonic() < deadline:
            self._consume()
        assert self.broker == broker


def racks(cluster: ProcessCluster) -> dict[int, str]:
    """Returns the rack of each node that a broker names. Asks again while the connections to the brokers break."""
    admin = AdminClient({"bootstrap.servers": cluster.brokers, "log_level": 0})
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return {node.id: node.rack for node in admin.describe_cluster().result(PATIENCE_S).nodes}
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@contextmanager
def reading(cluster: ProcessCluster, replica: int) -> Iterator[Reading]:
    each = Reading(cluster, replica)
    try:
        yield each
    finally:
        each.consumer.close()


def test_a_consumer_in_the_rack_of_a_slave_reads_there_and_continues_at_the_master_when_it_dies(
    tmp_path: Path, zookeeper: RunningServer
) -> None:
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.all_in_sync()
        assert racks(cluster) == {each: f"rack-{each}" for each in cluster.settings.replicas}
        master = cluster.master()
        slave = next(each for each in cluster.settings.replicas if each != master)
        produce(cluster, 0, MESSAGES)
        with reading(cluster, slave) as near, reading(cluster, master) as far:
            near.until_at(slave)
            near.until(MESSAGES)
            # What comes later is shown as soon as it is committed.
            produce(cluster, MESSAGES, 2 * MESSAGES)
            near.until(2 * MESSAGES)
            assert near.broker == slave

            os.kill(cluster.replicas[slave].parent.pid, signal.SIGKILL)
            produce(cluster, 2 * MESSAGES, 3 * MESSAGES)
            near.until(3 * MESSAGES)
            near.until_at(master)

            far.until(3 * MESSAGES)
            assert far.broker == master
            cluster.replicas[slave].parent.wait(PATIENCE_S)


def test_consumers_of_a_slave_miss_nothing_when_the_master_is_killed(tmp_path: Path, zookeeper: RunningServer) -> None:
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.all_in_sync()
        master = cluster.master()
        slaves = [each for each in cluster.settings.replicas if each != master]
        produce(cluster, 0, MESSAGES)
        with reading(cluster, slaves[0]) as one, reading(cluster, slaves[1]) as two:
            one.until_at(slaves[0])
            two.until_at(slaves[1])

            os.kill(cluster.replicas[master].child, signal.SIGKILL)
            produce(cluster, MESSAGES, 2 * MESSAGES)

            one.until(2 * MESSAGES)
            two.until(2 * MESSAGES)
