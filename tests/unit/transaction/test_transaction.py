"""Transactions: all of it or nothing, decided once, by any process."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.simulated_clock import SimulatedClock
from tests.support.store.transaction_stores import Failed, bodies, messages, open_store, put_two
from warren import errors
from warren.errors import (
    BadInput,
    NoSuchPartition,
    NoSuchTopic,
    NoSuchTransaction,
    StoreClosed,
    TooLarge,
    TransactionAborted,
    TransactionCommitted,
    TransactionExists,
    UnsupportedByVersion,
    WrongState,
)
from warren.queue.topic import Topic
from warren.transaction import coordinator
from warren.transaction.coordinator import TRANSACTION_ID_SIZE_MAX
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


# --- All or nothing ---


def test_a_transaction_is_in_no_log_before_it_is_committed_and_in_all_of_them_afterwards(store: Store) -> None:
    with store.transaction() as tx:
        put_two(tx)
        assert bodies(store, "orders") == bodies(store, "audit") == []
        assert tx.state == "open"

    assert (bodies(store, "orders"), bodies(store, "audit")) == ([b"order"], [b"noted"])
    assert tx.state == "done"


def test_an_exception_aborts_and_is_passed_on(store: Store) -> None:
    def fail() -> None:
        with store.transaction(id="t") as tx:
            put_two(tx)
            raise Failed

    with pytest.raises(Failed):
        fail()

    assert bodies(store, "orders") == bodies(store, "audit") == []
    with pytest.raises(TransactionAborted):
        store.commit("t")


def test_messages_come_with_all_they_have_and_in_order(store: Store) -> None:
    with store.transaction() as tx:
        tx.put("orders", b"1", key=b"k", tag="eu.de", headers={"trace": b"7"}, id="one", corr_offset=5)
        tx.put("orders", memoryview(b"2"))  # type: ignore[arg-type]
        tx.put_many("orders", [b"3", b"4"], tags=["a", "b"], keys=[b"x", None], ids=["three", "four"])
        tx.put_many("orders", [b"5"], tag="c", headers=[{"h": b"5"}], corr_offsets=[8])
        tx.put("audit", b"")

    fields = [(m.body, m.key, m.tag, dict(m.headers), m.id, m.corr_offset) for m in messages(store, "orders")]
    assert fields == [
        (b"1", b"k", "eu.de", {"trace": b"7"}, "one", 5),
        (b"2", None, "", {}, "", -1),
        (b"3", b"x", "a", {}, "three", -1),
        (b"4", None, "b", {}, "four", -1),
        (b"5", None, "c", {"h": b"5"}, "", 8),
    ]
    assert bodies(store, "audit") == [b""]


def test_keys_choose_the_partition_as_in_a_put_and_partitions_can_be_named(store: Store) -> None:
    topic = store.topic("orders", partitions=4)
    keys = [b"key-%d" % number for number in range(20)]

    with store.transaction() as tx:
        for key in keys[:10]:
            tx.put(topic, key, key=key)
        tx.put_many(topic, keys[10:], keys=keys[10:])
        tx.put(topic, b"here", partition=3)
        tx.put_many(topic, [b"and", b"there"], keys=[b"a", b"b"], partition=2)

    for message in messages(store, "orders"):
        expected = topic.route(message.key) if message.body in keys else {b"here": 3}.get(message.body, 2)
        assert message.partition == expected
    assert len(messages(store, "orders")) == 23


def test_messages_without_a_key_go_to_the_partitions_in_turn(store: Store) -> None:
    store.topic("orders", partitions=3)

    with store.transaction() as tx:
        for number in range(6):
            tx.put("orders", b"%d" % number)

    assert [log.end for log in store.topic("orders").logs] == [2, 2, 2]


def test_a_topic_that_is_not_there_is_made(store: Store) -> None:
    with store.transaction() as tx:
        tx.put("new", b"one")

    assert bodies(store, "new") == [b"one"]


def test_version_1_takes_part_with_its_own_ids(store: Store) -> None:
    store.topic("old", version=1, partitions=2)

    with store.transaction() as tx:
        for number in range(4):
            tx.put("old", b"%d" % number, id="mine" if number == 3 else "")
        tx.put("orders", b"order")

    stored = messages(store, "old")
    assert sorted(message.body for message in stored) == [b"0", b"1", b"2", b"3"]
    assert len({message.id for message in stored}) == 4
    assert "mine" in {message.id for message in stored}


def test_an_empty_transaction_is_done(store: Store) -> None:
    with store.transaction() as tx:
        pass
    with store.transaction(id="named"):
        pass

    assert tx.state == "done"
    assert store.commit("named") == "done"


# --- One record needs no journal ---


def test_one_record_in_one_partition_is_committed_without_the_journal(store: Store) -> None:
    with store.transaction() as tx:
        for number in range(100):
            tx.put("orders", b"%d" % number)

    assert not (Path(store.path) / "transactions").exists()
    assert len({message.offset for message in messages(store, "orders")}) == 1
    assert store.commit(tx.id) == "done"
    assert len(messages(store, "orders")) == 100


@pytest.mark.parametrize("reason", ["id", "two partitions", "version 1", "too large", "too many", "prepared", "delay"])
def test_a_transaction_of_several_records_goes_through_the_journal(store: Store, reason: str) -> None:
    store.topic("orders", partitions=2, version=1 if reason == "version 1" else 2, block_size=1 << 20)
    counts = {"too large": 9, "too many": 70_000}
    body = bytes(100_000) if reason == "too large" else b"x"

    with store.transaction(id="named" if reason == "id" else None) as tx:
        tx.put_many("orders", [body] * counts.get(reason, 1), partition=0)
        if reason == "two partitions":
            tx.put("orders", b"y", partition=1)
        if reason == "delay":
            tx.put("orders", b"y", delay=5.0)
        if reason == "prepared":
            tx.prepare()

    assert (Path(store.path) / "transactions" / "journal").exists()


def test_outcomes_without_a_journal_are_remembered_up_to_a_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "TRANSACTIONS_REMEMBERED_MAX", 2)
    ids = []
    for _ in range(3):
        with store.transaction() as tx:
            tx.put("orders", b"x")
        ids.append(tx.id)

    assert store.commit(ids[1]) == store.commit(ids[2]) == "done"
    with pytest.raises(NoSuchTransaction):
        store.commit(ids[0])


# --- Two phases ---


@pytest.mark.parametrize("end", ["commit", "abort", "prepare"])
def test_a_transaction_that_is_over_holds_nothing_of_its_topics(store: Store, end: str) -> None:
    tx = put_two(store.transaction())
    getattr(tx, end)()
    names = store.topics()
    topics = [weakref.ref(store.topic(name)) for name in names]
    for name in names:
        store.delete_topic(name)
    gc.collect()

    assert names
    assert [topic() for topic in topics] == [None] * len(names)


def test_a_prepared_transaction_is_committed_from_another_process(store: Store, other: Store) -> None:
    with store.transaction(id="batch-7") as tx:
        put_two(tx)
        tx.prepare()
    assert bodies(store, "orders") == []
    assert [(each.id, each.message_count) for each in other.recover()] == [("batch-7", 2)]

    assert other.commit("batch-7") == "done"

    assert (bodies(store, "orders"), bodies(store, "audit")) == ([b"order"], [b"noted"])
    assert tx.state == "done"
    assert store.recover() == other.recover() == []


def test_a_repeated_commit_is_answered_done_and_does_nothing(store: Store, other: Store) -> None:
    with store.transaction(id="batch-7") as tx:
        put_two(tx)

    assert [store.commit("batch-7"), other.commit("batch-7"), store.commit("batch-7")] == ["done"] * 3

    assert bodies(store, "orders") == [b"order"]


def test_a_prepared_transaction_outlives_its_process(tmp_path: Path, clock: SimulatedClock) -> None:
    with open_store(tmp_path, clock) as store, store.transaction(id="batch-7") as tx:
        put_two(tx)
        tx.prepare()

    with open_store(tmp_path, clock) as later:
        assert [each.id for each in later.recover()] == ["batch-7"]
        assert later.commit("batch-7") == "done"
        assert bodies(later, "orders") == [b"order"]


def test_recover_lists_times_and_sizes_oldest_first(store: Store, clock: SimulatedClock) -> None:
    for number in range(3):
        clock.pass_ns(1_000_000_000)
        with store.transaction(id=f"batch-{number}") as tx:
            tx.put_many("orders", [b"x"] * number)
            tx.put("audit", b"y")
            tx.prepare()

    prepared = store.recover()

    assert [(each.id, each.message_count) for each in prepared] == [("batch-0", 1), ("batch-1", 2), ("batch-2", 3)]
    assert [each.when for each in prepared] == [clock.now_ns() // 1000 - back for back in (2_000_000, 1_000_000, 0)]


def test_an_exception_after_prepare_leaves_the_transaction_prepared(store: Store) -> None:
    def fail() -> None:
        with store.transaction(id="t") as tx:
            put_two(tx).prepare()
            raise Failed

    with pytest.raises(Failed):
        fail()

    assert store.commit("t") == "done"


def test_preparing_twice_does_nothing(store: Store) -> None:
    tx = put_two(store.transaction())

    tx.prepare()
    tx.prepare()

    tx.commit()
    assert bodies(store, "orders") == [b"order"]


def test_an_aborted_transaction_stays_aborted(store: Store, other: Store) -> None:
    with store.transaction(id="batch-7") as tx:
        put_two(tx).prepare()

    assert other.abort("batch-7") == store.abort("batch-7") == "aborted"

    for opening in (store, other):
        with pytest.raises(TransactionAborted):
            opening.commit("batch-7")
    assert bodies(store, "orders") == []
    assert tx.state == "aborted"


def test_a_committed_transaction_cannot_be_aborted(store: Store, other: Store) -> None:
    with store.transaction(id="batch-7") as tx:
        put_two(tx)
    with store.transaction() as at_once:
        at_once.put("orders", b"x")

    for opening, id in ((store, "batch-7"), (other, "batch-7"), (store, at_once.id)):
        with pytest.raises(TransactionCommitted):
            opening.abort(id)


def test_an_unknown_transaction_is_an_error(store: Store, other: Store) -> None:
    for act in (store.commit, store.abort):
        with pytest.raises(NoSuchTransaction):
            act("missing")
    put_two(store.transaction(id="known")).commit()
    for act in (other.commit, other.abort):
        with pytest.raises(NoSuchTransaction, match="missing"):
            act("missing")


def test_an_open_transaction_is_decided_by_id_in_its_own_process_alone(store: Store, other: Store) -> None:
    own, gone = put_two(store.transaction()), put_two(store.transaction())
    for act in (other.commit, other.abort):
        with pytest.raises(NoSuchTransaction):
            act(own.id)

    assert store.commit(own.id) == "done"
    assert store.abort(gone.id) == "aborted"

    assert bodies(store, "orders") == [b"order"]


def test_an_id_is_of_one_transaction_unless_that_was_aborted(store: Store, other: Store) -> None:
    first = put_two(store.transaction(id="batch-7"))
    with pytest.raises(TransactionExists):
        store.transaction(id="batch-7")
    elsewhere = put_two(other.transaction(id="batch-7"))
    first.prepare()
    with pytest.raises(TransactionExists) as raised:
        elsewhere.commit()
    assert raised.value.state == "prepared"
    assert elsewhere.state == "aborted"
    for opening in (store, other):
        with pytest.raises(TransactionExists):
            opening.transaction(id="batch-7")

    store.abort("batch-7")
    put_two(other.transaction(id="batch-7")).commit()

    assert bodies(store, "orders") == [b"order"]
    with pytest.raises(TransactionExists) as raised:
        store.transaction(id="batch-7")
    assert raised.value.state == "done"


def test_a_finished_transaction_takes_no_more(store: Store) -> None:
    committed, aborted, prepared = (put_two(store.transaction()) for _ in range(3))
    committed.commit()
    aborted.abort()
    prepared.prepare()

    for tx, error in ((committed, TransactionCommitted), (aborted, TransactionAborted), (prepared, WrongState)):
        with pytest.raises(error):
            tx.put("orders", b"late")
        with pytest.raises(error):
            tx.put_many("orders", [b"late"])
    with pytest.raises(TransactionAborted):
        aborted.commit()
    with pytest.raises(TransactionCommitted):
        committed.prepare()
    assert bodies(store, "orders") == [b"order"]


def test_committing_within_the_block_is_enough(store: Store) -> None:
    with store.transaction() as tx:
        put_two(tx).commit()
    with store.transaction() as aborted:
        put_two(aborted).abort()

    assert bodies(store, "orders") == [b"order"]


# --- Time ---


def test_an_open_transaction_that_ran_out_of_time_is_refused(store: Store, clock: SimulatedClock) -> None:
    tx = put_two(store.transaction(timeout=2.0))

    with pytest.raises(TransactionAborted), tx:
        clock.sleep(2.0)

    assert tx.state == "aborted"
    assert bodies(store, "orders") == []
    for act in (tx.prepare, lambda: tx.put("orders", b"late")):
        with pytest.raises(TransactionAborted):
            act()


def test_housekeeping_aborts_transactions_after_their_timeout(store: Store, clock: SimulatedClock) -> None:
    short, long = put_two(store.transaction(timeout=2.0)), put_two(store.transaction(timeout=3.0))
    clock.sleep(2.5)

    assert store.keep() <= 1.0

    assert (short.state, long.state) == ("aborted", "open")
    assert not short.rows
    with pytest.raises(TransactionAborted):
        store.commit(short.id)


def test_a_prepared_transaction_waits_without_a_limit_unless_it_has_a_timeout(
    store: Store, other: Store, clock: SimulatedClock
) -> None:
    for id, seconds in (("patient", None), ("first", 5.0), ("second", 5.0)):
        put_two(store.transaction(timeout=1.0, id=id, prepared_timeout=seconds)).prepare()
    clock.sleep(4.9)
    store.keep()
    assert len(store.recover()) == 3

    clock.sleep(0.2)
    with pytest.raises(TransactionAborted):
        other.commit("first")
    other.keep()

    assert [each.id for each in store.recover()] == ["patient"]
    with pytest.raises(TransactionAborted):
        store.commit("second")
    clock.sleep(100 * 86_400)
    assert store.commit("patient") == "done"


# --- Bad input ---


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"body": "text"}, BadInput),
        ({"body": None}, BadInput),
        ({"body": bytes(101)}, TooLarge),
        ({"key": "text"}, BadInput),
        ({"key": bytes(70_000)}, TooLarge),
        ({"tag": "x" * 129}, TooLarge),
        ({"tag": b"x"}, BadInput),
        ({"id": "x" * 41}, TooLarge),
        ({"headers": {"a": "text"}}, BadInput),
        ({"headers": {"a": bytes(70_000)}}, TooLarge),
        ({"corr_offset": -2}, BadInput),
        ({"partition": 2}, NoSuchPartition),
        ({"topic": "no/such"}, errors.BadName),
        ({"topic": 7}, BadInput),
        ({"delay": -1.0}, BadInput),
        ({"delay": 1.0, "deliver_at": 5}, BadInput),
        ({"delay": 1.0, "body": bytes(101)}, TooLarge),
        ({"delay": 1.0, "partition": 2}, NoSuchPartition),
    ],
)
def test_a_message_that_the_topic_would_refuse_is_refused_at_the_put(
    store: Store, fields: dict[str, Any], error: type[Exception]
) -> None:
    store.topic("orders", partitions=2, message_size_max=100, block_size=1 << 16)

    with store.transaction() as tx:
        put_two(tx)
        with pytest.raises(error):
            tx.put(**{"topic": "orders", "body": b"bad", **fields})

    assert bodies(store, "orders") == [b"order"]


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"tags": ["a"]}, BadInput),
        ({"tags": ["a", "b"], "tag": "c"}, BadInput),
        ({"keys": [b"a", "b"]}, BadInput),
        ({"ids": ["a", 7]}, BadInput),
        ({"partition": 5}, NoSuchPartition),
        ({"bodies": [b"good", "bad"]}, BadInput),
    ],
)
def test_a_batch_with_one_bad_message_puts_nothing(
    store: Store, columns: dict[str, Any], error: type[Exception]
) -> None:
    with store.transaction() as tx:
        put_two(tx)
        with pytest.raises(error):
            tx.put_many(**{"topic": "orders", "bodies": [b"a", b"b"], **columns})

    assert bodies(store, "orders") == [b"order"]


def test_a_message_that_fits_no_block_of_its_topic_is_refused(store: Store) -> None:
    store.topic("orders", block_size=1 << 16)

    with store.transaction() as tx:
        put_two(tx)
        with pytest.raises(TooLarge):
            tx.put("orders", bytes(1 << 16))

    assert bodies(store, "orders") == [b"order"]


@pytest.mark.parametrize("fields", [{"key": b"k"}, {"headers": {"a": b"b"}}])
def test_fields_that_version_1_cannot_store_are_refused(store: Store, fields: dict[str, Any]) -> None:
    store.topic("old", version=1)

    with store.transaction() as tx:
        tx.put("old", b"good")
        with pytest.raises(UnsupportedByVersion):
            tx.put("old", b"bad", **fields)

    assert bodies(store, "old") == [b"good"]


@pytest.mark.parametrize("id", ["", "x" * (TRANSACTION_ID_SIZE_MAX + 1), 7, "\ud800"])
def test_a_bad_id_is_refused(store: Store, id: Any) -> None:
    for act in (store.commit, store.abort, lambda id: store.transaction(id=id)):
        with pytest.raises(BadInput):
            act(id)


def test_the_longest_id_is_taken(store: Store, other: Store) -> None:
    id = "ü" * (TRANSACTION_ID_SIZE_MAX // 2)

    put_two(store.transaction(id=id)).prepare()

    assert other.commit(id) == "done"


@pytest.mark.parametrize("seconds", [0, -1, True, "1", 8 * 86_400.0])
def test_a_bad_timeout_is_refused(store: Store, seconds: Any) -> None:
    with pytest.raises(BadInput):
        store.transaction(timeout=seconds)
    with pytest.raises(BadInput):
        store.transaction(prepared_timeout=seconds)


def test_a_topic_of_another_store_is_refused(store: Store, other: Store) -> None:
    with store.transaction() as tx, pytest.raises(BadInput):
        tx.put(other.topic("orders"), b"x")


def test_a_closed_store_has_no_transactions(tmp_path: Path, clock: SimulatedClock) -> None:
    store = open_store(tmp_path, clock)
    tx = put_two(store.transaction())
    store.close()

    assert tx.last_state == "aborted"
    for act in (store.transaction, lambda: store.commit("x"), lambda: store.abort("x"), store.recover):
        with pytest.raises(StoreClosed):
            act()
    with pytest.raises(TransactionAborted):
        tx.commit()


# --- Topics that go away ---


def test_a_topic_that_was_deleted_before_the_commit_is_an_error_and_nothing_happens(store: Store) -> None:
    two, one = put_two(store.transaction()), store.transaction()
    one.put("orders", b"x")
    store.delete_topic("orders")

    for tx in (two, one):
        with pytest.raises(NoSuchTopic):
            tx.commit()
        assert tx.state == "aborted"

    assert bodies(store, "audit") == []


def test_a_topic_that_was_deleted_after_prepare_takes_its_messages_with_it(store: Store) -> None:
    tx = put_two(store.transaction())
    tx.prepare()
    store.delete_topic("orders")

    assert store.commit(tx.id) == "done"

    assert bodies(store, "audit") == [b"noted"]
    assert not store.has_topic("orders")


# --- Delay ---


@pytest.mark.parametrize("version", [1, 2])
def test_delayed_messages_are_parked_by_the_commit_and_delivered_when_due(
    store: Store, clock: SimulatedClock, version: int
) -> None:
    topic = store.topic("orders", version=version)
    with store.transaction() as tx:
        tx.put(topic, b"soon", delay=5.0, tag="t")
        tx.put(topic, b"later", deliver_at=clock.now_ns() // 1000 + 7_200_000_000, corr_offset=7)
        tx.put(topic, b"now")
        store.keep()
        assert list(topic.scheduled()) == []

    assert [round(each.due.timestamp() - clock.now_ns() / 1e9, 3) for each in topic.scheduled()] == [5.0, 7200.0]
    assert bodies(store, "orders") == [b"now"]
    clock.sleep(5.0)
    store.keep()
    assert [(m.body, m.tag) for m in messages(store, "orders")] == [(b"now", ""), (b"soon", "t")]
    clock.sleep(7_200.0)
    store.keep()
    assert [(m.body, m.corr_offset) for m in messages(store, "orders")][2:] == [(b"later", 7)]


def test_delayed_messages_of_an_aborted_transaction_are_never_delivered(store: Store, clock: SimulatedClock) -> None:
    tx = store.transaction()
    tx.put("orders", b"soon", delay=5.0)
    tx.abort()
    clock.sleep(10.0)
    store.keep()

    assert bodies(store, "orders") == []


# --- Many threads ---


def test_threads_commit_at_the_same_time_and_each_sees_its_own(tmp_path: Path) -> None:
    with warren.open(tmp_path / "store") as store:
        topics = ["a", "b", "c"]
        failures: list[BaseException] = []

        def work(name: int) -> None:
            try:
                for number in range(10):
                    with store.transaction() as tx:
                        for topic in topics:
                            tx.put(topic, b"%d:%d" % (name, number))
                    for topic in topics:
                        assert b"%d:%d" % (name, number) in bodies(store, topic)
            except BaseException as error:
                failures.append(error)
                raise

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        assert failures == []
        for topic in topics:
            assert sorted(bodies(store, topic)) == sorted(b"%d:%d" % (n, m) for n in range(4) for m in range(10))


def test_two_threads_that_commit_the_same_id_carry_it_out_once(tmp_path: Path) -> None:
    def commit(store: Store, id: str, answers: list[str]) -> None:
        answers.append(store.commit(id))

    with warren.open(tmp_path / "store") as store:
        for number in range(10):
            put_two(store.transaction(id=f"batch-{number}")).prepare()
            answers: list[str] = []
            threads = [threading.Thread(target=commit, args=(store, f"batch-{number}", answers)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert answers == ["done"] * 3

        assert len(bodies(store, "orders")) == 10


def test_a_transaction_has_a_readable_repr(store: Store) -> None:
    assert repr(store.transaction(id="batch-7")) == "<Transaction batch-7: open>"
    assert isinstance(warren.Topic, type)
    assert warren.Topic is Topic
    assert warren.Store is Store
