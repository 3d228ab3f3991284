"""Replicas whose disks are full: they report it, lose nothing, and continue when there is room again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import warren
from tests.broker.cluster.processes import PATIENCE_S, ProcessCluster, process_cluster
from tests.integration.registry.servers import RunningServer
from tests.soak.cluster.machine import SOUND, Machine, MachineState
from tests.support.broker.process import run_warren
from warren.errors import StorageFull

BLOCK_SIZE = 64 << 10
BODY = bytes(10_000)


def wait_for(what: str, is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_master_with_a_full_disk_refuses_puts_until_it_has_room_again(
    tmp_path: Path, zookeeper: RunningServer
) -> None:
    machine = Machine(tmp_path / "machine")
    with process_cluster(tmp_path, zookeeper, replicas=(0,), min_insync=1, variables=machine.variables) as cluster:
        cluster.all_in_sync()
        noted = cluster.data(0) / "replication" / "master"
        with warren.connect(cluster.brokers, timeout=PATIENCE_S) as store:
            topic = store.topic("orders", block_size=BLOCK_SIZE, compression="none")
            numbers = [topic.put(BODY).number]
            wait_for("the address of the master", noted.exists)
            machine.set(MachineState(is_full=True))

            noted.unlink()
            with pytest.raises(StorageFull, match="free some space"):
                numbers.extend(topic.put(BODY).number for _ in range(BLOCK_SIZE // len(BODY) + 1))
            with pytest.raises(StorageFull, match="free some space"):
                store.topic("others")
            with pytest.raises(StorageFull, match="free some space"):
                topic.group("billing")
            wait_for("the warning", lambda: "master cannot be kept" in cluster.replicas[0].output())
            machine.set(SOUND)

            numbers.append(topic.put(BODY).number)
            topic.group("billing").close()
            assert [message.number for message in topic.since(0)] == numbers
            wait_for("the address of the master", noted.exists)
        assert cluster.replicas[0].output().count("master cannot be kept") == 1


def hand_over(cluster: ProcessCluster, replica: int) -> None:
    done = run_warren(
        *("cluster", "hand-over", cluster.addresses, "--to", str(replica), "--root", cluster.root),
        folder=cluster.folder,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cluster.wait_for(
        f"the lead of replica {replica}", lambda shard: shard.master is not None and shard.master.replica == replica
    )


def test_a_master_with_a_full_disk_hands_over_and_is_left_out_until_it_has_room(
    tmp_path: Path, zookeeper: RunningServer
) -> None:
    machine = Machine(tmp_path / "machine")
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.all_in_sync()
        first = cluster.master()
        cluster.replicas[first].end()
        cluster.start(first, **machine.variables)
        cluster.all_in_sync()
        hand_over(cluster, first)
        cluster.all_in_sync()
        with warren.connect(cluster.brokers, timeout=PATIENCE_S) as store:
            topic = store.topic("orders", block_size=BLOCK_SIZE, compression="none")
            machine.set(MachineState(is_full=True))
            numbers: list[int] = []
            with pytest.raises(StorageFull):
                numbers.extend(topic.put(BODY).number for _ in range(BLOCK_SIZE // len(BODY) + 1))

            hand_over(cluster, next(each for each in cluster.settings.replicas if each != first))
            numbers.extend(topic.put(BODY).number for _ in range(2 * BLOCK_SIZE // len(BODY)))
            cluster.wait_for("the end of the slave", lambda shard: shard.role(first) != "in sync")
            machine.set(SOUND)

            cluster.all_in_sync()
            assert [message.number for message in topic.since(0)] == numbers
        assert "no room on the disk" in cluster.replicas[first].output()
