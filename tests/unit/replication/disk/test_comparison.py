from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

import warren
from tests.support.replication.changed_copy import change_body, change_file
from tests.support.simulated_clock import SimulatedClock
from warren.errors import ConnectionLost
from warren.replication.comparison import Compared, Comparison, Copy, Difference, FileRow, FileRows, RecordsDigest
from warren.replication.disk import copy_digests
from warren.replication.disk.replica_directory import ReplicaDirectory
from warren.storage import Log

ORDERS = "topics/orders/0"
MESSAGES = 300


class DirectoryCopy:
    """The copy in a directory, without a broker."""

    def __init__(self, replica: int, path: Path) -> None:
        self.replica = replica
        self._directory = ReplicaDirectory(path)
        self.calls = 0

    def list_copy(self, after: str, paths: Sequence[str]) -> FileRows:
        return self._directory.list_copy(after, paths)

    def digest_records(
        self, log: str, start: int, end: int, size_max: int, *, is_checked: bool
    ) -> RecordsDigest | None:
        self.calls += 1
        return self._directory.digest_records(log, start, end, size_max, is_checked=is_checked)


@pytest.fixture
def copies(tmp_path: Path) -> list[Path]:
    """Three equal directories of a store with everything in it."""
    first = tmp_path / "a"
    with warren.open(first) as store:
        topic = store.topic("orders", partitions=2, block_size=16_384)
        for number in range(MESSAGES):
            topic.put(b"body %d" % number, partition=0)
        topic.put_many([b"together %d" % number for number in range(MESSAGES)])
        store.topic("quiet").put(b"1")
        topic.put(b"later", delay=1000.0)
        with topic.group("work", mode="queue") as work:
            for message in work.take(3):
                work.ack(message)
        with topic.group("billing") as billing:
            billing.read(limit=10)
            billing.commit()
        with store.transaction() as transaction:
            transaction.put("orders", b"in a transaction")
            transaction.put("quiet", b"in the same")
    paths = [first, tmp_path / "b", tmp_path / "c"]
    for path in paths[1:]:
        shutil.copytree(first, path)
    return paths


def compared(
    paths: Sequence[Path], catching_up: Sequence[int] = (), size_max: int = 1 << 20
) -> tuple[Sequence[Compared], list[Difference]]:
    """Compares directories. Returns the results, and all differences."""
    copies = [DirectoryCopy(number, path) for number, path in enumerate(paths)]
    results = Comparison(copies, catching_up, clock=SimulatedClock(), size_max=size_max).run()
    return results, [difference for result in results for difference in result.differences]


def end_of(path: Path, log: str = ORDERS) -> int:
    with Log.open(path / log, read_only=True) as opened:
        return opened.end


@pytest.mark.parametrize("size_max", [1, 500, 1 << 20])
def test_equal_copies_are_equal_in_slices_of_any_size(copies: list[Path], size_max: int) -> None:
    results, differences = compared(copies, size_max=size_max)

    assert differences == []
    assert results[0].messages > 2 * MESSAGES
    assert {(each.messages, each.logs, each.files, each.behind, each.lost) for each in results} == {
        (results[0].messages, results[0].logs, results[0].files, 0, "")
    }


def test_index_messages_are_not_compared(copies: list[Path]) -> None:
    blocks = sorted((copies[1] / ORDERS).glob("*.block"))
    with Log.open(copies[1] / ORDERS, read_only=True) as opened:
        index = opened._files.block(0, opened._files.index().slot(0)).index
    assert index is not None

    # An entry of the index2index message, which is only a hint.
    change_file(blocks[0], index._index2index_at + 16)

    assert compared(copies)[1] == []


@pytest.mark.parametrize("number", [0, 17, MESSAGES - 1])
def test_a_changed_body_with_a_right_checksum_is_found_by_its_number(copies: list[Path], number: int) -> None:
    change_body(copies[2] / ORDERS, number)

    results, [difference] = compared(copies)

    assert (difference.replica, difference.number) == (2, number)
    assert str(difference) == (
        f"replica 2: partition 0 of topic orders differs from that of replica 0 at message {number}"
    )
    assert results[1].messages == results[0].messages


def test_a_damaged_record_is_named_as_damaged(copies: list[Path]) -> None:
    change_body(copies[1] / ORDERS, 17, has_right_checksum=False)

    _, [difference] = compared(copies)

    assert difference.number == 17
    assert "is damaged at message 17" in difference.says


def test_a_damaged_record_of_the_master_is_said_of_the_master(copies: list[Path]) -> None:
    change_body(copies[0] / ORDERS, 17, has_right_checksum=False)

    _, differences = compared(copies)

    assert [each.replica for each in differences] == [1, 2]
    assert all("cannot be compared with replica 0, which is damaged at message 17" in each.says for each in differences)


def test_a_missing_topic_is_one_difference(copies: list[Path]) -> None:
    shutil.rmtree(copies[1] / "topics/orders")

    _, differences = compared(copies)

    assert list(map(str, differences)) == ["replica 1: topic orders is missing"]


def test_a_topic_that_only_one_slave_has_is_one_difference(copies: list[Path]) -> None:
    shutil.copytree(copies[1] / "topics/quiet", copies[1] / "topics/extra")

    _, differences = compared(copies)

    assert list(map(str, differences)) == ["replica 1: topic extra is not at replica 0"]


def test_a_missing_group_is_one_difference(copies: list[Path]) -> None:
    shutil.rmtree(copies[1] / "topics/orders/groups/work")

    _, differences = compared(copies)

    assert list(map(str, differences)) == ["replica 1: group work of topic orders is missing"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"{ORDERS}/readers/billing.reader", "the position of group billing in partition 0 of topic orders"),
        ("topics/orders/topic.json", "the settings of topic orders"),
        ("topics/orders/groups/work/group.json", "the settings of group work of topic orders"),
        ("store.json", "store.json"),
    ],
)
def test_a_changed_file_is_found_by_name(copies: list[Path], path: str, expected: str) -> None:
    change_file(copies[1] / path)

    _, [difference] = compared(copies)

    assert (difference.replica, difference.path, difference.what) == (1, path, expected)
    assert difference.says == "differs from that of replica 0"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("topics/orders/groups/work/ledger", "the leases of group work of topic orders"),
        ("topics/orders/delayed/hour", "the delayed messages of topic orders (hour/index)"),
        ("transactions/journal", "the journal of transactions"),
    ],
)
def test_changed_records_of_leases_delays_and_transactions_are_found(
    copies: list[Path], log: str, expected: str
) -> None:
    change_body(copies[1] / log, end_of(copies[1], log) - 1)

    _, [difference] = compared(copies)

    assert difference.what == expected


def test_a_flag_of_a_log_is_compared(copies: list[Path]) -> None:
    with Log.open(copies[1] / ORDERS) as opened:
        opened.flag = 7

    assert [each.path for each in compared(copies)[1]] == [f"{ORDERS}/index"]


def test_a_copy_that_ends_earlier_differs_or_is_behind(copies: list[Path]) -> None:
    end = end_of(copies[0])
    with Log.open(copies[1] / ORDERS) as opened:
        opened.cut(100)
    changed_too = copies[1] / ORDERS

    _, [difference] = compared(copies)
    results, differences = compared(copies, catching_up=[1])

    assert str(difference) == (f"replica 1: partition 0 of topic orders ends at 100, and at replica 0 at {end}")
    assert differences == []
    assert results[1].behind == end - 100
    assert results[1].messages == results[0].messages - results[1].behind
    # It is compared up to there.
    change_body(changed_too, 99)
    assert [each.number for each in compared(copies, catching_up=[1])[1]] == [99]


POSITION_FILE = "topics/orders/1/readers/billing.reader"


def with_observer(paths: Sequence[Path], *at: dict[int, int], then: Callable[[], object] = dict) -> Compared:
    """Compares an observer, replica 1, with a master. Calls `then` with the last position, which is repeated."""
    left = list(at)

    def position() -> dict[int, int]:
        if len(left) == 1:
            then()
            return left[0]
        return left.pop(0)

    copies = [DirectoryCopy(number, path) for number, path in enumerate(paths[:2])]
    return Comparison(copies, [], [1], position=position, clock=SimulatedClock()).run()[1]


def test_files_of_an_observer_that_has_caught_up_are_compared(copies: list[Path]) -> None:
    change_file(copies[1] / POSITION_FILE)

    result = with_observer(copies, {0: 7, 1: 6}, {0: 9, 1: 7})

    assert [each.path for each in result.differences] == [POSITION_FILE]
    assert result.files_behind == 0


@pytest.mark.parametrize("at", [{0: 7, 1: 6}, {0: -1, 1: -1}, {}], ids=["behind", "no master", "nothing known"])
def test_files_of_an_observer_that_is_behind_are_counted(copies: list[Path], at: dict[int, int]) -> None:
    change_file(copies[1] / POSITION_FILE)

    result = with_observer(copies, at)

    assert (result.differences, result.files_behind) == ([], 1)


def test_an_observer_may_catch_up_during_the_comparison(copies: list[Path]) -> None:
    change_file(copies[1] / POSITION_FILE)

    def catch_up() -> None:
        shutil.copy(copies[0] / POSITION_FILE, copies[1] / POSITION_FILE)

    result = with_observer(copies, {0: 7, 1: 6}, {0: 7, 1: 6}, {0: 8, 1: 7}, then=catch_up)

    assert (result.differences, result.files_behind) == ([], 0)


def test_only_what_retention_has_left_to_both_is_compared(copies: list[Path]) -> None:
    change_body(copies[1] / ORDERS, 100)
    with Log.open(copies[1] / ORDERS) as opened:
        opened.retire(before=150, exactly=True)
    with Log.open(copies[2] / ORDERS) as opened:
        opened.retire(before=200, exactly=True)

    results, differences = compared(copies)

    assert differences == []
    assert [results[0].messages - each.messages for each in results] == [0, 150, 200]
    change_body(copies[1] / ORDERS, 160)
    assert [(each.replica, each.number) for each in compared(copies)[1]] == [(1, 160)]


def test_a_log_that_is_catching_up_stops_no_other(copies: list[Path]) -> None:
    with Log.open(copies[1] / ORDERS) as opened:
        opened.cut(10)
    change_body(copies[2] / ORDERS, 200)

    assert [(each.replica, each.number) for each in compared(copies, catching_up=[1])[1]] == [(2, 200)]


def test_pages_of_files_are_put_together(copies: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compared(copies)[0]

    monkeypatch.setattr("warren.replication.disk.replica_directory.ROWS_MAX", 3)

    assert compared(copies)[0] == whole


@pytest.mark.parametrize(
    "path",
    [
        "../other/topics/orders/topic.json",
        "/etc/passwd",
        "topics//orders",
        "topics/./orders",
        "replication/incarnation",
        "sessions/1.session",
        "topics/orders/0/writer.lock",
        "",
        "topics/orders/0/00000000000000000000.block",
    ],
)
def test_another_process_cannot_name_files_that_are_not_shipped(copies: list[Path], path: str) -> None:
    directory = ReplicaDirectory(copies[0])

    assert not copy_digests.is_inside(path)
    assert directory.list_copy("", [path]).rows == []
    assert directory.digest_records("../b/topics/orders/0", 0, 10, 100, is_checked=False) is None


# --- Files that change during the comparison ---


class ChangingCopy:
    """A copy of one file. `contents` yields what it holds whenever it is asked."""

    def __init__(self, replica: int, contents: Iterator[bytes], *, is_lost_after: int = -1) -> None:
        self.replica, self._contents, self._left = replica, contents, is_lost_after

    def list_copy(self, after: str, paths: Sequence[str]) -> FileRows:
        if not self._left:
            raise ConnectionLost("b:9092", "reset")
        self._left -= 1
        return FileRows([FileRow("store.json", next(self._contents))], is_complete=True)

    def digest_records(
        self, log: str, start: int, end: int, size_max: int, *, is_checked: bool
    ) -> RecordsDigest | None:
        raise AssertionError("there are no logs")


def numbers(start: int = 0, step: int = 1) -> Iterator[bytes]:
    return (b"%d" % number for number in count(start, step))


def run(first: Copy, *others: Copy) -> Sequence[Compared]:
    return Comparison([first, *others], clock=SimulatedClock()).run()


def test_a_slave_that_follows_a_changing_file_is_equal() -> None:
    # It shows later what the master showed before.
    [_, slave] = run(ChangingCopy(0, numbers(5)), ChangingCopy(1, numbers(3)))

    assert (slave.differences, slave.lost) == ([], "")


def test_a_slave_that_does_not_follow_a_changing_file_differs() -> None:
    [_, slave] = run(ChangingCopy(0, numbers()), ChangingCopy(1, iter(lambda: b"old", None)))

    assert [each.says for each in slave.differences] == ["differs from that of replica 0"]


def test_a_file_that_changes_too_fast_is_said_to() -> None:
    [_, slave] = run(ChangingCopy(0, numbers(0, 2)), ChangingCopy(1, numbers(1, 2)))

    assert [each.says for each in slave.differences] == ["changes too fast to be compared; repeat it with less load"]


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_slave_that_dies_during_the_comparison_was_not_compared(after: int) -> None:
    master, follower = ChangingCopy(0, numbers(5)), ChangingCopy(2, numbers(-1))

    [_, lost, slave] = run(master, ChangingCopy(1, numbers(-9), is_lost_after=after), follower)

    assert "reset" in lost.lost
    assert lost.differences == []
    assert (slave.differences, slave.lost) == ([], "")


def test_without_an_answer_of_the_first_one_nothing_is_compared() -> None:
    with pytest.raises(ConnectionLost):
        run(ChangingCopy(0, numbers(), is_lost_after=1), ChangingCopy(1, numbers(9)))
