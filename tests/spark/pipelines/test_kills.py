"""Pipelines whose driver is killed repeatedly: every message comes out once, good or bad.

A driver takes seconds to start, so it runs several pipelines, which share only the topic that they read: a kill of the
driver kills each of their queries at another moment.
"""

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
from tests.spark.pipelines.victim import COPIES, LETTERS, PIPELINES, QUERIES
from tests.tidy.source import ROOT, SOURCE

pytest.importorskip("pyspark")

KILLS: Final = 20
"""How many queries are killed."""
DRIVER_KILLS: Final = KILLS // (len(PIPELINES) * QUERIES)
MESSAGES: Final = 2500
BROKEN_EVERY: Final = 37
AT_ONCE: Final = 40
"""How many messages a driver that is to be killed takes in a batch; one that ends takes all."""
BATCHES_MAX: Final = 3 * len(PIPELINES)
"""A driver is killed after at most this many reported batches, or before the first."""
DELAY_S_MAX: Final = 1.5
DEATHS_MAX: Final = 5
"""How many drivers may die by themselves: Spark gives its Python workers ten seconds to start,
which may be too little.
"""
AHEAD: Final = 1
"""How many drivers are prepared while one runs, because each takes seconds of a core to start."""
SEED: Final = 1


class Victim:
    """A driver with its JVM, its Python workers and all. It is prepared while another one runs."""

    def __init__(self, store: Path, folder: Path) -> None:
        folder.mkdir()
        self._complaints = folder / "stderr"
        paths = os.pathsep.join([str(ROOT), str(SOURCE)])
        with open(self._complaints, "wb") as complaints:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.pipelines.victim", str(store), str(folder)],
                env=os.environ | {"PYTHONPATH": paths, "SPARK_LOCAL_IP": "127.0.0.1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
            )

    def begin(self, at_once: int) -> bool:
        """Starts the pipelines with at most `at_once` messages in a batch. Returns whether they run."""
        if self.next_word() != "ready":
            return False
        assert self._process.stdin is not None
        self._process.stdin.write(f"{at_once}\n")
        self._process.stdin.flush()
        return self.next_word() == "started"

    def next_word(self) -> str:
        """Returns the next line that it prints; empty when it is dead."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def complaint(self) -> str:
        """Returns its output before it died by itself."""
        return self._complaints.read_text(errors="replace")[-2000:]

    def kill(self, *, is_whole: bool) -> None:
        """Kills the driver and its JVM immediately; with `is_whole` its Python workers too, which otherwise run on for
        a moment.
        """
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
    pids = []
    for child in children(pid):
        pids += [child, *_descendants(child)]
    return pids


def is_done(victim: Victim) -> bool:
    """Lets the driver run to its end. Returns whether it got there."""
    word = "batch" if victim.begin(MESSAGES) else ""
    while word == "batch":
        word = victim.next_word()
    victim.close()
    return word == "done"


@pytest.mark.timeout(1500)
def test_pipelines_whose_driver_is_killed_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    store, draw = tmp_path / "store", random.Random(SEED)
    good, bad = put_messages(store)
    victims = (Victim(store, tmp_path / f"victim-{number}") for number in range(DRIVER_KILLS + DEATHS_MAX + AHEAD))
    waiting, kills, kills_in_a_batch = deque(islice(victims, AHEAD)), 0, 0

    while kills < DRIVER_KILLS:
        waiting.append(next(victims))
        victim = waiting.popleft()
        batches = draw.randrange(BATCHES_MAX + 1)
        if not victim.begin(AT_ONCE) or not all(victim.next_word() == "batch" for _ in range(batches)):
            # It died by itself, or came to its end.
            victim.kill(is_whole=True)
            assert len(list(tmp_path.glob("victim-*"))) < DRIVER_KILLS + DEATHS_MAX, victim.complaint()
            continue
        time.sleep(draw.random() * DELAY_S_MAX)
        victim.kill(is_whole=draw.random() < 0.5)
        kills += 1
        kills_in_a_batch += sum(is_in_a_batch(store, pipeline) for pipeline in PIPELINES)
    while not is_done(last := waiting.popleft()):
        # A driver may die by itself, and the next one continues, as long as some are left.
        assert waiting, last.complaint()
    for spare in waiting:
        spare.kill(is_whole=True)

    with warren.open(store, keeps=False) as opened:
        for pipeline in PIPELINES:
            copies = [json.loads(message.body)["id"] for message in opened.topic(pipeline + COPIES).since(0)]
            letters = [message.body for message in opened.topic(pipeline + LETTERS).since(0)]
            assert sorted(copies) == good
            assert sorted(letters) == sorted(bad)
    assert kills_in_a_batch >= DRIVER_KILLS, "hardly a kill was in the middle of a batch: the test has shown nothing"


def put_messages(store: Path) -> tuple[list[int], list[bytes]]:
    """Puts orders into two partitions. Returns the ids of the good ones, and the bodies of the broken ones."""
    numbers = range(MESSAGES)
    bodies = [b'{"id": %d' % number + (b"}" if number % BROKEN_EVERY else b"") for number in numbers]
    with warren.open(store) as opened:
        topic = opened.topic("orders", 2)
        topic.put_many(bodies, keys=[b"%d" % number for number in numbers])
    good = [number for number in numbers if number % BROKEN_EVERY]
    return good, [body for number, body in enumerate(bodies) if number % BROKEN_EVERY == 0]


def is_in_a_batch(store: Path, pipeline: str) -> bool:
    """Returns whether a query was killed after it had planned a batch and before it had noted its end."""
    checkpoints = store / "pipelines" / pipeline / "checkpoint"
    queries = list(checkpoints.iterdir()) if checkpoints.exists() else []
    return any(_last(query / "offsets") > _last(query / "commits") for query in queries)


def _last(directory: Path) -> int:
    if not directory.exists():
        return -1
    return max((int(path.name) for path in directory.iterdir() if path.name.isdigit()), default=-1)
