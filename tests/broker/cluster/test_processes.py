"""Real processes with a real ZooKeeper: masters die and hand over under load, and nothing acknowledged is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import warren
from tests.broker.cluster.load import OWN, all_of, load
from tests.broker.cluster.processes import PATIENCE_S, ProcessCluster, ReplicaProcess, process_cluster
from tests.integration.registry.servers import HOST, RunningServer
from tests.support.broker.process import run_warren, warren_command
from tests.support.patience import until
from tests.tidy.source import SOURCE
from warren.errors import StoreReplicated


def test_nothing_acknowledged_is_lost_when_masters_are_killed(tmp_path: Path, zookeeper: RunningServer) -> None:
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.all_in_sync()
        with load(cluster) as running:
            for epoch in (1, 2, 3):
                master = cluster.master(epoch)
                cluster.all_in_sync()
                killed_at = time.monotonic()
                os.kill(cluster.replicas[master].child, signal.SIGKILL)

                running.wait_for_more()

                # Far below the session of 6 seconds: the parent of the dead process has said so.
                assert time.monotonic() - killed_at < 5.0
        assert cluster.master(4) in cluster.settings.replicas


def test_nothing_is_lost_or_refused_while_the_lead_is_handed_over(tmp_path: Path, zookeeper: RunningServer) -> None:
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.all_in_sync()
        with load(cluster) as running:
            first = cluster.master()

            handed = run_warren(
                "cluster", "hand-over", cluster.addresses, "--root", cluster.root, "--to", "2", folder=tmp_path
            )

            assert handed.returncode == 0, handed.stderr
            assert "replica 2 leads shard 0 since epoch 2" in handed.stdout
            running.wait_for_more()
            cluster.all_in_sync()
            # SIGTERM hands over as well.
            assert cluster.replicas[2].end() == 0
            running.wait_for_more()
            assert cluster.master(3) != 2
        assert first != 2


def test_a_slave_from_nothing_fetches_the_store(tmp_path: Path, zookeeper: RunningServer) -> None:
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.all_in_sync()
        with load(cluster):
            slave = next(each for each in cluster.settings.replicas if each != cluster.master())
            cluster.replicas[slave].kill()
            shutil.rmtree(cluster.data(slave))

            cluster.start(slave)

            cluster.wait_for("another set", lambda shard: shard.role(slave) == "in sync")
        # It has everything, so it can lead.
        run_warren(
            "cluster", "hand-over", cluster.addresses, "--root", cluster.root, "--to", str(slave), folder=tmp_path
        )
        cluster.wait_for("its lead", lambda shard: shard.master is not None and shard.master.replica == slave)
        assert all_of(cluster, OWN)


def test_a_cluster_whose_processes_were_all_killed_starts_again_with_its_messages(
    tmp_path: Path, zookeeper: RunningServer
) -> None:
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.all_in_sync()
        with warren.connect(cluster.brokers, timeout=PATIENCE_S) as store:
            store.topic(OWN).put(b"1")
        for each in cluster.replicas.values():
            each.kill()

        cluster.start(*cluster.settings.replicas)

        master = cluster.master(2)
        # The first process that is back leads, and serves when a second one follows. To start that one takes a busy
        # machine a minute, which is not the time for which a consumer waits.
        cluster.all_in_sync()
        assert all_of(cluster, OWN) == [b"1"]
        # A program that would write past the cluster is sent to the master.
        noted = cluster.data(master) / "replication/master"
        until(lambda: noted.exists() and noted.read_text() == f"{HOST}:{cluster.ports[master]}")
        with pytest.raises(StoreReplicated, match=str(cluster.ports[master])):
            warren.open(cluster.data(master))


def refused(cluster: ProcessCluster, data: Path, replica: int, *flags: str) -> str:
    """Starts a replica that is refused. Returns its output when it has ended."""
    process = ReplicaProcess(data, cluster, replica, 0, *flags)
    assert process.parent.wait(PATIENCE_S) == 2, process.output()
    return process.output()


def test_a_replica_that_may_not_start_ends_with_the_reason(tmp_path: Path, zookeeper: RunningServer) -> None:
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.all_in_sync()

        assert "belongs to replica 1 of shard 0" in _swapped(cluster)
        assert "has no replica 7 in mode sync" in refused(cluster, tmp_path / "seventh", 7)
        assert "is served from another directory" in refused(cluster, tmp_path / "twin", 0)
        assert "another broker serves" in refused(cluster, cluster.data(0), 0)
        cluster.root = "/nowhere"
        assert "there is no cluster" in refused(cluster, tmp_path / "lonely", 0)


def _swapped(cluster: ProcessCluster) -> str:
    slave = next(each for each in (2, 1) if each != cluster.master())
    cluster.replicas[1].kill()
    message = refused(cluster, cluster.data(1), 0 if slave == 2 else 2)
    cluster.start(1)
    return message


def test_init_refuses_more_in_sync_replicas_than_there_are_replicas(tmp_path: Path, zookeeper: RunningServer) -> None:
    made = run_warren(
        "cluster", "init", zookeeper.address, "--replicas", "2", "--min-insync", "3", "--root", "/bad", folder=tmp_path
    )

    assert made.returncode == 2
    assert "min_insync 3: expected 1 to 2" in made.stderr


def test_a_paused_master_is_replaced_and_ends_when_it_wakes(tmp_path: Path, zookeeper: RunningServer) -> None:
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.all_in_sync()
        with warren.connect(cluster.brokers, timeout=PATIENCE_S) as store:
            store.topic(OWN).put(b"1")
        paused = cluster.replicas[cluster.master()]
        sleeping = paused.child
        os.kill(sleeping, signal.SIGSTOP)

        # Its parent cannot say that it has died, so its session has to end.
        second = cluster.master(2)
        awake = ",".join(f"127.0.0.1:{port}" for each, port in cluster.ports.items() if each != paused.replica)
        with warren.connect(awake, timeout=PATIENCE_S) as store:
            store.topic(OWN).put(b"2")
        os.kill(sleeping, signal.SIGCONT)

        cluster.all_in_sync()
        assert second != paused.replica
        assert paused.child != sleeping
        assert all_of(cluster, OWN) == [b"1", b"2"]


def test_one_command_runs_a_cluster_and_stops_all_of_it(tmp_path: Path) -> None:
    flags = ("--port", "0", "--zookeeper-port", "0")
    command = warren_command("cluster", "start", str(tmp_path / "data"), *flags)
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        zookeeper = process.stdout.readline().split(",")[0].removeprefix("ZooKeeper at ")
        brokers = process.stdout.readline().split('"')[1]

        with warren.connect(brokers, timeout=PATIENCE_S) as store:
            store.topic(OWN).put(b"1")
        status = run_warren("cluster", "status", zookeeper, "--json", folder=tmp_path)
        checked = run_warren("cluster", "doctor", zookeeper, folder=tmp_path)
        process.send_signal(signal.SIGTERM)

        assert process.wait(PATIENCE_S) == 0
    assert [each["epoch"] for each in json.loads(status.stdout)] == [1]
    assert checked.returncode == 0, checked.stdout
    assert {path.name for path in (tmp_path / "data").iterdir()} == {
        "zookeeper",
        "replica-0",
        "replica-1",
        "replica-2",
    }
