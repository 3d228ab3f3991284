"""ShippedCommit: a commit in steps stores the same as `settle`, and publishes when every replica has it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.replication.replica_pair import ReplicaPair
from tests.support.simulated_clock import SimulatedClock
from warren.errors import SyncFailed
from warren.queue.topic import Topic
from warren.storage import Log
from warren.storage.append.shipped_commit import COUNT_MAX, SIZE_MAX, ShippedCommit
from warren.storage.disk.filesystem import SystemFile
from warren.storage.format.plain_batch import pack_plain_batch
from warren.storage.format.record import Packed

PATIENCE_S = 10.0


def record(body: bytes) -> Packed:
    return pack_plain_batch(body, "", b"marker")


class Shard:
    """A master with a slave that gets what is shipped when a test says so, and one log."""

    def __init__(self, path: Path, *, durability: str = "commit", replication: str = "sync", **settings: Any) -> None:
        self.path = path
        self.pair = ReplicaPair(str(path / "a"), str(path / "b"), clock=SimulatedClock(), is_lazy=True)
        self.topic: Topic = self.pair.open().topic("orders", durability=durability, replication=replication, **settings)
        self.topic.put(b"first")
        self.pair.pump()
        self.log: Log = self.topic.logs[0]
        self.done = threading.Event()

    def begin(self, *bodies: bytes) -> ShippedCommit:
        begun = self.log.begin([[record(body)] for body in bodies])
        assert begun is not None
        return begun

    def blocks(self, replica: str) -> list[bytes]:
        return [path.read_bytes() for path in sorted((self.path / replica / "topics/orders/0").glob("*.block"))]


@pytest.fixture
def shard(tmp_path: Path) -> Shard:
    return Shard(tmp_path)


def test_nothing_is_published_before_the_slave_has_it(shard: Shard) -> None:
    begun = shard.begin(b"second")
    ends = [shard.log.end]
    assert begun.sync(shard.done.set)
    ends.append(shard.log.end)
    was_done = shard.done.is_set()
    shard.pair.pump()
    ends.append(shard.log.end)
    is_done = shard.done.is_set()

    (receipt,) = begun.finish()

    assert (was_done, is_done) == (False, True)
    assert ends == [1, 1, 1]
    assert not isinstance(receipt, BaseException)
    assert (receipt.number, shard.log.end) == (1, 2)
    assert [message.offset for message in shard.log.read(1)] == [receipt.offset]


def test_nothing_is_done_before_it_is_synced_here(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    was_done: list[bool] = []
    real = SystemFile.sync

    def sync(file: SystemFile) -> None:
        real(file)
        if "/a/" in file.path and file.path.endswith(".block"):
            was_done.append(shard.done.is_set())

    begun = shard.begin(b"second")
    shard.pair.pump()
    monkeypatch.setattr(SystemFile, "sync", sync)
    begun.sync(shard.done.set)

    assert was_done == [False]
    assert shard.done.is_set()
    begun.finish()


def test_the_steps_store_the_same_bytes_as_settle(tmp_path: Path) -> None:
    ordinary, steps = Shard(tmp_path / "ordinary"), Shard(tmp_path / "steps")
    bodies = [[b"%d %d" % (turn, number) for number in range(turn % 3 + 1)] for turn in range(150)]
    receipts, begun_count = [], 0
    for turn in bodies:
        puts = [[record(body)] for body in turn]
        expected = ordinary.log.settle(puts)
        begun = steps.log.begin(puts)
        if begun is None:
            receipts.append((expected, steps.log.settle(puts)))
            continue
        begun.sync(lambda: None)
        steps.pair.pump()
        begun_count += 1
        receipts.append((expected, begun.finish()))

    assert begun_count > len(bodies) // 2
    assert all(expected == outcomes for expected, outcomes in receipts)
    assert steps.blocks("a") == ordinary.blocks("a")
    assert steps.blocks("b") == ordinary.blocks("b")
    assert steps.log.end == ordinary.log.end


def test_puts_of_threads_wait_until_the_steps_are_done(shard: Shard) -> None:
    begun = shard.begin(b"second")
    other = threading.Thread(target=shard.topic.put, args=(b"third",))
    other.start()
    other.join(0.05)
    was_waiting = other.is_alive()
    begun.sync(lambda: None)
    shard.pair.pump()
    begun.finish()
    other.join(PATIENCE_S)

    assert was_waiting
    assert [message.body for message in shard.log.read(0)] == [b"first", b"second", b"third"]


def test_a_second_commit_does_not_begin_before_the_first_is_finished(shard: Shard) -> None:
    begun = shard.begin(b"second")
    between = shard.log.begin([[record(b"third")]])
    begun.sync(lambda: None)
    shard.pair.pump()
    begun.finish()

    assert between is None
    shard.begin(b"third")


@pytest.mark.parametrize(
    "make_unfit",
    [
        pytest.param(lambda shard: shard.log._files.mutex.acquire(), id="a thread changes the log"),
        pytest.param(lambda shard: shard.log._commit.tear(), id="a change was interrupted"),
        pytest.param(lambda shard: setattr(shard.log._files.index(), "writing", 1), id="another process died"),
        pytest.param(lambda shard: setattr(shard.log._commit.writer, "room_end", 0), id="the block is full"),
    ],
)
def test_nothing_begins_if_it_would_wait(shard: Shard, make_unfit: Callable[[Shard], object]) -> None:
    make_unfit(shard)

    assert shard.log.begin([[record(b"second")]]) is None
    assert shard.log._commit.group.try_lead()


def test_a_large_put_does_not_begin(shard: Shard) -> None:
    assert shard.log.begin([[record(bytes(SIZE_MAX))]]) is None


def test_a_put_of_many_messages_does_not_begin_because_a_block_may_be_needed(shard: Shard) -> None:
    many = record(b"second")._replace(message_count=COUNT_MAX + 1)

    assert shard.log.begin([[many]]) is None


def test_the_last_put_of_a_block_does_not_begin_and_the_first_of_the_next_does(tmp_path: Path) -> None:
    shard = Shard(tmp_path, block_size=4096)
    begun_count = 0
    for number in range(100):
        puts = [[record(b"%d" % number)]]
        begun = shard.log.begin(puts)
        if begun is None:
            shard.log.settle(puts)
            continue
        begun_count += 1
        begun.sync(lambda: None)
        shard.pair.pump()
        begun.finish()

    assert shard.log.end == 101
    assert 0 < begun_count < 100
    assert len(shard.blocks("a")) > 1
    assert [block.rstrip(b"\0") for block in shard.blocks("b")] == [block.rstrip(b"\0") for block in shard.blocks("a")]


@pytest.mark.parametrize(("durability", "replication"), [("commit", "async"), ("os", "async")])
def test_a_put_that_waits_for_no_replica_does_not_begin(tmp_path: Path, durability: str, replication: str) -> None:
    shard = Shard(tmp_path, durability=durability, replication=replication)

    assert shard.log.begin([[record(b"second")]]) is None


def test_a_put_that_waits_for_replicas_and_for_no_disk_begins(tmp_path: Path) -> None:
    shard = Shard(tmp_path, durability="os", replication="sync")
    begun = shard.begin(b"second")
    assert begun.sync(shard.done.set)
    was_done = shard.done.is_set()
    shard.pair.pump()

    begun.finish()

    assert (was_done, shard.log.end) == (False, 2)


def test_a_failed_sync_is_the_outcome_of_every_put(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: SystemFile) -> None:
        raise SyncFailed(file.path, "a broken disk")

    begun = shard.begin(b"second", b"third")
    monkeypatch.setattr(SystemFile, "sync", fail)
    has_synced = begun.sync(shard.done.set)
    outcomes = begun.finish()

    assert not has_synced
    assert not shard.done.is_set()
    assert [type(outcome) for outcome in outcomes] == [SyncFailed, SyncFailed]
    assert shard.log.end == 1
    assert shard.pair.failures
