"""The work of the processes that `test_transaction_kills` kills: each moves messages in transactions until it is
killed.
"""

from __future__ import annotations

import os
from random import Random
from typing import Final

import warren
from warren.errors import WarrenError
from warren.transaction.store import Store
from warren.transaction.transaction import Transaction

OUTPUTS: Final = (("wide", 2, 3), ("old", 1, 1), ("audit", 2, 1))
"""The name, the version and the partitions of each topic that is put to."""
SOURCE_COUNT: Final = 3000


def open_store(path: str) -> Store:
    """Opens the store as every victim does."""
    store = warren.open(path)
    for name, version, partitions in OUTPUTS:
        store.topic(name, version=version, partitions=partitions)
    store.topic("source", partitions=2)
    store.topic("jobs")
    return store


def put_everywhere(tx: Transaction, name: str) -> None:
    """Puts a message into each partition of each topic, all with the name of the transaction."""
    for topic, _, partitions in OUTPUTS:
        for partition in range(partitions):
            tx.put(topic, name.encode(), id=f"{name[:30]}-{partition}", partition=partition)


def run(path: str, notes_path: str, role: str, name: str, seed: int) -> None:
    """Works until killed, and notes each answered transaction: `done`, `aborted` or `prepared`, and its name."""
    notes = os.open(notes_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    store = open_store(path)
    work = {"mover": _move, "worker": _work, "coordinator": _coordinate}[role]
    work(store, notes, name, Random(seed))


def _note(notes: int, word: str, name: str) -> None:
    os.write(notes, f"{word} {name}\n".encode())


def _move(store: Store, notes: int, name: str, random: Random) -> None:
    """Reads from the source and puts the messages, one transaction after the other; commits the positions with it."""
    group = store.topic("source").group("movers")
    count = 0
    while True:
        messages = group.read(random.randint(1, 4), wait=0.05)
        count += 1
        try:
            with store.transaction() as tx:
                tx.put_many("moved", [b"%d:%s" % (message.partition, message.body) for message in messages])
                put_everywhere(tx, f"{name}:{count}")
                tx.commit(group)
        except WarrenError:
            # Another member owns the partition by now.
            group.rewind()
            continue
        _note(notes, "done", f"{name}:{count}")


def _work(store: Store, notes: int, name: str, random: Random) -> None:
    """Takes jobs, and puts a result for each with its acknowledgement."""
    group = store.topic("jobs").group("workers", mode="queue", lease=30.0)
    count = 0
    while True:
        messages = group.take(random.randint(1, 4), wait=0.05)
        count += 1
        with store.transaction() as tx:
            tx.ack(group, messages)
            tx.put_many("results", [message.body for message in messages])
            put_everywhere(tx, f"{name}:{count}")
        _note(notes, "done", f"{name}:{count}")


def _coordinate(store: Store, notes: int, name: str, random: Random) -> None:
    """Prepares transactions by id, and decides those that any process prepared."""
    count = 0
    while True:
        count += 1
        id = f"{name}:{count}"
        with store.transaction(id=id) as tx:
            put_everywhere(tx, id)
            tx.prepare()
        _note(notes, "prepared", id)
        for prepared in store.recover():
            if random.random() < 0.5:
                _decide(store, notes, prepared.id, is_committed=random.random() < 0.7)


def _decide(store: Store, notes: int, id: str, *, is_committed: bool) -> None:
    try:
        if is_committed:
            store.commit(id)
            _note(notes, "done", id)
        else:
            store.abort(id)
            _note(notes, "aborted", id)
    except WarrenError:
        # Another coordinator decided otherwise.
        return
