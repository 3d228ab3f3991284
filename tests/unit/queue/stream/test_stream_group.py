"""Stream groups: who owns what, which messages are returned, and what a commit guarantees."""

from __future__ import annotations

import gc
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import WatchedDisk
from tests.support.patience import WAIT_S, until
from tests.support.simulated_clock import START_NS, SimulatedClock
from tests.support.store.mortal_filesystem import MortalFileSystem
from tests.support.store.stores import quick_store
from warren.errors import (
    BadInput,
    BadName,
    FellBehind,
    GroupClosed,
    MalformedFilter,
    NoSuchGroup,
    NoSuchPartition,
    NoSuchTopic,
    NotOwner,
    NumberRetired,
    SettingsDiffer,
    StoreClosed,
    WarrenError,
)
from warren.message import Message
from warren.queue.store import Store
from warren.queue.stream.membership import Membership, share
from warren.queue.stream.positions import store_positions
from warren.queue.stream.stream_group import StreamGroup
from warren.queue.topic import Topic
from warren.storage import END, START
from warren.storage.read.messages import ScanRoom

SECOND = 1_000_000_000

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


class Processes:
    """Stores of one directory, each of which stands for a process; checks are due whenever time passes."""

    def __init__(self, path: Path) -> None:
        self.path, self.clock = path, SimulatedClock()
        self.stores: list[Store] = []

    def start(self, **options: Any) -> Topic:
        settings: dict[str, Any] = {"filesystem": MortalFileSystem(), "clock": self.clock}
        store = quick_store(self.path, **settings | options)
        self.stores.append(store)
        return store.topic("orders")

    def join(self, topic: Topic | None = None, **options: Any) -> StreamGroup:
        """A member of "billing" in a process, or in a new one; it sorts after those that joined before."""
        self.clock.pass_ns(1000)
        member: StreamGroup = (topic or self.start()).group("billing", **options)
        return member

    def keep(self, member: StreamGroup) -> None:
        """The keeper of the member's process does its due work."""
        for store in self.stores:
            if store is member.topic.store:
                store.keep()

    def kill(self, topic: Topic) -> None:
        self.stores = [store for store in self.stores if store is not topic.store]
        assert isinstance(topic.filesystem, MortalFileSystem)
        topic.filesystem.die()

    def pass_time(self) -> None:
        self.clock.pass_ns(SECOND)

    def settle(self, *members: StreamGroup) -> None:
        """All members check until each has its share."""
        for member in members * 2:
            self.pass_time()
            member.commit()

    def close(self) -> None:
        for store in self.stores:
            store.close()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(tmp_path / "data")
    quick_store(processes.path).topic("orders", partitions=4).store.close()
    yield processes
    processes.close()


@pytest.fixture
def topic(processes: Processes) -> Topic:
    """Four partitions with ten messages each, a second apart; the even ones of eu.de, the odd ones of us.ny."""
    topic = processes.start()
    for number in range(10):
        for partition in range(4):
            topic.put(b"%d:%d" % (partition, number), partition=partition, tag="us.ny" if number % 2 else "eu.de")
        processes.pass_time()
    return topic


def places(messages: Sequence[Message]) -> list[tuple[int, int]]:
    return [(message.partition, message.number) for message in messages]


def every(partitions: Sequence[int], numbers: Sequence[int] = range(10)) -> list[tuple[int, int]]:
    return list(itertools.product(partitions, numbers))


# --- Looks with little room ---


def test_bounded_reads_continue_after_the_scanned_messages(processes: Processes, topic: Topic) -> None:
    member, all_messages, looks = processes.join(topic, tag="us.*"), list[Message](), 0
    is_more = True

    while is_more:
        room = ScanRoom(1)
        messages = member.read_within(100, 1 << 20, room)
        all_messages, looks, is_more = all_messages + messages, looks + 1, bool(messages) or room.is_used_up

    assert sorted(places(all_messages)) == every(range(4), range(1, 10, 2))
    assert looks > 40
    assert member.positions() == dict.fromkeys(range(4), 10)


def test_a_partition_in_which_much_is_left_out_gives_others_their_turn(processes: Processes, topic: Topic) -> None:
    topic.put_many([b"x"] * 100, partition=0, tag="us.ny")
    topic.put(b"wanted", partition=3, tag="cn")
    member = processes.join(topic, tag="cn")
    messages: list[Message] = []

    for _ in range(4 * 11):
        messages += member.read_within(100, 1 << 20, ScanRoom(1))

    assert places(messages) == [(3, 10)]


# --- Sharing out ---


@pytest.mark.parametrize("partitions", [1, 2, 7, 8, 100])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 9])
def test_every_partition_is_in_one_share_and_shares_are_even(partitions: int, count: int) -> None:
    members = [f"member-{number}" for number in range(count)]

    shares = [share(partitions, reversed_members, member) for member in members for reversed_members in [members[::-1]]]

    assert [partition for each in shares for partition in each] == list(range(partitions))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert sorted(map(len, shares), reverse=True) == list(map(len, shares))


def test_one_member_owns_everything(topic: Topic) -> None:
    group = topic.group("billing")

    assert group.partitions == [0, 1, 2, 3]
    assert group.members() == [group.id]
    assert places(group.read()) == every(range(4))


def test_members_share_the_partitions_in_ranges(topic: Topic, processes: Processes) -> None:
    first, second, third = processes.join(topic), processes.join(topic), processes.join()

    processes.settle(first, second, third)

    assert [first.partitions, second.partitions, third.partitions] == [[0, 1], [2], [3]]
    assert first.members() == third.members() == [first.id, second.id, third.id]
    assert places(first.read()) == every([0, 1])
    assert places(third.read()) == every([3])


def test_more_members_than_partitions_leave_some_without(topic: Topic, processes: Processes) -> None:
    members = [processes.join(topic) for _ in range(6)]

    processes.settle(*members)

    assert [member.partitions for member in members] == [[0], [1], [2], [3], [], []]
    assert members[5].read() == []
    assert members[5].commit() == {}


def test_each_group_sees_every_message(topic: Topic) -> None:
    billing, audit = topic.group("billing"), topic.group("audit")

    assert places(billing.read()) == places(audit.read()) == every(range(4))
    assert topic.groups() == ["audit", "billing"]


def test_the_partitions_of_a_member_that_leaves_go_to_the_others(topic: Topic, processes: Processes) -> None:
    leaving, staying = processes.join(topic), processes.join()
    processes.settle(leaving, staying)
    read = leaving.read(limit=3)
    leaving.commit()
    leaving.read(limit=2)

    leaving.close()
    processes.settle(staying)

    assert places(read) == every([0], range(3))
    assert staying.partitions == [0, 1, 2, 3]
    assert staying.members() == [staying.id]
    # Messages that were read and not committed come again, committed ones do not.
    assert sorted(places(staying.read())) == every([0], range(3, 10)) + every([1, 2, 3])


def test_the_partitions_of_a_dead_member_go_to_the_others(topic: Topic, processes: Processes) -> None:
    dying, staying = processes.join(topic), processes.join()
    processes.settle(dying, staying)
    dying.read(limit=3)
    dying.commit()
    dying.read(limit=2)

    processes.kill(topic)
    processes.settle(staying)

    assert staying.members() == [staying.id]
    assert sorted(places(staying.read())) == every([0], range(3, 10)) + every([1, 2, 3])
    names = os.listdir(Path(topic.directory) / "groups" / "billing" / "members")
    assert [name.partition(".")[0] for name in names] == [staying.id]


def test_a_live_member_that_was_thought_dead_keeps_its_partitions(topic: Topic, processes: Processes) -> None:
    owner = topic.group("billing")
    owner.read(limit=1)
    Path(processes.path, "sessions", topic.store.session.id + ".session").unlink()

    other = processes.join()
    processes.settle(other)

    assert other.members() == [other.id]
    assert other.partitions == []
    assert other.read() == []


def test_finished_transactions_of_dead_members_are_checked_before_their_partitions_are_read(
    topic: Topic, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = topic.group("billing")
    group.read(limit=3)
    group.commit()
    other = processes.start()
    owned_by_then: list[list[int]] = []

    def settle() -> None:
        locks = sorted(Path(topic.directory, "groups", "billing").glob("*.owner"))
        owned_by_then.append([place for place, path in enumerate(locks) if not _is_free(path)])
        store_positions(other, "billing", {0: 7})

    monkeypatch.setattr(other.store, "settle", settle)
    processes.kill(topic)
    next_owner = other.group("billing")

    # Taken before, so that the death of a member in between is noticed; read from after.
    assert owned_by_then == [[0, 1, 2, 3]]
    assert next_owner.position(0) == 7
    assert (0, 6) not in places(next_owner.read())


def _is_free(path: Path) -> bool:
    lock = MortalFileSystem().lock(str(path))
    is_free = lock.try_acquire()
    lock.close()
    return is_free


def test_a_partition_that_cannot_be_taken_is_left_to_others(
    topic: Topic, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settle() -> None:
        raise WarrenError("not now")

    monkeypatch.setattr(topic.store, "settle", settle)
    with pytest.raises(WarrenError, match="not now"):
        topic.group("billing")

    assert processes.start().group("billing").partitions == [0, 1, 2, 3]


def test_a_member_keeps_its_partitions_until_it_calls_again(topic: Topic, processes: Processes) -> None:
    first = topic.group("billing")
    first.read(limit=30)
    second = processes.join()

    processes.pass_time()
    topic.store.keep()
    processes.pass_time()
    assert places(second.read()) == every([3])
    assert [first.partitions, second.partitions] == [[0, 1, 2], [3]]

    processes.pass_time()
    first.commit()
    processes.pass_time()

    assert first.partitions == [0, 1]
    assert second.read() == []
    assert second.partitions == [2, 3]


def test_a_member_that_reads_on_releases_a_requested_partition_at_its_committed_position(
    topic: Topic, processes: Processes
) -> None:
    first = topic.group("billing")
    first.read()
    second = processes.join()

    processes.pass_time()
    first.read()
    processes.pass_time()

    assert first.partitions == [0, 1]
    assert places(second.read()) == every([2, 3])
    assert first.commit() == {0: 10, 1: 10}
    with pytest.raises(NotOwner) as caught:
        first.commit({0: 3, 2: 10, 3: 10})
    assert (caught.value.topic, caught.value.group, caught.value.partitions) == ("orders", "billing", [2, 3])
    assert first.lag() == {0: 0, 1: 0, 2: 10, 3: 10}


def test_housekeeping_rebalances_for_a_member_that_does_not_read(topic: Topic, processes: Processes) -> None:
    first, second = processes.join(topic), processes.join()

    topic.store.keep()
    processes.keep(second)

    assert [first.partitions, second.partitions] == [[0, 1], [2, 3]]


def test_a_member_checks_at_intervals_and_when_the_store_is_notified(topic: Topic, processes: Processes) -> None:
    looks = 0
    group = topic.group("billing")
    living = group._membership.living

    def count() -> list[str]:
        nonlocal looks
        looks += 1
        return living()

    group._membership.living = count  # type: ignore[method-assign]
    for _ in range(100):
        group.read(limit=1)
        group.commit()
    assert looks == 0

    processes.clock.pass_ns(SECOND // 100)
    group.read(limit=1)
    assert looks == 0
    topic.store.wakeup.ring()
    group.read(limit=1)
    assert looks == 1
    processes.clock.pass_ns(SECOND // 10)
    group.read(limit=1)
    assert looks == 2


def test_all_members_are_woken_when_a_member_joins_releases_or_leaves(topic: Topic, processes: Processes) -> None:
    def rings(change: Callable[[], object]) -> bool:
        before = topic.store.wakeup.value()
        change()
        return topic.store.wakeup.value() != before

    member = processes.join(topic)
    membership = Membership(topic.store, member._directory)
    processes.pass_time()

    assert rings(membership.join)
    assert rings(member.commit)
    assert member.partitions == [0, 1]
    assert not rings(member.commit)
    assert rings(membership.leave)
    assert not rings(membership.leave)


def test_partitions_taken_while_the_member_closes_are_released(
    topic: Topic, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, other = processes.join(topic), processes.join()
    monkeypatch.setattr(other.topic.store, "settle", other.close)
    processes.pass_time()
    owner.close()

    assert other.read() == []

    with pytest.raises(GroupClosed):
        other.read()
    assert all(map(_is_free, Path(owner._directory).glob("*.owner")))


def test_a_member_without_references_leaves(topic: Topic, processes: Processes) -> None:
    topic.group("billing").read()
    gc.collect()

    group = topic.group("billing")
    topic.store.keep()
    topic.store.keep()

    assert group.members() == [group.id]
    assert group.partitions == [0, 1, 2, 3]


def test_partitions_that_another_process_added_are_read_from_their_start(topic: Topic, processes: Processes) -> None:
    group = topic.group("billing", start="end")
    other = processes.start()
    other.configure(partitions=6)
    other.put(b"new", partition=5)

    processes.pass_time()

    assert places(group.read()) == [(5, 0)]
    assert group.partitions == [0, 1, 2, 3, 4, 5]
    assert group.positions() == {0: 10, 1: 10, 2: 10, 3: 10, 4: 0, 5: 1}


# --- Reading ---


def test_reading_is_fair_to_the_partitions(topic: Topic) -> None:
    group = topic.group("billing")

    pages = [places(group.read(limit=4)) for _ in range(5)]

    assert pages[:4] == [every([partition], range(4)) for partition in range(4)]
    assert pages[4] == every([0], range(4, 8))


def test_a_page_is_filled_from_several_partitions(topic: Topic) -> None:
    group = topic.group("billing")

    assert places(group.read(limit=25)) == every([0, 1]) + every([2], range(5))
    assert places(group.read(limit=25)) == every([3]) + every([2], range(5, 10))
    assert group.read() == []


def test_only_messages_that_pass_the_filter_are_returned(topic: Topic) -> None:
    group = topic.group("billing", tag="eu.*")

    assert places(group.read()) == every(range(4), range(0, 10, 2))
    group.commit()
    assert group.lag() == dict.fromkeys(range(4), 0)


def test_the_filter_is_the_groups_until_it_is_changed(topic: Topic, processes: Processes) -> None:
    topic.group("billing", tag="eu.*").close()
    group = topic.group("billing")
    assert places(group.read(limit=3)) == every([0], [0, 2, 4])

    processes.pass_time()
    topic.configure_group("billing", tag="us.#")
    processes.pass_time()
    group.commit()

    assert places(group.read(limit=3)) == every([1], [1, 3, 5])
    with pytest.raises(MalformedFilter):
        topic.group("billing", tag="eu..*")
    assert topic.group("billing").settings.tag == "us.#"


def test_filtered_messages_do_not_hold_a_partition_back(topic: Topic, processes: Processes) -> None:
    first = topic.group("billing", tag="asia")
    assert first.read() == []
    assert first.read_positions() == dict.fromkeys(range(4), 10)

    second = processes.join()
    topic.store.keep()
    processes.keep(second)

    assert second.partitions == [2, 3]


def test_a_message_that_is_put_during_a_wait_is_returned(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("orders", partitions=3)
        group, unmatched = topic.group("billing", tag="eu"), topic.group("billing")
        until(lambda: group.commit() == {} and group.partitions == [0, 1])
        messages: list[Message] = []
        reading = threading.Thread(target=lambda: messages.extend(group.read(wait=WAIT_S)))
        reading.start()

        topic.put(b"no", partition=1, tag="us")
        topic.put(b"yes", partition=1, tag="eu")
        reading.join(WAIT_S)

        assert places(messages) == [(1, 1)]
        assert unmatched.read(wait=0.01) == []


def test_a_waiting_member_gets_a_released_partition(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("orders")
        first, second = topic.group("billing"), topic.group("billing")
        topic.put(b"a")
        messages: list[Message] = []
        reading = threading.Thread(target=lambda: messages.extend(second.read(wait=WAIT_S)))
        reading.start()

        first.close()
        reading.join(WAIT_S)

        assert places(messages) == [(0, 0)]


def test_waiting_ends_after_its_time(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        group = store.topic("orders").group("billing")
        start_s = store.clock.steady_s()

        assert group.read(wait=0.05) == []

        assert 0.05 <= store.clock.steady_s() - start_s < WAIT_S


def test_a_reader_that_retention_overtook_gets_an_error_and_can_seek(tmp_path: Path) -> None:
    with quick_store(tmp_path, clock=SimulatedClock()) as store:
        topic = store.topic("orders", partitions=2, block_size=4096)
        group = topic.group("billing")
        for number in range(20):
            topic.put(bytes(1000), partition=0)
            topic.put(b"%d" % number, partition=1)
        assert places(group.read(limit=1)) == [(0, 0)]
        group.commit()
        first = topic.partition(0).retire(before=10)
        assert first > 1

        # First the existing messages, then the error, then the others again, and the error again until the caller
        # seeks.
        assert places(group.read(limit=30)) == every([1], range(20))
        topic.put(b"more", partition=1)
        with pytest.raises(FellBehind) as caught:
            group.read()
        error = caught.value
        assert isinstance(error, NumberRetired)
        assert (error.topic, error.partition, error.number, error.first) == ("orders", 0, 1, first)
        assert str(error) == (
            "message 1 of partition 0 of topic 'orders' was retired before it was read; "
            f"the partition now starts at {first}"
        )
        assert places(group.read()) == [(1, 20)]
        with pytest.raises(FellBehind):
            group.read()
        with pytest.raises(NumberRetired):
            group.seek(first - 1, 0)
        assert group.seek(START, error.partition) == {0: first}

        assert places(group.read()) == every([0], range(first, 20))


@pytest.mark.parametrize(("limit", "wait"), [(0, 0.0), (-1, 0.0), (True, 0.0), ("5", 0.0), (1 << 40, 0.0)])
def test_a_bad_limit_is_refused(topic: Topic, limit: Any, wait: float) -> None:
    group = topic.group("billing")

    with pytest.raises(BadInput, match="limit"):
        group.read(limit, wait)

    assert group.read_positions() == {}


@pytest.mark.parametrize("wait", [-1, float("nan"), 1e9, "1", None])
def test_a_bad_wait_is_refused(topic: Topic, wait: Any) -> None:
    with pytest.raises(BadInput, match="wait"):
        topic.group("billing").read(1, wait)


# --- Iterating ---


def test_iterating_yields_messages_and_commits_them(topic: Topic) -> None:
    group = topic.group("billing")
    received = []
    for message in group:
        received.append(message)
        if len(received) == 13:
            break
    group.commit()

    assert places(received) == every([0]) + every([1], range(3))
    assert group.positions() == {0: 10, 1: 3, 2: 0, 3: 0}
    assert places(group.read(limit=8)) == every([2], range(8))


def test_messages_that_an_ended_iteration_did_not_yield_are_read_next(topic: Topic) -> None:
    group = topic.group("billing", tag="eu.*")

    first = next(iter(group))

    assert places([first]) == [(0, 0)]
    assert group.read_positions() == {0: 1}
    assert places(group.read()) == every([1, 2, 3], range(0, 10, 2)) + every([0], range(2, 10, 2))


def test_seeking_while_iterating_takes_effect_immediately(topic: Topic) -> None:
    group = topic.group("billing")
    pairs = []
    for message in group:
        pairs.append((message.partition, message.number))
        if pairs == [(0, 0), (0, 1)]:
            group.seek(8, 0)
        if len(pairs) == 33:
            break

    assert pairs[2:32] == every([1, 2, 3])
    assert pairs[32] == (0, 8)


def test_a_partition_that_is_given_up_during_iteration_yields_no_more(topic: Topic, processes: Processes) -> None:
    group = topic.group("billing")
    messages = iter(group)
    received = [next(messages) for _ in range(23)]
    other = processes.join()

    topic.put(b"more", partition=0)
    processes.pass_time()
    received.append(next(messages))

    # Partition 2 was given up, with its three uncommitted messages.
    assert group.partitions == [0, 1]
    assert places(received[20:]) == [*every([2], range(3)), (0, 10)]
    processes.pass_time()
    assert sorted(places(other.read())) == every([2, 3])


def test_iterating_waits_for_more_and_ends_when_the_member_is_closed(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("orders")
        group = topic.group("billing")
        received: list[Message] = []
        came = threading.Event()

        def follow() -> None:
            for message in group:
                received.append(message)
                came.set()

        following = threading.Thread(target=follow)
        following.start()
        topic.put(b"a")
        assert came.wait(WAIT_S)

        group.close()
        following.join(WAIT_S)

        assert not following.is_alive()
        assert places(received) == [(0, 0)]


# --- Committing and going elsewhere ---


def test_a_commit_returns_the_committed_positions(topic: Topic) -> None:
    group = topic.group("billing")
    assert group.commit() == {}
    group.read(limit=14)

    assert group.read_positions() == {0: 10, 1: 4}
    assert group.commit() == {0: 10, 1: 4}
    assert group.commit() == {}
    assert group.read_positions() == {}
    assert group.lag() == {0: 0, 1: 6, 2: 10, 3: 10}


def test_named_positions_are_committed_and_reading_continues(topic: Topic) -> None:
    group = topic.group("billing")
    group.read(limit=14)

    assert group.commit({0: 4, 2: 5}) == {0: 4, 2: 5}

    # If less was committed than read, the rest is still to be committed. If more was committed, it is not read again.
    assert group.read_positions() == {0: 10, 1: 4}
    assert group.lag() == {0: 6, 1: 10, 2: 5, 3: 10}
    assert places(group.read(limit=5)) == every([2], range(5, 10))


@pytest.mark.parametrize(
    ("positions", "kind"),
    [
        ({0: 4, 1: 11}, BadInput),
        ({0: 4, 1: -1}, BadInput),
        ({0: 4, 1: "5"}, BadInput),
        ({0: 4, 1: True}, BadInput),
        ({0: 4, 9: 0}, NotOwner),
    ],
)
def test_bad_positions_are_refused_and_nothing_is_committed(
    topic: Topic, positions: Any, kind: type[WarrenError]
) -> None:
    group = topic.group("billing")
    group.read()

    with pytest.raises(kind):
        group.commit(positions)

    assert group.lag() == dict.fromkeys(range(4), 10)
    assert group.read_positions() == dict.fromkeys(range(4), 10)


@pytest.mark.parametrize(
    ("to", "number"),
    [
        (START, 0),
        (END, 10),
        (4, 4),
        (99, 10),
        (datetime.fromtimestamp(START_NS / SECOND + 3, UTC), 3),
        (START_NS / SECOND + 2.5, 3),
        (START_NS / SECOND + 99, 10),
    ],
)
def test_a_seek_applies_immediately_and_for_the_next_owner(
    topic: Topic, processes: Processes, to: Any, number: int
) -> None:
    group = topic.group("billing")
    group.read(limit=2)

    assert group.seek(to) == dict.fromkeys(range(4), number)
    assert group.read_positions() == {}

    group.close()
    assert processes.start().group("billing").positions() == dict.fromkeys(range(4), number)


def test_seeking_in_one_partition_leaves_the_others(topic: Topic) -> None:
    group = topic.group("billing")
    group.read(limit=3)

    assert group.seek(END, 2) == {2: 10}

    assert group.positions() == {0: 3, 1: 0, 2: 10, 3: 0}
    assert group.commit() == {0: 3}


@pytest.mark.parametrize(
    ("to", "partition", "kind"),
    [
        (-1, None, BadInput),
        (True, None, BadInput),
        ("start", None, BadInput),
        (0, 4, NoSuchPartition),
        (0, 3, NotOwner),
    ],
)
def test_a_bad_seek_is_refused_and_changes_nothing(
    topic: Topic, processes: Processes, to: Any, partition: int | None, kind: type[WarrenError]
) -> None:
    group, other = processes.join(topic), processes.join(topic)
    processes.settle(group, other)
    group.read(limit=2)

    with pytest.raises(kind):
        group.seek(to, partition)

    assert group.positions() == {0: 2, 1: 0, 2: 0, 3: 0}


def test_uncommitted_messages_can_be_read_again(topic: Topic) -> None:
    group = topic.group("billing")
    group.read(limit=4)
    group.commit()
    group.read(limit=8)

    group.rewind()

    assert group.read_positions() == {}
    assert group.positions() == {0: 4, 1: 0, 2: 0, 3: 0}


def test_the_positions_of_other_members_are_their_committed_ones(topic: Topic, processes: Processes) -> None:
    group, other = processes.join(topic), processes.join()
    processes.settle(group, other)
    other.read(limit=4)
    assert group.position(2) == 0
    assert other.position(2) == 4

    other.commit()

    assert group.positions() == other.positions() == {0: 0, 1: 0, 2: 4, 3: 0}
    with pytest.raises(NoSuchPartition):
        group.position(4)


def test_a_commit_is_as_durable_as_the_topic(tmp_path: Path) -> None:
    for durability, expected in (("commit", ["billing.reader"]), ("os", [])):
        disk = WatchedDisk()
        with quick_store(tmp_path / durability, filesystem=disk) as store:
            topic = store.topic("orders", durability=durability)
            topic.put(b"a")
            group = topic.group("billing")
            group.read()
            disk.syncs.clear()

            group.commit()

            assert disk.syncs == expected


def test_a_group_continues_when_the_settings_of_its_topic_change(topic: Topic) -> None:
    group = topic.group("billing")
    group.read(limit=1)
    group.commit()
    group.read()

    topic.configure(durability="os")

    assert group.commit() == dict.fromkeys(range(4), 10)
    topic.put(b"later", partition=2)
    assert places(group.read()) == [(2, 10)]
    assert group.lag() == {0: 0, 1: 0, 2: 1, 3: 0}


# --- Transactions ---


def test_positions_of_a_transaction_count_as_committed(topic: Topic, processes: Processes) -> None:
    group = topic.group("billing")
    group.read(limit=14)
    positions, owned = group.claim(None)
    group.check_claim(owned)

    group.apply_positions(positions)

    assert group.read_positions() == {}
    assert group.lag() == {0: 0, 1: 6, 2: 10, 3: 10}
    # Nothing is uncommitted, so the keeper may give partitions to others.
    other = processes.join()
    topic.store.keep()
    assert group.partitions == [0, 1]
    assert other.partitions == []


def test_positions_of_a_transaction_need_no_owner(topic: Topic, processes: Processes) -> None:
    group, other = processes.join(topic), processes.join()
    processes.settle(group, other)

    with pytest.raises(NotOwner) as raised:
        group.claim({0: 1, 2: 5})
    assert raised.value.partitions == [2]
    group.apply_positions({2: 5})

    assert other.lag()[2] == 5


# --- The start of a new group ---


@pytest.mark.parametrize(
    ("start", "number"),
    [
        ("start", 0),
        ("end", 10),
        (START, 0),
        (END, 10),
        (datetime.fromtimestamp(START_NS / SECOND + 3, UTC), 3),
        (START_NS / SECOND + 2.5, 3),
        (START_NS // 1000 + 4_000_000, 4),
    ],
)
def test_a_new_group_begins_at_the_requested_start(topic: Topic, processes: Processes, start: Any, number: int) -> None:
    first = topic.group("billing", start=start)
    topic.put(b"later", partition=0)

    assert first.positions() == dict.fromkeys(range(4), number)
    assert len(first.read()) == 4 * (10 - number) + 1
    # Only a new group: an existing group continues at its position.
    first.commit()
    first.close()
    assert topic.group("billing", start="start").lag() == dict.fromkeys(range(4), 0)


def test_a_group_that_had_not_begun_everywhere_begins_at_its_start(topic: Topic, processes: Processes) -> None:
    topic.group("billing", start="end").close()
    # As a crash leaves it: the readers are created from the last partition down to the first.
    for partition in (0, 1):
        topic.partition(partition).remove_reader("billing")
    topic.put(b"later", partition=3)

    assert topic.group("billing").positions() == {0: 10, 1: 10, 2: 10, 3: 10}


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("../x", {}, BadName),
        ("", {}, BadName),
        ("x" * 201, {}, BadName),
        ("x", {"mode": "batch"}, BadInput),
        ("x", {"start": "middle"}, BadInput),
        ("x", {"start": -1}, BadInput),
        ("x", {"leese": 3}, BadInput),
        ("x", {"tag": "a..b"}, MalformedFilter),
    ],
)
def test_a_bad_group_is_refused_and_not_made(
    topic: Topic, name: str, options: dict[str, Any], kind: type[WarrenError]
) -> None:
    with pytest.raises(kind):
        topic.group(name, **options)

    assert topic.groups() == []
    assert topic.partition(0).readers() == []


def test_a_group_keeps_its_mode(topic: Topic) -> None:
    topic.group("billing")

    with pytest.raises(SettingsDiffer):
        topic.group("billing", mode="queue")


# --- The end of a group, of a topic, of a store ---


def test_a_closed_member_raises(topic: Topic) -> None:
    with topic.group("billing") as group:
        assert "owns [0, 1, 2, 3]" in repr(group)
    group.close()

    uses: list[Callable[[], object]] = [
        group.read,
        group.commit,
        group.lag,
        group.members,
        group.positions,
        group.rewind,
        lambda: group.position(0),
        lambda: group.seek(START),
    ]
    for use in uses:
        with pytest.raises(GroupClosed, match="this member of group 'billing' of topic 'orders' is closed"):
            use()
    assert list(group) == []
    assert group.partitions == []
    assert "closed" in repr(group)


def test_closing_the_store_closes_its_members(topic: Topic, processes: Processes) -> None:
    group = topic.group("billing")
    group.read()

    topic.store.close()

    with pytest.raises(StoreClosed):
        group.read()
    assert processes.start().group("billing").partitions == [0, 1, 2, 3]


def test_a_deleted_group_no_longer_exists_for_all_its_members(topic: Topic, processes: Processes) -> None:
    here, there = processes.join(topic), processes.join()
    processes.settle(here, there)
    here.read(limit=5)
    here.commit()

    topic.delete_group("billing")

    processes.pass_time()
    processes.keep(there)
    for group in (here, there):
        with pytest.raises(NoSuchGroup):
            group.read()
        with pytest.raises(NoSuchGroup):
            group.commit()
        assert group.partitions == []
    assert topic.groups() == []
    assert topic.partition(0).readers() == []
    with pytest.raises(NoSuchGroup):
        topic.delete_group("billing")


def test_a_member_does_not_bring_back_a_group_that_is_being_deleted(topic: Topic) -> None:
    member = topic.group("billing")
    # As a deletion leaves it that comes between two steps of a check.
    for log in topic.logs:
        log.remove_reader("billing")
    Path(member._directory, "group.json").unlink()

    with pytest.raises(NoSuchGroup):
        member.lag()

    assert [log.readers() for log in topic.logs] == [[], [], [], []]


def test_a_deleted_group_leaves_nothing_in_partitions_that_others_added(topic: Topic, processes: Processes) -> None:
    member = processes.join()
    processes.start().configure(partitions=5)
    processes.settle(member)
    assert member.topic.partition(4).readers() == ["billing"]

    topic.delete_group("billing")

    assert member.topic.partition(4).readers() == []


def test_a_recreated_group_has_nothing_of_the_old_one(topic: Topic, processes: Processes) -> None:
    there = processes.start()
    old = processes.join(there)
    old.read(limit=5)
    old.commit()

    topic.delete_group("billing")
    new = topic.group("billing")
    processes.pass_time()

    with pytest.raises(NoSuchGroup):
        old.read()
    assert new.members() == [new.id]
    assert new.positions() == dict.fromkeys(range(4), 0)
    # Also if the old reader is still mapped.
    again = there.group("billing")
    processes.settle(new, again)
    assert again.positions() == dict.fromkeys(range(4), 0)
    assert places(again.read(limit=3)) == every([2], range(3))
    again.commit()
    assert new.positions() == {0: 0, 1: 0, 2: 3, 3: 0}


def test_a_deleted_topic_takes_its_groups_along(topic: Topic, processes: Processes) -> None:
    here, there = processes.join(topic), processes.join()
    processes.settle(here, there)

    topic.store.delete_topic("orders")

    for group in (here, there):
        with pytest.raises(NoSuchTopic):
            group.read()
        processes.pass_time()
        with pytest.raises(NoSuchTopic):
            group.commit()
