"""The work of the processes on a queue file that `test_pointer_file_cuts` kills: each runs until it is killed.

A note is written before a pull, and after each push and pull that was reported done: each note must hold.
"""

from __future__ import annotations

import os
from random import Random
from typing import Final

from tests.support.moody_filesystem import MoodyFileSystem
from warren.queue.standalone.file_queue import FileQueue, open_file

OPTIMISE_ABOVE: Final = 600
DELAY_S: Final = 0.002
WAIT_S: Final = 0.05
BACKLOG_MAX: Final = 40


def open_queue(path: str) -> FileQueue:
    """Opens the queue as every victim does: rewritten often, and with syncs in name only, since no power is cut."""
    return open_file(path, optimise_above=OPTIMISE_ABOVE, filesystem=MoodyFileSystem(really_syncs=False))


def push(path: str, notes_path: str, name: str, seed: int) -> None:
    """Pushes `name:0`, `name:1`, …, some of them with a delay, and notes each one."""
    random, queue, notes = Random(seed), open_queue(path), _open_notes(notes_path)
    number = 0
    while True:
        body = b"%s:%d" % (name.encode(), number)
        queue.push(body, delay=random.choice((None, None, DELAY_S)))
        os.write(notes, body + b"\n")
        number += 1
        while queue.push_pointer - queue.pull_pointer > BACKLOG_MAX * len(body):
            pass


def pull(path: str, notes_path: str, name: str, seed: int) -> None:
    """Pulls all messages; notes `?` before, and the message after."""
    random, queue, notes = Random(seed), open_queue(path), _open_notes(notes_path)
    while True:
        os.write(notes, b"?\n")
        body = queue.pull()
        os.write(notes, (body or b"") + b"\n")
        if random.random() < 0.1:
            queue.optimise()


def _open_notes(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
