"""The clients of the long run of a cluster, each in a thread: ours and Kafka's, none of which may hang."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import confluent_kafka

import warren
from tests.soak.history import Writer
from tests.soak.worker import Producer, ReaderOverNetwork, TakerOverNetwork
from warren.errors import WarrenError

CALL_S: Final = 30.0
"""The timeout of our clients."""
STEP_S_MAX: Final = 3 * CALL_S
"""A step of ours has up to three calls."""
KAFKA_STEP_S_MAX: Final = 75.0
KAFKA_SILENT_MS: Final = 10_000
"""Kafka's client waits 60 seconds for a paused broker otherwise."""
SESSION_MS: Final = 6_000
FLUSH_S: Final = 60.0
IN_FLIGHT_MAX: Final = 200
FAILURES_MAX: Final = 3
PAUSE_S: Final = 0.1
PACE_S: Final = 0.02
WAIT_S: Final = 0.2
COMMITTED_SHARE: Final = 0.8
KAFKA: Final = "kafka"
"""The group of Kafka's clients."""
OUTAGES: Final = (WarrenError, OSError, BufferError, confluent_kafka.KafkaException)


class Place(NamedTuple):
    """The topic of a client, its name, and its record."""

    address: str
    topic: str
    who: str
    history: Writer
    draw: random.Random


class Role(Protocol):
    """A client that repeats a step. A step that an outage interrupts raises an exception."""

    def step(self) -> None: ...

    def close(self) -> None: ...


class OfWarren:
    """A client of `warren.connect`: the work of the embedded run, over the network."""

    def __init__(self, place: Place, kind: str) -> None:
        store: Any = warren.connect(place.address, timeout=CALL_S)
        self._store = store
        try:
            topic: Any = store.topic(place.topic)
            self._worker: Any
            if kind == "producer":
                self._worker = Producer(store, place.history, place.who, place.draw, place.topic)
            else:
                make = ReaderOverNetwork if kind == "reader" else TakerOverNetwork
                self._worker = make(topic, place.history, place.draw)
        except BaseException:
            self._store.close()
            raise

    def step(self) -> None:
        self._worker.step()

    def close(self) -> None:
        self._store.close()


def quiet_config(address: str, **config: Any) -> dict[str, Any]:
    quiet = {"bootstrap.servers": address, "log_level": 0, "reconnect.backoff.max.ms": 500}
    return {**quiet, "socket.timeout.ms": KAFKA_SILENT_MS, **config}


class KafkaProducer:
    """An idempotent producer of confluent-kafka, many messages in flight."""

    def __init__(self, place: Place) -> None:
        self._place, self._count = place, 0
        self._producer = confluent_kafka.Producer(
            quiet_config(place.address, **{"enable.idempotence": True, "linger.ms": 5})
        )

    def step(self) -> None:
        if len(self._producer) < IN_FLIGHT_MAX:
            first, self._count = self._count, self._count + self._place.draw.randint(1, 20)
            ids = [f"{self._place.who}/plain/{number}" for number in range(first, self._count)]
            self._place.history.note("puts", ids=ids)
            for id in ids:
                self._producer.produce(self._place.topic, id.encode(), self._place.who, on_delivery=self._delivered)
        self._producer.poll(0.02)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self._place.history.note("put", ids=[message.value().decode()])

    def close(self) -> None:
        self._producer.flush(FLUSH_S)


class KafkaConsumer:
    """A member of a group of confluent-kafka, which commits most of what it gets."""

    def __init__(self, place: Place) -> None:
        self._place = place
        settings = {
            "group.id": KAFKA,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "topic.metadata.refresh.interval.ms": 1000,
        }
        self._consumer = confluent_kafka.Consumer(quiet_config(place.address, **settings))
        self._consumer.subscribe([place.topic])

    def step(self) -> None:
        since_ns = time.monotonic_ns()
        messages: list[Any] = [each for each in self._consumer.consume(100, WAIT_S) if each.error() is None]
        if not messages:
            return
        rows = [(each.partition(), each.offset(), each.value().decode()) for each in messages]
        self._place.history.note("read", group=KAFKA, since_ns=since_ns, messages=rows)
        if self._place.draw.random() < COMMITTED_SHARE:
            positions = {partition: number + 1 for partition, number, _ in rows}
            offsets = [confluent_kafka.TopicPartition(self._place.topic, *each) for each in positions.items()]
            done = self._consumer.commit(offsets=offsets, asynchronous=False)
            committed = {each.partition: each.offset for each in done if each.error is None}
            self._place.history.note("committed", group=KAFKA, positions=committed)

    def close(self) -> None:
        self._consumer.close()


PRODUCERS: Final[Mapping[str, Callable[[Place], Role]]] = {
    "warren-producer-1": lambda place: OfWarren(place, "producer"),
    "warren-producer-2": lambda place: OfWarren(place, "producer"),
    "kafka-producer": KafkaProducer,
}
CONSUMERS: Final[Mapping[str, Callable[[Place], Role]]] = {
    "warren-reader-1": lambda place: OfWarren(place, "reader"),
    "warren-reader-2": lambda place: OfWarren(place, "reader"),
    "warren-taker-1": lambda place: OfWarren(place, "taker"),
    "warren-taker-2": lambda place: OfWarren(place, "taker"),
    "kafka-reader-1": KafkaConsumer,
    "kafka-reader-2": KafkaConsumer,
}
MAKERS: Final = {**PRODUCERS, **CONSUMERS}


class Client:
    """One client in a thread, and the next one of its kind if it fails again and again."""

    def __init__(self, name: str, address: str, topic: str, directory: Path, seed: str) -> None:
        self.name, self._address, self._topic, self._directory, self._seed = name, address, topic, directory, seed
        self.steps = self.outages = self.lives = 0
        self.longest_step_s = 0.0
        self.failure: BaseException | None = None
        self._begun_s: float | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def step_s_max(self) -> float:
        return STEP_S_MAX if self.name.startswith("warren") else KAFKA_STEP_S_MAX

    @property
    def busy_s(self) -> float:
        """Returns how long the present step has taken."""
        begun_s = self._begun_s
        return 0.0 if begun_s is None else time.monotonic() - begun_s

    def end(self) -> None:
        self._is_over.set()

    def join(self, seconds: float) -> bool:
        """Returns whether it has ended within that time."""
        self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                self.lives += 1
                self._live(f"{self.name}-{self.lives}")
        except BaseException as error:  # noqa: BLE001  # The run reports it.
            self.failure = error

    def _live(self, who: str) -> None:
        draw, history = random.Random(f"{self._seed} {who}"), Writer(self._directory / f"{who}.history", who)
        place = Place(self._address, self._topic, who, history, draw)
        roles: list[Role] = []
        failures = 0
        while not self._is_over.is_set() and failures < FAILURES_MAX:
            try:
                with self._timed():
                    roles[0].step() if roles else roles.append(MAKERS[self.name](place))
                failures = 0
                self.steps += 1
                self._is_over.wait(draw.random() * 2 * PACE_S)
            except OUTAGES as error:
                failures += 1
                self.outages += 1
                history.note("outage", error=repr(error))
                self._is_over.wait(PAUSE_S)
        for role in roles:
            with suppress(*OUTAGES), self._timed():
                role.close()

    def _timed(self) -> _Timed:
        return _Timed(self)

    def begin(self) -> None:
        self._begun_s = time.monotonic()

    def finish(self) -> None:
        self.longest_step_s = max(self.longest_step_s, self.busy_s)
        self._begun_s = None


class _Timed:
    def __init__(self, client: Client) -> None:
        self._client = client

    def __enter__(self) -> None:
        self._client.begin()

    def __exit__(self, *_: object) -> None:
        self._client.finish()
