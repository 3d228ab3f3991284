"""Messages by the hundred thousand, by confluent-kafka and by redis-py, and the load of the broker during it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count as numbers
from statistics import median
from typing import Final

import warren
from benchmarks.broker import kafka_client, redis_client
from benchmarks.broker.scale import scale_of
from benchmarks.broker.servers import Server, redis_server, warren_broker
from benchmarks.measure import Contestant, Figure, Row, at_least, at_most, rates
from benchmarks.workspace import BATCH, Contest, Workspace

CORE: Final = Figure(name="one core", value=1.0, unit="cores")
CPU_MAX: Final = 0.25


class Watched:
    """Runs something, and records how busy a server was during it, in cores."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.shares: list[float] = []

    def __call__(self, run: Callable[[], None]) -> float:
        cpu_s = self._server.cpu_s()
        seconds = kafka_client.seconds_of(run)
        self.shares.append((self._server.cpu_s() - cpu_s) / seconds)
        return seconds

    def row(self, name: str, what: str) -> Row:
        figure = Figure(name=what, value=median(self.shares), unit="cores", samples=self.shares)
        return Row(name=name, what=f"broker CPU: {what}", baseline=CORE, measured=figure, bar=at_most(CPU_MAX))


def produce(workspace: Workspace, durability: str, appendfsync: str, times: float) -> list[Row]:
    scale, bodies = scale_of(workspace), workspace.bodies
    with (
        warren_broker(workspace) as broker,
        redis_server(workspace, appendfsync) as redis,
        warren.connect(broker.address) as store,
    ):
        names, watched, client = numbers(), Watched(broker), redis_client.connect(redis.port)

        def ours() -> float:
            topic = f"produced-{next(names)}"
            store.topic(topic, durability=durability)
            seconds = kafka_client.produce(broker.address, topic, bodies, scale.produced, watched)
            assert store.topic(topic).partition(0).end == scale.produced + 1
            store.delete_topic(topic)
            return seconds

        contestants = [
            Contestant(
                f"Redis, XADD pipelined ×{BATCH}, appendfsync {appendfsync}",
                scale.added,
                lambda: redis_client.added(client, "added", bodies, scale.added),
            ),
            Contestant(f"confluent-kafka, {durability}", scale.produced, ours),
        ]
        theirs, mine = rates(contestants, scale.rounds, median)
    what = f"confluent-kafka producer, linger 5 ms, acks=all, {durability}"
    name = f"broker.produce.{durability}"
    return [
        Row(name=f"{name}.rate", what=what, baseline=theirs, measured=mine, bar=at_least(times)),
        watched.row(f"{name}.cpu", what),
    ]


def consume(workspace: Workspace) -> list[Row]:
    scale, bodies = scale_of(workspace), workspace.bodies
    with (
        warren_broker(workspace) as broker,
        redis_server(workspace, "everysec") as redis,
        warren.connect(broker.address) as store,
    ):
        groups, watched, client = numbers(), Watched(broker), redis_client.connect(redis.port)
        store.topic("consumed", durability="os")
        workspace.step("producing what is consumed")
        kafka_client.produce(broker.address, "consumed", bodies, scale.produced)
        redis_client.add(client, "consumed", bodies, scale.added)

        def ours() -> float:
            return kafka_client.consume(broker.address, "consumed", f"group-{next(groups)}", scale.produced, watched)

        contestants = [
            Contestant(
                f"Redis, XREADGROUP {BATCH} + XACK",
                scale.added,
                lambda: redis_client.read(client, "consumed", scale.added, BATCH),
            ),
            Contestant("confluent-kafka consumer", scale.produced, ours),
        ]
        theirs, mine = rates(contestants, scale.rounds, median)
    what = "confluent-kafka consumer, queued.min.messages=1000000, fetch.queue.backoff.ms=10"
    return [
        Row(name="broker.consume.rate", what=what, baseline=theirs, measured=mine, bar=at_least(5)),
        watched.row("broker.consume.cpu", what),
    ]


CONTESTS: Final[Sequence[Contest]] = (
    Contest("broker.produce.os", lambda workspace: produce(workspace, "os", "everysec", 7)),
    Contest("broker.produce.commit", lambda workspace: produce(workspace, "commit", "always", 8)),
    Contest("broker.consume", consume),
)
