"""The participants of the long run: clients of all kinds, each a process, restarted if an outage ended one."""

from __future__ import annotations

import faulthandler
import logging
import multiprocessing
import os
import random
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiokafka.errors
import confluent_kafka
import kafka.errors

import warren
from tests.soak.history import Writer
from tests.soak.network import consumers, copiers, producers
from tests.soak.network.logins import OF_WARREN
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
"""Errors that a client may report when its broker is killed or its connection is cut."""
CLASSIC: Final = "kafka"
NEWER: Final = "kafka-next"
SHARE: Final = "kafka-share"
PREFETCHING: Final = (CLASSIC, NEWER, SHARE)
GROUPS: Final = (CLASSIC, NEWER, SHARE, STREAM, QUEUE)
OURS: Final = "warren"
FAILURES_MAX: Final = 3
PAUSE_S: Final = 0.1
CALL_S: Final = 60.0
FAULT: Final = ".fault"
STEP_S_MAX: Final = 75.0
KAFKA_STEP_S_MAX: Final = 40.0
"""A client that does not return in that time is killed, as if it had crashed, and the next one continues: librdkafka's
`send_offsets_to_transaction` and the end of its producers sometimes wait without an end after a restart of a broker.
"""


class OfWarren:
    """A client of `warren.connect`: the work of the embedded run, over the network."""

    def __init__(self, place: Place, kind: str) -> None:
        store: Any = warren.connect(place.address, timeout=CALL_S, **OF_WARREN)
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
    "share-taker-1": lambda place: consumers.SharingOfConfluent(place, SHARE),
    "share-taker-2": lambda place: consumers.SharingOfConfluent(place, SHARE),
    "confluent-copier-1": copiers.OfConfluent,
    "confluent-copier-2": copiers.OfConfluent,
    "warren-copier-1": lambda place: copiers.OfWarren(place, copiers.STREAM, CALL_S),
    "warren-copier-2": lambda place: copiers.OfWarren(place, copiers.STREAM, CALL_S),
    "warren-copier-3": lambda place: copiers.OfWarren(place, copiers.QUEUE, CALL_S),
}
MAKERS: Final = {**PRODUCERS, **CONSUMERS}


class Job(NamedTuple):
    """The work of a client, and the place of its record."""

    name: str
    address: str
    topic: str
    directory: str
    pace_s: float
    seed: str

    def place(self, life: str) -> Place:
        who = f"{self.name}-{life}"
        history = Writer(Path(self.directory, f"{who}.history"), who)
        return Place(self.address, self.topic, who, history, random.Random(f"{self.seed} {who}"))


# --- In the process of a client ---


def work(job: Job, generation: int, is_over: Event) -> None:
    """Works until the end. If too much fails, the next of its kind continues, under another name."""
    for name in ("aiokafka", "kafka", "asyncio"):
        # They report each lost connection, which is expected here.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        life = 0
        while not is_over.is_set():
            life += 1
            _live(job, job.place(f"{generation}-{life}"), is_over)
    except Exception:  # noqa: BLE001  # Whatever it is, the check tells it.
        Path(job.directory, f"{job.name}-{generation}{FAULT}").write_text(traceback.format_exc())
    finally:
        # Threads that a client of another library has left are not waited for.
        os._exit(0)


def _live(job: Job, place: Place, is_over: Event) -> None:
    try:
        role = MAKERS[job.name](place)
    except kafka.errors.KafkaConfigurationError:
        raise
    except OUTAGES:
        place.history.note("outage")
        is_over.wait(PAUSE_S)
        return
    failures = 0
    try:
        while not is_over.is_set() and failures < FAILURES_MAX:
            try:
                _watch(job)
                role.step()
                failures = 0
                is_over.wait(place.draw.random() * 2 * job.pace_s)
            except OUTAGES:
                failures += 1
                place.history.note("outage")
                is_over.wait(PAUSE_S)
    finally:
        _watch(job)
        with suppress(*OUTAGES):
            role.close()


def _watch(job: Job) -> None:
    """Ends the process, with a traceback, if this is not called again within the time of a step."""
    seconds = STEP_S_MAX if job.name.startswith(OURS) else KAFKA_STEP_S_MAX
    faulthandler.dump_traceback_later(seconds, exit=True)


# --- In the process of the run ---


class Worker:
    """A client in a process. If it crashes, which `crashes` counts, another process replaces it."""

    def __init__(self, job: Job) -> None:
        self.name, self.crashes = job.name, 0
        self._job, self._context = job, multiprocessing.get_context("forkserver")
        # One process imports every client, and the others are forked from it.
        self._context.set_forkserver_preload([__name__])
        self._is_over = self._context.Event()
        self._thread = threading.Thread(target=self._run, name=job.name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        generation = 0
        while not self._is_over.is_set():
            generation += 1
            process = self._context.Process(target=work, args=(self._job, generation, self._is_over), daemon=True)
            process.start()
            process.join()
            if process.exitcode:
                self.crashes += 1

    def end(self) -> None:
        """Lets it finish its current work; `join` waits for it."""
        self._is_over.set()

    def join(self, deadline_s: float) -> bool:
        """Returns whether it has ended by the deadline."""
        self._thread.join(max(0.0, deadline_s - time.monotonic()))
        return not self._thread.is_alive()
