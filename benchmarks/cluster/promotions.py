"""A promotion: how long a replica that has taken the lead needs until it takes puts, with many topics and groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Final

import warren
from benchmarks.cluster.scale import runs_of, scale_of
from benchmarks.cluster.shard import shard
from benchmarks.measure import Figure, Row, at_most
from benchmarks.workspace import Contest, Workspace

PATIENCE_S: Final = 60.0
ALLOWED: Final = Figure(name="allowed", value=2.0, unit="s")
TOPIC: Final = "topic-{}"


def _stored(workspace: Workspace) -> Path:
    """Returns a closed store: topics that have a stream group with a position and a queue group with a ledger."""
    path, bodies = workspace.fresh("many-topics"), workspace.bodies[:2]
    workspace.step("making the topics and their groups")
    with warren.open(path, durability="os") as store:
        for number in range(scale_of(workspace).topics):
            topic = store.topic(TOPIC.format(number), durability="commit")
            topic.put_many(bodies)
            with topic.group("stream") as stream:
                stream.read(1)
                stream.commit()
            with topic.group("queue", mode="queue") as queue:
                queue.ack_many(queue.take(1))
    return path


def promotions(workspace: Workspace) -> list[Row]:
    scale = scale_of(workspace)
    runs = runs_of(workspace, scale.promotions)
    seconds, gaps = [], []
    with shard(workspace, first=_stored(workspace)) as replicas:
        for run in range(runs):
            workspace.step(f"promotion {run + 1} of {runs}")
            epoch, master = replicas.epoch, replicas.all_in_sync()
            killed_s = monotonic()
            replicas.kill_child(master.replica)
            replicas.wait_for_epoch(epoch + 1)
            begun_s = monotonic()
            # A topic that no earlier promotion has used since.
            with warren.connect(replicas.addresses, timeout=PATIENCE_S) as store:
                store.topic(TOPIC.format(run)).put(b"after it")
            seconds.append(monotonic() - begun_s)
            gaps.append(monotonic() - killed_s)
    what = f"promotion with {scale.topics:,} topics with two groups each"
    return [
        Row(
            name="cluster.promotion",
            what=f"{what}: from the lead in the registry to the first acknowledged put, the longest of {runs}",
            baseline=ALLOWED,
            measured=Figure(
                name="3 replicas", value=max(seconds), unit="s", samples=seconds, facts={"from the kill": max(gaps)}
            ),
            bar=at_most(1),
        )
    ]


CONTESTS: Final[Sequence[Contest]] = (Contest("cluster.promotion", promotions),)
