"""Replicas over real sockets: a master is elected, slaves get what it has, and another one leads when it dies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.broker.cluster.replicas import CLUSTER, Shard, until, with_shard
from warren.broker.cluster.node_setup import NodeEnd
from warren.broker.security.replica_user import ReplicaUser
from warren.broker.settings import MECHANISMS

LOG = "topics/orders/0@1"


def record(number: int) -> bytes:
    return number.to_bytes(4, "big")


def run(path: Path, scenario: Callable[[Shard], Awaitable[None]]) -> None:
    asyncio.run(with_shard(path, scenario))


def test_a_put_is_on_every_replica_of_the_set(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        master = await shard.master()
        await until(lambda: len(master.leadership.insync) == 3)

        for number in range(100):
            await shard.put(LOG, record(number))

        for disk in shard.disks.values():
            assert disk.logs[LOG] == [record(number) for number in range(100)]

    run(tmp_path, scenario)


def test_after_the_death_of_the_master_another_one_has_everything_acknowledged(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        first = await shard.master()
        for number in range(50):
            await shard.put(LOG, record(number))
        first.kill()
        del shard.processes[first.replica]

        second = await shard.master()
        for number in range(50, 60):
            await shard.put(LOG, record(number))

        assert second.replica != first.replica
        assert second.leadership.epoch == 2
        assert second.disk.logs[LOG] == [record(number) for number in range(60)]

    run(tmp_path, scenario)


def test_a_returning_master_is_truncated_to_the_start_of_the_next_epoch(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        first = await shard.master()
        await shard.put(LOG, record(1))
        first.kill()
        # What it laid and never shipped.
        first.disk.logs[LOG].append(record(99))
        first.disk.files["settings.json"] = b"old"
        del shard.processes[first.replica]
        await shard.put(LOG, record(2))
        master = await shard.master()
        master.disk.write("settings.json", b"new")

        await shard.start(first.replica)

        await until(lambda: first.disk.logs[LOG] == [record(1), record(2)])
        await until(lambda: first.disk.files.get("settings.json") == b"new")
        await until(lambda: len(master.leadership.insync) == 3)

    run(tmp_path, scenario)


def test_a_hand_over_names_the_next_master(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        first = await shard.master()
        await until(lambda: len(first.leadership.insync) == 3)
        await shard.put(LOG, record(1))

        assert first.node.hand_over(2) == 2

        await until(lambda: first.ended is not None)
        await until(lambda: shard.processes[2].is_serving)
        assert first.ended is not None
        assert first.ended[1] is NodeEnd.AGAIN
        assert shard.disks[2].logs[LOG] == [record(1)]

    run(tmp_path, scenario)


def test_a_slave_from_nothing_gets_the_whole_store(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        master = await shard.master()
        for number in range(200):
            await shard.put(LOG, record(number))
        slave = next(each for each in shard.processes.values() if each is not master)
        slave.kill()
        slave.disk.start_from_nothing()
        del shard.processes[slave.replica]
        await shard.put(LOG, record(200))

        await shard.start(slave.replica)

        await until(lambda: len(slave.disk.logs.get(LOG, [])) == 201)
        await until(lambda: slave.leadership.node in master.leadership.insync)

    run(tmp_path, scenario)


def test_puts_are_refused_while_too_few_replicas_are_in_sync(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        master = await shard.master()
        slaves = [each for each in shard.processes.values() if each is not master]
        for slave in slaves:
            slave.kill()
        barrier = master.disk.put(LOG, record(1))

        await until(lambda: master.leadership.refusal_of_puts() is not None)
        assert not master.disk.barriers.is_done(barrier)  # type: ignore[union-attr]
        await shard.start(slaves[0].replica)

        await until(lambda: master.disk.barriers.is_done(barrier))  # type: ignore[union-attr]
        await until(lambda: master.leadership.refusal_of_puts() is None)

    run(tmp_path, scenario)


def test_two_directories_cannot_be_the_same_replica(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        await shard.master()
        slave = next(each for each in shard.processes.values() if not each.is_serving)
        shard.disks[slave.replica] = type(slave.disk)("another disk")

        await shard.start(slave.replica)
        second = shard.processes[slave.replica]

        await until(lambda: second.ended is not None)
        assert second.ended is not None
        assert second.ended[1] is NodeEnd.REFUSED
        assert "is served from another directory" in second.ended[0]
        slave.stop()

    run(tmp_path, scenario)


def test_a_registry_that_forgot_an_epoch_is_refused(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        await shard.master()
        slave = next(each for each in shard.processes.values() if not each.is_serving)
        slave.kill()
        epochs = slave.disk.epochs
        slave.disk.epochs = epochs.begun(epochs.entries[-1].__class__(epoch=7, master=0, began="", tails={}))

        await shard.start(slave.replica)
        second = shard.processes[slave.replica]

        await until(lambda: "the registry lost its data" in second.node.watch.refused_because)
        assert slave.replica not in {each.replica for each in shard.masters}

    run(tmp_path, scenario)


def test_a_store_that_was_never_part_of_the_shard_is_refused_and_not_removed(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        await shard.put(LOG, record(1))
        slave = next(each for each in shard.processes.values() if not each.is_serving)
        slave.kill()
        disk = shard.disks[slave.replica] = type(slave.disk)("another disk")
        disk.logs[LOG] = [record(7), record(8)]

        await shard.start(slave.replica)
        second = shard.processes[slave.replica]

        await until(lambda: second.ended is not None)
        assert second.ended is not None
        assert second.ended[1] is NodeEnd.REFUSED
        assert "was never part of shard 0" in second.ended[0]
        assert disk.logs[LOG] == [record(7), record(8)]

    run(tmp_path, scenario)


def test_a_store_with_topics_and_no_messages_is_refused_too(tmp_path: Path) -> None:
    async def scenario(shard: Shard) -> None:
        await shard.put(LOG, record(1))
        slave = next(each for each in shard.processes.values() if not each.is_serving)
        slave.kill()
        disk = shard.disks[slave.replica] = type(slave.disk)("another disk")
        disk.files["topics/orders/topic.json"] = b"{}"

        await shard.start(slave.replica)
        second = shard.processes[slave.replica]

        await until(lambda: second.ended is not None)
        assert second.ended is not None
        assert "was never part of shard 0" in second.ended[0]
        assert disk.files == {"topics/orders/topic.json": b"{}"}

    run(tmp_path, scenario)


def test_a_replica_with_another_secret_or_with_none_does_not_follow(tmp_path: Path) -> None:
    users = {each: ReplicaUser("the secret", CLUSTER, MECHANISMS) for each in (0, 1)}
    users[2] = ReplicaUser("another one", CLUSTER, MECHANISMS)

    async def scenario(shard: Shard) -> None:
        master = await shard.master()
        await until(lambda: len(master.leadership.insync) == 2)
        await until(lambda: "cluster.secret_file must be the same" in shard.processes[2].node.last_loss)
        shard.processes[2].stop()
        del users[2]
        await shard.start(2)
        await until(lambda: "requires a login" in shard.processes[2].node.last_loss)

        await shard.put(LOG, record(1))

        assert shard.disks[1].logs[LOG] == [record(1)]
        assert LOG not in shard.disks[2].logs

    asyncio.run(with_shard(tmp_path, scenario, users=users))
