"""The work of the processes that `test_kills` kills: each runs until it is killed, and notes the promises that it got.

A note is written after the promise and before the next call, to a file of the process's own: each note must hold.
"""

from __future__ import annotations

import os
import time
from random import Random
from typing import Final

from warren.storage import Log

BLOCK_SIZE: Final = 32 << 10
MAX_BLOCK_COUNT: Final = 4
BATCH_MAX: Final = 20
READER_NAME: Final = "billing"


def open_log(path: str, durability: str = "commit", *, read_only: bool = False) -> Log:
    """Opens the log as every victim does: blocks that roll often, and an index that has to grow."""
    if read_only:
        return Log.open(path, read_only=True)
    return Log.open(path, durability=durability, block_size=BLOCK_SIZE, max_block_count=MAX_BLOCK_COUNT)


def write(path: str, notes_path: str, name: str, durability: str, seed: int) -> None:
    """Appends `name:0`, `name:1`, … one by one and in batches; notes `number sequence` for each acknowledged one."""
    random, log, sequence = Random(seed), open_log(path, durability), 0
    notes = _open_notes(notes_path)
    while True:
        count = random.randint(1, BATCH_MAX)
        bodies = [b"%s:%d" % (name.encode(), sequence + place) for place in range(count)]
        first = log.append(bodies[0]).number if count == 1 else log.append_many(bodies).start
        os.write(notes, b"".join(b"%d %d\n" % (first + place, sequence + place) for place in range(count)))
        sequence += count
        time.sleep(random.random() / 500)


def follow(path: str, notes_path: str) -> None:
    """Reads on from the first message; notes `number body` for each."""
    log, number = open_log(path, read_only=True), 0
    notes = _open_notes(notes_path)
    while True:
        messages = log.read(number, limit=100)
        os.write(notes, b"".join(b"%d %s\n" % (message.number, message.body) for message in messages))
        number += len(messages)
        if not messages:
            time.sleep(0.001)


def consume(path: str, notes_path: str) -> None:
    """Reads on from the reader's position; notes `start n`, then `try n` before and `done n` after each commit."""
    reader = open_log(path).reader(READER_NAME)
    notes = _open_notes(notes_path)
    os.write(notes, b"start %d\n" % reader.position)
    while True:
        expected = reader.position
        messages = reader.read(limit=10)
        assert [message.number for message in messages] == list(range(expected, expected + len(messages)))
        os.write(notes, b"try %d\n" % reader.position)
        reader.commit()
        os.write(notes, b"done %d\n" % reader.position)
        if not messages:
            time.sleep(0.001)


def _open_notes(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
