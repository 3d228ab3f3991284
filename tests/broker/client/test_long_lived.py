"""A long-lived client: the broker does not keep what the client has finished."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import warren
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.patience import WAIT_S, until
from warren.broker.native import groups, held_stream, sessions
from warren.broker.native.groups import HeldWork
from warren.broker.native.held_stream import HeldStream
from warren.broker.native.sessions import ClientSession
from warren.client.store import RemoteStore
from warren.errors import NoSuchHandle, StoreBusy, TransactionAborted, TransactionCommitted
from warren.message import Message
from warren.protocol.native_messages import ReadGroupRequest
from warren.storage.read.messages import ScanRoom

HANDLES_MAX = 20
TAKEN_FROM = 8


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "NATIVE_HANDLES_MAX", HANDLES_MAX)
    monkeypatch.setattr(sessions, "SWEPT_FROM", 5)
    monkeypatch.setattr(groups, "TAKEN_SWEPT_FROM", TAKEN_FROM)


def session_of(broker: RunningBroker, store: RemoteStore) -> ClientSession:
    return broker.broker.sessions._sessions[store.calls._session]


def committed(store: RemoteStore, number: int) -> None:
    with store.transaction() as tx:
        tx.put("out", b"done")


def aborted(store: RemoteStore, number: int) -> None:
    store.transaction().abort()


def late(store: RemoteStore, number: int) -> None:
    tx = store.transaction(timeout=0.001)
    until(lambda: _is_late(tx.put))


def _is_late(put: Callable[[str, bytes], None]) -> bool:
    try:
        put("out", b"late")
    except TransactionAborted:
        return True
    return False


def decided_by_its_id(store: RemoteStore, number: int) -> None:
    tx = store.transaction(id=f"mine-{number}")
    tx.put("out", b"done")
    tx.prepare()
    store.commit(tx.id)


@pytest.mark.parametrize("end", [committed, aborted, late, decided_by_its_id])
def test_ended_transactions_do_not_count_as_open(
    broker: RunningBroker, store: RemoteStore, end: Callable[[RemoteStore, int], None]
) -> None:
    for number in range(3 * HANDLES_MAX):
        end(store, number)

    assert len(session_of(broker, store)._held) < HANDLES_MAX


def test_open_and_prepared_transactions_are_kept_up_to_the_limit(store: RemoteStore) -> None:
    transactions = [store.transaction(id=f"mine-{number}") for number in range(HANDLES_MAX)]
    for tx in transactions[::2]:
        tx.put("out", b"done")
        tx.prepare()

    with pytest.raises(StoreBusy):
        store.transaction()
    for tx in transactions:
        tx.commit()

    assert store.topic("out").partition(0).end == HANDLES_MAX // 2


def test_the_outcome_of_a_transaction_is_known_after_the_broker_has_dropped_it(store: RemoteStore) -> None:
    done, none, left = store.transaction(), store.transaction(), store.transaction(id="left")
    done.put("out", b"done")
    done.commit()
    none.abort()
    left.put("out", b"done")
    left.prepare()
    store.commit("left")

    for number in range(3 * HANDLES_MAX):
        committed(store, number)

    done.commit()
    none.abort()
    assert (done.state, none.state, left.state) == ("done", "aborted", "done")
    for act in (done.abort, done.prepare):
        with pytest.raises(TransactionCommitted):
            act()
    for act in (none.commit, none.prepare):
        with pytest.raises(TransactionAborted):
            act()
    with pytest.raises(TransactionCommitted):
        left.abort()


@pytest.mark.parametrize("action", ["commit", "abort", "prepare", "state"])
def test_a_prepared_transaction_is_decided_by_its_own_client_when_the_broker_was_restarted(
    tmp_path: Path, action: str
) -> None:
    with running_broker(tmp_path / "data") as first:
        port = first.broker.advertised[1]
        store = warren.connect(first.address, timeout=WAIT_S)
        tx = store.transaction(id="mine")
        tx.put("out", b"done")
        tx.prepare()

    with running_broker(tmp_path / "data", port=port), store:
        if action != "state":
            getattr(tx, action)()

        state = {"commit": "done", "abort": "aborted"}.get(action, "prepared")
        assert (tx.state, store.transaction_state("mine")) == (state, state)
        assert store.topic("out").partition(0).end == (action == "commit")
        assert store.transaction_state("unknown") == "unknown"


def taken_by(held: HeldWork, limit: int) -> list[Message]:
    result = held.take(limit, 1 << 20, ScanRoom())
    assert result is not None
    return result[1]


def test_settled_messages_are_dropped_from_memory_for_every_settler(broker: RunningBroker) -> None:
    topic = broker.broker.store.topic("jobs")
    topic.put_many([b"%d" % number for number in range(100)])
    group = topic.group("work", mode="queue", lease=600.0, attempts_max=1)
    held = HeldWork(topic.group("work", mode="queue"))
    unsettled = taken_by(held, 2)

    for number in range(80):
        message = taken_by(held, 1)[0]
        if number % 2:
            group.ack(message)
        else:
            group.reject(message)

    assert len(held._taken) <= TAKEN_FROM + 1
    # The messages that it still holds are given back when it disconnects.
    held.close()
    assert [message.body for message in group.take(20)] == [b"%d" % number for number in range(82, 100)]
    assert sorted(letter.message.body for letter in topic.dead_letters())[:2] == sorted(each.body for each in unsettled)
    group.close()


def test_groups_with_messages_in_hand_are_kept_until_another_worker_has_them(
    broker: RunningBroker, store: RemoteStore
) -> None:
    topic = store.topic("jobs")
    topic.put_many([b"job"] * 4 * HANDLES_MAX)
    other = broker.broker.store.topic("jobs").group("work", mode="queue", lease=600.0)
    first = topic.group("work", mode="queue")
    first_message = first.take()
    assert first_message is not None
    first.close()

    for _ in range(3 * HANDLES_MAX):
        with topic.group("work", mode="queue") as work:
            message = work.take()
        assert message is not None
        other.ack(message)

    assert len(session_of(broker, store)._left) < HANDLES_MAX
    assert other.still_leased([first_message]) == [first_message]
    other.close()


def test_ended_reads_are_forgotten(broker: RunningBroker, store: RemoteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = store.topic("orders")
    member = topic.group("billing")
    held = session_of(broker, store).find(member.handle.number, HeldStream)

    for _ in range(3):
        topic.put(b"order")
        assert len(member.read(wait=WAIT_S)) == 1
        assert member.read() == []

    assert len(held._attempts) == 1
    # A client that says that it ends none of its reads.
    monkeypatch.setattr(held_stream, "ATTEMPTS_MAX", 3)
    for serial in range(100, 110):
        store.calls.call(ReadGroupRequest(member.handle.number, serial, limit=1))
    assert list(held._attempts) == [107, 108, 109]
    with pytest.raises(NoSuchHandle):
        store.calls.call(ReadGroupRequest(member.handle.number, 106, limit=1))
