"""The work of the processes of the tests: each is newly started, and reports its results over a pipe."""

from __future__ import annotations

import os
import resource
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.support.moody_filesystem import MoodyFileSystem
from warren.storage import Log

BLOCK_SIZE = 16 << 10
WAIT_S = 60.0


def open_log(path: str, **options: Any) -> Log:
    """Small blocks and one slot: rolls and a growing index are part of every test."""
    settings: dict[str, Any] = {"block_size": BLOCK_SIZE, "max_block_count": 1}
    return Log.open(path, **settings | options)


def append(pipe: Connection, path: str, name: str, count: int, durability: str) -> None:
    """Appends `name:0`, `name:1`, … one by one and in batches, and reports the number of each."""
    with open_log(path, durability=durability) as log:
        pipe.send("ready")
        pipe.recv()
        numbers: list[int] = []
        while len(numbers) < count:
            place = len(numbers)
            if place % 10:
                numbers.append(log.append(b"%s:%d" % (name.encode(), place)).number)
            else:
                batch = [b"%s:%d" % (name.encode(), each) for each in range(place, min(place + 7, count))]
                numbers += log.append_many(batch)
        pipe.send(numbers)


def create(pipe: Connection, path: str, version: int) -> None:
    """Opens a log that does not exist yet, on a signal, and appends to it."""
    pipe.send("ready")
    pipe.recv()
    with open_log(path, version=version) as log:
        pipe.send(log.append(b"%d" % os.getpid()).number)


def hold(pipe: Connection, path: str) -> None:
    """Holds a log exclusively until a signal."""
    log = open_log(path, exclusive=True)
    log.append(b"mine")
    pipe.send(os.getpid())
    pipe.recv()
    log.close()
    pipe.send("closed")


def wait_for(pipe: Connection, path: str, read_only: bool) -> None:
    """Reads on from the end; reports when it is about to wait, and then what came."""
    log = open_log(path, read_only=True) if read_only else open_log(path)
    reader = log.reader("billing")
    reader.read()
    pipe.send("waiting")
    pipe.send([message.body for message in reader.read(wait=WAIT_S)])


def append_when_told(pipe: Connection, path: str, durability: str) -> None:
    """Appends one message for each that comes over the pipe."""
    log = open_log(path, durability=durability)
    log.append(b"first")
    pipe.send("ready")
    while body := pipe.recv():
        log.append(body)
    log.close()


def use_many_logs(directory: str, count: int, descriptors: int) -> None:
    """Writes `count` logs in turn with few descriptors; prints how many were open at most."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    disk = MoodyFileSystem(really_syncs=False)
    logs = [
        open_log(str(Path(directory) / str(number)), durability="os", filesystem=disk, version=1 + number % 2)
        for number in range(count)
    ]
    readers = {number: log.reader("billing") for number, log in enumerate(logs) if number % 10 == 0}
    highest = 0
    for turn in range(2):
        for number, log in enumerate(logs):
            assert log.append(b"%d:%d" % (number, turn)).number == turn
            if number % 100 == 0:
                highest = max(highest, len(os.listdir("/proc/self/fd")))
    for number, log in enumerate(logs):
        assert [message.body for message in log.read(0)] == [b"%d:0" % number, b"%d:1" % number]
    for number, reader in readers.items():
        assert len(reader.read()) == 2, number
        reader.commit()
    highest = max(highest, len(os.listdir("/proc/self/fd")))
    for log in logs:
        log.close()
    sys.stdout.write(f"{highest}\n")


if __name__ == "__main__":
    use_many_logs(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
