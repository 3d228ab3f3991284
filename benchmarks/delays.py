"""Delayed messages: how late they come to an idle store, and what ten million parked ones cost."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

import warren
from benchmarks import children
from benchmarks.measure import Contestant, Figure, Row, at_least, at_most, rates
from benchmarks.queues import fresh_store, repeated
from benchmarks.workspace import Contest, Workspace, count_text
from warren.transaction.store import Store

DELAYS_S: Final = (0.01, 0.03, 0.08, 0.2, 0.35, 0.6)
HUNDRED: Final = 100
HOUR_S: Final = 3600.0
DAY_US: Final = 80_000_000_000
BATCH_PARKED: Final = 50_000
ALLOWED_LATE: Final = Figure(name="allowed", value=0.05, unit="s")
ALLOWED_OPEN: Final = Figure(name="allowed", value=2.0, unit="s")
ALLOWED_MEMORY: Final = Figure(name="allowed", value=200e6, unit="B")


def late(workspace: Workspace) -> list[Row]:
    # Data on its way to the disk would delay the syncs.
    os.sync()
    with fresh_store(workspace, "commit") as store:
        topic, draw = store.topic("orders"), random.Random(1)
        log = topic.partition(0)
        topic.put(b"first", delay=0.0)
        log.wait(0, 10.0)
        lateness = []
        for _ in range(workspace.scale.delayed):
            delayed, number = topic.put(workspace.bodies[0], delay=draw.choice(DELAYS_S)), log.end
            assert log.wait(number, 10.0)
            lateness.append(time.time() - delayed.due.timestamp())
    lateness.sort()
    p99 = lateness[int(len(lateness) * 0.99)]
    facts = {"count": len(lateness), "p50": lateness[len(lateness) // 2], "max": lateness[-1]}
    measured = Figure(name="p99", value=p99, unit="s", samples=lateness, facts=facts)
    what = "how late a delayed message comes to an idle store, commit, p99"
    return [Row(name="delays.late", what=what, baseline=ALLOWED_LATE, measured=measured, bar=at_most(1))]


def parked(workspace: Workspace) -> list[Row]:
    scale = workspace.scale
    text = f"{count_text(scale.parked)} parked"
    many, few = workspace.directory / "parked-many", workspace.directory / "parked-few"
    workspace.step(f"parking {scale.parked:,}")
    park(many, scale.parked)
    park(few, HUNDRED)
    opened = Figure(name=text, value=min(open_and_deliver(many) for _ in range(scale.rounds)), unit="s")
    workspace.step("watching")
    peak = children.watch(children.start("parked", str(many)))
    memory = Figure(name=text, value=peak["private"], unit="B", facts=peak)
    contestants = [
        Contestant(f"{HUNDRED} parked", scale.puts_os, lambda: put_delayed(few, scale.puts_os)),
        Contestant(text, scale.puts_os, lambda: put_delayed(many, scale.puts_os)),
    ]
    with_few, with_many = rates(contestants, scale.rounds)
    return [
        Row(
            name="delays.parked.open",
            what=f"open with {text}, up to the first delivery",
            baseline=ALLOWED_OPEN,
            measured=opened,
            bar=at_most(1),
        ),
        Row(
            name="delays.parked.memory",
            what=f"private memory with {text}",
            baseline=ALLOWED_MEMORY,
            measured=memory,
            bar=at_most(1),
        ),
        Row(
            name="delays.parked.put",
            what=f"put with a delay, os, with {text}",
            baseline=with_few,
            measured=with_many,
            bar=at_least(0.9),
        ),
    ]


def park(path: Path, count: int) -> None:
    """A store with `count` messages that are due in some hours, in no order, sorted once."""
    draw, body = np.random.default_rng(1), bytes(100)
    with warren.open(path, keeps=False, durability="os") as store:
        log, now_us = store.topic("orders").delay.log("day"), time.time_ns() // 1000
        for start in range(0, count, BATCH_PARKED):
            size = min(BATCH_PARKED, count - start)
            dues = now_us + int(2 * HOUR_S * 1e6) + draw.integers(0, DAY_US - int(3 * HOUR_S * 1e6), size)
            log.append_many([body] * size, corr_offsets=dues.tolist())
        settle(store)


def settle(store: Store) -> None:
    """Lets the mover do all its work."""
    while store.keep() < 0.1:
        pass


def open_and_deliver(path: Path) -> float:
    """Returns the seconds from opening the store until a message that is due immediately exists."""
    start = perf_counter()
    with warren.open(path) as store:
        log = store.topic("orders").partition(0)
        number = log.end
        store.topic("orders").put(b"now", delay=0.0)
        assert log.wait(number, 60.0)
        return perf_counter() - start


def put_delayed(path: Path, count: int) -> float:
    """Returns the seconds of `count` puts with a delay."""
    with warren.open(path, keeps=False) as store:
        put = store.topic("orders").put
        return repeated(count, lambda: put(b"x" * 100, delay=HOUR_S))


CONTESTS: Final[Sequence[Contest]] = (Contest("delays.late", late), Contest("delays.parked", parked))
