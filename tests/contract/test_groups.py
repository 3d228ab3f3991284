"""Stream groups, queue groups, dead letters and delays: the same on every kind of store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from tests.contract.conftest import Opener
from tests.support.patience import WAIT_S, until
from warren import api
from warren.errors import BadInput, GroupClosed, LeaseLost, NoSuchGroup, SettingsDiffer
from warren.message import END, START, Message

HOUR = timedelta(hours=1)


def numbers(messages: list[Message]) -> list[int]:
    return [message.number for message in messages]


# --- Stream groups ---


def test_a_stream_group_reads_in_order_and_continues_after_its_commit(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.put_many([b"%d" % number for number in range(5)])
    with topic.group("billing") as group:
        assert numbers(group.read(3)) == [0, 1, 2]
        assert group.commit() == {0: 3}
        assert numbers(group.read(1)) == [3]

    with topic.group("billing") as group:
        assert group.positions() == {0: 3}
        assert group.lag() == {0: 2}
        assert numbers(group.read()) == [3, 4]


def test_a_stream_group_goes_back_to_its_commit(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.put_many([b"x"] * 4)
    with topic.group("billing") as group:
        group.read(2)
        group.commit({0: 1})
        group.rewind()

        assert numbers(group.read()) == [1, 2, 3]


def test_a_commit_below_the_committed_position_changes_nothing(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.put_many([b"x"] * 4)
    with topic.group("billing") as group:
        group.read(3)
        group.commit({0: 3})
        group.commit({0: 1})

        assert group.positions() == {0: 3}
        group.rewind()
        assert numbers(group.read()) == [3]


def test_a_stream_group_seeks(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.put_many([b"x"] * 4)
    with topic.group("billing") as group:
        assert group.seek(2) == {0: 2}
        assert numbers(group.read()) == [2, 3]
        assert group.seek(END) == {0: 4}
        assert group.read() == []
        assert group.seek(START, 0) == {0: 0}
        assert group.seek(datetime(2020, 1, 1, tzinfo=UTC)) == {0: 0}
        assert group.position(0) == 0


def test_members_share_the_partitions(opener: Opener) -> None:
    with opener() as store, opener() as other:
        first = store.topic("orders", 4).group("billing")
        second = other.topic("orders").group("billing")

        def share() -> bool:
            # A member gives partitions up, and learns which it owns, when it reads.
            first.read()
            second.read()
            return len(first.partitions) == len(second.partitions) == 2

        until(share)

        assert sorted(first.partitions + second.partitions) == [0, 1, 2, 3]
        assert sorted(first.members()) == sorted([first.id, second.id])


def test_a_member_waits_for_a_message_that_passes_its_filter(store: api.Store) -> None:
    topic = store.topic("orders")
    with topic.group("billing", tag="paid") as group, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(group.read, wait=WAIT_S)
        topic.put(b"1", tag="new")
        topic.put(b"2", tag="paid")

        assert [message.body for message in reading.result(WAIT_S)] == [b"2"]


def test_a_waiting_member_gets_messages_of_its_partitions_only(store: api.Store) -> None:
    topic = store.topic("orders", 3)
    group, other = topic.group("billing", tag="eu"), topic.group("billing")

    def share() -> bool:
        other.read()
        return group.read() == [] and group.partitions == [0, 1]

    until(share)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(group.read, wait=WAIT_S)
        topic.put(b"no", partition=1, tag="us")
        topic.put(b"yes", partition=1, tag="eu")

        assert [(message.partition, message.number) for message in reading.result(WAIT_S)] == [(1, 1)]
    assert other.read(wait=0.01) == []


def test_a_waiting_member_gets_a_released_partition(store: api.Store) -> None:
    topic = store.topic("orders")
    first, second = topic.group("billing"), topic.group("billing")
    topic.put(b"a")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(second.read, wait=WAIT_S)
        first.close()

        assert numbers(reading.result(WAIT_S)) == [0]


def test_iterating_over_a_member_waits_for_more_and_ends_when_it_is_closed(store: api.Store) -> None:
    topic = store.topic("orders")
    group = topic.group("billing")
    with ThreadPoolExecutor(1) as pool:
        messages = iter(group)
        first = pool.submit(next, messages)
        topic.put(b"a")
        assert first.result(WAIT_S).number == 0
        others = pool.submit(list, messages)
        group.close()

        assert others.result(WAIT_S) == []


def test_iterating_over_a_worker_ends_when_it_is_closed(store: api.Store) -> None:
    topic = store.topic("orders")
    group = topic.group("workers", mode="queue")
    topic.put(b"a")
    with ThreadPoolExecutor(1) as pool:
        messages = iter(group)
        assert next(messages).number == 0
        others = pool.submit(list, messages)
        group.close()

        assert others.result(WAIT_S) == []


def test_a_member_is_iterated(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.put_many([b"x"] * 3)
    with topic.group("billing") as group:
        assert numbers(list(islice(group, 2))) == [0, 1]
        assert group.commit() == {0: 2}


def test_a_closed_member_reads_nothing(store: api.Store) -> None:
    group = store.topic("orders").group("billing")
    group.close()
    group.close()

    with pytest.raises(GroupClosed):
        group.read()


def test_groups_are_listed_described_configured_and_deleted(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.put_many([b"x"] * 3)
    with topic.group("billing") as group:
        group.read(1)
        group.commit()
    topic.group("workers", mode="queue", lease=5).close()

    billing, workers = topic.describe_group("billing"), topic.describe_group("workers")

    assert topic.groups() == ["billing", "workers"]
    assert (billing.settings.mode, billing.behind, billing.leased) == ("stream", 2, None)
    assert (workers.settings.mode, workers.behind, workers.leased, workers.members) == ("queue", 3, 0, None)
    assert topic.configure_group("workers", lease=7).lease_s == topic.group_settings("workers").lease_s == 7
    topic.delete_group("billing")
    assert topic.groups() == ["workers"]
    for act in (topic.delete_group, topic.describe_group, topic.group_settings, topic.configure_group):
        with pytest.raises(NoSuchGroup):
            act("billing")


def test_a_group_is_not_opened_with_other_settings(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.group("workers", mode="queue", attempts_max=3, start="end").close()
    before = topic.group_settings("workers")
    others: list[api.GroupOptions] = [
        {"lease": 60.0},
        {"attempts_max": 2},
        {"backoff": 7.0},
        {"backoff_max": 70.0},
        {"ordered_by_key": True},
        {"tag": "eu.*"},
    ]

    with pytest.raises(SettingsDiffer):
        topic.group("workers")
    for options in others:
        (option,) = options
        with pytest.raises(SettingsDiffer, match=rf"{option}=.*not .*; change it with topic\.configure_group\(\)"):
            topic.group("workers", mode="queue", **options)
    with pytest.raises(BadInput, match=r"lease: expected seconds from 0.05 to 604800, not -1"):
        topic.group("workers", mode="queue", lease=-1.0)
    with pytest.raises(BadInput):
        topic.group("others", mode="queue", lease=-1)

    # The start of a group that exists is ignored.
    topic.group("workers", mode="queue", attempts_max=3, tag=None, start="start").close()
    assert topic.group_settings("workers") == before
    assert before.start == "end"


def test_settings_of_a_group_are_changed(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.group("workers", mode="queue", tag="eu.*", lease=10.0, start="end").close()

    changed = topic.configure_group("workers", lease=20.0, tag=None)

    assert (changed.lease_s, changed.tag, changed.start, changed.mode) == (20.0, None, "end", "queue")
    topic.group("workers", mode="queue", lease=20.0).close()
    assert topic.group_settings("workers") == changed
    with pytest.raises(NoSuchGroup):
        topic.configure_group("missing", lease=20.0)
    with pytest.raises(BadInput, match="there is no option 'mode'; there are tag, start"):
        topic.configure_group("workers", mode="stream")  # type: ignore[call-arg]
    with pytest.raises(BadInput, match=r"lease: expected seconds .*, not 0"):
        topic.configure_group("workers", lease=0.0)


# --- Queue groups ---


def test_each_message_goes_to_one_worker(opener: Opener) -> None:
    with opener() as store, opener() as other:
        topic = store.topic("orders")
        topic.put_many([b"x"] * 10)
        first, second = topic.group("workers", mode="queue"), other.topic("orders").group("workers", mode="queue")

        batches = [first.take(4), second.take(4), first.take(4), second.take(4)]

        assert sorted(number for messages in batches for number in numbers(messages)) == list(range(10))
        assert first.in_flight() == 10
        first.ack_many(batches[0])
        assert (second.in_flight(), second.lag()) == (6, {0: 6})


def test_a_message_is_done_once(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.put(b"1")
    group = topic.group("workers", mode="queue")
    message = group.take()
    assert message is not None
    group.ack(message)

    assert group.take() is None
    assert group.take(5) == []
    with pytest.raises(LeaseLost):
        group.ack(message)


def test_a_worker_waits_for_a_message(store: api.Store) -> None:
    topic = store.topic("orders")
    group = topic.group("workers", mode="queue")
    with ThreadPoolExecutor(1) as pool:
        taking = pool.submit(lambda: group.take(wait=WAIT_S))
        topic.put(b"1")
        message = taking.result(WAIT_S)

    assert message is not None
    assert (message.body, message.attempt) == (b"1", 1)


def test_a_worker_is_iterated(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.put_many([b"x"] * 3)

    assert numbers(list(islice(topic.group("workers", mode="queue"), 3))) == [0, 1, 2]


def test_a_message_that_is_given_back_is_taken_again(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.put(b"1")
    group = topic.group("workers", mode="queue", attempts_max=3)
    message = group.take()
    assert message is not None
    group.nack(message, delay=0)

    again = group.take(wait=WAIT_S)

    assert again is not None
    assert (again.number, again.attempt) == (message.number, 2)
    with pytest.raises(LeaseLost):
        group.ack(message)
    group.nack(again, delay=600)
    assert group.take() is None


def test_a_lease_runs_out_and_can_be_extended(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.put_many([b"1", b"2"])
    group = topic.group("workers", mode="queue", lease=600)
    extended, lost = group.take(2, renew=False)
    group.extend(extended, 500)
    group.extend_many([lost], 0)

    again = group.take(wait=WAIT_S)

    assert again is not None
    assert again.number == lost.number
    group.ack(extended)
    with pytest.raises(LeaseLost):
        group.extend(lost, 5)


def test_messages_of_one_key_are_leased_one_after_the_other(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.put_many([b"1", b"2", b"3"], keys=[b"a", b"a", b"b"])
    group = topic.group("workers", mode="queue", ordered_by_key=True)

    first = group.take(3)

    assert numbers(first) == [0, 2]
    group.ack_many(first)
    assert numbers(group.take(3)) == [1]


# --- Dead letters ---


def test_rejected_and_failed_messages_become_dead_letters_and_come_back(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.put_many([b"rejected", b"failed"])
    group = topic.group("workers", mode="queue", attempts_max=1)
    rejected, failed = group.take(2)
    group.reject(rejected, "no such customer")
    group.nack(failed, reason="out of time")

    letters = list(topic.dead_letters("workers"))

    assert [(letter.number, letter.reason, letter.message.body) for letter in letters] == [
        (0, "no such customer", b"rejected"),
        (1, "out of time", b"failed"),
    ]
    assert group.dead.name == "orders.dead"
    assert len(group.dead.last(5)) == 2
    assert group.redrive(1) == 1
    assert [letter.number for letter in topic.dead_letters()] == [1]
    assert group.redrive(numbers={letters[1].message.partition: [letters[1].message.number]}) == 1
    assert group.redrive() == 0
    again = group.take(5, wait=WAIT_S)
    assert [(message.body, message.attempt) for message in again] == [(b"rejected", 1), (b"failed", 1)]


# --- Delays ---


def test_a_delayed_message_is_listed_and_can_be_cancelled(store: api.Store) -> None:
    topic = store.topic("orders")
    handle = topic.put(b"1", delay=HOUR, key=b"k", tag="t", headers={"h": b"v"}, id="i")
    late = topic.put(b"2", deliver_at=datetime.now(UTC) + 2 * HOUR)
    both = topic.put_many([b"3", b"4"], delay=3 * HOUR)

    first, second, third = topic.scheduled(3)

    assert (first.id, first.due, first.body, first.key) == (handle.id, handle.due, b"1", b"k")
    assert (first.tag, dict(first.headers), first.message_id) == ("t", {"h": b"v"}, "i")
    assert (second.id, third.body) == (late.id, b"3")
    assert handle.cancel() is True
    assert handle.cancel() is False
    assert topic.cancel(late.id) is True
    assert [handle.cancel() for handle in both] == [True, True]
    assert list(topic.scheduled()) == []
    assert topic.last() == []


def test_a_message_that_is_due_is_delivered_once(store: api.Store) -> None:
    topic = store.topic("orders")
    group = topic.group("workers", mode="queue")
    handle = topic.put(b"1", delay=0.05, tag="t")

    message = group.take(wait=WAIT_S)

    assert message is not None
    assert (message.body, message.tag) == (b"1", "t")
    assert message.time >= handle.due
    assert handle.cancel() is False
    assert len(topic.last(5)) == 1


def test_a_bad_delay_is_refused(store: api.Store) -> None:
    topic = store.topic("orders")
    with pytest.raises(BadInput):
        topic.put(b"1", delay=-1)
    with pytest.raises(BadInput):
        topic.put(b"1", deliver_at=datetime(2100, 1, 1))  # noqa: DTZ001  # without a zone on purpose
    with pytest.raises(BadInput):
        topic.cancel("nonsense")

    assert list(topic.scheduled()) == []
