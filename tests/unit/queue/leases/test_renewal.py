"""Leases are renewed while a message is in hand, that is while the program refers to it, up to a limit."""

from __future__ import annotations

import gc
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.patience import until
from tests.support.simulated_clock import SimulatedClock
from tests.support.store.stores import quick_store
from warren.errors import LeaseLost, StorageFull
from warren.message import Message
from warren.queue.leases import renewal
from warren.queue.leases.queue_group import LOOK_S, QueueGroup
from warren.queue.store import Store

LEASE_S = 10.0


class Bench:
    """Two openings of a store, each with a worker of one group; the test moves the clock and runs the duties."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path, self.clock = path, SimulatedClock()
        self.options = {"lease": LEASE_S, "backoff": 0.0, **options}
        self.store, self.other_store = self.open(), self.open()
        self.group, self.other = self.worker(self.store), self.worker(self.other_store)

    def open(self) -> Store:
        return quick_store(self.path, clock=self.clock)

    def worker(self, store: Store) -> QueueGroup:
        return store.topic("jobs", durability="os").group("workers", mode="queue", **self.options)

    def put(self, count: int = 1) -> None:
        self.store.topic("jobs").put_many([b"%d" % number for number in range(count)])

    def work(self, seconds: float) -> None:
        """Lets time pass; the store does its due work in it."""
        end_s = self.clock.steady_s() + seconds
        while (left_s := end_s - self.clock.steady_s()) > 0:
            self.clock.sleep(max(0.001, min(left_s, self.store.renewals.run())))
        self.store.renewals.run()

    def events(self, kind: str) -> int:
        return sum(message.tag == kind for message in self.group._ledger.log.read(0, limit=10_000))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def numbers(messages: list[Message]) -> list[int]:
    return sorted(message.number for message in messages)


def test_a_job_that_takes_longer_than_its_lease_is_done_once(bench: Bench) -> None:
    bench.put()
    message = bench.group.take()
    assert message is not None

    for _ in range(20):
        bench.work(LEASE_S / 2)
        assert bench.other.take(10) == []

    bench.group.ack(message)
    bench.clock.sleep(LEASE_S)
    assert bench.other.take(10) == []


def test_a_message_that_a_worker_dropped_comes_again_when_its_lease_runs_out(bench: Bench) -> None:
    bench.put(2)
    dropped, held_message = bench.group.take(), bench.group.take()
    assert dropped is not None
    assert held_message is not None
    number = dropped.number

    del dropped
    gc.collect()
    bench.work(LEASE_S)

    assert numbers(bench.other.take(10)) == [number]
    bench.group.ack(held_message)


def test_messages_that_were_taken_together_are_in_hand_until_the_last_is_dropped(bench: Bench) -> None:
    bench.put(3)
    messages = bench.group.take(3)
    last = messages.pop()
    messages.clear()

    bench.work(3 * LEASE_S)
    assert bench.other.take(10) == []
    del last
    gc.collect()
    bench.work(LEASE_S)

    assert numbers(bench.other.take(10)) == [0, 1, 2]


@pytest.mark.parametrize("settle", ["ack", "nack", "reject"])
def test_a_settled_message_is_no_longer_renewed_although_it_is_still_referred_to(bench: Bench, settle: str) -> None:
    bench.put()
    message = bench.group.take()
    assert message is not None
    getattr(bench.group, settle)(message)

    bench.work(5 * LEASE_S)

    assert bench.events("extend") == 0
    assert len(bench.other.take(10)) == (settle == "nack")


@pytest.mark.parametrize("how", ["take", "group"])
def test_renewing_can_be_switched_off(tmp_path: Path, how: str) -> None:
    bench = Bench(tmp_path, **({"renew_max": 0.0} if how == "group" else {}))
    bench.put()
    message = bench.group.take(renew=False) if how == "take" else bench.group.take()
    assert message is not None

    bench.work(LEASE_S)

    assert numbers(bench.other.take(10)) == [0]
    with pytest.raises(LeaseLost):
        bench.group.ack(message)


def test_a_lease_is_renewed_for_no_longer_than_the_group_allows(tmp_path: Path) -> None:
    bench = Bench(tmp_path, renew_max=3 * LEASE_S)
    bench.put()
    stuck = bench.group.take()
    assert stuck is not None

    bench.work(3 * LEASE_S)
    assert bench.other.take(10) == []
    bench.work(LEASE_S)

    assert numbers(bench.other.take(10)) == [0]


def test_an_extension_of_the_caller_is_not_changed_by_a_renewal(bench: Bench) -> None:
    bench.put(2)
    short, long = bench.group.take(2)
    bench.group.extend(short, 1.0)
    bench.group.extend(long, 5 * LEASE_S)

    bench.work(LEASE_S)
    assert numbers(bench.other.take(10)) == [0]
    bench.work(3.9 * LEASE_S)
    assert 1 not in numbers(bench.other.take(10))
    bench.work(0.1 * LEASE_S)

    assert 1 in numbers(bench.other.take(10))


def test_many_messages_in_hand_are_renewed_by_few_events(bench: Bench) -> None:
    bench.put(100)
    messages = []
    for _ in range(100):
        messages.append(bench.group.take())
        bench.clock.sleep(LEASE_S / 500)

    bench.work(10 * LEASE_S)

    assert bench.other.take(10) == []
    assert bench.events("extend") <= 4 * 11
    assert len(messages) == 100


def test_more_messages_than_one_event_takes_are_renewed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "RENEWAL_COUNT_MAX", 10)
    bench.put(35)
    messages = bench.group.take(35)

    bench.work(LEASE_S / 2)

    assert bench.events("extend") == 4
    bench.work(LEASE_S)
    assert bench.other.take(100) == []
    bench.group.ack_many(messages)


@pytest.mark.parametrize("end", ["close", "collect"])
def test_a_closed_or_collected_group_renews_no_leases(bench: Bench, end: str) -> None:
    bench.put()
    group = bench.worker(bench.store)
    message = group.take()
    assert message is not None
    if end == "close":
        group.close()
    del group
    gc.collect()

    bench.work(LEASE_S)

    assert numbers(bench.other.take(10)) == [0]


def test_the_messages_of_a_dead_process_are_free_also_after_renewals(bench: Bench) -> None:
    bench.put()
    message = bench.group.take()
    assert message is not None
    bench.work(3 * LEASE_S)

    bench.store.close()
    bench.clock.sleep(LOOK_S)

    assert numbers(bench.other.take(10)) == [0]


def test_a_failed_renewal_is_retried_in_time_and_logged_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put()
    message = bench.group.take()
    extend, failures_left = QueueGroup._extend, [2]

    def failing(group: QueueGroup, *arguments: Any) -> Any:
        if failures_left[0]:
            failures_left[0] -= 1
            raise StorageFull("ledger", 1)
        return extend(group, *arguments)

    monkeypatch.setattr(QueueGroup, "_extend", failing)
    with caplog.at_level(logging.WARNING, "warren"):
        bench.work(3 * LEASE_S)

    assert failures_left == [0]
    assert bench.other.take(10) == []
    assert len([record for record in caplog.records if "could not be renewed" in record.message]) == 1
    assert message is not None
    bench.group.ack(message)


def test_a_message_that_went_to_another_worker_is_not_requested_again(bench: Bench) -> None:
    bench.put()
    message = bench.group.take()
    bench.clock.sleep(LEASE_S)
    assert numbers(bench.other.take(10)) == [0]

    bench.work(5 * LEASE_S)

    assert bench.events("extend") == 0
    assert not bench.store.renewals._hands
    assert message is not None
    with pytest.raises(LeaseLost):
        bench.group.ack(message)


def test_a_leased_message_is_unchanged_and_can_be_answered(bench: Bench) -> None:
    topic = bench.store.topic("jobs")
    bench.store.topic("answers")
    topic.put(b"body", key=b"k", tag="eu.de", headers={"h": b"1"}, id="id", reply_to="answers")
    put = topic.partition(0).at(0)
    assert put is not None

    message = bench.group.take()

    assert message == put._replace(attempt=1)
    assert message is not None
    message.reply(b"done")
    assert [answer.body for answer in bench.store.topic("answers").last(1)] == [b"done"]


def test_a_worker_that_takes_and_acknowledges_leaves_nothing_behind(bench: Bench) -> None:
    bench.put(500)
    while message := bench.group.take():
        bench.group.ack(message)

    del message
    gc.collect()
    bench.store.renewals.run()

    assert not bench.store.renewals._hands


# --- With a thread ---


def is_renewed(group: QueueGroup) -> None:
    """Waits until leases of the group were renewed three times."""
    until(lambda: sum(event.tag == "extend" for event in group._ledger.log.read(0, limit=10_000)) >= 3)


def test_a_thread_of_the_store_renews_and_ends_with_it(tmp_path: Path) -> None:
    def threads() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "warren-renewals"]

    with warren.open(tmp_path, durability="os") as store:
        topic = store.topic("jobs")
        topic.put(b"slow")
        group = topic.group("workers", mode="queue", lease=0.1)
        assert threads() == []
        message = group.take()
        assert message is not None

        is_renewed(group)

        assert threads() == ["warren-renewals"]
        group.ack(message)
    assert threads() == []


def test_the_thread_ends_when_nothing_was_in_hand_for_long_and_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewal, "RENEWAL_IDLE_S", 0.01)
    with warren.open(tmp_path, durability="os") as store:
        topic = store.topic("jobs")
        topic.put_many([b"1", b"2"])
        group = topic.group("workers", mode="queue", lease=0.1)
        message = group.take()
        assert message is not None
        group.ack(message)
        del message
        until(lambda: store.renewals._thread is None)

        again = group.take()
        is_renewed(group)

        assert again is not None
        group.ack(again)


def test_a_short_lease_that_comes_after_a_long_one_is_renewed_in_time(tmp_path: Path) -> None:
    with warren.open(tmp_path, durability="os") as store:
        topic = store.topic("jobs")
        topic.put(b"1")
        long = topic.group("long", mode="queue", lease=600.0)
        first = long.take()
        until(lambda: store.renewals._wakes_s < float("inf"))
        short = topic.group("short", mode="queue", lease=0.1)
        second = short.take()

        is_renewed(short)

        for group, message in ((long, first), (short, second)):
            assert message is not None
            group.ack(message)
