"""Barriers: when they are done, what a slave is sent, and which changes are kept."""

from __future__ import annotations

from threading import Thread

import pytest

from warren.errors import Deposed
from warren.replication.barrier import Barriers
from warren.replication.changes import (
    CHANGE_SIZE,
    FileContent,
    FileGone,
    FilePatch,
    LogFacts,
    LogRange,
    NewLog,
    RemovedLog,
    kept_size_of,
    size_of,
    subject_of,
)
from warren.replication.shard_state import Identity

ONE = Identity(1, "disk", "boot")
TWO = Identity(2, "disk", "boot")


def range_of(log: str, first: int, end: int, size: int = 10) -> LogRange:
    return LogRange(log, 0, first, first, end, size)


class Shard:
    """Barriers of a master whose in-sync set a test changes."""

    def __init__(self, *members: Identity, changes_max: int = 100, bytes_max: int = 10_000) -> None:
        self.members = frozenset(members)
        self.barriers = Barriers(
            lambda: self.members, {"a": 0, "b": 0}, {}, {}, changes_max=changes_max, bytes_max=bytes_max
        )

    def note(self, change: LogRange | FileContent, at: float = 0.0) -> int:
        return self.barriers.next(change, at)


def test_a_barrier_is_done_when_it_is_synced_here_and_acknowledged_by_all() -> None:
    shard = Shard(ONE, TWO)
    number = shard.note(range_of("a", 0, 1))

    shard.barriers.synced(number)
    shard.barriers.acked(ONE, number)
    before = shard.barriers.is_done(number)
    shard.barriers.acked(TWO, number)

    assert not before
    assert shard.barriers.is_done(number)
    assert shard.barriers.committed == {"a": 1}
    assert shard.barriers.is_all_done


def test_acknowledgements_do_not_replace_the_sync() -> None:
    shard = Shard(ONE)
    number = shard.note(range_of("a", 0, 1))

    shard.barriers.acked(ONE, number)

    assert not shard.barriers.is_done(number)
    assert shard.barriers.committed == {}


def test_a_master_that_is_alone_needs_its_own_sync_only() -> None:
    shard = Shard()
    number = shard.note(range_of("a", 0, 1))

    shard.barriers.synced(number)

    assert shard.barriers.is_done(number)


def test_a_barrier_waits_for_earlier_ones_of_the_same_log_only() -> None:
    shard = Shard()
    first, second, other = (shard.note(range_of(*each)) for each in (("a", 0, 1), ("a", 1, 2), ("b", 0, 1)))

    shard.barriers.synced(second)
    shard.barriers.synced(other)

    assert [shard.barriers.is_done(number) for number in (first, second, other)] == [False, False, True]
    assert shard.barriers.committed == {"b": 1}


def test_a_smaller_set_finishes_barriers_when_it_is_counted_again() -> None:
    shard = Shard(ONE, TWO)
    number = shard.note(range_of("a", 0, 1))
    shard.barriers.synced(number)
    shard.barriers.acked(ONE, number)

    shard.members = frozenset({ONE})
    before = shard.barriers.is_done(number)
    shard.barriers.recount()

    assert not before
    assert shard.barriers.is_done(number)


def test_a_member_that_comes_into_the_set_is_waited_for() -> None:
    shard = Shard(ONE)
    shard.members = frozenset({ONE, TWO})
    number = shard.note(range_of("a", 0, 1))

    shard.barriers.synced(number)
    shard.barriers.acked(ONE, number)

    assert not shard.barriers.is_done(number)


def test_an_older_acknowledgement_changes_nothing() -> None:
    shard = Shard(ONE)
    shard.note(range_of("a", 0, 1))
    shard.note(range_of("a", 1, 2))

    shard.barriers.acked(ONE, 2)
    shard.barriers.acked(ONE, 1)

    assert shard.barriers.acked_by(ONE) == 2


def test_callbacks_run_in_the_order_of_their_barriers_after_the_ends_are_committed() -> None:
    shard = Shard(ONE)
    calls: list[tuple[int, int]] = []
    for end in (1, 2, 3):
        number = shard.note(range_of("a", end - 1, end))
        shard.barriers.when(number, lambda end=end: calls.append((end, shard.barriers.committed["a"])))  # type: ignore[misc]
        shard.barriers.synced(number)

    shard.barriers.acked(ONE, 2)

    assert calls == [(1, 2), (2, 2)]
    shard.barriers.when(1, lambda: calls.append((0, 0)))
    assert calls[-1] == (0, 0)


def test_a_thread_waits_until_its_barrier_is_done() -> None:
    shard = Shard(ONE)
    number = shard.note(FileContent("f", b"x"))
    finished: list[bool] = []

    def wait() -> None:
        shard.barriers.wait(number)
        finished.append(True)

    thread = Thread(target=wait)
    thread.start()

    shard.barriers.synced(number)
    shard.barriers.acked(ONE, number)
    thread.join(10)

    assert finished == [True]


def test_a_thread_that_waits_gets_an_error_when_the_mastership_ends() -> None:
    shard = Shard(ONE)
    number = shard.note(FileContent("f", b"x"))
    shard.barriers.end(Deposed(3, 4))

    with pytest.raises(Deposed, match="epoch 4 has begun"):
        shard.barriers.wait(number)


def test_a_round_has_what_follows_the_last_one_up_to_its_size() -> None:
    shard = Shard(ONE)
    changes = [range_of("a", number, number + 1, size=100) for number in range(4)]
    for change in changes:
        shard.note(change)

    first = shard.barriers.round(ONE, 2 * (100 + CHANGE_SIZE))
    second = shard.barriers.round(ONE, 1)
    third = shard.barriers.round(ONE, 10_000)

    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.barrier, list(first.changes)) == (2, changes[:2])
    assert (second.barrier, list(second.changes)) == (3, changes[2:3])
    assert (third.barrier, list(third.changes)) == (4, changes[3:])
    assert shard.barriers.round(ONE, 10_000) is None
    assert shard.barriers.sent_to(ONE) == 4


def test_a_slave_that_joins_starts_behind_the_barrier_that_it_has() -> None:
    shard = Shard(ONE)
    for number in range(3):
        shard.note(range_of("a", number, number + 1))

    shard.barriers.start(ONE, 2)
    round = shard.barriers.round(ONE, 10_000)

    assert round is not None
    assert [change.first for change in round.changes if isinstance(change, LogRange)] == [2]


@pytest.mark.parametrize(("changes_max", "bytes_max"), [(2, 10_000), (100, 2 * (CHANGE_SIZE + 50))])
def test_a_slave_that_is_too_far_behind_has_to_join_again(changes_max: int, bytes_max: int) -> None:
    shard = Shard(ONE, changes_max=changes_max, bytes_max=bytes_max)
    for number in range(5):
        shard.note(FileContent(f"f{number}", b"x" * 50))

    behind = shard.barriers.round(ONE, 10_000)
    shard.barriers.start(ONE, 3)
    near = shard.barriers.round(ONE, 10_000)

    assert behind is not None
    assert behind.is_behind
    assert near is not None
    assert not near.is_behind
    assert near.barrier == 5
    assert not shard.barriers.is_near(ONE)
    shard.barriers.acked(ONE, 3)
    assert shard.barriers.is_near(ONE)


def test_memory_is_bounded_however_many_changes_are_noted() -> None:
    shard = Shard(ONE, changes_max=64)
    for number in range(1000):
        shard.note(range_of("a", number, number + 1))

    count = len(shard.barriers._kept)

    assert 64 - 64 // 16 <= count <= 64
    shard.barriers.start(ONE, 1000 - count)
    round = shard.barriers.round(ONE, 1 << 20)
    assert round is not None
    assert (round.is_behind, round.barrier, len(round.changes)) == (False, 1000, count)


def test_the_data_of_a_range_does_not_count_as_kept_memory() -> None:
    change = range_of("a", 0, 1, size=1000)

    assert (size_of(change), kept_size_of(change)) == (CHANGE_SIZE + 1000, CHANGE_SIZE)


def test_barriers_return_the_time_of_the_oldest_one_that_is_not_acknowledged() -> None:
    shard = Shard(ONE)
    shard.note(range_of("a", 0, 1), at=5.0)
    shard.note(range_of("a", 1, 2), at=7.0)

    assert shard.barriers.unacked_since(ONE) == 5.0
    shard.barriers.acked(ONE, 1)
    assert shard.barriers.unacked_since(ONE) == 7.0
    shard.barriers.acked(ONE, 2)
    assert shard.barriers.unacked_since(ONE) is None


def test_tails_follow_the_changes_that_are_noted() -> None:
    barriers = Shard().barriers
    for change in (
        NewLog("c", 2),
        range_of("c", 0, 4),
        LogFacts("c", 2, 0, b""),
        RemovedLog("a"),
        FilePatch("f", 0, b"x"),
        FileGone("f"),
    ):
        barriers.next(change, 0.0)

    assert barriers.tails == {"b": 0, "c": 4}
    assert barriers.first == {"c": 2}


def test_a_change_is_about_a_log_or_a_file() -> None:
    assert [subject_of(change) for change in (RemovedLog("a"), FileGone("f"), FilePatch("g", 0, b""))] == [
        "a",
        "f",
        "g",
    ]


def test_a_new_mastership_commits_its_tails_and_never_goes_back() -> None:
    barriers = Shard().barriers

    barriers.commit({"a": 5})
    barriers.commit({"a": 3})

    assert barriers.committed == {"a": 5}


def test_committed_ends_are_listed_from_any_move_on() -> None:
    barriers = Barriers(frozenset, {"a": 1, "b": 1}, {}, {"a": 1, "b": 1})

    assert barriers.ends_since(-1) == {"a": 1, "b": 1}
    assert barriers.ends_since(barriers.moves) == {}

    start = barriers.moves
    barriers.commit({"a": 2})
    middle = barriers.moves
    barriers.commit({"b": 3, "c": 0})
    barriers.commit({"b": 2})

    assert barriers.ends_since(start) == {"a": 2, "b": 3, "c": 0}
    assert barriers.ends_since(middle) == {"b": 3, "c": 0}
    assert barriers.ends_since(barriers.moves) == {}


def test_the_ends_of_one_move_are_found_without_a_walk_over_all_logs() -> None:
    logs = {f"log-{number}": 0 for number in range(10_000)}
    barriers = Barriers(frozenset, logs, {}, logs)
    names: list[str] = []

    class Watched(dict[str, int]):
        def __getitem__(self, log: str) -> int:
            names.append(log)
            return super().__getitem__(log)

    barriers.committed = Watched(barriers.committed)
    start = barriers.moves
    number = barriers.next(range_of("log-5", 0, 1), 0.0)
    barriers.synced(number)

    assert barriers.ends_since(start) == {"log-5": 1}
    assert names == ["log-5"]


def test_the_thread_that_receives_acknowledgements_must_not_wait_for_one() -> None:
    barriers = Barriers(lambda: frozenset({ONE}), {"a": 0}, {}, {})
    barriers.forbid_waiting()
    number = barriers.next(range_of("a", 0, 1), 0.0)
    barriers.synced(number)

    with pytest.raises(AssertionError, match="wait for itself"):
        barriers.wait(number)

    barriers.acked(ONE, number)
    barriers.wait(number)


def test_a_sync_says_whether_a_barrier_is_done_with_it() -> None:
    shard = Shard(ONE)
    first, second = shard.note(range_of("a", 0, 1)), shard.note(range_of("a", 1, 2))
    shard.barriers.acked(ONE, second)

    assert shard.barriers.synced(second) is False
    assert shard.barriers.synced(first) is True
    assert shard.barriers.synced(first) is False
