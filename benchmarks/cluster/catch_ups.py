"""A slave that begins with nothing: how fast it fetches the store, and how late puts are because of it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import warren
from benchmarks.cluster.scale import runs_of, scale_of
from benchmarks.cluster.shard import Shard, shard
from benchmarks.cluster.witnesses import paced_witness
from benchmarks.measure import Figure, Row, at_least, at_most
from benchmarks.workspace import BATCH, BODY_SIZE, Contest, Workspace

PARTITIONS: Final = 4
NEW: Final = 2
"""The replica that begins with nothing."""
RATE: Final = Figure(name="required", value=100e6, unit="B/s")
LATE: Final = Figure(name="allowed", value=0.1, unit="s")


def _stored(workspace: Workspace) -> Path:
    """Returns a closed store with one topic."""
    path = workspace.fresh("caught-up")
    workspace.step("filling a store")
    with warren.open(path, durability="os") as store:
        topic = store.topic("old", PARTITIONS, durability="commit")
        for batch in range(scale_of(workspace).caught_up // BATCH):
            topic.put_many(workspace.bodies, partition=batch % PARTITIONS)
    return path


def _caught_up(replicas: Shard) -> float:
    """Lets a replica begin with nothing. Returns the seconds from its appearance in the registry to the in-sync set."""
    replicas.start(NEW)
    replicas.wait_for("the new replica", lambda overview: NEW in overview.living)
    begun_s = monotonic()
    replicas.all_in_sync()
    return monotonic() - begun_s


def _removed(replicas: Shard) -> None:
    """Takes the new replica away again, with its directory, so that another one may begin with nothing."""
    replicas.stop(NEW)
    replicas.wait_for("a set without it", lambda overview: NEW not in overview.living and overview.role(NEW) == "gone")
    shutil.rmtree(replicas.data(NEW))


def catch_ups(workspace: Workspace) -> list[Row]:
    scale = scale_of(workspace)
    runs, size = runs_of(workspace, scale.catch_ups), scale.caught_up * BODY_SIZE
    rates, late, usual, during = [], [], [], []
    with shard(workspace, 0, 1, first=_stored(workspace)) as replicas:
        for run in range(runs):
            workspace.step(f"idle, {run + 1} of {runs}")
            rates.append(size / _caught_up(replicas))
            _removed(replicas)
        with paced_witness(replicas.addresses) as witness:
            for run in range(runs):
                workspace.step(f"during puts, {run + 1} of {runs}")
                # The work that the last run left behind is not measured.
                sleep(scale.put_s)
                witness.ask()
                sleep(scale.put_s)
                usual.append(witness.ask().latest_s)
                _caught_up(replicas)
                during.append(witness.ask().latest_s)
                late.append(max(0.0, during[-1] - usual[-1]))
                _removed(replicas)
    what = f"a slave from nothing, {size / 1e6:,.0f} MB of bodies in batches of {BATCH:,}"
    name = "3 replicas"
    facts: dict[str, float | int | str] = {"put": max(during), "put without": max(usual)}
    return [
        Row(
            name="cluster.catch_up.rate",
            what=f"{what}: until it is in sync, idle, the slowest of {runs}",
            baseline=RATE,
            measured=Figure(name=name, value=min(rates), unit="B/s", samples=rates),
            bar=at_least(1),
        ),
        Row(
            name="cluster.catch_up.late",
            what=f"{what}: how much later a put is than the latest one without it, commit, at most",
            baseline=LATE,
            measured=Figure(name=name, value=max(late), unit="s", samples=late, facts=facts),
            bar=at_most(1),
        ),
    ]


CONTESTS: Final[Sequence[Contest]] = (Contest("cluster.catch_up", catch_ups),)
