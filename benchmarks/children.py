"""Functions that run in their own process: a writer that is killed, and readers whose memory is measured."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import warren
from benchmarks.counting import IndexKeepingFileSystem
from benchmarks.workspace import BATCH, make_bodies
from warren.storage import Log
from warren.storage.append.background_sync import process_background

SAMPLE_S: Final = 0.02
WAKE_S_MAX: Final = 30.0
PARKED_MORE: Final = 10_000
LISTED: Final = 20
READY: Final = "ready"
KINDS: Final = {
    "Rss:": "resident",
    "Private_Clean:": "private_clean",
    "Private_Dirty:": "private_dirty",
    "Anonymous:": "anonymous",
}
"""The kinds of memory of a process, by the names of /proc/PID/smaps_rollup.

Pages of a map that only it has count as private.
"""


def write_until_killed(path: str, durability: str, block_size: str) -> None:
    """Fills three blocks and half of a fourth with batches, adds single records, reports that, and
    continues to append.
    """
    bodies = make_bodies(BATCH)
    with Log.open(
        path,
        durability=durability,
        exclusive=True,
        block_size=int(block_size),
        filesystem=IndexKeepingFileSystem(),
        background=process_background(),
    ) as log:
        while log.append(bodies[0]).offset < 3.5 * int(block_size):
            log.append_many(bodies)
        print(READY, flush=True)
        while True:
            log.append(bodies[0])


def read_all(path: str) -> None:
    """Reads every message of a log, 1,000 at a time."""
    number = 0
    with Log.open(path, read_only=True) as log:
        while messages := log.read(number):
            number += len(messages)


def scan_all(path: str) -> None:
    """Scans every column of every message of a log."""
    with Log.open(path, read_only=True) as log:
        for batch in log.scan(log.first, log.end):
            assert batch.num_rows


def use_parked(path: str) -> None:
    """A store with many parked messages: delivers, parks more, and lists the first ones."""
    with warren.open(path) as store:
        topic = store.topic("orders")
        log = topic.partition(0)
        number = log.end
        topic.put(b"now", delay=0.0)
        assert log.wait(number, 60.0)
        for _ in range(PARKED_MORE):
            topic.put(b"later", delay=3600.0)
        assert len(list(topic.scheduled(LISTED))) == LISTED


def note_wakes(log: Log, number: int, count: int, note: Callable[[int], object]) -> None:
    """Waits for one message after the other, and records when each came, by the machine's steady clock."""
    for end in range(number, number + count):
        assert log.wait(end, WAKE_S_MAX)
        note(time.monotonic_ns())


def wake(path: str, number: str, count: str) -> None:
    """The same in its own process."""
    with Log.open(path, durability="os") as log:
        print(READY, flush=True)
        note_wakes(log, int(number), int(count), print)


def start(task: str, *arguments: str) -> subprocess.Popen[str]:
    """Runs one of the functions above in a new process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "benchmarks.children", task, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def wait_until_ready(child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    if child.stdout.readline().strip() != READY:
        raise RuntimeError(f"the child ended with {child.wait()} before it was ready")


def watch(child: subprocess.Popen[str]) -> dict[str, int]:
    """Returns the child's memory at its maximum, sampled every 20 ms until it ends."""
    peak = {"private": 0}
    while child.poll() is None:
        now = _memory(child.pid)
        if now.get("private", 0) > peak["private"]:
            peak = now
        time.sleep(SAMPLE_S)
    if child.returncode:
        raise RuntimeError(f"the child ended with {child.returncode}")
    return peak


def _memory(pid: int) -> dict[str, int]:
    """Returns the sums over all maps of a process; none if it is just ending."""
    sizes: dict[str, int] = {}
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
            name, kilobytes = line.split()[:2]
            if name in KINDS:
                sizes[KINDS[name]] = int(kilobytes) * 1024
        sizes["private"] = sizes["private_clean"] + sizes["private_dirty"]
    return sizes


TASKS: Final[Mapping[str, Callable[..., None]]] = {
    "write": write_until_killed,
    "read": read_all,
    "scan": scan_all,
    "parked": use_parked,
    "wake": wake,
}

if __name__ == "__main__":
    TASKS[sys.argv[1]](*sys.argv[2:])
