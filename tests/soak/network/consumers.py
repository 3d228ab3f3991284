"""Consumers of the long run, of Kafka's clients: each records its messages and its acknowledged commits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import aiokafka
import confluent_kafka
import kafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as RangeOfAiokafka
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.soak.network.async_side import AsyncSide
from tests.soak.network.logins import OF_PYTHON
from tests.soak.network.producers import FLUSH_S, Place, quiet_config
from tests.soak.worker import Row

WAIT_S: Final = 0.2
COMMITTED_SHARE: Final = 0.8
SESSION_MS: Final = 6000
CLOSE_S: Final = 20.0
KINDS: Final = confluent_kafka.AcknowledgeType


class Noting:
    """The common part of the consumers: what they do with their messages."""

    def __init__(self, place: Place, group: str) -> None:
        self._place, self.group = place, group

    def _record(self, since_ns: int, rows: Sequence[Row]) -> dict[int, int]:
        """Records the messages. Returns the positions from which the group continues if they are committed."""
        if not rows:
            return {}
        self._place.history.note("read", group=self.group, since_ns=since_ns, messages=rows)
        if self._place.draw.random() > COMMITTED_SHARE:
            return {}
        return {partition: number + 1 for partition, number, _ in rows}

    def _committed(self, positions: dict[int, int]) -> None:
        self._place.history.note("committed", group=self.group, positions=positions)


class OfConfluent(Noting):
    """A member of confluent-kafka, of a group of the old protocol or of the new one."""

    def __init__(self, place: Place, group: str, protocol: str = "classic") -> None:
        super().__init__(place, group)
        of_old = {"session.timeout.ms": SESSION_MS, "partition.assignment.strategy": "range"}
        settings = {
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 1000,
            "group.protocol": protocol,
            **(of_old if protocol == "classic" else {}),
        }
        self._consumer = confluent_kafka.Consumer(quiet_config(place.address, **settings))
        self._consumer.subscribe([place.topic])

    def step(self) -> None:
        since_ns = time.monotonic_ns()
        messages: list[Any] = [each for each in self._consumer.consume(100, WAIT_S) if each.error() is None]
        rows = [(each.partition(), each.offset(), each.value().decode()) for each in messages]
        positions = self._record(since_ns, rows)
        if positions:
            topic = self._place.topic
            offsets = [confluent_kafka.TopicPartition(topic, *position) for position in positions.items()]
            done = self._consumer.commit(offsets=offsets, asynchronous=False)
            self._committed({each.partition: each.offset for each in done if each.error is None})

    def close(self) -> None:
        self._consumer.close()


class SharingOfConfluent:
    """A member of a share group of confluent-kafka: accepts most messages, and gives some back."""

    def __init__(self, place: Place, group: str) -> None:
        self._place, self.group = place, group
        settings = {"group.id": group, "share.acknowledgement.mode": "explicit"}
        self._consumer = confluent_kafka.ShareConsumer(quiet_config(place.address, **settings))
        self._consumer.subscribe([place.topic])

    def step(self) -> None:
        since_ns = time.monotonic_ns()
        messages: list[Any] = [each for each in self._consumer.poll(WAIT_S) if each.error() is None]
        if not messages:
            return
        rows = [(each.partition(), each.offset(), each.value().decode()) for each in messages]
        self._place.history.note("took", group=self.group, since_ns=since_ns, messages=rows)
        accepted = []
        for message, row in zip(messages, rows, strict=True):
            is_accepted = self._place.draw.random() < COMMITTED_SHARE
            self._consumer.acknowledge(message, KINDS.ACCEPT if is_accepted else KINDS.RELEASE)
            accepted += [row] if is_accepted else []
        done = {each.partition for each, error in self._consumer.commit_sync(FLUSH_S).items() if error is None}
        self._place.history.note("acked", group=self.group, messages=[row for row in accepted if row[0] in done])

    def close(self) -> None:
        self._consumer.close()


class OfKafkaPython(Noting):
    """A member of kafka-python."""

    def __init__(self, place: Place, group: str) -> None:
        super().__init__(place, group)
        self._consumer = kafka.KafkaConsumer(
            place.topic,
            bootstrap_servers=place.address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            reconnect_backoff_max_ms=500,
            request_timeout_ms=15_000,
            partition_assignment_strategy=[RangePartitionAssignor],
            **OF_PYTHON,
        )

    def step(self) -> None:
        since_ns = time.monotonic_ns()
        batches = self._consumer.poll(int(WAIT_S * 1000), max_records=100)
        rows = [(each.partition, each.offset, each.value.decode()) for batch in batches.values() for each in batch]
        positions = self._record(since_ns, rows)
        if positions:
            topic = self._place.topic
            self._consumer.commit(
                {TopicPartition(topic, each): OffsetAndMetadata(number, "", -1) for each, number in positions.items()}
            )
            self._committed(positions)

    def close(self) -> None:
        self._consumer.close(timeout_ms=int(CLOSE_S * 1000))


class OfAiokafka(Noting):
    """A member of aiokafka."""

    def __init__(self, place: Place, group: str) -> None:
        super().__init__(place, group)
        self._side = AsyncSide()
        self._consumer = self._side.begun(self._started(), FLUSH_S)

    async def _started(self) -> Any:
        consumer = aiokafka.AIOKafkaConsumer(
            self._place.topic,
            bootstrap_servers=self._place.address,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            request_timeout_ms=10_000,
            partition_assignment_strategy=[RangeOfAiokafka],
            **OF_PYTHON,
        )
        await consumer.start()
        return consumer

    def step(self) -> None:
        since_ns = time.monotonic_ns()
        batches = self._side.run(self._consumer.getmany(timeout_ms=int(WAIT_S * 1000), max_records=100), FLUSH_S)
        rows = [(each.partition, each.offset, each.value.decode()) for batch in batches.values() for each in batch]
        positions = self._record(since_ns, rows)
        if positions:
            topic = self._place.topic
            offsets = {aiokafka.TopicPartition(topic, each): number for each, number in positions.items()}
            self._side.run(self._consumer.commit(offsets), FLUSH_S)
            self._committed(positions)

    def close(self) -> None:
        try:
            self._side.run(self._consumer.stop(), CLOSE_S)
        finally:
            self._side.close()
