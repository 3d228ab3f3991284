"""Queue groups: leases, acknowledgements, redelivery, order by key, and holds of transactions."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.support.broken_batches import broken_batch
from tests.support.fakes import QUICK_DISK, WatchedDisk
from tests.support.patience import WAIT_S
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedFileSystem
from tests.support.store.stores import quick_store
from warren.clock import SYSTEM_CLOCK
from warren.errors import BadInput, GroupClosed, LeaseLost, LogClosed, NoSuchTopic, StorageFull, StoreClosed, SyncFailed
from warren.message import Message
from warren.queue.leases import take as taking
from warren.queue.leases import unread
from warren.queue.leases.lease_order import Lease
from warren.queue.leases.lease_state import WAITING, Backoff, Leases
from warren.queue.leases.queue_group import FLOOR_S, LOOK_S, QueueGroup
from warren.queue.state.group_settings import GroupSettings
from warren.queue.state.ledger import ENCODER, LEDGER_BLOCK_SIZE
from warren.queue.store import Store
from warren.queue.topic import Topic
from warren.storage.format.kafka_batch import pack_kafka
from warren.storage.read.messages import ScanRoom

LEASE_S = 10.0


class Bench:
    """A store with the topic `orders`, a clock that the test moves, and groups that are opened in sessions."""

    def __init__(self, path: Path | str, **topic_settings: Any) -> None:
        self.path, self.topic_settings = path, {"durability": "os", **topic_settings}
        self.clock: Any = SimulatedClock()
        self.disk: Any = QUICK_DISK
        self._bodies = count()
        self.store = self.open()

    def open(self) -> Store:
        """Another session."""
        return quick_store(self.path, filesystem=self.disk, clock=self.clock)

    @property
    def topic(self) -> Topic:
        return self.topic_of(self.store)

    def topic_of(self, store: Store) -> Topic:
        return store.topic("orders", **self.topic_settings)

    def group(self, store: Store | None = None, name: str = "workers", **settings: Any) -> QueueGroup:
        options = {"mode": "queue", "lease_s": LEASE_S, "backoff_s": 0.0, **settings}
        return QueueGroup(self.topic_of(store or self.store), name, GroupSettings(**options))

    def put(self, number: int = 1, **options: Any) -> None:
        for _ in range(number):
            self.topic.put(b"%d" % next(self._bodies), **options)

    def wait(self, seconds: float) -> None:
        self.clock.pass_ns(round(seconds * 1e9))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def awake(tmp_path: Path) -> Bench:
    """A bench with the real clock, for calls that wait."""
    bench = Bench(tmp_path, partitions=2)
    bench.clock = SYSTEM_CLOCK
    bench.store.close()
    bench.store = bench.open()
    return bench


def take_attempts(group: QueueGroup, limit: int = 100) -> list[tuple[int, int]]:
    """Number and attempt of what a take gives."""
    return [(message.number, message.attempt) for message in group.take(limit)]


def one(group: QueueGroup) -> Message:
    message = group.take()
    assert message is not None
    return message


# --- Taking and acknowledging ---


def test_each_message_is_handed_out_once(bench: Bench) -> None:
    bench.put(5)
    mine, yours = bench.group(), bench.group(bench.open())

    assert take_attempts(mine, 2) == [(0, 1), (1, 1)]
    assert take_attempts(yours, 2) == [(2, 1), (3, 1)]
    assert take_attempts(mine) == [(4, 1)]
    assert take_attempts(mine) == take_attempts(yours) == []
    assert mine.take() is None


def test_a_message_is_returned_as_it_was_put(bench: Bench) -> None:
    bench.topic.put(b"body", key=b"k", tag="eu.de", headers={"h": b"1"}, id="id", corr_offset=7)
    put = bench.topic.partition(0).at(0)
    assert put is not None

    assert one(bench.group()) == put._replace(attempt=1)


def test_an_acknowledged_message_never_comes_again(bench: Bench) -> None:
    bench.put(4)
    group = bench.group()
    messages = group.take(4)
    group.ack(messages[2])
    group.ack_many([messages[3], messages[0]])

    bench.wait(LEASE_S)

    assert take_attempts(group) == [(1, 2)]
    assert take_attempts(bench.group(bench.open())) == []


def test_a_lease_that_ran_out_is_handed_out_again(bench: Bench) -> None:
    bench.put(2)
    group = bench.group()
    group.take(2)

    bench.wait(LEASE_S - 0.000001)
    assert take_attempts(group) == []
    bench.wait(0.000001)

    assert take_attempts(group) == [(0, 2), (1, 2)]


def test_an_acknowledgement_counts_until_the_message_is_handed_out_again(bench: Bench) -> None:
    bench.put(2)
    group = bench.group()
    first, second = group.take(2)
    bench.wait(LEASE_S)

    group.ack(first)
    assert take_attempts(group) == [(1, 2)]

    with pytest.raises(LeaseLost) as lost:
        group.ack(second)
    assert (lost.value.topic, lost.value.group, lost.value.places) == ("orders", "workers", [(0, 1)])


def test_acknowledging_twice_is_an_error(bench: Bench) -> None:
    bench.put()
    group = bench.group()
    message = one(group)
    group.ack(message)

    with pytest.raises(LeaseLost):
        group.ack(message)


def test_an_ack_of_many_acknowledges_those_that_are_still_leased(bench: Bench) -> None:
    bench.put(5)
    group = bench.group()
    messages = group.take(5)
    group.ack(messages[1])

    with pytest.raises(LeaseLost, match="and 1 more") as lost:
        group.ack_many([*messages, messages[3]])

    assert lost.value.places == [(0, 1), (0, 3)]
    assert group.lag() == {0: 0}


def test_another_session_may_acknowledge(bench: Bench) -> None:
    bench.put()
    message = one(bench.group())

    bench.group(bench.open()).ack(message)

    assert bench.group().lag() == {0: 0}


def test_acknowledging_none_is_nothing(bench: Bench) -> None:
    group = bench.group()
    end = group._ledger.log.end

    group.ack_many([])

    assert group._ledger.log.end == end


def test_partitions_are_taken_from_in_turn(tmp_path: Path) -> None:
    bench = Bench(tmp_path, partitions=3)
    for partition in (0, 1, 2):
        bench.put(4, partition=partition)
    group = bench.group()

    first = [one(group).partition for _ in range(6)]
    messages = group.take(100)

    assert first == [0, 1, 2, 0, 1, 2]
    assert sorted((message.partition, message.number) for message in messages) == [
        (partition, number) for partition in range(3) for number in (2, 3)
    ]
    group.ack_many(messages)
    assert group.lag() == {0: 2, 1: 2, 2: 2}


def test_a_take_is_one_event_and_so_is_an_acknowledgement_of_many(bench: Bench) -> None:
    bench.put(50)
    group = bench.group()
    end = group._ledger.log.end

    group.ack_many(group.take(50))

    assert group._ledger.log.end == end + 2
    assert max(len(event.body) for event in group._ledger.log.read(end)) < 200


def test_groups_do_not_know_of_each_other(bench: Bench) -> None:
    bench.put(2)
    first, second = bench.group(name="first"), bench.group(name="second")
    first.ack_many(first.take(2))

    assert take_attempts(second) == [(0, 1), (1, 1)]


def test_how_many_are_not_done_with_and_how_many_are_in_flight(bench: Bench) -> None:
    bench.put(10)
    group = bench.group()
    messages = group.take(6)
    group.ack(messages[0])
    group.nack(messages[1])

    assert group.lag() == {0: 9}
    assert group.in_flight() == 4


# --- Giving back ---


def test_a_message_that_is_given_back_comes_again_immediately(bench: Bench) -> None:
    bench.put(2)
    group = bench.group()
    group.nack(group.take(2)[1])

    assert take_attempts(group) == [(1, 2)]


def test_a_message_given_back_with_a_delay_comes_after_the_delay(bench: Bench) -> None:
    bench.put()
    group = bench.group()
    group.nack(one(group), delay=3.0)

    bench.wait(2.999999)
    assert take_attempts(group) == []
    bench.wait(0.000001)

    assert take_attempts(group) == [(0, 2)]


def test_a_worker_no_longer_holds_a_message_that_it_gave_back(bench: Bench) -> None:
    bench.put()
    group = bench.group()
    message = one(group)
    group.nack(message, delay=100.0)

    for call in (group.ack, group.nack, lambda message: group.extend(message, 1.0)):
        with pytest.raises(LeaseLost):
            call(message)


def test_the_backoff_doubles_up_to_its_limit(bench: Bench) -> None:
    bench.put()
    group = bench.group(backoff_s=1.0, backoff_s_max=5.0, attempts_max=0)
    for attempt, longest_s in enumerate([1.0, 2.0, 4.0, 5.0, 5.0], start=1):
        message = one(group)
        assert message.attempt == attempt

        group.nack(message)

        waited_s = due_s(bench, group)
        assert longest_s * 0.75 <= waited_s <= longest_s
        bench.wait(waited_s)


def due_s(bench: Bench, group: QueueGroup) -> float:
    """Returns in how many seconds the next message may be handed out, without taking it."""
    group._leases.pop_due(-1, 1)
    earliest_us = group._leases.earliest_us()
    assert earliest_us is not None
    return earliest_us / 1_000_000 - float(bench.clock.steady_s())


def test_a_message_that_failed_waits_a_second_by_default(bench: Bench) -> None:
    bench.put()
    group = bench.topic.group("usual", mode="queue")

    group.nack(one(group))

    assert take_attempts(group) == []
    assert 0.75 <= due_s(bench, group) <= 1.0
    assert (group.settings.backoff_s, group.settings.backoff_s_max) == (1.0, 300.0)


def test_a_delay_counts_instead_of_the_backoff(bench: Bench) -> None:
    bench.put()
    group = bench.group(backoff_s=100.0)

    group.nack(one(group), delay=0.0)

    assert take_attempts(group) == [(0, 2)]


def test_messages_that_failed_together_do_not_come_back_together(bench: Bench) -> None:
    bench.put(100)
    group, other = bench.group(backoff_s=1.0), bench.group(bench.open(), backoff_s=1.0)
    for message in group.take(100):
        group.nack(message)

    times = {lease.time_us for lease in group._leases.outstanding[0].values()}
    other.lag()

    assert len(times) > 90
    assert 0.75 <= min(times) / 1e6 < 0.8
    assert 0.95 < max(times) / 1e6 <= 1.0
    # Every process reaches the same state: only the ledger counts.
    assert other._leases.snapshot() == group._leases.snapshot()


def test_leases_that_ran_out_come_back_at_the_same_time_in_every_process(bench: Bench) -> None:
    bench.put(6)
    group, other = bench.group(backoff_s=4.0), bench.group(bench.open(), backoff_s=4.0)
    for _ in range(6):
        bench.wait(0.001)
        one(group)
    other.lag()

    waits = [due_s(bench, each) for each in (group, other)]

    assert waits[0] == waits[1]
    assert LEASE_S + 2.9 < waits[0] < LEASE_S + 4.0


def test_a_lease_that_ran_out_waits_for_the_backoff_too(bench: Bench) -> None:
    bench.put()
    group = bench.group(backoff_s=4.0)
    message = one(group)

    bench.wait(LEASE_S + 2.9)
    assert take_attempts(group) == []
    group.extend(message, 0)
    bench.wait(4.0)

    assert take_attempts(group) == [(0, 2)]


def test_a_lease_can_be_extended(bench: Bench) -> None:
    bench.put()
    group = bench.group()
    message = one(group)
    bench.wait(LEASE_S - 1)
    group.extend(message, 5.0)

    bench.wait(4.9)
    assert take_attempts(group) == []
    bench.wait(0.1)

    assert take_attempts(group) == [(0, 2)]
    with pytest.raises(LeaseLost):
        group.extend(message, 5.0)


def test_messages_that_come_back_earlier_are_handed_out_earlier(bench: Bench) -> None:
    bench.put(4)
    group = bench.group(attempts_max=0)
    messages = group.take(4)
    group.nack(messages[1], delay=2.0)
    group.nack(messages[3], delay=1.0)
    bench.wait(5.0)
    bench.put(1)

    assert take_attempts(group, 3) == [(3, 2), (1, 2), (4, 1)]


# --- Sessions that end ---


def test_the_messages_of_a_session_are_free_when_it_ends(bench: Bench) -> None:
    bench.put(4)
    group, other = bench.group(), bench.open()
    assert take_attempts(group, 1) == [(0, 1)]
    dying = bench.group(other)
    dying.ack(dying.take(2)[0])

    other.close()
    assert take_attempts(group) == [(3, 1)]
    bench.wait(LOOK_S)

    assert take_attempts(group) == [(2, 2)]
    end = group._ledger.log.end
    bench.wait(LOOK_S)
    assert take_attempts(group) == []
    assert group._ledger.log.end == end


def test_the_messages_of_a_live_session_are_not_free(bench: Bench) -> None:
    bench.put()
    group, other = bench.group(), bench.open()
    one(bench.group(other))

    bench.wait(LEASE_S - 0.1)

    assert take_attempts(group) == []


def test_committed_transactions_of_dead_processes_are_finished_first(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.put(2)
    group, other = bench.group(), bench.open()
    dying = bench.group(other)
    dying.hold("t", dying.take(1))
    one(dying)
    other.close()
    monkeypatch.setattr(bench.store, "settle", lambda: group.finish("t", True))
    bench.wait(LOOK_S)

    assert take_attempts(group) == [(1, 2)]
    assert group.lag() == {0: 1}


def test_the_death_of_a_session_counts_as_an_attempt_and_waits_for_the_backoff(bench: Bench) -> None:
    bench.put()
    group, other = bench.group(backoff_s=2.0), bench.open()
    one(bench.group(other, backoff_s=2.0))
    other.close()
    bench.wait(LOOK_S)

    assert take_attempts(group) == []
    bench.wait(2.0)

    assert take_attempts(group) == [(0, 2)]


# --- Filters and keys ---


def test_only_messages_that_pass_the_filter_are_handed_out(bench: Bench) -> None:
    for tag in ("eu.de", "us.ny", "", "eu.fr"):
        bench.put(tag=tag)
    group = bench.group(tag="eu.*")

    messages = group.take(100)

    assert [message.number for message in messages] == [0, 3]
    group.nack(messages[0])
    group.ack(messages[1])
    assert take_attempts(group) == [(0, 2)]


def test_other_sessions_do_not_scan_skipped_messages_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "PASSED_OVER_MAX", 10)
    group, other = bench.group(tag="eu.*"), bench.group(bench.open(), tag="eu.*")
    bench.put(9, tag="us.ny")
    assert take_attempts(group) == []
    assert group._leases.next[0] == 0
    bench.put(1, tag="us.ny")

    assert take_attempts(group) == []
    other.lag()

    assert other._leases.next[0] == 10


def test_with_a_filter_sessions_share_the_messages_they_read_ahead(bench: Bench) -> None:
    bench.put(20, tag="eu.de")
    groups = [bench.group(tag="eu.*"), bench.group(bench.open(), tag="eu.*")]

    numbers = [one(groups[turn % 2]).number for turn in range(20)]

    assert numbers == list(range(20))
    assert take_attempts(groups[0]) == take_attempts(groups[1]) == []


def test_read_ahead_messages_are_read_again_if_the_group_went_back(bench: Bench) -> None:
    bench.put(10)
    log, ahead = bench.topic.partition(0), unread.ReadAhead()

    for number in (4, 6, 2):
        ahead.reach(log, None, number, 3, ScanRoom())

        assert (ahead.start, ahead.end) == (number, 10)
        assert [message.number for message in ahead.messages] == list(range(number, 10))


def test_a_bounded_scan_is_continued_by_the_next_take_of_any_session(bench: Bench) -> None:
    bench.put(20, tag="us.ny")
    bench.put(1, tag="eu.de")
    looks, messages = 0, list[Message]()

    while not messages:
        # As over HTTP: a group is opened for one call, and has only the state of the ledger.
        with bench.group(bench.open(), tag="eu.*") as group:
            room = ScanRoom(1)
            messages = group.take_within(10, room)
            looks += 1
            assert messages or room.is_used_up
            assert looks <= 21

    assert [message.number for message in messages] == [20]
    assert looks > 10


def test_a_scan_without_a_match_does_not_use_up_a_large_room(bench: Bench) -> None:
    bench.put(20, tag="us.ny")
    group, room = bench.group(tag="eu.*"), ScanRoom(1 << 20)

    assert group.take_within(10, room) == []
    assert not room.is_used_up


def test_a_partition_with_many_skipped_messages_does_not_delay_others(tmp_path: Path) -> None:
    bench = Bench(tmp_path, partitions=2)
    bench.put(200, tag="us.ny", partition=0)
    bench.put(1, tag="eu.de", partition=1)
    group = bench.group(tag="eu.*")

    takes = [group.take_within(1, ScanRoom(1)) for _ in range(3)]

    assert [(each.partition, each.number) for messages in takes for each in messages] == [(1, 0)]


def test_messages_of_one_key_are_never_leased_at_the_same_time(bench: Bench) -> None:
    for key in (b"a", b"a", b"b", None, b"a", None):
        bench.put(key=key)
    group, other = bench.group(ordered_by_key=True), bench.group(bench.open(), ordered_by_key=True)

    messages = group.take(100)
    assert [message.number for message in messages] == [0, 2, 3, 5]
    assert take_attempts(other) == []
    group.ack(messages[0])

    second = one(other)
    assert (second.number, second.attempt) == (1, 1)
    assert take_attempts(group) == []
    other.ack(second)
    assert take_attempts(group) == [(4, 1)]


def test_a_key_waits_for_its_first_message_as_long_as_that_waits(bench: Bench) -> None:
    bench.put(2, key=b"a")
    group = bench.group(ordered_by_key=True)
    group.nack(one(group), delay=5.0)

    assert take_attempts(group) == []
    bench.wait(5.0)

    message = one(group)
    assert (message.number, message.attempt) == (0, 2)
    bench.wait(LEASE_S)
    assert take_attempts(group) == [(0, 3)]


def test_a_key_continues_when_its_first_message_is_dead(bench: Bench) -> None:
    bench.put(2, key=b"a")
    group = bench.group(ordered_by_key=True, attempts_max=1)
    group.nack(one(group))

    assert take_attempts(group) == [(1, 1)]


def test_keys_wait_in_a_new_session_as_in_the_old(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.queue.state.ledger.EVENTS_PER_SNAPSHOT", 1)
    monkeypatch.setattr("warren.queue.state.ledger.SNAPSHOT_SHARE_MAX", 0)
    bench.put(3, key=b"a")
    first = bench.group(ordered_by_key=True)
    message = one(first)
    first.extend(message, LEASE_S)
    group = bench.group(bench.open(), ordered_by_key=True)

    assert take_attempts(group) == []
    group.ack(message)

    assert take_attempts(group) == [(1, 1)]


def test_the_same_key_in_another_partition_is_free(tmp_path: Path) -> None:
    bench = Bench(tmp_path, partitions=2)
    bench.put(key=b"a", partition=0)
    bench.put(key=b"a", partition=1)

    assert len(bench.group(ordered_by_key=True).take(100)) == 2


def test_the_number_of_messages_that_wait_for_their_key_is_limited(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread, "BEHIND_MAX", 3)
    bench.put(10, key=b"a")
    bench.put(1, key=b"b")
    group = bench.group(ordered_by_key=True)

    message = one(group)
    assert take_attempts(group) == []
    assert (group._leases.behind_count, group._leases.next[0]) == (3, 4)

    numbers = []
    while True:
        numbers.append(message.number)
        group.ack(message)
        message = one(group)
        if message.key == b"b":
            break
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > 5


# --- How much there may be ---


def test_the_number_of_messages_in_flight_is_limited(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking, "IN_FLIGHT_MAX", 3)
    bench.put(5)
    group = bench.group()
    messages = group.take(2)

    assert take_attempts(group, 2) == [(2, 1)]
    assert take_attempts(group, 2) == []
    group.nack(messages[0])
    assert take_attempts(group, 2) == [(0, 2)]
    group.ack(messages[1])

    assert take_attempts(group, 2) == [(3, 1)]


def test_the_ledger_does_not_grow_with_finished_messages(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.queue.state.ledger.EVENTS_PER_SNAPSHOT", 20)
    monkeypatch.setattr("warren.queue.state.ledger.LEDGER_BLOCK_SIZE", 16 << 10)
    bench.topic.put_many([b"x"] * 3000)
    group = bench.group()
    message = one(group)
    for _ in range(299):
        group.ack_many(group.take(10))

    assert group._ledger.log.end - group._ledger.log.first < 300
    late = bench.group(bench.open())
    late.lag()
    assert late._leases.outstanding == group._leases.outstanding
    assert list(late._leases.outstanding[0]) == [0]
    late.ack(message)


def test_the_order_does_not_grow_with_finished_messages(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.queue.leases.lease_order.STALE_COUNT_MAX", 10)
    bench.topic.put_many([b"x"] * 100)
    group = bench.group()
    message = one(group)
    for _ in range(90):
        group.ack(one(group))

    order = group._leases._order
    assert order is not None
    assert len(order._heap) < 20
    bench.wait(LEASE_S)
    assert take_attempts(group, 1) == [(message.number, 2)]


def test_the_largest_state_fits_a_snapshot() -> None:
    """Every other message is outstanding, each with another time and key."""
    backoff = Backoff(0, 0)
    leases = Leases(backoff)
    leases.apply("begin", {"next": [(0, 10**15)]})
    share = 20
    numbers = range(10**15, 10**15 + 2 * taking.IN_FLIGHT_MAX // share, 2)
    for row, number in enumerate(numbers):
        leases.outstanding[0][number] = Lease(WAITING, 2 * 10**15 + row, 5, "")
        leases.keys[0].add(number, 4 * 10**9 + row)

    snapshot = ENCODER.encode(leases.snapshot())

    assert len(snapshot) * share < LEDGER_BLOCK_SIZE * 0.9
    restored = Leases(backoff)
    restored.restore(json.loads(snapshot))
    assert restored.outstanding == leases.outstanding
    assert list(restored.keys[0]) == list(leases.keys[0])


# --- The start of a group, and retired messages ---


@pytest.mark.parametrize(("start", "first"), [("start", 0), ("end", 5), (1_700_000_003 * 1_000_000, 3)])
def test_a_group_begins_at_the_requested_start(bench: Bench, start: str | int, first: int) -> None:
    for _ in range(5):
        bench.put()
        bench.wait(1.0)
    group = bench.group(start=start)
    assert bench.topic.partition(0).reader("workers").position == first
    bench.put()

    assert [number for number, _ in take_attempts(group)] == list(range(first, 6))
    assert take_attempts(bench.group(bench.open(), start=start)) == []


def test_partitions_that_are_added_are_read_from_their_first_message(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.put(2)
    group = bench.group(start="end")
    bench.topic.configure(partitions=2)
    bench.topic_settings.pop("partitions", None)
    bench.put(1, partition=1)

    assert [(message.partition, message.number) for message in group.take(10)] == [(1, 0)]
    assert group.lag() == {0: 0, 1: 1}


@pytest.mark.parametrize("tag", [None, "eu.*"])
def test_partitions_that_another_process_added_are_found(bench: Bench, tag: str | None) -> None:
    other = bench.open()
    group, adding = bench.group(tag=tag), bench.group(other, tag=tag)
    other.topic("orders").configure(partitions=2)
    for _ in range(2):
        other.topic("orders").put(b"x", partition=1, tag="eu.de")
    adding.nack(one(adding))

    messages = group.take(10)

    assert [(message.partition, message.number, message.attempt) for message in messages] == [(1, 0, 2), (1, 1, 1)]


@pytest.mark.parametrize("seed", range(4))
def test_the_start_of_a_group_survives_a_power_cut(seed: int) -> None:
    disk, clock = SimulatedFileSystem(seed=seed), SimulatedClock()
    settings = GroupSettings(mode="queue", start="end")
    topic = Store("/data", keeps=False, filesystem=disk, clock=clock).topic("orders")
    topic.put(b"before")
    QueueGroup(topic, "workers", settings)
    topic.put(b"after")

    store = Store("/data", keeps=False, filesystem=disk.after_power_cut(seed), clock=clock)

    assert [message.body for message in QueueGroup(store.topic("orders"), "workers", settings).take(10)] == [b"after"]


def test_a_take_that_fails_takes_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.put(2)
    group = bench.group()
    group.nack(one(group))

    def full(*args: Any) -> None:
        raise StorageFull("/ledger", 1)

    with monkeypatch.context() as patch:
        patch.setattr(group._ledger, "add", full)
        with pytest.raises(StorageFull):
            group.take(10)

    assert take_attempts(group) == [(0, 2), (1, 1)]


def test_the_readers_of_the_partitions_show_the_consumed_messages(bench: Bench) -> None:
    bench.put(10)
    group = bench.group()
    log = bench.topic.partition(0)
    assert log.reader("workers").position == 0
    messages = group.take(6)
    group.ack_many([*messages[:3], messages[4]])

    bench.wait(FLOOR_S)
    group.take(1)
    assert log.reader("workers").position == 3
    group.ack(messages[3])
    group.close()

    assert log.reader("workers").position == 5


def test_closing_the_group_of_a_closed_store_records_what_is_consumed(bench: Bench) -> None:
    bench.put(2)
    group = bench.topic.group("workers", mode="queue")
    group.ack(one(group))

    bench.store.close()

    assert bench.topic_of(bench.open()).partition(0).reader("workers").position == 1


def test_a_reader_moves_after_the_ledger_is_on_disk(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.disk = WatchedDisk()
    bench.store.close()
    bench.store = bench.open()
    bench.put(2)
    group = bench.group()
    group.ack(one(group))
    bench.disk.syncs.clear()
    positions = []
    bench.disk.on_sync = lambda path: positions.append(bench.topic.partition(0).reader("workers").position)

    group.close()

    assert positions[0] == 0
    assert bench.topic.partition(0).reader("workers").position == 1


def test_retired_messages_are_dropped(tmp_path: Path) -> None:
    bench = Bench(tmp_path, block_size=4096)
    bench.topic.put_many([bytes(500)] * 5)
    group = bench.group()
    messages = group.take(2)
    for _ in range(5):
        bench.topic.put_many([bytes(500)] * 5)
    first = bench.topic.partition(0).retire(before=20)
    assert first > 7

    bench.wait(LEASE_S)

    assert [number for number, _ in take_attempts(group)] == list(range(first, 30))
    assert group.lag() == {0: 30 - first}
    with pytest.raises(LeaseLost):
        group.ack_many(messages)


@pytest.mark.parametrize("same_boot", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_messages_with_the_numbers_of_lost_ones_are_new(seed: int, same_boot: bool) -> None:
    """Without syncs a crash loses messages, and the ledger may still say that they were acknowledged."""
    bench = Bench.__new__(Bench)
    bench.path, bench.topic_settings, bench._bodies = "/data", {"durability": "os"}, count()
    bench.clock, bench.disk = SimulatedClock(), SimulatedFileSystem(seed=seed)
    bench.store = bench.open()
    bench.put(5)
    bench.topic.partition(0).sync()
    group = bench.group()
    group.ack_many(group.take(5))
    bench.put(5)
    group.ack_many(group.take(5))
    group._ledger.sync()
    bench.disk = bench.disk.after_power_cut(seed, same_boot=same_boot)
    bench.wait(1.0)
    bench.store = bench.open()
    end = bench.topic.partition(0).end
    bench.put(7)

    numbers = [number for number, _ in take_attempts(bench.group())]

    assert numbers == list(range(end, end + 7))


# --- Transactions ---


def test_held_messages_do_not_expire_and_are_not_freed(bench: Bench) -> None:
    bench.put(3)
    group, other = bench.group(), bench.open()
    holding = bench.group(other)
    messages = holding.take(3)
    holding.hold("t", messages[:2])
    other.close()
    bench.wait(LEASE_S + LOOK_S)

    assert take_attempts(group) == [(2, 2)]
    assert group.held() == {"t"}
    assert group.in_flight() == 3
    with pytest.raises(LeaseLost):
        group.ack(messages[0])


def test_a_transaction_is_not_treated_as_a_dead_session(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.queue.state.ledger.EVENTS_PER_SNAPSHOT", 1)
    monkeypatch.setattr("warren.queue.state.ledger.SNAPSHOT_SHARE_MAX", 0)
    bench.put()
    first = bench.group()
    first.hold("t", first.take(1))

    late = bench.group(bench.open())
    end = late._ledger.log.end

    assert take_attempts(late) == []
    assert (late.held(), late.in_flight()) == ({"t"}, 1)
    assert late._ledger.log.end == end


def test_a_transaction_may_have_the_name_of_its_session(bench: Bench) -> None:
    bench.put(2)
    group, other = bench.group(), bench.open()
    dying = bench.group(other)
    dying.hold(other.session.id, dying.take(1))
    one(dying)
    other.close()

    assert take_attempts(group) == [(1, 2)]
    assert group.held() == {other.session.id}


def test_held_messages_are_acknowledged_or_given_back_once(bench: Bench) -> None:
    bench.put(4)
    group = bench.group()
    messages = group.take(4)
    group.hold("a", messages[:1])
    group.hold("a", messages[1:2])
    group.hold("b", messages[2:])

    for committed in (True, False):
        group.finish("a", committed)
    for committed in (False, True):
        group.finish("b", committed)
    group.finish("c", True)

    assert group.held() == set()
    assert group.lag() == {0: 2}
    assert take_attempts(group) == [(2, 2), (3, 2)]


def test_either_all_are_held_or_none(bench: Bench) -> None:
    bench.put(2)
    group = bench.group()
    messages = group.take(2)
    group.ack(messages[1])

    with pytest.raises(LeaseLost):
        group.hold("t", messages)

    assert group.held() == set()
    group.ack(messages[0])


def test_holding_and_finishing_are_on_disk(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.disk = WatchedDisk()
    bench.store = bench.open()
    bench.put(1)
    group = bench.group()
    message = one(group)

    calls: list[Callable[[], object]] = [lambda: group.hold("t", [message]), lambda: group.finish("t", True)]
    for call in calls:
        bench.disk.syncs.clear()
        call()
        assert [name for name in bench.disk.syncs if name.endswith(".block")]


@pytest.mark.parametrize(("durability", "syncs"), [("commit", True), ("os", False)])
def test_an_acknowledgement_is_as_durable_as_the_topic(tmp_path: Path, durability: str, syncs: bool) -> None:
    bench = Bench(tmp_path, durability=durability)
    bench.disk = WatchedDisk()
    bench.store = bench.open()
    bench.put(2)
    group = bench.group()
    messages = group.take(2)
    bench.disk.syncs.clear()

    group.nack(messages[0])
    assert bench.disk.syncs == []
    group.ack(messages[1])

    assert bool(bench.disk.syncs) is syncs


def test_an_acknowledgement_that_did_not_reach_the_disk_is_an_error(tmp_path: Path) -> None:
    bench = Bench(tmp_path, durability="commit")
    bench.disk = disk = WatchedDisk()
    bench.store = bench.open()
    bench.put(2)
    group = bench.group()
    message = one(group)
    disk.fails = True

    with pytest.raises(SyncFailed):
        group.ack(message)
    disk.fails = False
    with pytest.raises(LogClosed):
        group.take()

    again = bench.group(name="workers")
    assert [number for number, _ in take_attempts(again)] == [1]


def test_with_an_interval_the_ledger_is_synced_as_its_topic_is(tmp_path: Path) -> None:
    bench = Bench(tmp_path, durability="interval:50ms")
    bench.disk = WatchedDisk()
    bench.store = bench.open()
    bench.put(1)
    group = bench.group()
    message = one(group)
    bench.disk.syncs.clear()

    group.ack(message)

    assert bench.disk.syncs == ["0" * 20 + ".block"]


# --- Waiting ---


def while_waiting(group: QueueGroup, act: Callable[[], object]) -> list[Message]:
    """Returns the result of a take that was begun before `act`."""
    messages: list[Message] = []
    thread = threading.Thread(target=lambda: messages.extend(group.take(10, wait=WAIT_S)))
    thread.start()
    act()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    return messages


def test_a_waiting_take_gets_a_new_message(awake: Bench) -> None:
    group = awake.group()

    assert len(while_waiting(group, lambda: awake.put(1, partition=1))) == 1


def test_a_waiting_take_gets_a_message_that_is_given_back(awake: Bench) -> None:
    awake.put()
    group, other = awake.group(), awake.group(awake.open())
    message = one(other)

    assert [each.attempt for each in while_waiting(group, lambda: other.nack(message))] == [2]


def test_a_waiting_take_gets_a_message_whose_lease_runs_out(awake: Bench) -> None:
    awake.put()
    group = awake.group(lease_s=0.1)
    one(group)

    assert [each.attempt for each in while_waiting(group, lambda: None)] == [2]


def test_a_waiting_take_gets_a_message_of_a_dead_session(awake: Bench) -> None:
    awake.put()
    group, other = awake.group(lease_s=1000.0), awake.open()
    one(awake.group(other, lease_s=1000.0))

    assert [each.attempt for each in while_waiting(group, other.close)] == [2]


def test_a_wait_ends(awake: Bench) -> None:
    group = awake.group()
    awake.put()
    one(group)
    begun = awake.clock.steady_s()

    assert group.take(wait=0.05) is None
    assert 0.05 <= awake.clock.steady_s() - begun < WAIT_S


def test_iterating_ends_when_the_group_is_closed(awake: Bench) -> None:
    awake.put(3)
    with awake.group() as group:
        bodies = []
        for message in group:
            bodies.append(message.body)
            group.ack(message)
            if len(bodies) == 3:
                group.close()

    assert sorted(bodies) == [b"0", b"1", b"2"]


# --- Refused calls, and closed groups ---


@pytest.mark.parametrize("limit", [0, -1, 1.5, "1", 100_001])
def test_a_limit_is_a_whole_number(bench: Bench, limit: Any) -> None:
    with pytest.raises(BadInput, match="limit"):
        bench.group().take(limit)


@pytest.mark.parametrize("wait", [-1, "1"])
def test_a_wait_is_in_seconds(bench: Bench, wait: Any) -> None:
    with pytest.raises(BadInput):
        bench.group().take(wait=wait)


@pytest.mark.parametrize("wrong", [{"delay": -1}, {"delay": "1"}, {"reason": b"bytes"}, {"reason": "\ud800"}])
def test_a_refused_nack_leaves_the_message_leased(bench: Bench, wrong: dict[str, Any]) -> None:
    bench.put()
    group = bench.group()
    message = one(group)

    with pytest.raises(BadInput):
        group.nack(message, **wrong)

    group.ack(message)


@pytest.mark.parametrize("seconds", [-1, "1", 8 * 86_400.0])
def test_a_lease_is_extended_by_seconds(bench: Bench, seconds: Any) -> None:
    bench.put()
    group = bench.group()

    with pytest.raises(BadInput):
        group.extend(one(group), seconds)


def test_messages_of_others_are_refused(bench: Bench) -> None:
    bench.put(2)
    group = bench.group()
    message = one(group)
    wrong: list[Any] = [message._replace(topic="other"), message._replace(partition=7), "message", None]

    for other in wrong:
        for call in (group.ack, group.nack, lambda message: group.extend(message, 1.0)):
            with pytest.raises(BadInput, match="is not a message of topic 'orders'"):
                call(other)

    group.ack(message)


def test_a_message_that_was_read_and_not_taken_is_not_leased(bench: Bench) -> None:
    bench.put()
    group = bench.group()
    (message,) = bench.topic.last()

    with pytest.raises(LeaseLost):
        group.ack(message)


def test_a_closed_group_raises(bench: Bench) -> None:
    bench.put(2)
    group = bench.group()
    message = one(group)
    group.close()
    group.close()

    for call in (group.take, group.lag, group.in_flight, group.held, group.redrive, lambda: group.ack(message)):
        with pytest.raises(GroupClosed):
            call()
    assert "closed" in repr(group)


def test_a_group_of_a_closed_store_raises(bench: Bench) -> None:
    group = bench.group()
    bench.store.close()

    with pytest.raises(StoreClosed):
        group.take()
    group.close()


def test_a_group_of_a_deleted_topic_raises(bench: Bench) -> None:
    bench.put()
    group, other = bench.group(), bench.group(bench.open())
    bench.store.delete_topic("orders")

    for gone in (group, other):
        with pytest.raises(NoSuchTopic):
            gone.take()
        gone.close()


# --- By which clock ---


HOUR_NS = 3600 * 1_000_000_000


@pytest.mark.parametrize("hours", [4, -5])
def test_a_changed_wall_clock_neither_ends_leases_nor_delays_waiting_messages(bench: Bench, hours: int) -> None:
    bench.put(2)
    group, other = bench.group(), bench.group(bench.open())
    group.nack(one(group), delay=2.0)
    assert one(group).number == 1

    bench.clock.set_back_ns(-hours * HOUR_NS)

    assert take_attempts(other) == []
    bench.wait(2.0)
    assert take_attempts(other) == [(0, 2)]
    bench.wait(LEASE_S - 2.0)
    assert take_attempts(other) == [(1, 2)]


@pytest.mark.parametrize("off_s", [0.0, 60.0, 600.0, 3600.0])
def test_a_delay_of_a_nack_continues_after_a_restart_of_the_machine(
    off_s: float,
) -> None:
    disk, clock = SimulatedFileSystem(), SimulatedClock()
    clock.pass_ns(100 * HOUR_NS)
    store = Store("/data", keeps=False, filesystem=disk, clock=clock)
    topic = store.topic("orders", durability="commit")
    topic.put_many([b"0", b"1"])
    group = QueueGroup(topic, "workers", GroupSettings(mode="queue", backoff_s=0.0))
    group.nack(one(group), delay=600.0)
    assert one(group).number == 1
    group._ledger.sync()

    disk = disk.after_power_cut(1)
    clock.start_anew(clock.now_ns() + round(off_s * 1e9))
    store = Store("/data", keeps=False, filesystem=disk, clock=clock)
    group = QueueGroup(store.topic("orders"), "workers", GroupSettings(mode="queue", backoff_s=0.0))

    # The holder of number 1 is dead, even if its lease has not ended.
    if off_s >= 600.0:
        assert take_attempts(group) == [(0, 2), (1, 2)]
        return
    assert take_attempts(group) == [(1, 2)]
    clock.pass_ns(round((600.0 - off_s) * 1e9) - 1_000_000)
    assert (0, 2) not in take_attempts(group)
    clock.pass_ns(1_000_000)
    assert (0, 2) in take_attempts(group)


def test_a_delay_of_a_nack_continues_after_a_restart_although_the_group_skipped_an_unreadable_batch() -> None:
    disk, clock = SimulatedFileSystem(), SimulatedClock()
    clock.pass_ns(100 * HOUR_NS)
    topic = Store("/data", keeps=False, filesystem=disk, clock=clock).topic("orders", durability="commit")
    topic.put(b"0")
    topic.partition(0).append_packed([pack_kafka(broken_batch(5000))])
    group = QueueGroup(topic, "workers", GroupSettings(mode="queue", backoff_s=0.0))
    group.nack(one(group), delay=600.0)
    assert take_attempts(group, 1) == []
    group._ledger.sync()

    disk = disk.after_power_cut(1)
    clock.start_anew(clock.now_ns() + HOUR_NS // 100)
    store = Store("/data", keeps=False, filesystem=disk, clock=clock)
    group = QueueGroup(store.topic("orders"), "workers", GroupSettings(mode="queue", backoff_s=0.0))

    assert take_attempts(group) == []
    clock.pass_ns(600_000_000_000)
    assert take_attempts(group) == [(0, 2)]


def test_a_ledger_with_wall_time_is_understood(bench: Bench) -> None:
    """As releases before the steady clock wrote it: the same machine, which was not restarted since."""
    bench.put(3)
    group = bench.group()
    now_us, boot = bench.clock.now_ns() // 1000, bench.disk.boot_id().hex()
    session = bench.store.session.id
    take = {"owner": session, "at": now_us, "until": now_us + 10_000_000, "new": [[0, 2, [[0, 2]]]], "again": []}
    with group._ledger.changing():
        group._ledger.log.append(ENCODER.encode({"next": [[0, 0]], "boot": boot}).encode(), tag="snapshot")
        group._ledger.log.append(ENCODER.encode(take).encode(), tag="take")
        nack = {"spans": [[0, 1, 2]], "until": now_us + 5_000_000}
        group._ledger.log.append(ENCODER.encode(nack).encode(), tag="nack")
    group.close()

    again = bench.group(bench.open())

    again.ack_many(again.take(10))
    assert again.lag() == {0: 2}
    bench.wait(4.999)
    assert take_attempts(again) == []
    bench.wait(0.001)
    assert take_attempts(again) == [(1, 2)]
    bench.wait(5.0)
    assert (0, 2) in take_attempts(again)
