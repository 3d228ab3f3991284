"""A pipeline whose driver is killed again and again: every message comes out once, good or bad."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

import warren
from tests.spark.cluster import children
from tests.tidy.source import ROOT, SOURCE

pytest.importorskip("pyspark")

KILLS: Final = 20
MESSAGES: Final = 4000
BROKEN_EVERY: Final = 37
BATCHES_MAX: Final = 3
"""A driver is killed after at most so many reported batches, or before the first."""
DELAY_S_MAX: Final = 1.5
DEATHS_MAX: Final = 5
"""So many drivers may die of their own: Spark gives its Python workers ten seconds to start, which may be too few."""
AHEAD: Final = 1
"""So many drivers are made ready while one runs: each takes seconds of a core to start."""
SEED: Final = 1


class Victim:
    """A driver with its JVM, its Python workers and all. It is made ready while another one runs."""

    def __init__(self, store: Path, folder: Path) -> None:
        folder.mkdir()
        self._complaints = folder / "stderr"
        paths = os.pathsep.join([str(ROOT), str(SOURCE)])
        with open(self._complaints, "wb") as complaints:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.pipeline_victim", str(store), str(folder)],
                env=os.environ | {"PYTHONPATH": paths, "SPARK_LOCAL_IP": "127.0.0.1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
            )

    def begin(self) -> bool:
        """Start the pipeline; whether it runs."""
        if self.heard() != "ready":
            return False
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return self.heard() == "started"

    def heard(self) -> str:
        """Its next word; empty when it is dead."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def complaint(self) -> str:
        """What it said before it died of its own."""
        return self._complaints.read_text(errors="replace")[-2000:]

    def kill(self, *, is_whole: bool) -> None:
        """The driver and its JVM, at once; with `is_whole` its Python workers too, which else go on for a moment."""
        family = [self._process.pid, *_descendants(self._process.pid)]
        for pid in family if is_whole else family[:2]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self.close()

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        self._process.wait()


def _descendants(pid: int) -> list[int]:
    found = []
    for child in children(pid):
        found += [child, *_descendants(child)]
    return found


def is_done(victim: Victim) -> bool:
    """Let the driver run to its end; whether it came there."""
    word = "batch" if victim.begin() else ""
    while word == "batch":
        word = victim.heard()
    victim.close()
    return word == "done"


@pytest.mark.timeout(1500)
def test_a_driver_killed_twenty_times_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    store, draw = tmp_path / "store", random.Random(SEED)
    good, bad = put_messages(store)
    victims = (Victim(store, tmp_path / f"victim-{number}") for number in range(KILLS + DEATHS_MAX + AHEAD))
    waiting, kills, kills_in_a_batch = deque(islice(victims, AHEAD)), 0, 0

    while kills < KILLS:
        waiting.append(next(victims))
        victim = waiting.popleft()
        if not victim.begin() or not all(victim.heard() == "batch" for _ in range(draw.randrange(BATCHES_MAX + 1))):
            # It died of its own, or came to its end.
            victim.kill(is_whole=True)
            assert len(list(tmp_path.glob("victim-*"))) < KILLS + DEATHS_MAX, victim.complaint()
            continue
        time.sleep(draw.random() * DELAY_S_MAX)
        victim.kill(is_whole=draw.random() < 0.5)
        kills, kills_in_a_batch = kills + 1, kills_in_a_batch + is_in_a_batch(store)
    while not is_done(last := waiting.popleft()):
        # A driver may die of its own, and the next one goes on: as long as there are some left.
        assert waiting, last.complaint()
    for spare in waiting:
        spare.kill(is_whole=True)

    with warren.open(store, keeps=False) as opened:
        copies = [json.loads(message.body)["id"] for message in opened.topic("copies").since(0)]
        letters = [message.body for message in opened.topic("orders.dead").since(0)]
    assert sorted(copies) == good
    assert sorted(letters) == sorted(bad)
    assert kills_in_a_batch > 0, "no kill was in the middle of a batch: the test has shown nothing"


def put_messages(store: Path) -> tuple[list[int], list[bytes]]:
    """Orders in two partitions: the ids of the good ones, and the bodies of the broken ones."""
    numbers = range(MESSAGES)
    bodies = [b'{"id": %d' % number + (b"}" if number % BROKEN_EVERY else b"") for number in numbers]
    with warren.open(store) as opened:
        topic = opened.topic("orders", 2)
        topic.put_many(bodies, keys=[b"%d" % number for number in numbers])
    good = [number for number in numbers if number % BROKEN_EVERY]
    return good, [body for number, body in enumerate(bodies) if number % BROKEN_EVERY == 0]


def is_in_a_batch(store: Path) -> bool:
    """Whether a query was killed after it had planned a batch and before it had noted its end."""
    checkpoints = store / "pipelines" / "copy" / "checkpoint"
    return any(_last(query / "offsets") > _last(query / "commits") for query in checkpoints.iterdir())


def _last(directory: Path) -> int:
    if not directory.exists():
        return -1
    return max((int(path.name) for path in directory.iterdir() if path.name.isdigit()), default=-1)
