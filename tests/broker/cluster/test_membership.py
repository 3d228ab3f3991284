"""Replicas that are added, removed and elected by hand while clients put, as the commands show them."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

import warren
from tests.broker.cluster.load import OWN, all_of, load
from tests.broker.cluster.processes import PATIENCE_S, ProcessCluster, ReplicaProcess, process_cluster
from tests.integration.registry.servers import HOST, RunningServer
from tests.support.broker.process import run_warren
from warren.errors import WarrenError
from warren.registry.server import free_port

MORE = 3
"""The number of the replica that is added."""


def cluster_command(cluster: ProcessCluster, name: str, *arguments: str) -> CompletedProcess[str]:
    return run_warren("cluster", name, cluster.addresses, *arguments, "--root", cluster.root, folder=cluster.folder)


def done(ended: CompletedProcess[str]) -> str:
    """Returns what the command printed. It must have worked."""
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def roles(cluster: ProcessCluster) -> dict[int, str]:
    """Returns the roles as `warren cluster status` shows them."""
    shards: list[Any] = json.loads(cluster_command(cluster, "status", "--json").stdout)
    return {each["replica"]: each["role"] for each in shards[0]["replicas"]}


def wait_for_role(cluster: ProcessCluster, replica: int, role: str) -> None:
    cluster.wait_for(f"replica {replica} {role}", lambda shard: shard.role(replica) == role)
    assert roles(cluster)[replica] == role


def start_more(cluster: ProcessCluster, *flags: str) -> None:
    cluster.ports[MORE] = free_port(HOST)
    cluster.replicas[MORE] = ReplicaProcess(cluster.data(MORE), cluster, MORE, cluster.ports[MORE], *flags)


def slave_of(cluster: ProcessCluster) -> int:
    return next(each for each in cluster.settings.replicas if each != cluster.master())


def wait_until_level(cluster: ProcessCluster, replica: int) -> None:
    """Waits until the table of `status` shows that a replica lacks nothing."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        table = cluster_command(cluster, "status").stdout
        row = next(line.split() for line in table.splitlines() if line.strip().startswith(f"{replica} "))
        if row[-3] == "0":
            return
        assert time.monotonic() < deadline, table


def test_an_observer_follows_and_no_put_waits_for_it(tmp_path: Path, zookeeper: RunningServer) -> None:
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.all_in_sync()
        with load(cluster) as running:
            answer = done(cluster_command(cluster, "add-replica", str(MORE), "--observer"))
            assert f"the observers [{MORE}]" in answer
            assert f"--replica {MORE} --mode async" in answer
            start_more(cluster, "--mode", "async")
            wait_for_role(cluster, MORE, "observer")
            running.longest_gap_s = 0.0
            sleeping = cluster.replicas[MORE].child
            os.kill(sleeping, signal.SIGSTOP)
            time.sleep(3.0)
            running.wait_for_more()
            os.kill(sleeping, signal.SIGCONT)
            # A member of the set that is silent costs two seconds.
            assert running.longest_gap_s < 2.0

        wait_until_level(cluster, MORE)
        assert roles(cluster)[MORE] == "observer"
        refused = cluster_command(cluster, "hand-over", "--to", str(MORE))
        assert refused.returncode != 0
        assert cluster.master() != MORE


def test_replicas_are_added_and_removed_under_load(tmp_path: Path, zookeeper: RunningServer) -> None:
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.all_in_sync()
        with load(cluster) as running:
            answer = done(cluster_command(cluster, "add-replica", str(MORE)))
            assert f"the replicas [0, 1, 2, {MORE}]" in answer
            start_more(cluster)
            wait_for_role(cluster, MORE, "in sync")
            running.wait_for_more()
            gone = slave_of(cluster)
            assert cluster.replicas[gone].end() == 0
            members = [each for each in (0, 1, 2, MORE) if each != gone]
            assert f"the replicas {members}" in done(cluster_command(cluster, "remove-replica", str(gone)))
            cluster.all_in_sync()
            assert set(roles(cluster)) == set(members)
            running.wait_for_more()
            # The new one has everything, so it can lead.
            done(cluster_command(cluster, "hand-over", "--to", str(MORE)))
            running.wait_for_more()
        assert roles(cluster)[MORE] == "master"


def test_a_replica_is_elected_uncleanly_if_no_member_of_the_set_comes_back(
    tmp_path: Path, zookeeper: RunningServer
) -> None:
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.all_in_sync()
        left = slave_of(cluster)
        with warren.connect(cluster.brokers, timeout=PATIENCE_S) as client:
            client.topic(OWN).put(b"1")
            cluster.replicas[left].kill()
            cluster.wait_for(
                "a smaller set", lambda shard: shard.view is not None and len(shard.view.state.insync) == 2
            )
            client.topic(OWN).put(b"2")
        others = [each for each in cluster.settings.replicas if each != left]
        refused = cluster_command(cluster, "elect", str(left), "--unclean", "--yes")
        assert "nothing has to be given up" in refused.stderr
        for each in others:
            cluster.replicas[each].kill()
        cluster.start(left)
        wait_for_role(cluster, left, "behind")
        with pytest.raises(WarrenError):
            warren.connect(f"{HOST}:{cluster.ports[left]}", timeout=2.0)
        assert "pass --unclean" in cluster_command(cluster, "elect", str(left)).stderr

        done(cluster_command(cluster, "elect", str(left), "--unclean", "--yes"))

        wait_for_role(cluster, left, "master")
        # The others come back as its slaves, and lose what it does not have.
        cluster.start(*others)
        cluster.all_in_sync()
        assert all_of(cluster, OWN) == [b"1"]
        with warren.connect(cluster.brokers, timeout=PATIENCE_S) as client:
            client.topic(OWN).put(b"3")
        assert all_of(cluster, OWN) == [b"1", b"3"]
