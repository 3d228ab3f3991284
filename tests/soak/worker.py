"""The work of each process of the long run until it is killed: put, read and commit, take and acknowledge."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Final

import warren
from tests.soak.history import Writer
from warren.errors import LeaseLost, NotOwner
from warren.message import Message
from warren.queue.topic import Topic
from warren.transaction.store import Store

TOPIC: Final = "soak"
PARTITIONS: Final = 4
STREAM: Final = "stream"
QUEUE: Final = "queue"
LEASE_S: Final = 1.0
DELAY_S_MAX: Final = 1.0
WAIT_S: Final = 0.2

Row = tuple[int, int, str]


def rows(messages: list[Message]) -> list[Row]:
    """Returns messages in the form of the history."""
    return [(message.partition, message.number, message.body.decode()) for message in messages]


class Producer:
    """Puts messages one by one, together, with a delay that it may cancel, and in transactions."""

    def __init__(self, store: Store, history: Writer, who: str, draw: random.Random, topic: str = TOPIC) -> None:
        self._store, self._topic, self._history = store, store.topic(topic), history
        self._who, self._draw, self._count = who, draw, 0

    def _ids(self, kind: str, count: int) -> list[str]:
        self._count += count
        return [f"{self._who}/{kind}/{number}" for number in range(self._count - count, self._count)]

    def step(self) -> None:
        self._draw.choices((self._put, self._put_many, self._delay, self._transact), (4, 2, 2, 2))[0]()

    def _put(self) -> None:
        [id] = self._ids("plain", 1)
        self._history.note("puts", ids=[id])
        self._topic.put(id.encode(), key=self._who.encode())
        self._history.note("put", ids=[id])

    def _put_many(self) -> None:
        ids = self._ids("many", self._draw.randint(1, 20))
        self._history.note("puts", ids=ids)
        self._topic.put_many([id.encode() for id in ids])
        self._history.note("put", ids=ids)

    def _delay(self) -> None:
        [id] = self._ids("delayed", 1)
        due_us = time.time_ns() // 1000 + int(self._draw.random() * DELAY_S_MAX * 1_000_000)
        self._history.note("puts", ids=[id], due_us=due_us)
        held = self._topic.put(id.encode(), deliver_at=due_us)
        if self._draw.random() < 0.3:
            self._history.note("cancels", ids=[id])
            if held.cancel():
                self._history.note("cancelled", ids=[id])
        else:
            self._history.note("put", ids=[id])

    def _transact(self) -> None:
        ids = self._ids("transaction", self._draw.randint(2, 6))
        self._history.note("puts", ids=ids, transaction=ids[0])
        with self._store.transaction() as tx:
            for id in ids:
                tx.put(self._topic.name, id.encode(), key=id.encode())
        self._history.note("put", ids=ids)


class Reader:
    """A member of the stream group: reads, and commits most of what it read."""

    def __init__(self, topic: Topic, history: Writer, draw: random.Random) -> None:
        self._group, self._history, self._draw = topic.group(STREAM), history, draw

    def step(self, share: float = 0.8) -> int:
        """Reads once, and commits with the given probability. Returns how many messages there were."""
        since_ns = time.monotonic_ns()
        messages = self._group.read(limit=self._draw.randint(1, 100), wait=WAIT_S)
        self._history.note("read", group=STREAM, since_ns=since_ns, messages=rows(messages))
        if self._draw.random() < share:
            positions = self._positions(messages)
            self._history.note("commits", group=STREAM, positions=positions)
            try:
                self._group.commit(positions)
            except NotOwner:
                return len(messages)
            self._history.note("committed", group=STREAM, positions=positions)
        return len(messages)

    def _positions(self, messages: list[Message]) -> dict[int, int]:
        """Returns the positions from which the group continues: after the messages that were read."""
        return self._group.read_positions()


class ReaderOverNetwork(Reader):
    """The same by a client, which commits after its last messages."""

    def _positions(self, messages: list[Message]) -> dict[int, int]:
        return {message.partition: message.number + 1 for message in messages}


class Taker:
    """A member of the queue group: takes, and acknowledges most messages; gives some back, and drops some."""

    limit_max = 30

    def __init__(self, topic: Topic, history: Writer, draw: random.Random) -> None:
        self._group = topic.group(QUEUE, mode="queue", lease=LEASE_S, attempts_max=0)
        self._history, self._draw = history, draw

    def step(self, share: float = 0.8) -> int:
        since_ns = time.monotonic_ns()
        messages = self._group.take(limit=self._draw.randint(1, self.limit_max), wait=WAIT_S)
        self._history.note("took", group=QUEUE, since_ns=since_ns, messages=rows(messages))
        for message in messages if self._draw.random() < 0.3 else []:
            self._settle(message, share)
            messages = []
        if messages and self._draw.random() < share:
            self._history.note("acks", group=QUEUE, messages=rows(messages))
            try:
                self._group.ack_many(messages)
            except LeaseLost:
                return len(messages)
            self._history.note("acked", group=QUEUE, messages=rows(messages))
        return len(messages)

    def _settle(self, message: Message, share: float) -> None:
        try:
            if self._draw.random() < share:
                self._group.ack(message)
                self._history.note("acked", group=QUEUE, messages=rows([message]))
            else:
                self._group.nack(message, delay=0.05)
        except LeaseLost:
            return


class TakerOverNetwork(Taker):
    """The same by a client, which takes more messages per call."""

    limit_max = 200


def work(role: str, directory: Path, who: str, seed: int) -> None:
    """Works without an end."""
    history, draw = Writer(directory / f"{who}.history", who), random.Random(seed)
    store = warren.open(directory / "store")
    worker: Producer | Reader | Taker
    if role == "producer":
        worker = Producer(store, history, who, draw)
    elif role == "reader":
        worker = Reader(store.topic(TOPIC), history, draw)
    else:
        worker = Taker(store.topic(TOPIC), history, draw)
    while True:
        worker.step()
