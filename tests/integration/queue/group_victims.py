"""The work of the processes on a queue group that `test_queue_group_kills` kills: each runs until it is killed.

A note is written before each call, and after it was reported done: each note must hold.
"""

from __future__ import annotations

import os
from random import Random
from typing import Final

from tests.support.moody_filesystem import MoodyFileSystem
from warren.errors import LeaseLost
from warren.message import Message
from warren.queue.leases.queue_group import QueueGroup
from warren.queue.state.group_settings import GroupSettings
from warren.queue.store import Store
from warren.queue.topic import Topic

PARTITIONS: Final = 2
LEASE_S: Final = 0.5
BACKLOG_MAX: Final = 200
SETTINGS: Final = GroupSettings(mode="queue", lease_s=LEASE_S, attempts_max=3, backoff_s=0.0, ordered_by_key=True)


def open_topic(path: str) -> Topic:
    """Opens the topic as every victim does: with syncs in name only, since no power is cut."""
    store = Store(path, keeps=False, filesystem=MoodyFileSystem(really_syncs=False))
    return store.topic("orders", PARTITIONS, block_size=64 << 10, retention_consumed=True)


def put(path: str, notes_path: str, name: str, seed: int) -> None:
    """Puts `name:0`, `name:1`, …, and notes each one."""
    topic, notes, random = open_topic(path), _open_notes(notes_path), Random(seed)
    group = QueueGroup(topic, "workers", SETTINGS)
    number = 0
    while True:
        bodies = [b"%s:%d" % (name.encode(), number + row) for row in range(random.randint(1, 20))]
        topic.put_many(bodies, keys=[random.choice((None, b"a", b"b")) for _ in bodies])
        os.write(notes, b"".join(b"put %s\n" % body for body in bodies))
        number += len(bodies)
        while sum(group.lag().values()) > BACKLOG_MAX:
            topic.retire()
            topic.clock.sleep(0.002)


def work(path: str, notes_path: str, name: str, seed: int) -> None:
    """Takes messages; acknowledges most of them, gives some back, and drops some. Sometimes puts dead letters back."""
    topic, notes, random = open_topic(path), _open_notes(notes_path), Random(seed)
    group = QueueGroup(topic, "workers", SETTINGS)
    while True:
        messages = group.take(random.choice((1, 5, 20)), wait=0.05)
        for message in messages:
            os.write(notes, b"take %s\n" % message.body)
        finished = [message for message in messages if random.random() < 0.85]
        _acknowledge(group, notes, finished)
        for message in messages:
            if message not in finished and random.random() < 0.5:
                group.nack(message, reason="no luck")
        if random.random() < 0.05:
            group.redrive(10)


def _acknowledge(group: QueueGroup, notes: int, messages: list[Message]) -> None:
    os.write(notes, b"".join(b"try %s\n" % message.body for message in messages))
    lost: list[tuple[int, int]] = []
    try:
        group.ack_many(messages)
    except LeaseLost as error:
        lost = error.places
    outcomes = [
        (b"lost" if (message.partition, message.number) in lost else b"done", message.body) for message in messages
    ]
    os.write(notes, b"".join(b"%s %s\n" % line for line in outcomes))


def _open_notes(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
