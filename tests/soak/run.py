"""The long run: processes that put and consume, killed one after the other and restarted; then the check."""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import warren
from tests.soak.checker import Fault, Stored, check
from tests.soak.history import Writer, read_all
from tests.soak.worker import PARTITIONS, TOPIC, Reader, Taker, work

ROLES: Final = ("producer", "producer", "reader", "reader", "taker", "taker")
LIFE_S_MAX: Final = 0.4
DRAIN_S_MAX: Final = 60.0
FAILED: Final = 70
"""The exit code of a process that ended without being killed."""


class Outcome(NamedTuple):
    """The counts of a run, and its faults."""

    kills: int
    messages: int
    events: int
    faults: list[Fault]


def run(directory: Path, kills: int, seed: int, progress: Callable[[int], None] = lambda kills: None) -> Outcome:
    """Kills `kills` processes in the middle of their work, lets the rest be consumed, and checks everything."""
    draw = random.Random(seed)
    with warren.open(directory / "store") as store:
        store.topic(TOPIC, partitions=PARTITIONS, durability="os")
    crew = [_start(role, directory, f"{role}-0-{place}", draw.random()) for place, role in enumerate(ROLES)]
    faults: list[Fault] = []
    try:
        for kill in range(1, kills + 1):
            time.sleep(draw.random() * LIFE_S_MAX * 2 / len(crew))
            place = draw.randrange(len(crew))
            faults += _kill(crew[place])
            role = ROLES[place]
            crew[place] = _start(role, directory, f"{role}-{kill}-{place}", draw.random())
            progress(kill)
    finally:
        for pid in crew:
            faults += _kill(pid)
    stored = _drain(directory)
    events = read_all(directory)
    return Outcome(kills, len(stored), len(events), [*faults, *check(events, stored)])


def _start(role: str, directory: Path, who: str, seed: float) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        work(role, directory, who, int(seed * 1e9))
    except BaseException:  # noqa: BLE001  # Whatever it is, the check tells it.
        (directory / f"{who}.error").write_text(traceback.format_exc())
    finally:
        os._exit(FAILED)


def _kill(pid: int) -> list[Fault]:
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return [Fault("died", f"process {pid} ended by itself; see its .error file")] if os.WIFEXITED(status) else []


def _drain(directory: Path) -> list[Stored]:
    """Consumes the rest, as the last member of each group. Returns the content of the topic then."""
    history, draw = Writer(directory / "last.history", "last"), random.Random(0)
    deadline = time.monotonic() + DRAIN_S_MAX
    with warren.open(directory / "store") as store:
        topic = store.topic(TOPIC)
        while list(topic.scheduled(limit=1)):
            assert time.monotonic() < deadline, "what was parked did not come out"
            time.sleep(0.05)
        reader, taker = Reader(topic, history, draw), Taker(topic, history, draw)
        while reader.step(share=1.0):
            assert time.monotonic() < deadline, "the stream group did not come to an end"
        quiet_since = time.monotonic()
        while time.monotonic() < quiet_since + 1.5:
            if taker.step(share=1.0):
                quiet_since = time.monotonic()
            assert time.monotonic() < deadline, "the queue group did not come to an end"
        return [
            Stored(message.partition, message.number, message.body.decode(), message.timestamp)
            for message in topic.since(0)
        ]
