"""Transactions, producers and queues of our own client: all or nothing, once, and free when a client disconnects."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import warren
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.patience import WAIT_S, until
from warren.broker.native import sessions
from warren.client.store import RemoteStore
from warren.errors import (
    BadInput,
    NoSuchTransaction,
    NotOwner,
    ProducerBusy,
    ProducerClosed,
    SequenceGap,
    TransactionAborted,
    TransactionCommitted,
    TransactionExists,
    WrongState,
)
from warren.storage import START

Connect = Callable[[], RemoteStore]


@pytest.fixture(params=["os", "commit"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data", durability=request.param) as running:
        yield running


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


def bodies(store: RemoteStore, topic: str) -> list[bytes]:
    return [message.body for message in store.topic(topic).broadcast(start=START).read()]


def test_a_transaction_happens_as_a_whole_or_not_at_all(store: RemoteStore) -> None:
    store.topic("in").put_many([b"1", b"2", b"3"])
    group, work = store.topic("in").group("readers"), store.topic("in").group("work", mode="queue")
    leased = work.take(limit=2)

    with suppress(ZeroDivisionError), store.transaction() as tx:
        tx.put("out", b"never")
        raise ZeroDivisionError
    read = group.read()
    with store.transaction() as tx:
        for message in read:
            tx.put("out", message.body, key=b"k", tag="t", headers={"h": b"v"}, id="i")
        tx.put_many("more", [b"a", b"b"], tags=["x", "y"])
        tx.put("later", b"delayed", delay=3600.0)
        tx.commit(group)
        tx.ack(work, leased)
        assert bodies(store, "out") == []

    assert bodies(store, "out") == [b"1", b"2", b"3"]
    assert bodies(store, "more") == [b"a", b"b"]
    message = store.topic("out").last(1)[0]
    assert (message.key, message.tag, dict(message.headers), message.id) == (b"k", "t", {"h": b"v"}, "i")
    assert [entry.body for entry in store.topic("later").scheduled()] == [b"delayed"]
    assert group.lag() == {0: 0}
    assert work.lag() == {0: 1}
    assert tx.state == "done"
    with pytest.raises((TransactionCommitted, WrongState)):
        tx.put("out", b"late")


def test_any_client_can_decide_a_prepared_transaction(connect: Connect) -> None:
    gone, other = connect(), connect()
    for number in range(3):
        with gone.transaction(id=f"load/{number}") as tx:
            tx.put("out", b"%d" % number)
            tx.prepare()
    gone.close()

    assert [prepared.id for prepared in other.recover()] == ["load/0", "load/1", "load/2"]
    assert other.commit("load/0") == other.commit("load/0") == "done"
    assert other.abort("load/1") == "aborted"
    assert other.abort_prepared("load/") == ["load/2"]
    assert bodies(other, "out") == [b"0"]
    with pytest.raises(TransactionAborted):
        other.commit("load/1")
    with pytest.raises(NoSuchTransaction):
        other.commit("nothing")
    assert other.last_failure == ""


def test_an_open_transaction_is_aborted_when_its_client_has_disconnected(
    broker: RunningBroker, connect: Connect
) -> None:
    gone, other = connect(), connect()
    tx = gone.transaction(id="mine")
    tx.put("out", b"never")

    gone.close()

    def is_free() -> bool:
        try:
            other.transaction(id="mine").abort()
        except TransactionExists:
            return False
        return True

    until(is_free)
    assert bodies(other, "out") == []


def test_a_transaction_outlasts_its_connections(broker: RunningBroker, store: RemoteStore) -> None:
    tx = store.transaction()
    tx.put("out", b"one")

    for body in (b"two", b"three"):
        store.calls._drop_idle()
        until(lambda: not broker.broker.connections)
        tx.put("out", body)
    tx.commit()

    assert bodies(store, "out") == [b"one", b"two", b"three"]


def test_a_transaction_whose_session_ended_is_reported_as_aborted(store: RemoteStore) -> None:
    tx = store.transaction()
    tx.put("out", b"never")

    store.calls._drop_idle()
    # A client that is away for longer than its session finds no session.
    store.calls._session = bytes(16)

    with pytest.raises(TransactionAborted):
        tx.put("out", b"never")
    assert tx.state == "aborted"
    assert bodies(store, "out") == []


def test_reads_from_before_a_member_rejoined_are_not_committed_by_a_transaction(
    store: RemoteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "NATIVE_SESSION_S", 0.1)
    topic = store.topic("in")
    topic.put_many([b"1", b"2"])
    group = topic.group("readers")
    assert len(group.read()) == 2
    store.calls._drop_idle()
    store.calls._session = bytes(16)
    # This member joins again, and has read nothing.
    assert group.lag() == {0: 2}

    tx = store.transaction()
    tx.put_many("out", [b"1", b"2"])
    for positions in (None, {0: 2}):
        with pytest.raises(NotOwner):
            tx.commit(group, positions)
    tx.abort()
    group.rewind()
    assert len(group.read(wait=WAIT_S)) == 2
    for body in (b"1", b"2"):
        with store.transaction() as tx:
            tx.put("out", body)
            tx.commit(group)

    assert bodies(store, "out") == [b"1", b"2"]
    assert group.lag() == {0: 0}


def test_batches_of_another_system_are_committed_once(store: RemoteStore) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    for worker in range(2):
        with store.transaction(id=f"load/7/{worker}", prepared_timeout=86_400.0) as tx:
            tx.put_columns("orders", pyarrow.record_batch({"body": [b"a", b"b"], "key": [b"k", None]}))
            tx.prepare()

    assert store.last_version("load") is None
    assert store.commit_batch("load", 7, ["load/7/0", "load/7/1"]) == "done"
    assert store.commit_batch("load", 7, ["load/7/0", "load/7/1"]) == "done"
    assert store.last_version("load") == 7
    assert store.describe("orders").messages == 4


def test_a_producer_numbers_its_puts_and_a_repeat_writes_nothing(connect: Connect) -> None:
    first, second = connect(), connect()
    with first.producer("loader") as producer:
        receipt = producer.put("orders", b"one", key=b"k", id="i")
        assert receipt is not None
        assert (receipt.number, receipt.id, producer.sequence) == (0, "i", 1)
        assert producer.put("orders", b"one", sequence=1) is None
        places = producer.put_many("orders", [b"two", b"three"], sequence=2)
        assert places is not None
        assert [place.number for place in places] == [1, 2]
        with pytest.raises(SequenceGap):
            producer.put("orders", b"far", sequence=9)
        with pytest.raises(BadInput):
            producer.put("orders", b"none", sequence=0)
        with pytest.raises(ProducerBusy):
            second.producer("loader")
    with pytest.raises(ProducerClosed):
        producer.put("orders", b"late")

    with second.producer("loader") as again:
        assert again.sequence == 2
    assert bodies(second, "orders") == [b"one", b"two", b"three"]


def test_a_producer_of_a_disconnected_client_is_free(connect: Connect) -> None:
    gone, other = connect(), connect()
    gone.producer("loader").put("orders", b"one")

    gone.close()

    def opened() -> bool:
        try:
            return other.producer("loader").sequence == 1
        except ProducerBusy:
            return False

    until(opened)
    assert bodies(other, "orders") == [b"one"]


def test_a_queue_has_the_methods_of_a_queue(connect: Connect) -> None:
    first, second = connect(), connect()
    jobs = first.queue("jobs", maxsize=2)
    jobs.put({"resize": "carrot.png"})
    jobs.put("second")

    assert (jobs.qsize(), jobs.full(), jobs.empty()) == (2, True, False)
    with pytest.raises(queue.Full):
        jobs.put("third", timeout=0.1)
    same = second.queue("jobs")
    assert same.get() == {"resize": "carrot.png"}
    assert same.get_nowait() == "second"
    with pytest.raises(queue.Empty):
        same.get(timeout=0.1)
    assert not jobs.join(timeout=0.1)
    same.task_done()
    same.task_done()
    assert jobs.join(timeout=WAIT_S)
    with pytest.raises(ValueError, match="task_done"):
        same.task_done()


def test_a_put_wakes_a_waiting_get_and_join_ignores_tasks_of_a_vanished_client(connect: Connect) -> None:
    gone, other = connect(), connect()
    items: list[object] = []
    thread = threading.Thread(target=lambda: items.append(gone.queue("jobs").get(timeout=WAIT_S)))
    thread.start()
    jobs = other.queue("jobs")
    jobs.put("item")
    thread.join(WAIT_S)
    assert items == ["item"]
    assert not jobs.join(timeout=0.0)

    gone.close()

    assert jobs.join(timeout=WAIT_S)
