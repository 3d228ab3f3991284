"""`warren cluster verify` on real processes: equal after fail-overs under load, and every difference is named."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import warren
from tests.broker.cluster.load import load
from tests.broker.cluster.processes import PATIENCE_S, ProcessCluster, ReplicaProcess, process_cluster
from tests.integration.registry.servers import HOST, RunningServer
from tests.support.broker.process import run_warren
from tests.support.patience import until
from tests.support.replication.changed_copy import change_body, change_file
from warren.broker.cluster.overview import add_replica
from warren.registry.server import free_port

OTHER, COUNT = "orders", 500


def verify(cluster: ProcessCluster, *flags: str) -> CompletedProcess[str]:
    return run_warren("cluster", "verify", cluster.addresses, "--root", cluster.root, *flags, folder=cluster.folder)


def document(cluster: ProcessCluster) -> tuple[int, Any]:
    done = verify(cluster, "--json")
    [shard] = json.loads(done.stdout)
    return done.returncode, shard


def fill(cluster: ProcessCluster) -> None:
    """Puts data of every kind into the store."""
    with warren.connect(cluster.brokers, timeout=PATIENCE_S) as store:
        topic = store.topic(OTHER, partitions=2)
        topic.put_many([b"%d" % number for number in range(COUNT)], partition=1)
        for number in range(20):
            topic.put(b"%d" % number, partition=0)
        topic.put(b"later", delay=1000.0)
        with topic.group("work", mode="queue") as work:
            for message in work.take(3):
                work.ack(message)
        with topic.group("billing") as billing:
            billing.read(limit=100)
            billing.commit()
        with store.transaction() as transaction:
            transaction.put(OTHER, b"in a transaction")
            transaction.put("others", b"in the same")


def test_replicas_are_equal_after_a_fail_over_under_load(tmp_path: Path, zookeeper: RunningServer) -> None:
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.all_in_sync()
        fill(cluster)
        with load(cluster) as running:
            master = cluster.master()
            os.kill(cluster.replicas[master].child, signal.SIGKILL)
            running.wait_for_more()
            cluster.all_in_sync()

            # With puts all the time, and then without.
            under_load = verify(cluster)
            running.wait_for_more()
        at_rest, shard = document(cluster)

    assert under_load.returncode == 0, under_load.stdout + under_load.stderr
    assert under_load.stdout.count("equal") == 3
    assert (at_rest, shard["is_equal"], shard["fault"]) == (0, True, ""), shard
    assert [each["behind"] for each in shard["replicas"]] == [0, 0, 0]
    counts = {(each["logs"], each["messages"], each["files"]) for each in shard["replicas"]}
    assert len(counts) == 1
    assert next(iter(counts))[1] > COUNT


def test_verify_compares_an_observer_by_all_its_files(tmp_path: Path, zookeeper: RunningServer) -> None:
    with process_cluster(tmp_path, zookeeper, replicas=(0,), min_insync=1) as cluster:
        cluster.all_in_sync()
        fill(cluster)
        add_replica(cluster.registry, cluster.root, 0, 1, is_observer=True)
        flags = ("--mode", "async")
        cluster.replicas[1] = ReplicaProcess(cluster.data(1), cluster, 1, free_port(HOST), *flags)
        cluster.wait_for("the observer", lambda shard: shard.role(1) == "observer")
        until(lambda: (report := document(cluster)[1])["is_equal"] and report["replicas"][1]["files"] > 0)
        equal = verify(cluster)

        change_file(cluster.data(1) / "topics" / OTHER / "1/readers/billing.reader")
        code, shard = document(cluster)

    assert equal.stdout.count("equal") == 2
    assert "equal in the records" not in equal.stdout
    assert (code, shard["is_equal"]) == (1, False)
    assert f"replica 1: the position of group billing in partition 1 of topic {OTHER} differs" in shard["fault"]


def test_verify_names_each_difference_between_replicas(tmp_path: Path, zookeeper: RunningServer) -> None:
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.all_in_sync()
        fill(cluster)
        first, second = (each for each in cluster.settings.replicas if each != cluster.master())
        topics = cluster.data(first) / "topics"

        change_body(topics / OTHER / "0", 7)
        body = verify(cluster)
        change_file(topics / OTHER / "1/readers/billing.reader")
        shutil.rmtree(topics / "others")
        code, shard = document(cluster)
        cluster.replicas[second].kill()
        gone = verify(cluster)

    sentence = f"replica {first}: partition 0 of topic {OTHER} differs from that of replica {cluster_master(shard)}"
    assert body.returncode == 1
    assert f"{sentence} at message 7" in body.stderr
    assert (code, shard["is_equal"]) == (1, False)
    [differences] = [each["differences"] for each in shard["replicas"] if each["differences"]]
    assert [each["what"] for each in differences] == [
        f"the position of group billing in partition 1 of topic {OTHER}",
        "topic others",
        f"partition 0 of topic {OTHER}",
    ]
    assert gone.returncode == 1
    assert "it does not run" in gone.stdout or "refused" in gone.stdout


def cluster_master(shard: Any) -> int:
    return int(shard["compared_with"])
