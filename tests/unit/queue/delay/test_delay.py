"""Messages that are put with a delay: delivered when due, never before, and cancelled exactly."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.fakes import QUICK_DISK, WatchedDisk
from tests.support.simulated_clock import START_NS, SimulatedClock
from tests.support.store.stores import quick_store
from warren.api.values import MessageFields
from warren.errors import (
    BadInput,
    NoSuchPartition,
    NoSuchTopic,
    StorageFull,
    StoreClosed,
    TooLarge,
    UnsupportedByVersion,
)
from warren.queue.delay import done_bits, due_index
from warren.queue.state import paths
from warren.queue.state.append_once import append_once
from warren.queue.state.routing import partition_of
from warren.queue.store import Store
from warren.queue.topic import Topic
from warren.storage.format.columns import Batch

SECOND_NS: Final = 1_000_000_000
DAY_S: Final = 86_400.0


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


def open_store(path: Path, clock: SimulatedClock, **options: Any) -> Store:
    return quick_store(path, clock=clock, **options)


def move(store: Store) -> float:
    """Lets the mover do everything that is due. Returns after how many seconds it wants to run again."""
    while (wait_s := store.mover.run()) == 0:
        pass
    return wait_s


def bodies(topic: Topic) -> list[bytes]:
    return [message.body for log in topic.logs for message in log.read(log.first, limit=10_000)]


# --- Delivering ---


def test_a_message_is_delivered_when_it_is_due_and_not_before(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders")
        delayed = topic.put(b"a", delay=30.0)

        assert delayed.due == datetime.fromtimestamp(START_NS / 1e9 + 30, UTC)
        clock.pass_ns(30 * SECOND_NS - 1000)
        move(store)
        assert bodies(topic) == []
        clock.pass_ns(1000)
        move(store)
        assert bodies(topic) == [b"a"]
        move(store)
        assert bodies(topic) == [b"a"]


def test_the_due_time_is_rounded_up_to_a_microsecond(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        clock.pass_ns(1)
        delayed = store.topic("orders").put(b"a", delay=1e-6)

        assert delayed.due_us * 1000 >= START_NS + 1 + 1000


def test_a_delay_in_seconds_is_rounded_to_the_nearest_microsecond(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        delayed = store.topic("orders").put(b"x", delay=0.067)

    assert delayed.due_us == START_NS // 1000 + 67_000


def test_a_delivered_message_is_the_one_that_was_put(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders", partitions=5)
        topic.put(b"a", key=b"k", tag="eu.de", headers={"trace": b"1"}, id="me", corr_offset=7, delay=1.0)
        clock.pass_ns(SECOND_NS)
        move(store)

        (message,) = topic.partition(partition_of(b"k", 5)).read(0)
        assert message[5:11] == ("me", "eu.de", b"k", {"trace": b"1"}, 7, b"a")
        assert (message.topic, message.timestamp) == ("orders", clock.now_ns() // 1000)


def test_a_message_goes_to_the_partition_it_was_put_to(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders", partitions=3)
        topic.put(b"a", partition=2, key=b"k", delay=1.0)
        topic.put_many([b"b", b"c"], partition=1, corr_offsets=[5, -1], delay=1.0)
        clock.pass_ns(SECOND_NS)
        move(store)

        assert [(m.body, m.headers) for m in topic.partition(2).read(0)] == [(b"a", {})]
        assert [(m.body, m.corr_offset, m.headers) for m in topic.partition(1).read(0)] == [
            (b"b", 5, {}),
            (b"c", -1, {}),
        ]


def test_a_key_is_routed_when_the_message_is_due(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store, open_store(tmp_path, clock) as other:
        topic = store.topic("orders", partitions=1)
        topic.put(b"a", key=b"customer-8", delay=1.0)
        other.topic("orders").configure(partitions=4)
        clock.pass_ns(SECOND_NS)
        move(store)

        assert bodies(other.topic("orders")) == [b"a"]
        assert [m.body for m in other.topic("orders").partition(partition_of(b"customer-8", 4)).read(0)] == [b"a"]


def test_messages_are_delivered_in_the_order_of_their_due_times(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders")
        for delay in (3.0, 100.0, 1.0, 2 * DAY_S, 2.0, 3.0):
            topic.put(b"%d" % delay, delay=delay)
        clock.pass_ns(3 * int(DAY_S) * SECOND_NS)
        move(store)

        assert bodies(topic) == [b"1", b"2", b"3", b"3", b"100", b"172800"]


def test_many_are_delivered_in_batches(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders", partitions=2, durability="os")
        sent = [b"%d" % number for number in range(2500)]
        topic.put_many(sent, keys=[body[-1:] for body in sent], delay=1.0)
        clock.pass_ns(SECOND_NS)

        assert store.mover.run() == 0
        assert len(bodies(topic)) == 1000
        move(store)
        assert sorted(bodies(topic)) == sorted(sent)


def test_large_messages_are_delivered_a_few_at_a_time(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders", durability="os")
        topic.put_many([bytes(3 << 20)] * 5, delay=1.0)
        clock.pass_ns(SECOND_NS)

        store.mover.run()
        assert len(bodies(topic)) == 3
        move(store)
        assert len(bodies(topic)) == 5


@pytest.mark.parametrize("horizon_s", [1.0, 3000.0, 50_000.0, 20 * DAY_S, 400 * DAY_S])
def test_every_horizon_is_delivered(tmp_path: Path, clock: SimulatedClock, horizon_s: float) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders")
        delayed = topic.put(b"a", delay=horizon_s)
        clock.pass_ns(int(horizon_s) * SECOND_NS)
        move(store)

        assert bodies(topic) == [b"a"]
        assert delayed.cancel() is False


def test_messages_of_a_like_horizon_are_parked_together(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders")
        horizons = [
            topic.put(b"a", delay=delay).horizon
            for delay in (0.0, 60.0, 60.1, 3600.0, 3601.0, DAY_S, DAY_S + 1, 30 * DAY_S, 30 * DAY_S + 1)
        ]

        assert horizons == ["minute", "minute", "hour", "hour", "day", "day", "month", "month", "later"]


def test_the_mover_waits_until_the_next_is_due_and_never_for_long(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders")
        assert move(store) == 0.25
        topic.put(b"a", delay=10.0)
        clock.pass_ns(SECOND_NS)
        assert move(store) == 0.25
        clock.pass_ns(SECOND_NS)
        topic.put(b"b", delay=0.1)
        assert move(store) == pytest.approx(0.1, abs=1e-5)


def test_parking_a_message_that_is_due_soon_wakes_the_mover(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders")
        before = store.wakeup.value()
        topic.put(b"a", delay=1.0)
        topic.put_many([b"a"], delay=1.0)
        assert store.wakeup.value() == before
        topic.put(b"b", delay=0.2)
        assert store.wakeup.value() == before + 1
        topic.put(b"b", delay=0.2)
        topic.put_many([b"b"], delay=0.3)
        assert store.wakeup.value() == before + 1, "the mover wakes in time for these"
        first = topic.put(b"b", delay=0.1)
        assert store.wakeup.value() == before + 2
        first.cancel()
        topic.put_many([b"b"], delay=0.1)
        assert store.wakeup.value() == before + 3, "the mover need not wake for what was cancelled"
        clock.pass_ns(SECOND_NS)
        topic.put_many([b"b"], delay=0.1)
        assert store.wakeup.value() == before + 4


def test_a_store_that_was_closed_over_the_due_time_delivers_when_it_is_opened(
    tmp_path: Path, clock: SimulatedClock
) -> None:
    with open_store(tmp_path, clock) as store:
        store.topic("orders").put(b"a", delay=1.0)
    clock.pass_ns(100 * SECOND_NS)

    with open_store(tmp_path, clock) as store:
        move(store)
        assert bodies(store.topic("orders")) == [b"a"]


def test_a_clock_that_jumps_loses_nothing(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders")
        topic.put(b"a", delay=10.0)
        move(store)
        clock.set_back_ns(3600 * SECOND_NS)
        topic.put(b"b", delay=10.0)
        move(store)
        clock.pass_ns(10 * SECOND_NS)
        move(store)
        assert bodies(topic) == [b"b"]
        clock.pass_ns(int(DAY_S) * SECOND_NS)
        move(store)
        assert bodies(topic) == [b"b", b"a"]


def test_a_time_that_has_passed_is_due_immediately(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders")
        topic.put(b"a", deliver_at=datetime(2001, 1, 1, tzinfo=UTC))
        topic.put(b"b", delay=0)
        move(store)

        assert bodies(topic) == [b"a", b"b"]


@pytest.mark.parametrize(
    "give", [lambda when: when, lambda when: when.timestamp(), lambda when: int(when.timestamp() * 1e6)]
)
def test_a_time_to_deliver_at_is_a_datetime_seconds_or_microseconds(
    tmp_path: Path, clock: SimulatedClock, give: Any
) -> None:
    when = datetime.fromtimestamp(START_NS / 1e9, UTC) + timedelta(seconds=5)
    with open_store(tmp_path, clock) as store:
        delayed = store.topic("orders").put(b"a", deliver_at=give(when))
        (many,) = store.topic("orders").put_many([b"a"], deliver_at=give(when))

        assert delayed.due == many.due == when


def test_another_process_delivers_for_topics_it_never_opened(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store, open_store(tmp_path, clock) as other:
        move(other)
        topic = store.topic("orders")
        topic.put(b"a", delay=1.0)
        clock.pass_ns(SECOND_NS)
        move(store)
        assert bodies(topic) == [], "the other one is the mover"
        move(other)
        assert bodies(topic) == [b"a"]


def test_when_the_mover_ends_another_takes_over(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        other = open_store(tmp_path, clock)
        topic = store.topic("orders")
        topic.put_many([b"a", b"b"], delay=1.0)
        topic.put(b"c", delay=2.0)
        clock.pass_ns(SECOND_NS)
        move(other)
        other.close()
        clock.pass_ns(SECOND_NS)
        move(store)

        assert bodies(topic) == [b"a", b"b", b"c"]


def test_a_version_1_topic_delivers_messages_with_and_without_ids(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("old", version=1)
        topic.put(b"a", id="mine", tag="eu", delay=1.0)
        topic.put_many([b"b", b"c"], corr_offsets=[3, -1], delay=1.0)
        clock.pass_ns(SECOND_NS)
        move(store)

        delivered = [(m.body, m.id, m.tag, m.corr_offset) for m in topic.partition(0).read(0)]
        assert delivered == [
            (b"a", "mine", "eu", -1),
            (b"b", "delayed-minute-1", "", 3),
            (b"c", "delayed-minute-2", "", -1),
        ]


def test_a_message_that_outgrew_the_blocks_of_its_topic_is_delivered(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders", block_size=1 << 20)
        topic.put(bytes(100_000), delay=1.0)
        topic.configure(block_size=8192)
        clock.pass_ns(SECOND_NS)
        move(store)

        assert bodies(topic) == [bytes(100_000)]


def test_rows_that_are_appended_to_the_log_of_a_horizon_are_delivered(tmp_path: Path, clock: SimulatedClock) -> None:
    """As a transaction does."""
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders", partitions=3)
        delay = topic.delay
        horizon, row = delay.row(b"a", delay.due_us(1.0, None), MessageFields(b"k", "eu", corr_offset=4), 1)
        append_once(delay.log(horizon), row, b"marker", 0)
        move(store)
        clock.pass_ns(SECOND_NS)
        move(store)

        (message,) = topic.partition(1).read(0)
        assert message[6:11] == ("eu", b"k", {}, 4, b"a")


def test_an_error_of_one_topic_does_not_keep_the_others_waiting(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path, clock) as store, open_store(tmp_path, clock) as other:
        first, second = store.topic("a"), store.topic("b")
        first.put(b"1", delay=0.0)
        second.put(b"2", delay=0.0)
        log = first.partition(0)
        monkeypatch.setattr(log, "append_many", _full)

        with pytest.raises(StorageFull):
            move(store)

        assert bodies(second) == [b"2"]
        move(other)
        assert bodies(first) == [b"1"], "a topic with room finishes the delivery"
        assert bodies(second) == [b"2"]


def _full(*_: object, **__: object) -> None:
    raise StorageFull("/disk", 1)


# --- Cancelling ---


def test_a_cancelled_message_is_never_delivered(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders")
        delayed, other = topic.put(b"a", delay=1.0), topic.put(b"b", delay=1.0)

        assert delayed.cancel() is True
        assert delayed.cancel() is False
        clock.pass_ns(SECOND_NS)
        move(store)
        assert bodies(topic) == [b"b"]
        assert (delayed.cancel(), other.cancel()) == (False, False)


def test_any_process_cancels_by_id(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store, open_store(tmp_path, clock) as other:
        move(store)
        handles = store.topic("orders").put_many([b"a", b"b"], delay=1.0)

        assert other.topic("orders").cancel(handles[1].id) is True
        assert handles[1].cancel() is False
        clock.pass_ns(SECOND_NS)
        move(store)
        assert bodies(store.topic("orders")) == [b"a"]


def test_a_message_that_is_due_and_not_delivered_can_be_cancelled(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders")
        delayed = topic.put(b"a", delay=1.0)
        move(store)
        clock.pass_ns(2 * SECOND_NS)

        assert delayed.cancel() is True
        move(store)
        assert bodies(topic) == []


def test_a_message_whose_delivery_has_begun_cannot_be_cancelled(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path, clock) as store, open_store(tmp_path, clock) as other:
        topic = store.topic("orders")
        delayed = topic.put(b"a", delay=0.0)
        monkeypatch.setattr(topic.partition(0), "append_many", _full)
        with pytest.raises(StorageFull):
            move(store)

        assert delayed.cancel() is False
        assert other.topic("orders").cancel(delayed.id) is False
        move(other)
        assert bodies(topic) == [b"a"]


@pytest.mark.parametrize("id", ["", "a", "minute-1", "year-1-2", "minute-1-2-3", "minute--1-2", "minute-1-x", 7, None])
def test_a_malformed_id_is_refused(tmp_path: Path, clock: SimulatedClock, id: Any) -> None:
    with open_store(tmp_path, clock) as store:
        store.topic("orders").put(b"a", delay=1.0)

        with pytest.raises(BadInput, match="id of a delayed message"):
            store.topic("orders").cancel(id)


def test_an_unknown_id_cancels_nothing(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders")
        assert topic.cancel("minute-0-1700000001000000") is False
        delayed = topic.put(b"a", delay=1.0)

        assert topic.cancel(f"minute-0-{delayed.due_us + 1}") is False
        assert topic.cancel(f"minute-1-{delayed.due_us}") is False
        assert topic.cancel(f"hour-0-{delayed.due_us}") is False
        assert [entry.id for entry in topic.scheduled()] == [delayed.id]


# --- Listing ---


def test_parked_messages_are_listed_by_due_time(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders", partitions=2)
        late = topic.put(b"late", delay=2 * DAY_S)
        soon = topic.put(
            b"soon", key=b"k", tag="eu", headers={"a": b"1"}, id="me", corr_offset=9, partition=1, delay=5.0
        )
        gone = topic.put(b"gone", delay=7.0)
        middle = topic.put(b"middle", delay=100.0)
        gone.cancel()

        parked = list(topic.scheduled())
        assert [entry.id for entry in parked] == [soon.id, middle.id, late.id]
        assert parked[0][1:] == (soon.due, b"k", "eu", {"a": b"1"}, "me", 9, 1, b"soon")
        assert [entry.body for entry in topic.scheduled(2)] == [b"soon", b"middle"]
        clock.pass_ns(5 * SECOND_NS)
        move(store)
        assert [entry.body for entry in topic.scheduled()] == [b"middle", b"late"]


def test_a_long_list_is_read_page_by_page(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock, defaults={"durability": "os"}) as store:
        topic = store.topic("orders")
        for number in range(0, 600, 3):
            topic.put_many([b"%d" % (number + each) for each in range(3)], delay=1.0 + (number * 7 % 600))

        entries = list(topic.scheduled())
        assert len(entries) == 600
        assert [entry.due for entry in entries] == sorted(entry.due for entry in entries)
        assert len({entry.id for entry in entries}) == 600
        assert [entry.id for entry in topic.scheduled(550)] == [entry.id for entry in entries[:550]]


def test_without_parked_messages_the_list_is_empty(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        assert list(store.topic("orders").scheduled()) == []
        assert not os.path.exists(tmp_path / "topics" / "orders" / "delayed")


# --- Wrong input ---


@pytest.mark.parametrize("delay", [-1.0, -0.001, float("nan"), float("inf"), 1e12, "1", True, b"", object()])
def test_an_invalid_delay_is_refused(tmp_path: Path, clock: SimulatedClock, delay: Any) -> None:
    with open_store(tmp_path, clock) as store:
        with pytest.raises(BadInput, match="delay"):
            store.topic("orders").put(b"a", delay=delay)
        with pytest.raises(BadInput, match="delay"):
            store.topic("orders").put_many([b"a"], delay=delay)
        assert list(store.topic("orders").scheduled()) == []


@pytest.mark.parametrize(
    "when", [-1, -1.0, float("nan"), float("inf"), 1 << 62, "now", True, datetime.max.replace(tzinfo=UTC)]
)
def test_an_invalid_time_is_refused(tmp_path: Path, clock: SimulatedClock, when: Any) -> None:
    with open_store(tmp_path, clock) as store, pytest.raises(BadInput, match="deliver_at"):
        store.topic("orders").put(b"a", deliver_at=when)


def test_bad_messages_are_refused_when_they_are_put(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders", message_size_max=10)
        old = store.topic("old", version=1)
        bad: list[tuple[type[Exception], Topic, dict[str, Any]]] = [
            (BadInput, topic, {"deliver_at": 5.0}),
            (TooLarge, topic, {"body": bytes(11)}),
            (NoSuchPartition, topic, {"partition": 1}),
            (BadInput, topic, {"corr_offset": "x"}),
            (BadInput, topic, {"key": "text"}),
            (BadInput, topic, {"headers": {"warren.partition": b"0"}}),
            (BadInput, topic, {"headers": {"warren.corr-offset": b"0"}}),
            (TooLarge, topic, {"id": "x" * 41}),
            (TooLarge, topic, {"tag": "x" * 129}),
            (UnsupportedByVersion, old, {"key": b"k"}),
            (UnsupportedByVersion, old, {"headers": {"a": b"1"}}),
            (TooLarge, old, {"id": "x" * 40}),
        ]
        for error, where, options in bad:
            refused: dict[str, Any] = {"body": b"a", "delay": 1.0} | options
            with pytest.raises(error):
                where.put(**refused)
        with pytest.raises(BadInput, match="tags has 2 entries"):
            topic.put_many([b"a"], tags=["x", "y"], delay=1.0)
        with pytest.raises(UnsupportedByVersion):
            old.put_many([b"a"], keys=[b"k"], delay=1.0)
        with pytest.raises(BadInput, match="horizon"):
            topic.delay.log("year")
        with pytest.raises(BadInput, match="limit"):
            topic.scheduled(0)

        assert [list(each.scheduled()) for each in (topic, old)] == [[], []]


def test_a_closed_store_takes_nothing(tmp_path: Path, clock: SimulatedClock) -> None:
    store = open_store(tmp_path, clock)
    topic = store.topic("orders")
    delayed = topic.put(b"a", delay=1.0)
    store.close()

    with pytest.raises(StoreClosed):
        topic.put(b"a", delay=1.0)
    with pytest.raises(StoreClosed):
        delayed.cancel()


# --- Deleting and keeping house ---


def test_deleting_a_topic_deletes_its_parked_messages(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store, open_store(tmp_path, clock) as mover:
        delayed = store.topic("orders").put(b"a", delay=1.0)
        move(mover)
        store.delete_topic("orders")
        clock.pass_ns(SECOND_NS)
        move(mover)

        assert os.listdir(tmp_path / "topics") == []
        assert delayed.cancel() is False


def test_a_topic_that_takes_the_place_of_another_has_nothing_of_it(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store, open_store(tmp_path, clock) as mover:
        old = store.topic("orders").put_many([b"a", b"b"], delay=0.0)
        move(mover)
        later = mover.topic("orders")
        store.delete_topic("orders")
        again = store.topic("orders")
        new = again.put_many([b"c", b"d", b"e"], delay=1.0)

        assert [entry.body for entry in later.scheduled()] == [b"c", b"d", b"e"]
        assert later.cancel(new[1].id) is True
        assert later.cancel(old[0].id) is False
        clock.pass_ns(SECOND_NS)
        move(mover)
        assert bodies(again) == [b"c", b"e"]
        assert (tmp_path / "topics" / "orders" / "delayed" / "intent").exists()


def test_a_topic_that_is_deleted_during_a_run_of_the_mover_stays_deleted(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path, clock) as store, open_store(tmp_path, clock) as mover:
        store.topic("orders").put(b"a", delay=0.0)
        monkeypatch.setattr(Topic, "refresh", lambda self: store.delete_topic("orders"))
        mover.mover.run()

        assert os.listdir(tmp_path / "topics") == []


def test_an_order_that_another_mover_has_changed_is_not_trusted(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_index, "TAIL_ROWS_MAX", 2)
    monkeypatch.setattr(due_index, "FILES_MAX", 2)
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders")
        for number in range(4):
            topic.put_many([b"%d" % number] * 2, delay=10.0 - number)
            move(store)
        store.mover.stop()
        with open_store(tmp_path, clock) as other:
            for number in range(4, 12):
                topic.put_many([b"%d" % number] * 2, delay=20.0 - number)
                move(other)
        topic.put(b"last", delay=15.0)
        clock.pass_ns(30 * SECOND_NS)
        move(store)

        order = [b"3", b"2", b"1", b"11", b"0", b"10", b"9", b"8", b"7", b"6", b"5", b"last", b"4"]
        assert list(dict.fromkeys(bodies(topic))) == order
        assert len(bodies(topic)) == 25
        assert list(topic.scheduled()) == []


def test_parking_in_a_topic_that_another_process_deleted_is_refused(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store, open_store(tmp_path, clock) as other:
        used, unused = store.topic("used"), store.topic("unused")
        delayed = used.put(b"a", delay=1.0)
        other.delete_topic("used")
        other.delete_topic("unused")

        for topic in (used, unused):
            with pytest.raises(NoSuchTopic):
                topic.put(b"b", delay=1.0)
            with pytest.raises(NoSuchTopic):
                topic.put_many([b"b"], delay=1.0)
        assert delayed.cancel() is False
        assert os.listdir(tmp_path / "topics") == []


def test_blocks_whose_messages_are_all_done_are_retired(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock, defaults={"block_size": 8192, "durability": "os"}) as store:
        topic = store.topic("orders")
        handles = [topic.put(bytes(1000), delay=50.0) for _ in range(30)]
        far = topic.put(b"far", delay=5 * DAY_S)
        for handle in handles[10:20]:
            assert handle.cancel()
        clock.pass_ns(50 * SECOND_NS)
        move(store)
        clock.pass_ns(10 * SECOND_NS)
        move(store)

        log = topic.delay.log("minute")
        assert log.first > 0, "the blocks before the last one are gone"
        assert len(bodies(topic)) == 20
        assert not any(handle.cancel() for handle in handles)
        assert far.cancel()
        assert list(topic.scheduled()) == []


def test_a_message_that_waits_keeps_those_that_came_after_it(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock, defaults={"block_size": 8192, "durability": "os"}) as store:
        topic = store.topic("orders")
        waits = topic.put(b"waits", delay=60.0)
        for _ in range(30):
            topic.put(bytes(1000), delay=1.0)
        clock.pass_ns(20 * SECOND_NS)
        move(store)

        assert topic.delay.log("minute").first == 0
        assert waits.cancel()


def test_changed_settings_apply_to_parked_messages(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        topic = store.topic("orders")
        topic.put(b"a", delay=1.0)
        move(store)
        topic.configure(durability="os", partitions=2)
        topic.put(b"b", delay=1.0, partition=1)
        clock.pass_ns(SECOND_NS)
        move(store)

        assert bodies(topic) == [b"a", b"b"]


def test_a_changed_durability_applies_to_messages_parked_from_then_on(tmp_path: Path, clock: SimulatedClock) -> None:
    disk = WatchedDisk()
    with open_store(tmp_path, clock, filesystem=disk) as store:
        topic = store.topic("orders", durability="commit")
        topic.put(b"a", delay=50.0)
        assert disk.syncs[-1].endswith(".block")
        topic.configure(durability="os")
        topic.put(b"b", delay=50.0)
        disk.syncs.clear()
        topic.put(b"c", delay=50.0)

        assert disk.syncs == []


def test_the_bits_of_retired_messages_are_removed(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(done_bits, "BITS_PER_FILE", 8)
    with open_store(tmp_path, clock, defaults={"block_size": 8192, "durability": "os"}) as store:
        topic = store.topic("orders")
        for _ in range(30):
            topic.put(bytes(1000), delay=1.0)
        for _ in range(2):
            clock.pass_ns(10 * SECOND_NS)
            move(store)

        first = topic.delay.log("minute").first
        names = os.listdir(tmp_path / "topics" / "orders" / "delayed" / "minute.done")
        assert first > 8
        assert sorted(int(name[:20]) for name in names) == list(range(first // 8 * 8, 30, 8))


def test_a_handle_has_a_readable_repr(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        delayed = store.topic("orders").put(b"a", delay=1.0)

        assert repr(delayed) == f"<Delayed minute-0-{delayed.due_us}, due 2023-11-14T22:13:21+00:00>"


def test_the_keeper_of_a_store_delivers(tmp_path: Path) -> None:
    with Store(tmp_path, filesystem=QUICK_DISK) as store:
        topic = store.topic("orders")
        topic.put(b"a", delay=0.02)

        assert topic.partition(0).wait(0, 30.0)
        assert bodies(topic) == [b"a"]
        assert os.path.exists(paths.mover_lock(str(tmp_path)))


def test_rows_have_all_columns(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store:
        delay = store.topic("orders").delay
        due_us = delay.due_us(7200.0, None)

        assert delay.row(b"a", due_us) == ("day", Batch([b"a"], [""], [None], [""], [None], [due_us]))
