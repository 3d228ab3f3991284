"""Our own clients that name a rack read from the slave there, and continue at the master when it dies."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.broker.cluster.processes import PATIENCE_S, ProcessCluster, process_cluster
from tests.integration.registry.servers import HOST, RunningServer
from tests.support.spark.reads import ALL, NUMBERS, batch_reader, rows_of, stream_reader, stream_rows
from warren.client.net import rack_reads
from warren.client.store import RemoteStore
from warren.spark.store_access.store_cache import process_brokers
from warren.spark.store_access.through_broker import BrokerAccess

MESSAGES = 200
WAIT_S = 30.0


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: RunningServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessCluster]:
    monkeypatch.setattr(rack_reads, "REPLICA_LOOK_S", 0.2)
    with process_cluster(tmp_path, zookeeper) as made:
        made.all_in_sync()
        yield made


def slaves_of(cluster: ProcessCluster) -> list[int]:
    master = cluster.master()
    return [each for each in cluster.settings.replicas if each != master]


def address(cluster: ProcessCluster, replica: int) -> str:
    return f"{HOST}:{cluster.ports[replica]}"


def until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def until_reading_at(cluster: ProcessCluster, store: RemoteStore, replica: int) -> None:
    """Reads until the client reads from this replica."""

    def is_there() -> bool:
        store.topic("orders").partition(0).read(0, limit=1)
        return store.reads.address == address(cluster, replica)

    until(is_there)


def bodies(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def test_a_client_in_the_rack_of_a_slave_reads_there_what_it_put_and_at_the_master_when_the_slave_dies(
    cluster: ProcessCluster,
) -> None:
    slave = slaves_of(cluster)[0]
    with warren.connect(cluster.brokers, rack=f"rack-{slave}") as store:
        topic = store.topic("orders")
        log = topic.partition(0)
        for number in range(MESSAGES):
            topic.put(b"%d" % number)
            message = log.at(number)
            assert message is not None
            assert message.body == b"%d" % number
        assert store.reads.address == address(cluster, slave)
        assert f"reads at {address(cluster, slave)}" in repr(store)
        expected = bodies(0, MESSAGES)
        assert [each.body for each in log.read(0, limit=2 * MESSAGES)] == expected
        assert [each.body for each in log.backwards()] == expected[::-1]
        assert [each.body for each in topic.since(0)] == expected
        assert [each.body for each in topic.last(3)] == expected[-3:]
        assert [body for batch in log.scan() for body in batch.column("body").to_pylist()] == expected
        assert store.reads.address == address(cluster, slave)

        listener = topic.broadcast(start=0)
        first = listener.read(10)
        os.kill(cluster.replicas[slave].parent.pid, signal.SIGKILL)
        topic.put_many(bodies(MESSAGES, 2 * MESSAGES))
        rest = [*first]
        while len(rest) < 2 * MESSAGES:
            rest += listener.read(10, wait=WAIT_S)

        assert [each.body for each in rest] == bodies(0, 2 * MESSAGES)
        assert store.reads.address != address(cluster, slave)
        cluster.replicas[slave].parent.wait(PATIENCE_S)
        cluster.start(slave)
        until_reading_at(cluster, store, slave)


def test_readers_of_slaves_miss_nothing_when_the_master_is_killed(cluster: ProcessCluster) -> None:
    master, slaves = cluster.master(), slaves_of(cluster)

    async def read(rack: str) -> list[bytes]:
        async with warren.aio.connect(cluster.brokers, rack=rack) as store:
            log = await (await store.topic("orders")).partition(0)
            received: list[bytes] = []
            while len(received) < 2 * MESSAGES:
                # The one at the new master, the other still at a slave.
                await log.wait(len(received), WAIT_S)
                received += [each.body for each in await log.read(len(received))]
            return received

    async def scenario() -> list[list[bytes]]:
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
            readers = [tasks.create_task(read(f"rack-{slave}")) for slave in slaves]
            async with warren.aio.connect(cluster.brokers) as store:
                topic = await store.topic("orders")
                for number in range(MESSAGES):
                    await topic.put(b"%d" % number)
                os.kill(cluster.replicas[master].child, signal.SIGKILL)
                for number in range(MESSAGES, 2 * MESSAGES):
                    await topic.put(b"%d" % number)
        return [reader.result() for reader in readers]

    assert asyncio.run(scenario()) == [bodies(0, 2 * MESSAGES)] * 2


def places(rows: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted((row["partition"], row["offset"]) for row in rows)


def test_the_tasks_of_spark_read_from_the_slave_in_their_rack(cluster: ProcessCluster) -> None:
    slave = slaves_of(cluster)[0]
    with warren.connect(cluster.brokers) as store:
        store.topic("orders", partitions=2).put_many(bodies(0, MESSAGES), keys=bodies(0, MESSAGES))
    far_options = {"servers": cluster.brokers, "topics": "orders", "startingOffsets": "earliest"}
    near_options = {**far_options, "rack": f"rack-{slave}"}
    try:
        near = rows_of(batch_reader(None, NUMBERS, **near_options))
        stream = stream_reader(None, NUMBERS, **near_options)
        start = stream.initialOffset()
        streamed = stream_rows(stream, start, stream.latestOffset(start, ALL))
        far = rows_of(batch_reader(None, NUMBERS, **far_options))

        assert BrokerAccess(servers=cluster.brokers, rack=f"rack-{slave}").client().reads.address == address(
            cluster, slave
        )
        assert len(near) == MESSAGES
        assert places(near) == places(streamed) == places(far)
    finally:
        process_brokers().close()
