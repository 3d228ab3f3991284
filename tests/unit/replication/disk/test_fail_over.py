"""A slave's directory is opened as master after the first one is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.replication.replica_pair import ReplicaPair
from warren.replication.barrier import Barriers
from warren.replication.disk.replica_directory import ReplicaDirectory
from warren.transaction.store import Store


def take_over(path: Path, epoch: int = 2) -> Store:
    """Opens a replica's directory as the only member of the set."""
    replica = ReplicaDirectory(path)
    replica.settle()
    barriers = Barriers(frozenset, replica.tails(), replica.first(), replica.visible())
    filesystem = replica.lead(barriers, epoch, lambda: None, lambda reason: None)
    store = Store(path, keeps=False, filesystem=filesystem)
    replica.serve()
    return store


def test_the_slave_has_everything_that_was_answered(tmp_path: Path) -> None:
    pair = ReplicaPair(str(tmp_path / "a"), str(tmp_path / "b"))
    store = pair.open()
    topic = store.topic("orders", partitions=2)
    for number in range(300):
        topic.put(b"%d" % number, partition=number % 2)
    group = topic.group("work", mode="queue")
    messages = group.take(10)
    group.ack_many(messages[:5])
    stream = topic.group("stream")
    stream.read(limit=50)
    stream.commit()
    positions = stream.positions()
    with store.transaction() as transaction:
        transaction.put("orders", b"both", partition=0)
    topic.put(b"later", delay=100.0)
    shutil.rmtree(tmp_path / "a")

    pair.slave.close()
    second = take_over(tmp_path / "b")

    topic = second.topic("orders")
    bodies = [message.body for message in topic.partition(0).read(0, limit=1000)]
    assert bodies == [b"%d" % number for number in range(0, 300, 2)] + [b"both"]
    assert topic.partition(1).end == 150
    assert topic.delay.count() == 1
    assert topic.group("stream").positions() == positions
    leased = {(message.partition, message.number) for message in messages}
    for message in topic.group("work", mode="queue").take(300):
        assert message.attempt > 1 or (message.partition, message.number) not in leased


def test_the_logs_of_a_slave_need_no_recovery_when_it_takes_over(tmp_path: Path) -> None:
    pair = ReplicaPair(str(tmp_path / "a"), str(tmp_path / "b"))
    topic = pair.open().topic("orders", partitions=3, block_size=64 << 10)
    topic.put_many([b"x" * 100] * 3000)
    shutil.rmtree(tmp_path / "a")

    slave = pair.slave
    barriers = Barriers(frozenset, slave.tails(), slave.first(), slave.visible())
    filesystem = slave.lead(barriers, 2, lambda: None, lambda reason: None)
    with Store(tmp_path / "b", keeps=False, filesystem=filesystem) as store:
        slave.serve()

        topic = store.topic("orders")
        assert [log.recovery for log in topic.logs] == [None, None, None]
        assert sum(log.end for log in topic.logs) == 3000
        topic.put(b"next")
        assert sum(barriers.tails[name] for name in barriers.tails if "topics/" in name) == 3001
