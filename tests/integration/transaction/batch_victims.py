"""The work of the processes that `test_batch_kills` kills: each stages and commits the batches of one application."""

from __future__ import annotations

import os
from random import Random
from typing import Final
from uuid import uuid4

import pyarrow as pa

import warren
from warren.transaction.store import Store

TOPICS: Final = (("wide", 2, 3), ("old", 1, 1), ("loose", 2, 1))
"""The name, the version and the partitions of each topic that is put to."""
MEMBERS: Final = 2
ROWS: Final = 5
"""How many transactions a batch has, and how many rows each puts to each topic."""


def open_store(path: str) -> Store:
    """Opens the store as every victim does."""
    store = warren.open(path)
    for name, version, partitions in TOPICS:
        durability = "os" if name == "loose" else "commit"
        store.topic(name, version=version, partitions=partitions, durability=durability)
    return store


def run(path: str, notes_path: str, application: str, seed: int) -> None:
    """Commits version after version until killed, sometimes one that was reached before; notes the answers."""
    notes = os.open(notes_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    store, random = open_store(path), Random(seed)
    store.abort_prepared(f"{application}/")
    while True:
        last = store.last_version(application)
        version = 0 if last is None else last + (random.random() < 0.8)
        ids = [stage(store, application, version, member) for member in range(MEMBERS)]
        assert store.commit_batch(application, version, ids) == "done"
        os.write(notes, f"{version}\n".encode())


def stage(store: Store, application: str, version: int, member: int) -> str:
    """Stages one transaction of a batch, and returns its id."""
    id = f"{application}/{version}/{member}/{uuid4().hex}"
    tx = store.transaction(id=id)
    bodies = [f"{application}:{version}:{member}:{row}".encode() for row in range(ROWS)]
    for topic, number, _ in TOPICS:
        columns = {"body": bodies} if number == 1 else {"body": bodies, "key": bodies}
        tx.put_columns(topic, pa.record_batch(columns))
    tx.prepare()
    return id
