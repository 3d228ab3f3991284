"""AppendQueue: the durability of a log decides how the broker appends to it, in one place."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support.replication.replica_pair import ReplicaPair
from warren.broker.services import append_queue
from warren.broker.services.append_queue import AppendQueue, Outcome
from warren.broker.services.metrics import Metrics
from warren.clock import SYSTEM_CLOCK
from warren.errors import StoreBusy, SyncFailed
from warren.message import Receipt
from warren.storage import Log
from warren.storage.append.writer import QueueWriter
from warren.storage.disk.filesystem import SystemFile
from warren.storage.format.limits import BLOCK_SIZE_DEFAULT
from warren.storage.format.plain_batch import pack_plain_batch
from warren.storage.format.record import Packed

WAIT_S: Final = 30.0
BLOCK_SIZE: Final = 1 << 20


def record(body: bytes) -> Packed:
    return pack_plain_batch(body, "", b"marker")


def queued(
    path: Path,
    durability: str,
    work: Callable[[AppendQueue, Log], Awaitable[None]],
    *,
    block_size: int = BLOCK_SIZE_DEFAULT,
) -> None:
    async def main(log: Log) -> None:
        queue = AppendQueue(lambda log: None, Metrics(SYSTEM_CLOCK.steady_s))
        try:
            await asyncio.wait_for(work(queue, log), WAIT_S)
        finally:
            queue.close()

    with Log.open(str(path / "log"), durability=durability, block_size=block_size) as log:
        asyncio.run(main(log))


def test_a_log_that_does_not_wait_for_the_disk_is_appended_to_in_place(tmp_path: Path) -> None:
    async def work(queue: AppendQueue, log: Log) -> None:
        log.append(b"first")
        outcomes: list[Outcome] = []

        receipt = queue.append(log, (record(b"a"),), outcomes.append)

        assert receipt is not None
        assert (receipt.number, log.end) == (1, 2)
        assert [message.offset for message in log.read(1)] == [receipt.offset]
        assert outcomes == []
        assert queue.put(log, [record(b"b"), record(b"c")]) == range(2, 4)
        assert queue.put_now(log, [record(b"d")]).number == 4

    queued(tmp_path, "os", work)


@pytest.mark.parametrize("size", [100, 10_000])
def test_blocks_are_made_and_enlarged_by_a_thread_only(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[tuple[str, str]] = []
    for name in ("_make_block", "_grow"):
        real = getattr(QueueWriter, name)

        def noted(self: QueueWriter, *arguments: int, name: str = name, real: Callable[..., object] = real) -> object:
            places.append((name, threading.current_thread().name))
            return real(self, *arguments)

        monkeypatch.setattr(QueueWriter, name, noted)

    async def work(queue: AppendQueue, log: Log) -> None:
        in_place = 0
        for number in range(3 * BLOCK_SIZE // size):
            put = queue.put(log, [record(bytes(size))])
            in_place += isinstance(put, range)
            assert (put if isinstance(put, range) else await put) == range(number, number + 1)

        assert {name for name, _ in places} == {"_make_block", "_grow"}
        assert {thread for _, thread in places} == {"warren-append-0"}
        assert in_place > log.end // 4

    queued(tmp_path, "os", work, block_size=BLOCK_SIZE)


def test_a_put_waits_while_a_thread_appends_to_the_same_log(tmp_path: Path) -> None:
    async def work(queue: AppendQueue, log: Log) -> None:
        first = queue.put(log, [record(b"a")])
        log.append(b"made the block")

        second = queue.put(log, [record(b"b")])

        assert not isinstance(first, range)
        assert not isinstance(second, range)
        assert (await second).start > (await first).start

    queued(tmp_path, "os", work)


def test_a_log_that_waits_for_the_disk_is_appended_to_by_a_thread(tmp_path: Path) -> None:
    async def work(queue: AppendQueue, log: Log) -> None:
        outcomes: list[Outcome] = []

        assert queue.append(log, (record(b"a"),), outcomes.append) is None

        assert outcomes == []
        while not outcomes:
            await asyncio.sleep(0)
        assert isinstance(outcomes[0], Receipt)
        assert (outcomes[0].number, queue.waiting_count) == (0, 0)

    queued(tmp_path, "commit", work)


@pytest.mark.parametrize("durability", ["os", "commit"])
def test_both_ways_give_the_same_numbers_to_the_same_puts(tmp_path: Path, durability: str) -> None:
    async def work(queue: AppendQueue, log: Log) -> None:
        puts = [[record(b"%d" % number) for number in range(count)] for count in (1, 3, 2)]

        numbers = await queue.put_all((log, records) for records in puts)

        assert numbers == [range(1), range(1, 4), range(4, 6)]
        assert [message.body for message in log.read(0)] == [b"0", b"0", b"1", b"2", b"0", b"1"]

    queued(tmp_path, durability, work)


def test_too_many_puts_that_wait_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_queue, "BROKER_PUTS_WAITING_MAX", 1)

    async def work(queue: AppendQueue, log: Log) -> None:
        first = queue.put(log, [record(b"a")])

        with pytest.raises(StoreBusy):
            queue.put(log, [record(b"b")])

        assert not isinstance(first, range)
        assert await first == range(1)

    queued(tmp_path, "commit", work)


def in_a_shard(path: Path, work: Callable[[AppendQueue, Log, ReplicaPair], Awaitable[None]]) -> None:
    """Runs `work` with a log of a master, whose slave gets what is shipped when `work` says so."""

    async def main(log: Log, pair: ReplicaPair) -> None:
        queue = AppendQueue(lambda log: None, Metrics(SYSTEM_CLOCK.steady_s))
        try:
            await asyncio.wait_for(work(queue, log, pair), WAIT_S)
        finally:
            queue.close()

    pair = ReplicaPair(str(path / "a"), str(path / "b"), is_lazy=True)
    topic = pair.open().topic("orders")
    topic.put(b"first")
    pair.pump()
    asyncio.run(main(topic.logs[0], pair))


def test_a_replicated_put_is_laid_immediately_and_answered_when_the_slave_has_it(tmp_path: Path) -> None:
    async def work(queue: AppendQueue, log: Log, pair: ReplicaPair) -> None:
        laid = pair.barriers.last
        first, second = queue.put(log, [record(b"a")]), queue.put(log, [record(b"b")])
        laid_immediately = pair.barriers.last - laid
        assert not isinstance(first, range)
        assert not isinstance(second, range)
        while pair.barriers._unsynced:
            await asyncio.sleep(0)
        was_answered, end = first.done(), log.end
        pair.pump()
        numbers = [await first]
        while not second.done():
            await asyncio.sleep(0)
            pair.pump()
        numbers.append(await second)

        assert (laid_immediately, was_answered, end) == (1, False, 1)
        assert numbers == [range(1, 2), range(2, 3)]
        assert [message.number for message in log.read(0)] == [0, 1, 2]

    in_a_shard(tmp_path, work)


def test_a_replicated_put_that_the_slave_has_first_is_answered_after_the_sync(tmp_path: Path) -> None:
    async def work(queue: AppendQueue, log: Log, pair: ReplicaPair) -> None:
        put = queue.put(log, [record(b"a")])
        pair.pump()
        was_answered, end = not isinstance(put, range) and put.done(), log.end
        assert not isinstance(put, range)

        assert await put == range(1, 2)
        assert (was_answered, end) == (False, 1)

    in_a_shard(tmp_path, work)


@pytest.mark.parametrize("step", ["begin", "sync", "finish"])
def test_an_error_of_a_replicated_put_is_its_outcome(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise SyncFailed("a file", "a broken disk")

    async def work(queue: AppendQueue, log: Log, pair: ReplicaPair) -> None:
        match step:
            case "begin":
                monkeypatch.setattr(QueueWriter, "lay_group", fail)
            case "sync":
                monkeypatch.setattr(SystemFile, "sync", fail)
        put = queue.put(log, [record(b"a")])
        assert not isinstance(put, range)
        if step == "finish":
            pair.pump()
            monkeypatch.setattr(QueueWriter, "publish", fail)

        with pytest.raises(SyncFailed):
            await put
        assert log.end == 1

    in_a_shard(tmp_path, work)
