"""Copiers of the long run: they put what they read from one topic to another, both in one transaction, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import confluent_kafka

import warren
from tests.soak.network.consumers import SESSION_MS, WAIT_S
from tests.soak.network.logins import OF_WARREN
from tests.soak.network.producers import Place, quiet_config

COPIED_MAX: Final = 100
KEPT_SHARE: Final = 0.9
"""The others are aborted, and read again."""
TRANSACTION_S: Final = 10
KAFKA: Final = "copy-kafka"
STREAM: Final = "copy-stream"
QUEUE: Final = "copy-queue"
COPIES: Final = (KAFKA, STREAM, QUEUE)


def copy_of(topic: str, group: str) -> str:
    """Returns the topic that the members of a group copy to."""
    return f"{topic}-{group}"


class OfConfluent:
    """Reads with a group and puts with a transactional producer of confluent-kafka; both are new after a failure."""

    def __init__(self, place: Place) -> None:
        self._place, self._copy = place, copy_of(place.topic, KAFKA)
        reading = {
            "group.id": KAFKA,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": SESSION_MS,
        }
        putting = {"transactional.id": place.who, "linger.ms": 1, "transaction.timeout.ms": 10_000}
        self._producer = confluent_kafka.Producer(quiet_config(place.address, **putting))
        self._producer.init_transactions(TRANSACTION_S)
        self._consumer = confluent_kafka.Consumer(quiet_config(place.address, **reading))
        self._consumer.subscribe([place.topic])
        self._is_lost = False

    def step(self) -> None:
        if self._is_lost:
            raise confluent_kafka.KafkaException("a step has failed: the next of its kind goes on")
        messages: list[Any] = [each for each in self._consumer.consume(COPIED_MAX, WAIT_S) if each.error() is None]
        if messages:
            self._is_lost = True
            self._copied(messages)
            self._is_lost = False

    def _copied(self, messages: Sequence[Any]) -> None:
        self._producer.begin_transaction()
        for message in messages:
            self._producer.produce(self._copy, message.value(), message.key())
        positions = {message.partition(): message.offset() + 1 for message in messages}
        offsets = [confluent_kafka.TopicPartition(self._place.topic, *position) for position in positions.items()]
        group_metadata = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(offsets, group_metadata, TRANSACTION_S)
        if self._place.draw.random() < KEPT_SHARE:
            self._producer.commit_transaction(TRANSACTION_S)
            return
        self._producer.abort_transaction(TRANSACTION_S)
        firsts: dict[int, int] = {}
        for message in messages:
            firsts.setdefault(message.partition(), message.offset())
        for first in firsts.items():
            self._consumer.seek(confluent_kafka.TopicPartition(self._place.topic, *first))

    def close(self) -> None:
        self._consumer.close()


class OfWarren:
    """Reads with a group of either mode and puts with a transaction of `warren.connect`."""

    def __init__(self, place: Place, group: str, timeout_s: float) -> None:
        self._place, self._copy = place, copy_of(place.topic, group)
        store: Any = warren.connect(place.address, timeout=timeout_s, **OF_WARREN)
        self._store = store
        try:
            topic: Any = store.topic(place.topic)
            mode: Any = "queue" if group == QUEUE else "stream"
            options = {"lease": 5.0, "attempts_max": 0} if mode == "queue" else {}
            self._group: Any = topic.group(group, mode=mode, **options)
        except BaseException:
            store.close()
            raise
        self._is_queue, self._is_behind = mode == "queue", False

    def step(self) -> None:
        if self._is_queue:
            messages = self._group.take(COPIED_MAX, wait=WAIT_S)
        else:
            if self._is_behind:
                # The positions of the group show the fate of the last ones.
                self._group.rewind()
            self._is_behind = True
            messages = self._group.read(COPIED_MAX, wait=WAIT_S)
        if messages:
            self._copied(messages)
        self._is_behind = False

    def _copied(self, messages: Sequence[Any]) -> None:
        tx = self._store.transaction()
        tx.put_many(self._copy, [message.body for message in messages])
        if self._is_queue:
            tx.ack(self._group, messages)
        else:
            tx.commit(self._group)
        if self._place.draw.random() < KEPT_SHARE:
            tx.commit()
            return
        tx.abort()
        if not self._is_queue:
            self._group.rewind()

    def close(self) -> None:
        self._store.close()
