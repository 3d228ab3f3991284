"""Witnesses: clients in processes of their own that put all the time, and know how long no acknowledgement came."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from time import monotonic, sleep
from typing import Final, NamedTuple

import warren
from warren.errors import WarrenError

PATIENCE_S: Final = 60.0
PAUSE_S: Final = 0.002
"""The Kafka producer puts a message each time that so much has passed: about 500 per second."""
PACE_S: Final = 0.005
"""So often the paced witness begins a put, if the last one is answered."""
BODY: Final = b"x" * 100


class Witnessed(NamedTuple):
    """What a witness observed since the last question."""

    longest_s: float
    """The longest time between two acknowledgements."""
    latest_s: float
    """The longest time from a put to its acknowledgement."""
    acknowledged: int
    failed: int
    errors: tuple[str, ...]
    """The first errors."""


class _Record:
    """What a witness keeps between two questions."""

    ERRORS_MAX: Final = 5

    def __init__(self) -> None:
        self._last_s = monotonic()
        self.clear()

    def clear(self) -> None:
        self._longest_s = self._latest_s = 0.0
        self._acknowledged = self._failed = 0
        self._errors: list[str] = []

    def acknowledged(self, begun_s: float) -> None:
        now = monotonic()
        self._acknowledged += 1
        self._longest_s = max(self._longest_s, now - self._last_s)
        self._latest_s = max(self._latest_s, now - begun_s)
        self._last_s = now

    def failed(self, error: str) -> None:
        self._failed += 1
        if len(self._errors) < self.ERRORS_MAX:
            self._errors.append(error)

    def answer(self, pipe: Connection) -> bool:
        """Answers a question, if there is one. Returns whether the witness continues."""
        if not pipe.poll():
            return True
        if pipe.recv() is None:
            return False
        longest_s = max(self._longest_s, monotonic() - self._last_s)
        pipe.send(Witnessed(longest_s, self._latest_s, self._acknowledged, self._failed, tuple(self._errors)))
        self.clear()
        return True


def put_own(addresses: str, topic: str, pace_s: float, pipe: Connection) -> None:
    """Our client, one put after the other, with `commit`: the next begins when the last is answered."""
    with warren.connect(addresses, timeout=PATIENCE_S) as store:
        logs = store.topic(topic, durability="commit")
        record, due_s = _Record(), monotonic()
        while record.answer(pipe):
            if pace_s:
                due_s = max(due_s + pace_s, monotonic())
                pipe.poll(max(0.0, due_s - monotonic()))
            begun_s = monotonic()
            try:
                logs.put(BODY)
            except WarrenError as error:
                record.failed(repr(error))
            else:
                record.acknowledged(begun_s)


def put_kafka(addresses: str, topic: str, pace_s: float, pipe: Connection) -> None:
    """confluent-kafka with its default settings."""
    from confluent_kafka import KafkaError, Message, Producer

    producer, record = Producer({"bootstrap.servers": addresses, "log_level": 0}), _Record()

    def noted(begun_s: float) -> Callable[[KafkaError | None, Message], None]:
        def callback(error: KafkaError | None, message: Message) -> None:
            if error is None:
                record.acknowledged(begun_s)
            else:
                record.failed(str(error))

        return callback

    while record.answer(pipe):
        with suppress(BufferError):
            producer.produce(topic, BODY, on_delivery=noted(monotonic()))
        producer.poll(pace_s)
    producer.flush(PATIENCE_S)


class Witness:
    """A witness, seen from the process that measures."""

    def __init__(self, name: str, pipe: Connection) -> None:
        self.name, self._pipe = name, pipe

    def ask(self) -> Witnessed:
        """Returns what it has seen since the last question. A put under way ends first."""
        self._pipe.send(True)
        if not self._pipe.poll(2 * PATIENCE_S):
            raise RuntimeError(f"{self.name} does not answer")
        report: Witnessed = self._pipe.recv()
        return report

    def end(self) -> None:
        with suppress(OSError):
            self._pipe.send(None)


@contextmanager
def _witness(
    name: str, put: Callable[[str, str, float, Connection], None], addresses: str, topic: str, pace_s: float
) -> Iterator[Witness]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=put, args=(addresses, topic, pace_s, theirs), daemon=True)
    process.start()
    witness = Witness(name, ours)
    try:
        while not witness.ask().acknowledged:
            sleep(PAUSE_S)
        yield witness
    finally:
        witness.end()
        process.join(PATIENCE_S)
        if process.is_alive():
            process.terminate()


@contextmanager
def witnesses(addresses: str) -> Iterator[tuple[Witness, Witness]]:
    """Our client and confluent-kafka, each putting to a topic of its own: the load of a fail-over."""
    with warren.connect(addresses, timeout=PATIENCE_S) as store:
        for topic in ("own", "kafka"):
            store.topic(topic, durability="commit")
    with (
        _witness("our client", put_own, addresses, "own", 0.0) as own,
        _witness("confluent-kafka", put_kafka, addresses, "kafka", PAUSE_S) as kafka,
    ):
        yield own, kafka


@contextmanager
def paced_witness(addresses: str) -> Iterator[Witness]:
    """Our client with a put every PACE_S, which leaves the machine idle between them."""
    with _witness("our client", put_own, addresses, "paced", PACE_S) as witness:
        yield witness
