"""Metadata and InitProducerId asked of a slave: it answers from its disk, or passes the request on to the master."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import warren
from tests.broker.cluster.processes import PATIENCE_S, ProcessCluster, ReplicaProcess, process_cluster
from tests.integration.registry.servers import HOST, RunningServer
from tests.support.patience import until
from warren.broker.cluster.overview import add_replica
from warren.broker.cluster.paths import node_id
from warren.broker.kafka.errors import Code
from warren.client.net.connection import Connection
from warren.protocol.kafka_messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from warren.registry.server import free_port

METADATA_VERSION, PRODUCER_VERSION = 12, 4


@contextmanager
def connected(cluster: ProcessCluster, replica: int) -> Iterator[Connection]:
    connection = Connection(f"{HOST}:{cluster.ports[replica]}", None, PATIENCE_S)
    try:
        yield connection
    finally:
        connection.close()


def metadata(connection: Connection, *names: str, makes: bool = False) -> MetadataResponse:
    """Requests the metadata of the named topics, or of all topics without names."""
    topics = [MetadataRequestTopic(name=name) for name in names] or None
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=makes)
    return connection.call(request, METADATA_VERSION, PATIENCE_S)


def producer(connection: Connection, transactional_id: str | None = None) -> InitProducerIdResponse:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1000)
    return connection.call(request, PRODUCER_VERSION, PATIENCE_S)


def id_from(cluster: ProcessCluster, replica: int) -> int:
    """Returns the id of a new producer. Asks again, as clients do, while the replica has no link to the master yet."""
    deadline = time.monotonic() + PATIENCE_S
    with connected(cluster, replica) as connection:
        while (answer := producer(connection)).error_code == Code.NOT_COORDINATOR:
            assert time.monotonic() < deadline
        assert answer.error_code == 0
        return answer.producer_id


def test_a_slave_answers_metadata_or_passes_it_on(tmp_path: Path, zookeeper: RunningServer) -> None:
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.all_in_sync()
        master = cluster.master()
        slave = next(each for each in cluster.settings.replicas if each != master)
        with warren.connect(cluster.brokers, timeout=PATIENCE_S) as store:
            store.topic("orders", partitions=2)
        with connected(cluster, slave) as connection:
            until(lambda: [each.name for each in metadata(connection).topics] == ["orders"])

            orders = metadata(connection, "orders")
            missing = metadata(connection, "more")
            made = metadata(connection, "more", makes=True)

            ids = [node_id(0, each) for each in cluster.settings.replicas]
            assert [(each.node_id, each.port) for each in orders.brokers] == [
                (node_id(0, each), cluster.ports[each]) for each in cluster.settings.replicas
            ]
            assert orders.controller_id == node_id(0, master)
            [topic] = orders.topics
            assert (topic.error_code, len(topic.partitions)) == (0, 2)
            assert {each.leader_id for each in topic.partitions} == {node_id(0, master)}
            assert all(sorted(each.replica_nodes) == ids for each in topic.partitions)
            assert [each.error_code for each in missing.topics] == [Code.LEADER_NOT_AVAILABLE]
            # Only the master can make a topic.
            assert [(each.error_code, each.name) for each in made.topics] == [(0, "more")]
            until(lambda: "more" in [each.name for each in metadata(connection).topics])


def test_a_slave_gets_ids_of_producers_from_the_master(tmp_path: Path, zookeeper: RunningServer) -> None:
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.all_in_sync()
        master = cluster.master()
        first, second = (each for each in cluster.settings.replicas if each != master)

        ids = [id_from(cluster, replica) for replica in (first, second, first, master)]
        with connected(cluster, first) as connection:
            transactional = producer(connection, "payments")

        # The master gives all of them, so none is given twice.
        assert len(set(ids)) == 4
        assert all(each >= 0 for each in ids)
        assert transactional.error_code == Code.NOT_COORDINATOR


def test_an_observer_without_a_master_refuses_requests_for_the_master(tmp_path: Path, zookeeper: RunningServer) -> None:
    with process_cluster(tmp_path, zookeeper, replicas=(0,), min_insync=1) as cluster:
        cluster.all_in_sync()
        add_replica(cluster.registry, cluster.root, 0, 1, is_observer=True)
        cluster.ports[1] = free_port(HOST)
        flags = ("--mode", "async")
        cluster.replicas[1] = ReplicaProcess(cluster.data(1), cluster, 1, cluster.ports[1], *flags)
        cluster.wait_for("the observer", lambda shard: shard.role(1) == "observer")
        id_from(cluster, 1)
        cluster.replicas[0].kill()
        cluster.wait_for("the end of the master", lambda shard: shard.master is None)

        with connected(cluster, 1) as connection:
            until(lambda: metadata(connection).controller_id == -1)
            orders, made = metadata(connection, "orders"), metadata(connection, "more", makes=True)
            refused = producer(connection)

        assert orders.controller_id == -1
        assert [each.error_code for each in made.topics] == [Code.LEADER_NOT_AVAILABLE]
        assert refused.error_code == Code.NOT_COORDINATOR
