"""Replicas whose disks are full: they report it, lose nothing, and continue when there is room again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import pytest

import warren
from tests.broker.cluster.processes import PATIENCE_S, ProcessCluster, process_cluster
from tests.broker.cluster.replicas import Shard, until, with_shard
from tests.integration.registry.servers import RunningServer
from tests.soak.cluster.machine import SOUND, Machine, MachineState
from tests.support.broker.process import run_warren
from tests.support.broker.running import running_broker
from warren.broker.cluster import full_disk
from warren.broker.services.leadership import Alone
from warren.errors import StorageFull
from warren.storage import Log
from warren.transaction.store import Store

LOG = "topics/orders/0@1"
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


# --- Who leads instead ---


def test_puts_and_other_work_that_find_the_disk_full_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[str] = []

    def full(*_: object, **__: object) -> None:
        raise StorageFull("orders", 1)

    monkeypatch.setattr(Alone, "note_full_disk", lambda leadership: noted.append("full"))
    with (
        running_broker(tmp_path / "data", durability="commit") as running,
        warren.connect(running.address, timeout=PATIENCE_S) as store,
    ):
        topic = store.topic("orders")
        with monkeypatch.context() as patch:
            patch.setattr(Log, "settle", full)
            with pytest.raises(StorageFull):
                topic.put(BODY)
        puts = len(noted)
        with monkeypatch.context() as patch:
            patch.setattr(Store, "topic", full)
            with pytest.raises(StorageFull):
                store.topic("others")

    assert puts >= 1
    assert len(noted) > puts


def run(path: Path, scenario: Callable[[Shard], Awaitable[None]], min_insync: int = 2) -> None:
    asyncio.run(with_shard(path, scenario, min_insync=min_insync))


async def all_in_sync(shard: Shard) -> None:
    master = await shard.master()
    await until(lambda: len(master.leadership.insync) == 3)


async def pass_on(shard: Shard) -> int:
    """Says that the disk of the master is full, starts it again when it has handed over, and returns who leads."""
    first = await shard.master()
    first.leadership.note_full_disk()
    await until(lambda: first.ended is not None)
    del shard.processes[first.replica]
    master = await shard.master()
    await shard.start(first.replica)
    return master.replica


def test_a_master_with_a_full_disk_hands_over_to_each_replica_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(shard: Shard) -> None:
        await all_in_sync(shard)
        leaders = [(await shard.master()).replica]
        for _ in range(2):
            leaders.append(await pass_on(shard))
            await all_in_sync(shard)

        last = await shard.master()
        for _ in range(3):
            last.leadership.note_full_disk()
        stays = not last.node.is_handing_over
        monkeypatch.setattr(full_disk, "FULL_DISK_PAUSE_S", 0.0)
        after = await pass_on(shard)

        assert sorted(leaders) == [0, 1, 2]
        assert stays
        assert after != leaders[-1]
        lines = [record.message for record in caplog.records if "is full" in record.message]
        assert lines[:2] == [
            f"the disk of replica {first} is full, so replica {second} shall lead"
            for first, second in pairwise(leaders)
        ]
        assert lines[2] == f"the disk of replica {leaders[-1]} is full, and no other replica can lead instead"
        assert len(lines) == 4

    run(tmp_path, scenario)


def test_a_master_with_a_full_disk_tries_to_hand_over_once_if_the_others_do_not_answer(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        await all_in_sync(shard)
        master = await shard.master()
        for each in shard.processes.values():
            if each is not master:
                each.server.close()
                each.node.close()
        master.disk.put(LOG, b"last")

        master.leadership.note_full_disk()
        began = master.node.is_handing_over
        await until(lambda: not master.node.is_handing_over)
        master.leadership.note_full_disk()

        assert began
        assert (master.ended, master.node.is_handing_over) == (None, False)

    run(tmp_path, scenario)


def test_a_master_with_a_full_disk_stays_if_the_set_has_no_member_to_spare(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        await all_in_sync(shard)
        master = await shard.master()

        master.leadership.note_full_disk()

        assert not master.node.is_handing_over

    run(tmp_path, scenario, min_insync=3)


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

            cluster.wait_for("another master", lambda shard: shard.master is not None and shard.master.replica != first)
            numbers.extend(topic.put(BODY).number for _ in range(2 * BLOCK_SIZE // len(BODY)))
            cluster.wait_for("the end of the slave", lambda shard: shard.role(first) != "in sync")
            machine.set(SOUND)

            cluster.all_in_sync()
            assert [message.number for message in topic.since(0)] == numbers
        output = cluster.replicas[first].output()
        assert "no room on the disk" in output
        assert output.count(f"the disk of replica {first} is full, so replica ") == 1
