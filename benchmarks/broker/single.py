"""One message after the other, each acknowledged before the next: confluent-kafka and our client compared with NATS."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from statistics import median
from time import perf_counter
from typing import Final

import warren
from benchmarks.broker import kafka_client
from benchmarks.broker.nats_client import JetStream
from benchmarks.broker.scale import scale_of
from benchmarks.broker.servers import nats_server, warren_broker
from benchmarks.measure import Contestant, Row, at_least, rates
from benchmarks.workspace import Contest, Workspace
from warren.client.topic import RemoteTopic


def put_each(topic: RemoteTopic, bodies: Sequence[bytes], count: int) -> float:
    """Returns the seconds for `count` messages of our client."""
    put = topic.put
    put(bodies[0])
    start = perf_counter()
    for body in islice(cycle(bodies), count):
        put(body)
    return perf_counter() - start


def single(workspace: Workspace, durability: str, sync_interval: str, times: float) -> list[Row]:
    scale, bodies = scale_of(workspace), workspace.bodies
    is_synced = durability == "commit"
    count = scale.puts_synced if is_synced else scale.puts
    with (
        warren_broker(workspace) as broker,
        nats_server(workspace, sync_interval) as nats,
        JetStream(nats.address) as stream,
        warren.connect(broker.address) as store,
    ):
        topic = store.topic("single", durability=durability)
        contestants = [
            Contestant(
                f"NATS JetStream, sync_interval {sync_interval}", count, lambda: stream.publish_each(bodies, count)
            ),
            Contestant(
                "confluent-kafka", count, lambda: kafka_client.put_each(broker.address, topic.name, bodies, count)
            ),
            Contestant("our client", count, lambda: put_each(topic, bodies, count)),
        ]
        theirs, *ours = rates(contestants, scale.rounds_synced, median)
    best = max(ours, key=lambda figure: figure.value)
    figures = ", ".join(f"{figure.name} {figure}" for figure in ours)
    what = f"one put at a time, acknowledged, {durability}; the better of {figures}"
    return [Row(name=f"broker.single.{durability}", what=what, baseline=theirs, measured=best, bar=at_least(times))]


CONTESTS: Final[Sequence[Contest]] = (
    Contest("broker.single.os", lambda workspace: single(workspace, "os", "2m", 2)),
    Contest("broker.single.commit", lambda workspace: single(workspace, "commit", "always", 1)),
)
