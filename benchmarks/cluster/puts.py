"""What replication costs: the same puts to three replicas and to one broker alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count as numbers
from statistics import median
from typing import Final, NamedTuple

import warren
from benchmarks.broker import kafka_client, single
from benchmarks.broker.servers import warren_broker
from benchmarks.cluster.scale import runs_of, scale_of
from benchmarks.cluster.shard import shard
from benchmarks.measure import Contestant, Row, at_least, at_most, rates, times
from benchmarks.workspace import Contest, Workspace
from warren.client.store import RemoteStore
from warren.client.topic import RemoteTopic

ALONE: Final = "one broker, no replication"
REPLICATED: Final = "3 replicas"
PATIENCE_S: Final = 60.0


class Side(NamedTuple):
    """One of the two that are compared."""

    name: str
    addresses: str
    store: RemoteStore


@contextmanager
def _sides(workspace: Workspace) -> Iterator[tuple[Side, Side]]:
    """A broker alone and a shard, both idle until they have their turn."""
    with (
        warren_broker(workspace) as alone,
        shard(workspace) as replicas,
        warren.connect(alone.address) as one,
        warren.connect(replicas.addresses, timeout=PATIENCE_S) as three,
    ):
        yield Side(ALONE, alone.address, one), Side(REPLICATED, replicas.addresses, three)


def _produced(workspace: Workspace, side: Side, durability: str) -> Callable[[], float]:
    names, count = numbers(), scale_of(workspace).produced

    def run() -> float:
        topic = f"produced-{next(names)}"
        side.store.topic(topic, durability=durability)
        seconds = kafka_client.produce(side.addresses, topic, workspace.bodies, count)
        side.store.delete_topic(topic)
        return seconds

    return run


def produce(workspace: Workspace, durability: str, least: float) -> list[Row]:
    scale = scale_of(workspace)
    with _sides(workspace) as sides:
        contestants = [Contestant(side.name, scale.produced, _produced(workspace, side, durability)) for side in sides]
        workspace.step("producing")
        alone, replicated = rates(contestants, runs_of(workspace, scale.rounds), median)
    what = f"confluent-kafka producer, linger 5 ms, acks=all, {durability}, {REPLICATED}"
    name = f"cluster.produce.{durability}"
    return [Row(name=name, what=what, baseline=alone, measured=replicated, bar=at_least(least))]


def single_puts(workspace: Workspace) -> list[Row]:
    """One put at a time, by our client and by confluent-kafka."""
    scale, bodies = scale_of(workspace), workspace.bodies
    count = scale.puts_synced
    with _sides(workspace) as sides:
        contestants = []
        for side in sides:
            topic = side.store.topic("single", durability="commit")

            def own(topic: RemoteTopic = topic) -> float:
                return single.put_each(topic, bodies, count)

            def kafka(addresses: str = side.addresses) -> float:
                return kafka_client.put_each(addresses, "single", bodies, count)

            contestants += [Contestant(side.name, count, own), Contestant(side.name, count, kafka)]
        workspace.step("putting")
        figures = times(contestants, runs_of(workspace, scale.rounds_synced), median)
    rows = []
    for name, what, alone, replicated in (
        ("client", "our client", figures[0], figures[2]),
        ("kafka", "confluent-kafka", figures[1], figures[3]),
    ):
        text = f"one put at a time, commit, {REPLICATED}, {what}: time"
        rows.append(
            Row(name=f"cluster.single.{name}", what=text, baseline=alone, measured=replicated, bar=at_most(3.5))
        )
    return rows


CONTESTS: Final[Sequence[Contest]] = (
    Contest("cluster.produce.os", lambda workspace: produce(workspace, "os", 0.5)),
    Contest("cluster.produce.commit", lambda workspace: produce(workspace, "commit", 0.35)),
    Contest("cluster.single", single_puts),
)
