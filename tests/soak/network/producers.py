"""Producers of the long run, of every client: each records what it is about to put, and what it knows was put."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import aiokafka
import confluent_kafka
import kafka

from tests.soak.history import Writer
from tests.soak.network.async_side import AsyncSide
from tests.soak.network.logins import OF_CONFLUENT, OF_PYTHON

FLUSH_S: Final = 60.0
IN_FLIGHT_MAX: Final = 300


class Place(NamedTuple):
    """The place of a worker of the run, its name, and its record."""

    address: str
    topic: str
    who: str
    history: Writer
    draw: random.Random


class Role(Protocol):
    """A client that repeats a step; a step that an outage interrupts raises an exception."""

    def step(self) -> None: ...

    def close(self) -> None: ...


class Numbered:
    """Ids of messages, `who/kind/number`, each of which is used once."""

    def __init__(self, place: Place) -> None:
        self._place, self._count = place, 0

    def ids(self, kind: str, most: int) -> list[str]:
        """Returns some more ids, which are about to be put."""
        first = self._count
        self._count += self._place.draw.randint(1, most)
        return [f"{self._place.who}/{kind}/{number}" for number in range(first, self._count)]


def quiet_config(address: str, **config: Any) -> dict[str, Any]:
    """Settings of every client of librdkafka: it does not log each lost connection."""
    quiet = {"bootstrap.servers": address, "log_level": 0, "reconnect.backoff.max.ms": 500}
    return {**quiet, **OF_CONFLUENT, **config}


class OfConfluent:
    """An idempotent producer of confluent-kafka, many messages in flight."""

    def __init__(self, place: Place) -> None:
        self._place, self._numbered = place, Numbered(place)
        config = quiet_config(place.address, **{"enable.idempotence": True, "linger.ms": 5})
        self._producer = confluent_kafka.Producer(config | {"compression.type": place.draw.choice(["none", "zstd"])})

    def step(self) -> None:
        if len(self._producer) < IN_FLIGHT_MAX:
            ids = self._numbered.ids("plain", 20)
            self._place.history.note("puts", ids=ids)
            for id in ids:
                self._producer.produce(self._place.topic, id.encode(), self._place.who, on_delivery=self._delivered)
        self._producer.poll(0.02)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self._place.history.note("put", ids=[message.value().decode()])

    def close(self) -> None:
        self._producer.flush(FLUSH_S)


class TransactionalOfConfluent:
    """A transactional producer of confluent-kafka; if a commit fails, the next of its name replaces it."""

    def __init__(self, place: Place) -> None:
        self._place, self._numbered = place, Numbered(place)
        self._producer: Any = None

    def step(self) -> None:
        if self._producer is None:
            config = quiet_config(self._place.address, **{"transactional.id": self._place.who, "linger.ms": 1})
            producer = confluent_kafka.Producer(config | {"transaction.timeout.ms": 10_000})
            producer.init_transactions(20)
            self._producer = producer
        ids = self._numbered.ids("transaction", 6)
        is_kept = self._place.draw.random() < 0.8
        self._place.history.note("puts", ids=ids, transaction=ids[0])
        try:
            self._transact(ids, is_kept)
        except (confluent_kafka.KafkaException, BufferError):
            # Whether it was committed shows in the end: all of it exists, or nothing.
            self._producer = None
            raise
        self._place.history.note("put" if is_kept else "cancelled", ids=ids)

    def _transact(self, ids: Sequence[str], is_kept: bool) -> None:
        self._producer.begin_transaction()
        for id in ids:
            self._producer.produce(self._place.topic, id.encode(), id.encode())
        if is_kept:
            self._producer.commit_transaction(20)
        else:
            self._producer.flush(20)
            self._producer.abort_transaction(20)

    def close(self) -> None:
        self._producer = None


class OfKafkaPython:
    """An idempotent producer of kafka-python."""

    def __init__(self, place: Place) -> None:
        self._place, self._numbered = place, Numbered(place)
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=place.address,
            enable_idempotence=True,
            linger_ms=5,
            reconnect_backoff_max_ms=500,
            **OF_PYTHON,
        )

    def step(self) -> None:
        ids = self._numbered.ids("plain", 10)
        self._place.history.note("puts", ids=ids)
        sent = [(id, self._producer.send(self._place.topic, id.encode(), key=self._place.who.encode())) for id in ids]
        for id, future in sent:
            future.get(FLUSH_S)
            self._place.history.note("put", ids=[id])

    def close(self) -> None:
        self._producer.close(FLUSH_S)


class OfAiokafka:
    """An idempotent producer of aiokafka."""

    def __init__(self, place: Place) -> None:
        self._place, self._numbered = place, Numbered(place)
        self._side = AsyncSide()
        self._producer = self._side.begun(self._started(), FLUSH_S)

    async def _started(self) -> Any:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self._place.address,
            enable_idempotence=True,
            linger_ms=5,
            request_timeout_ms=10_000,
            **OF_PYTHON,
        )
        await producer.start()
        return producer

    def step(self) -> None:
        ids = self._numbered.ids("plain", 10)
        self._place.history.note("puts", ids=ids)
        self._side.run(self._send(ids), FLUSH_S)

    async def _send(self, ids: Sequence[str]) -> None:
        key, topic = self._place.who.encode(), self._place.topic
        futures = [await self._producer.send(topic, id.encode(), key=key) for id in ids]
        for id, done in zip(ids, await asyncio.gather(*futures, return_exceptions=True), strict=True):
            if isinstance(done, BaseException):
                raise done
            self._place.history.note("put", ids=[id])

    def close(self) -> None:
        try:
            self._side.run(self._producer.stop(), FLUSH_S)
        finally:
            self._side.close()
