"""Our own client compared with confluent-kafka, on the same broker: put_many by the thousand, and reading as Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count as numbers
from statistics import median
from time import perf_counter
from typing import Final

import warren
from benchmarks.broker import kafka_client
from benchmarks.broker.scale import scale_of
from benchmarks.broker.servers import warren_broker
from benchmarks.measure import Contestant, Row, at_least, rates
from benchmarks.workspace import BATCH, Contest, Workspace
from warren.client.topic import RemoteTopic


def put_batches(topic: RemoteTopic, bodies: Sequence[bytes], count: int) -> float:
    """Returns the seconds until `count` messages are acknowledged, each call with as many as there are bodies."""
    topic.put(bodies[0])
    put_many = topic.put_many
    start = perf_counter()
    for _ in range(0, count, len(bodies)):
        put_many(bodies)
    return perf_counter() - start


def put_many(workspace: Workspace) -> list[Row]:
    scale, bodies = scale_of(workspace), workspace.bodies
    with warren_broker(workspace) as broker, warren.connect(broker.address) as store:
        names = numbers()

        def theirs() -> float:
            topic = store.topic(f"put-{next(names)}", durability="os")
            seconds = kafka_client.produce(broker.address, topic.name, bodies, scale.produced)
            store.delete_topic(topic.name)
            return seconds

        def ours() -> float:
            topic = store.topic(f"put-{next(names)}", durability="os")
            seconds = put_batches(topic, bodies, scale.produced)
            store.delete_topic(topic.name)
            return seconds

        contestants = [
            Contestant("confluent-kafka producer, os", scale.produced, theirs),
            Contestant(f"put_many by {BATCH}, os", scale.produced, ours),
        ]
        producer, client = rates(contestants, scale.rounds, median)
    what = f"our client: put_many by {BATCH:,}, os"
    return [Row(name="broker.client.put_many", what=what, baseline=producer, measured=client, bar=at_least(1))]


def read_arrow(workspace: Workspace) -> list[Row]:
    scale, bodies = scale_of(workspace), workspace.bodies
    with warren_broker(workspace) as broker, warren.connect(broker.address) as store:
        groups = numbers()
        topic = store.topic("columns", durability="os")
        workspace.step("putting what is read")
        put_batches(topic, bodies, scale.produced)
        store.topic("batches", durability="os")
        kafka_client.produce(broker.address, "batches", bodies, scale.produced)

        def theirs() -> float:
            return kafka_client.consume(broker.address, "batches", f"group-{next(groups)}", scale.produced)

        def ours() -> float:
            start = perf_counter()
            rows = sum(batch.num_rows for batch in topic.partition(0).scan(columns=COLUMNS))
            seconds = perf_counter() - start
            assert rows == scale.produced + 1
            return seconds

        # The first one imports PyArrow, there and here.
        ours()
        contestants = [
            Contestant("confluent-kafka consumer", scale.produced, theirs),
            Contestant("read as Arrow", scale.produced, ours),
        ]
        consumer, client = rates(contestants, scale.rounds, median)
    what = f"our client: read as Arrow, {', '.join(COLUMNS)}"
    return [Row(name="broker.client.read_arrow", what=what, baseline=consumer, measured=client, bar=at_least(5))]


COLUMNS: Final = ("number", "timestamp", "body")
CONTESTS: Final[Sequence[Contest]] = (
    Contest("broker.client.put_many", put_many),
    Contest("broker.client.read_arrow", read_arrow),
)
