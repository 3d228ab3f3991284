"""Groups, delays and broadcasts of our own client: as in an embedded store, and free when a client disconnects."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.patience import WAIT_S, until
from warren.broker.native.held_stream import Attempt, HeldStream
from warren.client.net.connection import Connection
from warren.client.store import RemoteStore
from warren.errors import (
    BadInput,
    ConnectionLost,
    FellBehind,
    GroupClosed,
    LeaseLost,
    NoSuchGroup,
    NoSuchHandle,
    NotOwner,
    SettingsDiffer,
)
from warren.protocol.native.calls import wire_positions
from warren.protocol.native_messages import CommitGroupRequest, ReadGroupRequest
from warren.protocol.native_schemas import NativeKey
from warren.protocol.wire_struct import replaced
from warren.storage import END, START
from warren.storage.read.messages import ScanRoom

Connect = Callable[[], RemoteStore]


@pytest.fixture
def connect(broker: RunningBroker) -> Iterator[Connect]:
    stores: list[RemoteStore] = []

    def connected() -> RemoteStore:
        stores.append(warren.connect(broker.address, timeout=WAIT_S))
        return stores[-1]

    yield connected
    for store in stores:
        store.close()


@pytest.fixture
def store(connect: Connect) -> RemoteStore:
    return connect()


# --- Stream groups ---


def test_uncommitted_messages_are_read_again_and_committed_ones_are_not(connect: Connect) -> None:
    first, second = connect(), connect()
    first.topic("orders").put_many([b"%d" % number for number in range(10)])
    with first.topic("orders").group("billing") as group:
        assert len(group.read(limit=4)) == 4
        assert group.commit() == {0: 4}
        assert len(group.read(limit=4)) == 4

    with second.topic("orders").group("billing") as group:
        assert [message.number for message in group.read()] == [4, 5, 6, 7, 8, 9]
        assert group.lag() == {0: 6}
        assert (group.partitions, group.position(0), len(group.members())) == ([0], 10, 1)


def test_members_of_two_clients_and_of_the_store_share_the_partitions(broker: RunningBroker, connect: Connect) -> None:
    topic = connect().topic("orders", partitions=6)
    topic.put_many([b"%d" % number for number in range(60)], keys=[b"%d" % number for number in range(60)])
    embedded = broker.broker.store.topic("orders").group("billing")
    members: list[Any] = [connect().topic("orders").group("billing"), topic.group("billing"), embedded]

    bodies: list[bytes] = []

    def all_read() -> bool:
        for member in members:
            bodies.extend(message.body for message in member.read())
            member.commit()
        return len(bodies) >= 60 and sorted(len(member.partitions) for member in members) == [2, 2, 2]

    until(all_read)
    assert sorted(bodies) == sorted(b"%d" % number for number in range(60))
    embedded.close()


def test_a_member_continues_after_a_seek(store: RemoteStore) -> None:
    topic = store.topic("orders")
    topic.put_many([b"%d" % number for number in range(10)])
    times = topic.put(b"later").timestamp
    group = topic.group("billing")

    assert group.seek(END) == {0: 11}
    assert group.read() == []
    assert group.seek(3) == {0: 3}
    assert group.read(limit=1)[0].number == 3
    group.rewind()
    assert group.read(limit=1)[0].number == 3
    assert group.seek(datetime.fromtimestamp(times / 1_000_000, UTC)) in ({0: 10}, {0: 0})
    assert group.seek(START, partition=0) == {0: 0}
    with pytest.raises(NotOwner):
        group.commit({7: 1})
    with pytest.raises(BadInput):
        group.seek("there")  # type: ignore[arg-type]


def test_a_commit_during_iteration_commits_only_the_messages_that_were_yielded(store: RemoteStore) -> None:
    topic = store.topic("orders", partitions=2)
    topic.put_many([b"a", b"b", b"c"], partition=0)
    topic.put_many([b"d", b"e", b"f"], partition=1)
    group = topic.group("billing")

    messages = list(itertools.islice(group, 4))
    group.commit()

    assert len(messages) == 4
    assert sum(group.lag().values()) == 2
    assert sorted([*(m.body for m in messages), *(m.body for m in group.read())]) == [
        b"a",
        b"b",
        b"c",
        b"d",
        b"e",
        b"f",
    ]


def test_a_read_whose_answer_was_lost_is_returned_again(store: RemoteStore) -> None:
    topic = store.topic("orders")
    topic.put_many([b"%d" % number for number in range(5)])
    group = topic.group("billing")
    request = ReadGroupRequest(handle=group.handle.number, serial=100, limit=2)
    store.calls.call(request)

    again = store.calls.call(replaced(request, attempt=1))

    assert list(again.messages.numbers) == [0, 1]
    assert [message.number for message in group.read()] == [2, 3, 4]


def test_a_request_that_arrives_after_its_repetition_reads_nothing(store: RemoteStore) -> None:
    """A request on a connection that was cut may arrive late, when the client has already repeated it on another."""
    topic = store.topic("orders")
    topic.put_many([b"%d" % number for number in range(5)])
    group = topic.group("billing")
    late = ReadGroupRequest(handle=group.handle.number, serial=0, limit=2)

    assert [message.number for message in group.read(limit=1)] == [0]
    # The client has ended the read with this serial.
    with pytest.raises(NoSuchHandle):
        store.calls.call(replaced(late, attempt=-1))
    assert [message.number for message in group.read(limit=1)] == [1]
    with pytest.raises(NoSuchHandle):
        store.calls.call(replaced(late, attempt=100))
    assert [message.number for message in group.read()] == [2, 3, 4]


def test_messages_of_a_read_that_failed_come_with_the_next_one(
    store: RemoteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = store.topic("orders")
    topic.put_many([b"%d" % number for number in range(5)])
    group = topic.group("billing")
    waiting = group.handle.waiting

    def lose_answer(*args: Any, **options: Any) -> Any:
        yield from waiting(*args, **options)
        raise ConnectionLost("here", "the answer was lost")

    def fail_read() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(group.handle, "waiting", lose_answer)
            with pytest.raises(ConnectionLost):
                group.read(limit=2)

    fail_read()
    assert [message.number for message in group.read(limit=3)] == [0, 1, 2]
    fail_read()
    assert group.commit() == {0: 3}
    assert [message.number for message in group.read()] == [3, 4]
    group.rewind()
    fail_read()
    group.seek(1)
    assert [message.number for message in group.read()] == [1, 2, 3, 4]
    group.rewind()
    fail_read()
    group.rewind()
    assert [message.number for message in group.read()] == [1, 2, 3, 4]


def test_a_repeated_commit_does_not_undo_a_later_one(store: RemoteStore) -> None:
    topic = store.topic("orders")
    topic.put_many([b"%d" % number for number in range(5)])
    group = topic.group("billing")
    group.read()
    late = CommitGroupRequest(handle=group.handle.number, positions=wire_positions({0: 2}), call_number=1000)
    store.calls.call(late)
    group.commit({0: 4})

    store.calls.call(late)

    assert group.lag() == {0: 1}


def test_commits_and_seeks_of_a_client_are_numbered(store: RemoteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    asking = store.calls._asking

    def noted(connection: Connection, request: Any, wait_s: float, answer_s: float) -> Any:
        sent.append((request.api_key, request.call_number))
        return asking(connection, request, wait_s, answer_s)

    topic = store.topic("orders")
    topic.put(b"one")
    group = topic.group("billing")
    group.read()
    monkeypatch.setattr(store.calls, "_asking", noted)

    group.commit()
    group.seek(0)
    group.rewind()

    assert [key for key, _ in sent] == [NativeKey.COMMIT_GROUP, NativeKey.SEEK_GROUP, NativeKey.SEEK_GROUP]
    numbers = [number for _, number in sent]
    assert numbers[0] > 0
    assert numbers == sorted(set(numbers))


def test_an_attempt_that_still_waits_reads_nothing_after_a_newer_attempt(broker: RunningBroker) -> None:
    topic = broker.broker.store.topic("orders")
    held, first, second = HeldStream(topic.group("billing")), Attempt(1), Attempt(2)
    held.begin(1, first, 1)
    held.begin(1, second, 1)
    topic.put(b"one")

    with pytest.raises(NoSuchHandle):
        held.read(1, first, 10, 1000, ScanRoom())

    messages = held.read(1, second, 10, 1000, ScanRoom())
    assert messages is not None
    assert messages.numbers == (0,)
    held.close()


def test_a_group_that_waits_is_woken_by_a_put(store: RemoteStore) -> None:
    topic = store.topic("orders")
    group = topic.group("billing")
    threading.Timer(0.1, lambda: topic.put(b"now")).start()

    assert [message.body for message in group.read(wait=WAIT_S)] == [b"now"]


def test_large_messages_come_in_several_answers_and_none_is_left_out(store: RemoteStore) -> None:
    topic = store.topic("orders")
    for _ in range(6):
        topic.put_many([b"x" * 1_000_000] * 5)
    group = topic.group("billing")

    assert [message.number for message in group.read(limit=100)] == list(range(30))
    assert [message.number for message in topic.partition(0).read(0)] == list(range(30))


def test_groups_are_listed_removed_and_closed(store: RemoteStore) -> None:
    topic = store.topic("orders")
    group = topic.group("billing", tag="eu.*")
    assert topic.groups() == ["billing"]
    assert group.settings.tag == "eu.*"
    with pytest.raises(SettingsDiffer):
        topic.group("billing", mode="queue")
    with pytest.raises(BadInput):
        topic.group("billing", colour="red")  # type: ignore[call-overload]

    group.close()
    topic.delete_group("billing")

    with pytest.raises(GroupClosed):
        group.read()
    with pytest.raises(NoSuchGroup):
        topic.delete_group("billing")


def test_members_rejoin_after_a_restart_of_the_broker(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as first:
        port = first.broker.advertised[1]
        store = warren.connect(first.address, timeout=WAIT_S)
        topic = store.topic("orders")
        topic.put_many([b"a", b"b", b"c"])
        group, work = topic.group("billing"), topic.group("work", mode="queue")
        assert len(group.read(limit=2)) == 2
        assert work.take() is not None

    with running_broker(tmp_path / "data", port=port), store:
        assert [message.body for message in group.read()] == [b"a", b"b", b"c"]
        message = work.take(wait=WAIT_S)
        assert message is not None
        assert (message.body, message.attempt) == (b"a", 2)
        work.ack(message)


def test_a_commit_of_a_member_that_rejoins_does_not_undo_the_commit_of_another_member(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as first:
        port = first.broker.advertised[1]
        store = warren.connect(first.address, timeout=WAIT_S)
        topic = store.topic("orders")
        topic.put_many([b"a", b"b", b"c"])
        slow = topic.group("billing")
        assert len(slow.read(limit=2)) == 2

    with running_broker(tmp_path / "data", port=port) as second, store:
        with warren.connect(second.address) as other, other.topic("orders").group("billing") as quick:
            assert len(quick.read()) == 3
            quick.commit()

        assert slow.commit({0: 2}) == {0: 2}

        slow.rewind()
        assert slow.read() == []


# --- Queue groups ---


def test_each_message_goes_to_one_worker_and_is_done_permanently(connect: Connect) -> None:
    topic = connect().topic("jobs", partitions=2)
    topic.put_many([b"%d" % number for number in range(20)], keys=[b"%d" % number for number in range(20)])
    workers = [connect().topic("jobs").group("work", mode="queue") for _ in range(3)]

    messages = [message for worker in workers for message in worker.take(limit=5)]
    messages += workers[0].take(limit=100)
    workers[0].ack_many(messages)

    assert sorted(message.body for message in messages) == sorted(b"%d" % number for number in range(20))
    assert {message.attempt for message in messages} == {1}
    assert sum(workers[1].lag().values()) == workers[1].in_flight() == 0
    with pytest.raises(LeaseLost) as caught:
        workers[1].ack(messages[0])
    assert caught.value.places == [(messages[0].partition, messages[0].number)]


def test_a_nacked_message_comes_again_until_it_becomes_a_dead_letter(store: RemoteStore) -> None:
    topic = store.topic("jobs")
    topic.put(b"bad", key=b"k")
    work = topic.group("work", mode="queue", attempts_max=2)
    for attempt in (1, 2):
        message = work.take(wait=WAIT_S)
        assert message is not None
        assert message.attempt == attempt
        work.extend(message, 60.0)
        work.nack(message, delay=0.0, reason="it is bad")

    assert work.take() is None
    (letter,) = work.dead.partition(0).read(0)
    assert (letter.body, letter.headers["warren.dead-reason"]) == (b"bad", b"it is bad")
    assert work.redrive() == 1
    again = work.take(wait=WAIT_S)
    assert again is not None
    assert (again.body, again.attempt) == (b"bad", 1)


def test_settling_a_message_with_a_lost_lease_raises(connect: Connect) -> None:
    topic = connect().topic("jobs")
    topic.put_many([b"lost", b"kept"])
    slow = topic.group("work", mode="queue", lease=60.0, attempts_max=2)
    lost = slow.take()
    assert lost is not None
    slow.extend(lost, 0.0)
    work = connect().topic("jobs").group("work", mode="queue")
    messages = [work.take(wait=WAIT_S), work.take(wait=WAIT_S)]
    # The last attempt, which a nack of the first worker must not end.
    assert (lost.number, 2) in [(message.number, message.attempt) for message in messages if message]

    for settle in (slow.ack, slow.nack, slow.reject, lambda message: slow.extend(message, 60.0)):
        with pytest.raises(LeaseLost) as caught:
            settle(lost)
        assert caught.value.places == [(0, lost.number)]
    with pytest.raises(LeaseLost) as caught:
        work.extend_many([lost, *filter(None, messages)], 60.0)

    assert caught.value.places == [(0, lost.number)]
    work.ack_many([message for message in messages if message])


def renewed_count(broker: RunningBroker) -> int:
    """Returns how often leases of the group `work` were renewed."""
    with broker.broker.store.topic("jobs").group("work", mode="queue") as group:
        return sum(event.tag == "extend" for event in group._ledger.log.read(0, limit=10_000))


def test_a_client_renews_exactly_the_messages_in_hand(broker: RunningBroker, connect: Connect) -> None:
    store = connect()
    topic = store.topic("jobs")
    topic.put_many([b"slow", b"dropped", b"lost", b"unrenewed"])
    work = topic.group("work", mode="queue", lease=0.1, backoff=0.0)
    slow, dropped, lost = work.take(), work.take(), work.take()
    unrenewed = work.take(renew=False)
    del dropped
    assert slow is not None
    assert lost is not None
    # Settled by another member: the client learns this at the next renewal.
    broker.broker.store.topic("jobs").group("work", mode="queue").ack(lost)

    until(lambda: renewed_count(broker) >= 5)
    until(lambda: [hand.places for hand in store.renewals._hands.values()] == [{(0, slow.number): 1}])

    assert unrenewed is not None
    assert not broker.broker.store.renewals._hands


def test_the_messages_of_a_client_are_free_when_it_has_disconnected(connect: Connect) -> None:
    gone, other = connect(), connect()
    gone.topic("jobs").put_many([b"a", b"b"])
    first = gone.topic("jobs").group("work", mode="queue", lease=600.0)
    second = gone.topic("jobs").group("work", mode="queue")
    assert first.take() is not None
    assert second.take() is not None
    # Closing a group frees none of the messages that it took.
    second.close()
    work = other.topic("jobs").group("work", mode="queue")
    assert work.take() is None

    gone.close()

    messages = [work.take(wait=WAIT_S), work.take(wait=WAIT_S)]
    assert sorted((message.body, message.attempt) for message in messages if message) == [(b"a", 2), (b"b", 2)]


def test_a_waiting_worker_blocks_no_other_thread(store: RemoteStore) -> None:
    topic = store.topic("jobs")
    work = topic.group("work", mode="queue")
    bodies: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: bodies.extend(m.body for m in [work.take(wait=WAIT_S)] if m)) for _ in range(12)
    ]
    for thread in threads:
        thread.start()

    topic.put_many([b"%d" % number for number in range(12)])
    for thread in threads:
        thread.join(WAIT_S)

    assert len(bodies) == len(set(bodies)) == 12


# --- Delay ---


def test_delayed_messages_are_listed_cancelled_and_delivered(store: RemoteStore) -> None:
    topic = store.topic("reminders", partitions=2)
    later = topic.put(b"later", delay=3600.0, key=b"k", tag="a.b", headers={"h": b"v"}, id="i-1")
    tomorrow = topic.put(b"tomorrow", deliver_at=datetime.now(UTC) + timedelta(days=1), partition=1)
    held = topic.put_many([b"x", b"y"], delay=1800.0, tag="t")
    soon = topic.put(b"soon", delay=0.2)

    assert [entry.body for entry in topic.scheduled()][-4:] == [b"x", b"y", b"later", b"tomorrow"]
    entry = next(entry for entry in topic.scheduled() if entry.id == later.id)
    assert (entry.key, entry.tag, dict(entry.headers), entry.message_id) == (b"k", "a.b", {"h": b"v"}, "i-1")
    assert (entry.due, entry.partition) == (later.due, None)
    assert [entry.partition for entry in topic.scheduled() if entry.id == tomorrow.id] == [1]
    assert (held[0].cancel(), held[0].cancel(), topic.cancel(later.id)) == (True, False, True)
    delivered = topic.broadcast(start=START).read(wait=WAIT_S)
    assert [message.body for message in delivered] == [b"soon"]
    assert soon.cancel() is False
    with pytest.raises(BadInput):
        topic.put(b"never", delay=-1.0)
    with pytest.raises(BadInput):
        topic.cancel("nothing")


def test_a_long_list_of_delayed_messages_is_read_page_by_page(store: RemoteStore) -> None:
    topic = store.topic("reminders")
    topic.put_many([b"%d" % number for number in range(2500)], delay=3600.0)

    assert [entry.body for entry in topic.scheduled()] == [b"%d" % number for number in range(2500)]
    assert len(list(topic.scheduled(limit=1200))) == 1200


# --- Broadcast ---


def test_a_broadcast_returns_every_message_from_its_start(store: RemoteStore) -> None:
    topic = store.topic("news", partitions=2)
    topic.put_many([b"old"], tag="a", partition=0)
    now, all_of_it = topic.broadcast(tag="a"), topic.broadcast(start=START, wait=0.1)
    topic.put_many([b"new"], tag="a", partition=1)
    topic.put_many([b"other"], tag="b", partition=1)

    assert [message.body for message in now.read(wait=WAIT_S)] == [b"new"]
    assert now.read() == []
    assert sorted(message.body for message in all_of_it) == [b"new", b"old", b"other"]
    assert [message.body for message in topic.broadcast(start={1: 1}).read()] == [b"other"]


def test_a_broadcast_includes_added_partitions_and_reports_missed_messages(
    broker: RunningBroker, store: RemoteStore
) -> None:
    topic = store.topic("news", block_size=4096)
    topic.put_many([b"x" * 3000] * 3)
    slow = topic.broadcast(start=START)
    for _ in range(3):
        topic.put(b"x" * 3000)
    broker.broker.store.topic("news").partition(0).retire(before=4)
    listener = topic.broadcast()
    topic.configure(partitions=2)
    topic.put(b"added", partition=1)

    with pytest.raises(FellBehind) as caught:
        slow.read()

    assert caught.value.first == slow.read()[0].number > 0
    bodies: list[bytes] = []

    def has_heard() -> bool:
        bodies.extend(message.body for message in listener.read(wait=0.1))
        return b"added" in bodies

    until(has_heard)
