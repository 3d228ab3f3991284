"""Transactions: the same on every kind of store."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.contract.conftest import Opener
from tests.support.patience import WAIT_S
from warren import api
from warren.errors import BadInput, LeaseLost, NoSuchTransaction, TransactionAborted, TransactionExists


class Failure(Exception):
    """The failure in a block."""


def bodies(store: api.Store, topic: str) -> list[bytes]:
    return [message.body for message in store.topic(topic).last(100)]


def test_nothing_is_visible_before_the_commit_and_all_of_it_after(opener: Opener) -> None:
    with opener() as store, opener() as other:
        with store.transaction() as transaction:
            transaction.put("orders", b"1", key=b"k", tag="t", headers={"h": b"v"}, id="i")
            transaction.put_many("bills", [b"2", b"3"], tags=["a", "b"])
            assert bodies(other, "orders") == bodies(other, "bills") == []

        (message,) = other.topic("orders").last()
        assert (message.body, message.key, message.tag, message.id) == (b"1", b"k", "t", "i")
        assert dict(message.headers) == {"h": b"v"}
        assert bodies(other, "bills") == [b"2", b"3"]
        assert transaction.state == "done"


def test_a_transaction_is_begun_with_a_time_and_an_id(store: api.Store) -> None:
    with store.transaction(600.0, "first") as transaction:
        assert transaction.id == "first"
        assert store.transaction_state("first") == "open"

    with pytest.raises(BadInput):
        store.transaction(-1.0)


def test_an_exception_aborts(store: api.Store) -> None:
    with suppress(Failure), store.transaction() as transaction:
        transaction.put("orders", b"1")
        raise Failure

    assert transaction.state == "aborted"
    assert bodies(store, "orders") == []
    with pytest.raises(TransactionAborted):
        transaction.put("orders", b"2")


def test_reads_are_committed_with_writes(store: api.Store) -> None:
    source = store.topic("orders")
    source.put_many([b"1", b"2"])
    with source.group("billing") as group:
        with suppress(Failure), store.transaction() as transaction:
            transaction.put("bills", b"lost")
            group.read()
            transaction.commit(group)
            raise Failure
        group.rewind()
        with store.transaction() as transaction:
            for message in group.read():
                transaction.put(store.topic("bills"), b"bill " + message.body)
            transaction.commit(group)

        assert bodies(store, "bills") == [b"bill 1", b"bill 2"]
        assert group.lag() == {0: 0}
        assert group.read() == []


def test_positions_are_committed_with_writes(store: api.Store) -> None:
    source = store.topic("orders")
    source.put_many([b"1", b"2"])
    with source.group("billing") as group:
        group.read()
        with store.transaction() as transaction:
            transaction.commit(group, positions={0: 1})

        assert group.lag() == {0: 1}


def test_messages_are_acknowledged_with_writes(store: api.Store) -> None:
    source = store.topic("orders")
    source.put_many([b"1", b"2"])
    group = source.group("workers", mode="queue", lease=600)
    first, second = group.take(2)
    with store.transaction() as transaction:
        transaction.put("bills", first.body)
        transaction.ack(group, first)

    assert (group.in_flight(), bodies(store, "bills")) == (1, [b"1"])
    with pytest.raises(LeaseLost):
        group.ack(first)
    group.nack(second, delay=0)
    assert group.take(wait=WAIT_S) is not None
    transaction = store.transaction()
    transaction.put("bills", second.body)
    transaction.ack(group, second)
    with pytest.raises(LeaseLost):
        transaction.commit()
    assert bodies(store, "bills") == [b"1"]


def test_a_group_or_topic_of_another_store_is_refused(opener: Opener) -> None:
    with opener() as store, opener() as other, store.transaction() as transaction:
        with pytest.raises(BadInput, match="of this store"):
            transaction.ack(other.topic("orders").group("workers", mode="queue"), [])
        with pytest.raises(BadInput, match="of this store"):
            transaction.commit(other.topic("orders").group("billing"))
        with pytest.raises(BadInput, match="of this store"):
            transaction.put_many(other.topic("orders"), [b"1"])


def test_a_prepared_transaction_is_decided_by_its_id(opener: Opener) -> None:
    with opener() as store:
        for name in ("a-1", "a-2", "a-3", "b-1"):
            with store.transaction(id=name) as transaction:
                transaction.put("orders", name.encode())
                transaction.prepare()
        with pytest.raises(TransactionExists):
            store.transaction(id="a-1")
    with opener() as store:
        assert [each.id for each in store.recover()] == ["a-1", "a-2", "a-3", "b-1"]
        assert store.transaction_state("a-1") == "prepared"
        assert store.commit("a-1") == store.commit("a-1") == "done"
        assert store.abort("a-2") == "aborted"
        assert store.abort_prepared("a-") == ["a-3"]
        assert store.commit_all(["b-1"]) == "done"

        assert bodies(store, "orders") == [b"a-1", b"b-1"]
        with pytest.raises(TransactionAborted):
            store.commit("a-2")
        with pytest.raises(NoSuchTransaction):
            store.commit("a-4")
        assert store.transaction_state("a-4") == "unknown"


def test_a_version_of_an_application_is_committed_once(store: api.Store) -> None:
    for attempt in ("first", "repeat"):
        with store.transaction(id=attempt) as transaction:
            transaction.put("orders", attempt.encode())
            transaction.prepare()
        assert store.commit_batch("query", 7, [attempt]) == "done"

    assert bodies(store, "orders") == [b"first"]
    assert store.last_version("query") == 7
    assert store.last_version("other") is None


def test_a_delayed_message_of_a_transaction_waits_after_the_commit(store: api.Store) -> None:
    with store.transaction() as transaction:
        transaction.put("orders", b"1", delay=600)
        assert list(store.topic("orders").scheduled()) == []

    assert [each.body for each in store.topic("orders").scheduled()] == [b"1"]
    assert bodies(store, "orders") == []
