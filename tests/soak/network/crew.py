"""Who takes part in the long run: clients of all kinds, each in a thread, started anew where an outage ended one."""

from __future__ import annotations

import logging
import random
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import aiokafka.errors
import confluent_kafka
import kafka.errors

import warren
from tests.soak.history import Writer
from tests.soak.network import consumers, producers
from tests.soak.network.producers import Place, Role
from tests.soak.worker import QUEUE, STREAM, Producer, ReaderOverNetwork, TakerOverNetwork
from warren.errors import WarrenError

OUTAGES: Final = (
    WarrenError,
    OSError,
    TimeoutError,
    BufferError,
    confluent_kafka.KafkaException,
    kafka.errors.KafkaError,
    aiokafka.errors.KafkaError,
)
"""What a client may say when its broker is killed or its connection is cut."""
CLASSIC: Final = "kafka"
NEWER: Final = "kafka-next"
PREFETCHING: Final = (CLASSIC, NEWER)
GROUPS: Final = (CLASSIC, NEWER, STREAM, QUEUE)
FAILURES_MAX: Final = 3
PAUSE_S: Final = 0.1
CALL_S: Final = 60.0


@contextmanager
def hushed() -> Iterator[None]:
    """Clients tell of each connection that is lost; here that is what they are there for."""
    loggers = [logging.getLogger(name) for name in ("aiokafka", "kafka", "asyncio")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


class Seen(Writer):
    """A history, which also keeps what each group got and when it last got something."""

    def __init__(self, path: Path, who: str, seen: Mapping[str, set[tuple[int, int]]]) -> None:
        super().__init__(path, who)
        self._seen = seen

    def note(self, kind: str, **facts: Any) -> None:
        super().note(kind, **facts)
        if kind in ("read", "took"):
            self._seen[facts["group"]].update((partition, number) for partition, number, _ in facts["messages"])


class OfWarren:
    """A client of `warren.connect`: what the embedded run does, over the network."""

    def __init__(self, place: Place, kind: str) -> None:
        store: Any = warren.connect(place.address, timeout=CALL_S)
        self._store = store
        try:
            topic: Any = store.topic(place.topic)
            self._worker: Any
            if kind == "producer":
                self._worker = Producer(store, place.history, place.who, place.draw, place.topic)
            else:
                self._worker = (ReaderOverNetwork if kind == "reader" else TakerOverNetwork)(
                    topic, place.history, place.draw
                )
        except BaseException:
            self._store.close()
            raise

    def step(self) -> None:
        self._worker.step()

    def close(self) -> None:
        self._store.close()


PRODUCERS: Final[Mapping[str, Callable[[Place], Role]]] = {
    "confluent": producers.OfConfluent,
    "transactional": producers.TransactionalOfConfluent,
    "kafka-python": producers.OfKafkaPython,
    "aiokafka": producers.OfAiokafka,
    "warren": lambda place: OfWarren(place, "producer"),
}
CONSUMERS: Final[Mapping[str, Callable[[Place], Role]]] = {
    "confluent-reader": lambda place: consumers.OfConfluent(place, CLASSIC),
    "kafka-python-reader": lambda place: consumers.OfKafkaPython(place, CLASSIC),
    "aiokafka-reader": lambda place: consumers.OfAiokafka(place, CLASSIC),
    "newer-reader-1": lambda place: consumers.OfConfluent(place, NEWER, "consumer"),
    "newer-reader-2": lambda place: consumers.OfConfluent(place, NEWER, "consumer"),
    "warren-reader-1": lambda place: OfWarren(place, "reader"),
    "warren-reader-2": lambda place: OfWarren(place, "reader"),
    "warren-taker-1": lambda place: OfWarren(place, "taker"),
    "warren-taker-2": lambda place: OfWarren(place, "taker"),
}


class Worker:
    """One client in a thread. Where it fails again and again, the next of its kind goes on, under another name."""

    def __init__(
        self, name: str, make: Callable[[Place], Role], place: Callable[[str], Place], pace_s: float, seed: str
    ) -> None:
        self.name, self.fault, self.outages, self.lives = name, "", 0, 0
        self._make, self._place, self._pace_s, self._draw = make, place, pace_s, random.Random(seed)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                self._live()
        except Exception:  # noqa: BLE001  # Whatever it is, the check tells it.
            self.fault = f"{self.name} died: {traceback.format_exc()}"

    def _live(self) -> None:
        """Work until it is over, or too much has failed."""
        self.lives += 1
        try:
            role = self._make(self._place(f"{self.name}-{self.lives}"))
        except kafka.errors.KafkaConfigurationError:
            raise
        except OUTAGES:
            self.outages += 1
            self._is_over.wait(PAUSE_S)
            return
        failures = 0
        try:
            while not self._is_over.is_set() and failures < FAILURES_MAX:
                try:
                    role.step()
                    failures = 0
                    self._is_over.wait(self._draw.random() * 2 * self._pace_s)
                except OUTAGES:
                    failures, self.outages = failures + 1, self.outages + 1
                    self._is_over.wait(PAUSE_S)
        finally:
            with suppress(*OUTAGES):
                role.close()

    def end(self) -> None:
        """Let it finish what it has begun; `join` waits for it."""
        self._is_over.set()

    def join(self, deadline_s: float) -> bool:
        """Whether it has ended by then."""
        self._thread.join(max(0.0, deadline_s - time.monotonic()))
        return not self._thread.is_alive()
