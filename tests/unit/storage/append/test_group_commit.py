"""Group commit: all waiting puts share one sync, and each gets its own result."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import VERSIONS, WatchedDisk, quick_log
from tests.support.moody_filesystem import MoodyFileSystem
from tests.support.patience import until
from tests.support.simulated_clock import SimulatedClock
from warren.errors import BadInput, LogClosed, StorageFull, SyncFailed, TooLarge
from warren.message import Receipt
from warren.storage import Log
from warren.storage.append.group_commit import GroupCommit, Ticket
from warren.storage.format.columns import Batch
from warren.storage.format.packing import pack_batch
from warren.storage.format.record import Packed, pack_single
from warren.storage.format.versions import FORMATS

TIMEOUT_S = 60.0
PACKED = Packed(b"payload", 0, 1)


class Puts:
    """Threads that each call once, and the result of each."""

    def __init__(self) -> None:
        self.outcomes: dict[int, object] = {}
        self._threads: list[threading.Thread] = []

    def start(self, place: int, call: Callable[[], object]) -> None:
        thread = threading.Thread(target=self._run, args=(place, call), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, place: int, call: Callable[[], object]) -> None:
        try:
            self.outcomes[place] = call()
        except Exception as error:  # noqa: BLE001  # an outcome like any other
            self.outcomes[place] = error

    def finish(self) -> dict[int, object]:
        for thread in self._threads:
            thread.join(TIMEOUT_S)
            assert not thread.is_alive(), "a put that never ends"
        return self.outcomes


def waiting(log: Log) -> int:
    """How many puts wait for the next group."""
    return log._commit.group.waiting_count


def hold_first_sync(disk: MoodyFileSystem, log: Log, puts: Puts) -> None:
    """From here on, one put is in the middle of its sync until the gate is opened."""
    while disk.syncs_waiting.acquire(blocking=False):
        pass
    disk.gate.clear()
    puts.start(-1, lambda: log.append(b"leader"))
    assert disk.syncs_waiting.acquire(timeout=TIMEOUT_S)


# --- On a log ---


@pytest.mark.parametrize("version", VERSIONS)
def test_puts_that_come_during_a_sync_share_the_next_one(tmp_path: Path, version: int) -> None:
    disk, puts = WatchedDisk(), Puts()
    log = quick_log(tmp_path, version=version, durability="commit", filesystem=disk)
    log.append(b"before")
    hold_first_sync(disk, log, puts)
    for place in range(10):
        puts.start(place, lambda place=place: log.append(b"%d" % place, id=f"id-{place}"))  # type: ignore[misc]
    until(lambda: waiting(log) == 10)
    disk.syncs.clear()

    disk.gate.set()
    outcomes = puts.finish()

    assert len(disk.syncs) == 2
    receipts = [outcomes[place] for place in range(10)]
    assert all(isinstance(receipt, Receipt) for receipt in receipts)
    for place, receipt in enumerate(receipts):
        assert isinstance(receipt, Receipt)
        message = log.at(receipt.number)
        assert message is not None
        assert (message.body, message.id, message.offset) == (b"%d" % place, f"id-{place}", receipt.offset)
        assert (receipt.id, receipt.timestamp) == (message.id, message.timestamp)
    assert sorted(receipt.number for receipt in receipts if isinstance(receipt, Receipt)) == list(range(2, 12))
    assert log.inspect().synced == log.end == 12


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_in_one_put_does_not_fail_the_others(tmp_path: Path, version: int) -> None:
    disk, puts = MoodyFileSystem(really_syncs=False), Puts()
    log = quick_log(tmp_path, version=version, durability="commit", filesystem=disk, block_size=4096)
    hold_first_sync(disk, log, puts)
    calls: dict[int, Callable[[], Any]] = {
        0: lambda: log.append(b"good"),
        1: lambda: log.append(bytes(5000)),
        2: lambda: log.append_many([b"a", b"b"]),
        3: lambda: log.append_many([b"bad", bytes(5000)]),
        4: lambda: log.append(b"good too"),
    }
    for place, call in calls.items():
        puts.start(place, call)
        until(lambda place=place: waiting(log) == place + 1)  # type: ignore[misc]

    disk.gate.set()
    outcomes = puts.finish()

    assert isinstance(outcomes[1], TooLarge)
    assert isinstance(outcomes[3], TooLarge)
    assert [message.body for message in log.read(0)] == [b"leader", b"good", b"a", b"b", b"good too"]
    assert (outcomes[2], outcomes[4].number) == (range(2, 4), 4)  # type: ignore[attr-defined]
    assert log.append(b"next").number == 5


def test_a_full_disk_fails_the_put_that_needed_the_room_alone(tmp_path: Path) -> None:
    class FullDisk(WatchedDisk):
        """Has no room for a file of that size."""

        def open(self, path: str, *, writable: bool, create: bool = False) -> Any:
            file = super().open(path, writable=writable, create=create)
            preallocate = file.preallocate

            def refuse(size: int) -> None:
                if size > 100_000:
                    raise StorageFull(path, size)
                preallocate(size)

            file.preallocate = refuse  # type: ignore[method-assign]
            return file

    disk, puts = FullDisk(), Puts()
    log = quick_log(tmp_path, durability="commit", filesystem=disk, block_size=1 << 20)
    hold_first_sync(disk, log, puts)
    for place, body in enumerate([b"small", bytes(200_000), b"small too"]):
        puts.start(place, lambda body=body: log.append(body))  # type: ignore[misc]
        until(lambda place=place: waiting(log) == place + 1)  # type: ignore[misc]

    disk.gate.set()
    outcomes = puts.finish()

    assert isinstance(outcomes[1], StorageFull)
    assert [message.body for message in log.read(0)] == [b"leader", b"small", b"small too"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failed_sync_fails_all_waiting_puts_and_publishes_nothing(tmp_path: Path, version: int) -> None:
    disk, puts = MoodyFileSystem(really_syncs=False), Puts()
    log = quick_log(tmp_path, version=version, durability="commit", filesystem=disk)
    log.append(b"before")
    hold_first_sync(disk, log, puts)
    for place in range(5):
        puts.start(place, lambda: log.append(b"lost"))
    until(lambda: waiting(log) == 5)
    disk.fails = True

    disk.gate.set()
    outcomes = puts.finish()

    disk.fails = False
    assert isinstance(outcomes[-1], SyncFailed)
    assert all(isinstance(outcomes[place], LogClosed) for place in range(5))
    assert (log.end, [message.body for message in log.read(0)]) == (1, [b"before"])
    log.close()
    with quick_log(tmp_path, durability="commit") as reopened:
        assert [message.body for message in reopened.read(0)] == [b"before"]
        assert reopened.append(b"after").number == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_lays_the_same_bytes_as_one_put_after_the_other(tmp_path: Path, version: int) -> None:
    sizes = [*range(100), 0, 20_000, 15_900, 16_400, 3_000, *range(300, 340), 30_000, *range(100)]
    batches = [[FORMATS[version].pack_single(b"%d" % (size % 7) * size)] for size in sizes]
    if version == 2:
        batches[150:150] = [
            list(pack_batch(Batch([b"a", b"b"]), "", 0, 1 << 15)),
            [pack_single(b"c"), pack_single(b"d")],
        ]
    blocks, numbers = [], []

    for name, groups in (("together", [batches]), ("apart", [[batch] for batch in batches])):
        with quick_log(
            tmp_path / name, version=version, durability="commit", clock=SimulatedClock(), block_size=64 << 10
        ) as log:
            tickets = [[Ticket(batch) for batch in group] for group in groups]
            for group in tickets:
                log._commit._commit(group)
            blocks.append([Path(block.path).read_bytes() for block in log.inspect().blocks])
            numbers.append([ticket.result() for group in tickets for ticket in group])
            log.verify()

    assert len(blocks[0]) > 1
    assert blocks[0] == blocks[1]
    assert numbers[0] == numbers[1]


def test_a_write_that_fails_fails_the_put_and_the_next_one_recovers(tmp_path: Path) -> None:
    log = quick_log(tmp_path, durability="commit")
    log.append(b"before")
    block = log._commit.writer.block
    assert block is not None
    write = block.file.write

    def write_half(position: int, data: bytes | memoryview) -> None:
        write(position, data[: len(data) // 2])
        raise OSError(errno.EIO, "Input/output error")

    block.file.write = write_half  # type: ignore[method-assign]
    with pytest.raises(OSError, match="Input/output error"):
        log.append(b"half of it")
    block.file.write = write  # type: ignore[method-assign]

    assert [message.body for message in log.read(0)] == [b"before"]
    assert log.append(b"after").number == 1
    assert log.recovery is not None
    assert [message.body for message in log.read(0)] == [b"before", b"after"]


def test_a_child_may_use_the_append_that_its_parent_kept(tmp_path: Path) -> None:
    log = quick_log(tmp_path, durability="commit")
    append = log.append
    append(b"one")
    assert log._commit.group.try_lead()
    assert log._files.mutex.acquire(timeout=TIMEOUT_S)

    log._files.after_fork()

    assert [append(b"two").number, log.append(b"three").number, append(b"four").number] == [1, 2, 3]
    assert not log._files.mutex.locked()
    assert log._commit.group.try_lead()


# --- By itself ---


def settle(group: Sequence[Ticket]) -> None:
    for number, ticket in enumerate(group):
        ticket.receipt = Receipt(number, 0, 0, "")


def put_in(group_commit: GroupCommit) -> Receipt:
    ticket = Ticket([PACKED])
    group_commit.settle([ticket])
    return ticket.result()


def test_a_single_put_commits_immediately() -> None:
    groups: list[int] = []

    def commit(group: Sequence[Ticket]) -> None:
        groups.append(len(group))
        settle(group)

    group_commit = GroupCommit(commit)

    assert [put_in(group_commit).number for _ in range(3)] == [0, 0, 0]
    assert groups == [1, 1, 1]


def test_an_error_of_the_commit_is_raised_by_each_of_the_group_and_the_next_group_continues() -> None:
    started, go_on, puts = threading.Semaphore(0), threading.Semaphore(0), Puts()

    def commit(group: Sequence[Ticket]) -> None:
        started.release()
        assert go_on.acquire(timeout=TIMEOUT_S)
        if len(group) == 3:
            raise BadInput("not these")
        settle(group)

    group_commit = GroupCommit(commit)
    puts.start(0, lambda: put_in(group_commit))
    assert started.acquire(timeout=TIMEOUT_S)
    for place in (1, 2, 3):
        puts.start(place, lambda: put_in(group_commit))
    until(lambda: group_commit.waiting_count == 3)
    go_on.release()
    assert started.acquire(timeout=TIMEOUT_S)
    puts.start(4, lambda: put_in(group_commit))
    until(lambda: group_commit.waiting_count == 1)
    go_on.release(2)

    outcomes = puts.finish()

    assert [type(outcomes[place]) for place in range(5)] == [Receipt, BadInput, BadInput, BadInput, Receipt]
    go_on.release()
    assert put_in(group_commit).number == 0


def test_an_error_of_one_ticket_is_its_own() -> None:
    def commit(group: Sequence[Ticket]) -> None:
        group[0].error = TooLarge("record", 2, 1)

    with pytest.raises(TooLarge):
        put_in(GroupCommit(commit))


def test_an_error_of_a_ticket_stays_when_the_commit_fails_too() -> None:
    def commit(group: Sequence[Ticket]) -> None:
        group[0].error = TooLarge("record", 2, 1)
        raise SyncFailed("path", "Input/output error")

    with pytest.raises(TooLarge):
        put_in(GroupCommit(commit))


def test_a_group_whose_leader_is_interrupted_before_its_turn_fails_and_the_next_one_continues() -> None:
    group_commit, puts = GroupCommit(settle), Puts()

    class Interrupted:
        """A turn that never comes, because a signal does."""

        def __enter__(self) -> None:
            until(lambda: group_commit.waiting_count == 2)
            raise KeyboardInterrupt

        def __exit__(self, *_: object) -> None: ...

    def put() -> object:
        try:
            return put_in(group_commit)
        except KeyboardInterrupt as error:
            return error

    leading, group_commit._leading = group_commit._leading, Interrupted()  # type: ignore[assignment]
    for place in range(2):
        puts.start(place, put)
    outcomes = puts.finish()

    assert [type(outcomes[place]) for place in range(2)] == [KeyboardInterrupt, KeyboardInterrupt]
    group_commit._leading = leading
    assert put_in(group_commit).number == 0


def test_no_put_commits_by_itself_while_another_commits_or_a_group_forms() -> None:
    group_commit, puts = GroupCommit(settle), Puts()

    assert group_commit.try_lead()
    assert not group_commit.try_lead()
    puts.start(0, lambda: put_in(group_commit))
    until(lambda: group_commit.waiting_count == 1)
    assert not group_commit.try_lead()
    group_commit.let_lead()
    assert isinstance(puts.finish()[0], Receipt)
    assert group_commit.try_lead()
