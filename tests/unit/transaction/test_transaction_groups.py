"""Positions of stream groups and acknowledgements of queue groups, all or nothing with the puts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.store.transaction_stores import Killed, bodies, die, kill_at, open_store, put_two
from warren.errors import (
    BadInput,
    LeaseLost,
    NoSuchPartition,
    NotOwner,
)
from warren.queue.stream.stream_group import LOOK_S, StreamGroup
from warren.transaction.store import Store


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def store(tmp_path: Path, clock: SimulatedClock) -> Iterator[Store]:
    with open_store(tmp_path, clock) as store:
        yield store


@pytest.fixture
def other(tmp_path: Path, clock: SimulatedClock, store: Store) -> Iterator[Store]:
    """A second opening of the same store, as another process has it."""
    with open_store(tmp_path, clock) as other:
        yield other


# --- Groups ---


def test_positions_of_a_stream_group_move_with_the_transaction(store: Store) -> None:
    topic = store.topic("orders", partitions=2)
    topic.put_many([b"0", b"1", b"2"], partition=0)
    topic.put_many([b"3", b"4"], partition=1)
    group = topic.group("billing")
    assert len(group.read(10)) == 5

    tx = store.transaction()
    tx.commit(group)
    tx.put("bills", b"never")
    tx.abort()
    assert group.lag() == {0: 3, 1: 2}
    with store.transaction() as tx:
        tx.commit(group)
        tx.put("bills", b"bill")

    assert group.lag() == {0: 0, 1: 0}
    assert bodies(store, "bills") == [b"bill"]
    assert group.read_positions() == {}


def test_named_positions_are_committed_and_never_go_back(store: Store, other: Store) -> None:
    topic = store.topic("orders", partitions=2)
    topic.put_many([b"0", b"1", b"2"], partition=0)
    topic.put_many([b"3", b"4"], partition=1)
    group = topic.group("billing")
    group.read(10)
    tx = store.transaction(id="slow")
    tx.commit(group, {0: 1, 1: 2})
    tx.prepare()
    assert [each.position_count for each in other.recover()] == [2]
    group.commit({0: 3})

    assert other.commit("slow") == "done"

    assert group.lag() == {0: 0, 1: 0}


def test_positions_of_a_partition_that_another_member_owns_are_refused(store: Store, other: Store) -> None:
    topic = store.topic("orders")
    topic.put(b"0")
    group = topic.group("billing")
    group.read(10)
    with pytest.raises(BadInput), store.transaction() as tx:
        tx.commit(group, {0: 5})
    tx = store.transaction()
    tx.commit(group)
    tx.put("bills", b"bill")
    group.close()
    other.topic("orders").group("billing")

    with pytest.raises(NotOwner):
        tx.commit()

    assert tx.state == "aborted"
    assert bodies(store, "bills") == []


def moved(clock: SimulatedClock, *groups: StreamGroup) -> None:
    """Members check, and give each other their shares."""
    for group in groups * 2:
        clock.sleep(LOOK_S)
        group.read(1)


@pytest.fixture
def read_twice(store: Store, other: Store, clock: SimulatedClock) -> tuple[StreamGroup, StreamGroup]:
    """A member that read from two partitions, one of which another member owns by now."""
    topic = store.topic("orders", partitions=2)
    for partition in (0, 1):
        topic.put_many([b"0", b"1"], partition=partition)
    group = topic.group("billing")
    assert len(group.read(10)) == 4
    joined = other.topic("orders").group("billing")
    moved(clock, group, joined)
    assert group.partitions + joined.partitions in ([0, 1], [1, 0])
    return group, joined


def test_a_transaction_fails_if_a_partition_it_read_went_to_another_member(
    store: Store, read_twice: tuple[StreamGroup, StreamGroup]
) -> None:
    group, joined = read_twice
    for positions in (None, {0: 2, 1: 2}, dict.fromkeys(joined.partitions, 2)):
        tx = store.transaction()
        tx.put_many("bills", [b"0", b"1", b"0", b"1"])
        with pytest.raises(NotOwner) as raised:
            tx.commit(group, positions)
        assert raised.value.partitions == joined.partitions
        tx.abort()
    assert bodies(store, "bills") == []

    group.rewind()
    assert len(group.read(10)) == 2
    with store.transaction() as tx:
        tx.put_many("bills", [b"0", b"1"])
        tx.commit(group)

    assert bodies(store, "bills") == [b"0", b"1"]
    assert sum(group.lag().values()) == 2


@pytest.mark.parametrize("forget", ["rewind", "commit", "seek"])
def test_a_transaction_does_not_commit_reads_from_before_a_partition_went_and_came_back(
    store: Store, clock: SimulatedClock, read_twice: tuple[StreamGroup, StreamGroup], forget: str
) -> None:
    group, joined = read_twice
    [partition] = joined.partitions
    joined.commit({partition: 2})
    joined.close()
    moved(clock, group)
    assert group.partitions == [0, 1]

    for positions in (None, {partition: 2}):
        with pytest.raises(NotOwner) as raised, store.transaction() as tx:
            tx.commit(group, positions)
        assert raised.value.partitions == [partition]
    if forget == "seek":
        group.seek(2, partition)
    else:
        getattr(group, forget)()

    with store.transaction() as tx:
        tx.commit(group, {partition: 2})


def test_a_partition_that_goes_while_a_transaction_is_open_and_comes_back_aborts_it(
    store: Store, other: Store, clock: SimulatedClock
) -> None:
    topic = store.topic("orders", partitions=2)
    for partition in (0, 1):
        topic.put_many([b"0", b"1"], partition=partition)
    group = topic.group("billing")
    group.read(10)
    tx = store.transaction()
    tx.put_many("bills", [b"0", b"1", b"0", b"1"])
    tx.commit(group)
    joined = other.topic("orders").group("billing")
    moved(clock, group, joined)
    [partition] = joined.partitions
    joined.close()
    moved(clock, group)
    group.rewind()
    assert len(group.read(10)) == 4
    # If something is named twice, the first time counts.
    tx.commit(group)

    with pytest.raises(NotOwner) as raised:
        tx.commit()

    assert raised.value.partitions == [partition]
    assert bodies(store, "bills") == []


def test_messages_that_a_dead_member_committed_are_not_given_to_the_next(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = store.topic("orders")
    topic.put_many([b"0", b"1", b"2"])
    group = topic.group("billing")
    group.read(2)
    tx = store.transaction()
    tx.commit(group)
    tx.put("bills", b"bill")
    with monkeypatch.context() as patched:
        kill_at(patched, store._coordinator._finishing._apply, "put_all")
        with pytest.raises(Killed):
            tx.commit()
    group.close()
    die(store)

    heir = other.topic("orders").group("billing")

    assert [message.body for message in heir.read(10)] == [b"2"]
    assert bodies(other, "bills") == [b"bill"]


def test_acknowledgements_of_a_queue_group_come_with_the_transaction(store: Store) -> None:
    topic = store.topic("jobs")
    topic.put_many([b"0", b"1", b"2"])
    work = topic.group("workers", mode="queue", lease=30.0)
    messages = work.take(3)

    with store.transaction() as tx:
        tx.ack(work, messages[0])
        tx.ack(work, messages[1:])
        tx.put("results", b"result")

    assert bodies(store, "results") == [b"result"]
    assert work.lag() == {0: 0}


def test_an_aborted_transaction_gives_its_held_messages_back(store: Store, other: Store) -> None:
    topic = store.topic("jobs")
    topic.put_many([b"0", b"1"])
    work = topic.group("workers", mode="queue", lease=30.0)
    tx = store.transaction(id="t")
    tx.ack(work, work.take(2))
    tx.put("results", b"result")
    tx.prepare()
    assert [each.ack_count for each in store.recover()] == [2]
    assert work.take(2) == []

    other.abort("t")

    assert [message.body for message in work.take(2)] == [b"0", b"1"]
    assert bodies(store, "results") == []
    assert work.held() == set()


def test_held_messages_outlive_their_lease_and_their_process(store: Store, other: Store, clock: SimulatedClock) -> None:
    topic = store.topic("jobs")
    topic.put(b"0")
    work = topic.group("workers", mode="queue", lease=30.0)
    tx = store.transaction(id="t")
    message = work.take()
    assert message is not None
    tx.ack(work, message)
    tx.prepare()
    clock.sleep(100.0)
    die(store)
    others = other.topic("jobs").group("workers", mode="queue")
    assert others.take(1) == []

    assert other.commit("t") == "done"

    assert others.take(1) == []
    assert others.lag() == {0: 0}


def test_a_lease_that_was_lost_aborts_and_gives_the_others_back(store: Store, clock: SimulatedClock) -> None:
    jobs, more = store.topic("jobs"), store.topic("more")
    jobs.put(b"0")
    more.put(b"1")
    long = jobs.group("workers", mode="queue", lease=300.0)
    short = more.group("workers", mode="queue", lease=1.0)
    tx = store.transaction()
    tx.ack(long, long.take(1))
    tx.ack(short, short.take(1))
    tx.put("results", b"result")
    clock.sleep(2.0)
    assert len(short.take(1)) == 1

    with pytest.raises(LeaseLost):
        tx.commit()

    assert tx.state == "aborted"
    assert [message.body for message in long.take(1)] == [b"0"]
    assert bodies(store, "results") == []


def test_messages_held_by_a_process_that_died_undecided_are_given_back(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = store.topic("jobs")
    topic.put(b"0")
    work = topic.group("workers", mode="queue")
    tx = store.transaction()
    tx.ack(work, work.take(1))
    tx.put("results", b"result")
    with monkeypatch.context() as patched:
        kill_at(patched, store._coordinator._finishing, "end")
        kill_at(patched, store._coordinator, "_drop")
        with pytest.raises(Killed):
            tx.commit()
    assert work.held() == {tx.token}
    die(store)

    other.keep()

    assert [message.body for message in other.topic("jobs").group("workers", mode="queue").take(1)] == [b"0"]


def test_groups_that_were_deleted_take_their_part_with_them(store: Store) -> None:
    jobs, orders = store.topic("jobs"), store.topic("orders")
    jobs.put(b"0")
    orders.put(b"1")
    work, billing = jobs.group("workers", mode="queue"), orders.group("billing")
    billing.read(1)
    tx = store.transaction(id="t")
    tx.ack(work, work.take(1))
    tx.commit(billing)
    tx.put("results", b"result")
    tx.prepare()
    work.close()
    billing.close()
    jobs.delete_group("workers")
    orders.delete_group("billing")

    assert store.commit("t") == "done"

    assert bodies(store, "results") == [b"result"]
    assert jobs.groups() == orders.groups() == []


def test_a_commit_of_no_group_or_of_foreign_messages_is_refused(store: Store, other: Store) -> None:
    topic = store.topic("jobs")
    topic.put(b"0")
    work, stream = topic.group("workers", mode="queue"), topic.group("billing")
    message = topic.last()[0]
    bad: list[tuple[Any, ...]] = [
        (stream, message),
        ("workers", message),
        (other.topic("jobs").group("workers", mode="queue"), message),
        (work, "message"),
        (work, [message._replace(topic="other")]),
    ]

    with store.transaction() as tx:
        put_two(tx)
        for group, messages in bad:
            with pytest.raises(BadInput):
                tx.ack(group, messages)
        no_streams: list[Any] = [work, "billing", other.topic("jobs").group("billing")]
        for group in no_streams:
            with pytest.raises(BadInput):
                tx.commit(group)
        with pytest.raises(NoSuchPartition):
            tx.commit(stream, {7: 0})
        with pytest.raises(BadInput):
            tx.commit(stream, {0: -1})

    assert bodies(store, "orders") == [b"order"]
