"""The work of the processes that `test_delay_kills` kills: each runs until it is killed.

A note is written before and after each put and cancel: each call that is noted as done must hold.
"""

from __future__ import annotations

import os
import time
from random import Random
from typing import Final

from tests.support.moody_filesystem import MoodyFileSystem
from warren.queue.store import Store

TOPIC: Final = "orders"
PAUSE_S_MAX: Final = 0.004
DELAYS_S: Final = (0.0, 0.01, 0.05, 0.1, 0.3)


def open_store(path: str, *, keeps: bool = True) -> Store:
    """Opens the store as every victim does: with syncs in name only, since no power is cut."""
    defaults = {"partitions": 3, "durability": "commit", "block_size": 32 << 10}
    return Store(path, defaults=defaults, keeps=keeps, filesystem=MoodyFileSystem(really_syncs=False))


def park(path: str, notes_path: str, name: str, seed: int) -> None:
    """Parks `name:0`, `name:1`, …, and cancels some of them; its store also delivers if it is its turn.

    Notes: `put <body>` before, `parked <body> <due>` after; `cancel <body>` before, `cancelled <body> <answer>` after.
    """
    random, store, notes = Random(seed), open_store(path), _open_notes(notes_path)
    topic = store.topic(TOPIC)
    number = 0
    while True:
        body = b"%s:%d" % (name.encode(), number)
        number += 1
        _note(notes, b"put %s" % body)
        delayed = topic.put(body, key=body[-1:], delay=random.choice(DELAYS_S))
        _note(notes, b"parked %s %d" % (body, delayed.due_us))
        if random.random() < 0.3:
            time.sleep(random.random() * PAUSE_S_MAX)
            _note(notes, b"cancel %s" % body)
            _note(notes, b"cancelled %s %d" % (body, delayed.cancel()))
        time.sleep(random.random() * PAUSE_S_MAX)


def move(path: str, notes_path: str, name: str, seed: int) -> None:
    """Keeps the store open, and delivers for all if it is its turn."""
    store = open_store(path)
    while True:
        time.sleep(1.0)
        store.check_open()


def _open_notes(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def _note(notes: int, line: bytes) -> None:
    os.write(notes, line + b"\n")
