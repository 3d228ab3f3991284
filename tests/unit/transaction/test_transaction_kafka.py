"""Kafka batches and positions of groups in Warren's transactions: as the broker uses them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kafka_batches import batch_of
from tests.support.simulated_clock import SimulatedClock
from tests.support.store.transaction_stores import Killed, bodies, die, kill_at, open_store
from warren.errors import NoSuchPartition, TooLarge, UnsupportedByVersion
from warren.queue.stream.positions import store_position, stored_position
from warren.storage.format.layout import KAFKA_BATCH_START
from warren.transaction import completion, journal
from warren.transaction.states import State
from warren.transaction.store import Store


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def store(tmp_path: Path, clock: SimulatedClock) -> Iterator[Store]:
    with open_store(tmp_path, clock) as store:
        yield store


def batch(*values: bytes) -> bytes:
    return batch_of([(None, value, []) for value in values], is_transactional=True, producer_id=1, producer_epoch=0)


def test_a_batch_waits_in_the_journal_and_enters_its_log_unchanged(store: Store) -> None:
    topic = store.topic("orders", partitions=2)
    sent = batch(b"a", b"b")

    with store.transaction() as tx:
        tx.put("orders", b"before", partition=1)
        tx.put_kafka(topic, sent, partition=1)
        tx.put_kafka(topic, batch(b"c"), partition=1)
        assert bodies(store, "orders") == []

    assert [message.body for message in topic.partition(1).read(0)] == [b"before", b"a", b"b", b"c"]
    (_, stored, _) = topic.partition(1).stored(0, bytes_max=1 << 20)
    assert stored.batch is not None
    assert stored.batch[KAFKA_BATCH_START.size :] == sent[KAFKA_BATCH_START.size :]


def test_an_aborted_transaction_leaves_no_message(store: Store) -> None:
    tx = store.transaction()
    tx.put_kafka(store.topic("orders"), batch(b"a"), partition=0)

    tx.abort()

    assert bodies(store, "orders") == []


def test_a_batch_that_its_topic_does_not_accept_is_refused_and_changes_nothing(store: Store) -> None:
    old, small = store.topic("old", version=1), store.topic("small", block_size=4096)

    with store.transaction() as tx:
        tx.put("small", b"kept")
        with pytest.raises(UnsupportedByVersion):
            tx.put_kafka(old, batch(b"a"), partition=0)
        with pytest.raises(TooLarge):
            tx.put_kafka(small, batch(bytes(5000)), partition=0)
        with pytest.raises(NoSuchPartition):
            tx.put_kafka(small, batch(b"a"), partition=1)

    assert bodies(store, "small") == [b"kept"]


def test_opening_the_store_finishes_committed_transactions(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path, clock)
    topic = store.topic("orders")
    topic.group("readers").close()
    tx = store.transaction(id="mine")
    tx.put_kafka(topic, batch(b"a", b"b"), partition=0)
    tx.commit_numbers(topic, "readers", {0: 0})
    with monkeypatch.context() as patched:
        kill_at(patched, completion.Completion, "carry_out")
        with pytest.raises(Killed):
            tx.commit()
        die(store)

    with open_store(tmp_path, clock) as store:
        assert store.transaction_state("mine") is State.DONE
        assert bodies(store, "orders") == [b"a", b"b"]


def test_positions_of_a_group_are_committed_with_it_and_may_go_back(store: Store) -> None:
    topic = store.topic("orders")
    for number in range(5):
        topic.put(b"%d" % number)
    topic.group("readers").close()
    log = topic.partition(0)

    with store.transaction() as tx:
        tx.put("audit", b"x")
        tx.commit_numbers(topic, "readers", {0: 3})
        assert stored_position(log, "readers") == 0
    after_first = stored_position(log, "readers")
    with store.transaction() as tx:
        tx.put("audit", b"y")
        tx.commit_numbers(topic, "readers", {0: 2})

    assert after_first == 3
    assert stored_position(log, "readers") == 2


@pytest.mark.parametrize("moved_on", [None, 4, 5])
def test_completing_a_dead_process_does_not_overwrite_a_position_that_went_back(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch, moved_on: int | None
) -> None:
    store = open_store(tmp_path, clock)
    topic = store.topic("orders")
    topic.put_many([b"%d" % number for number in range(5)])
    topic.group("readers").close()
    store_position(topic.partition(0), "readers", 3)
    tx = store.transaction()
    tx.put("audit", b"x")
    tx.commit_numbers(topic, "readers", {0: 2})
    with monkeypatch.context() as patched:
        # Decided and carried out, and killed before the journal records that.
        kill_at(patched, journal.Journal, "end")
        with pytest.raises(Killed):
            tx.commit()
        moved = stored_position(topic.partition(0), "readers")
        if moved_on is not None:
            store_position(topic.partition(0), "readers", moved_on)
        die(store)

    with open_store(tmp_path, clock) as store:
        position = stored_position(store.topic("orders").partition(0), "readers")

    assert (moved, position) == (2, 2 if moved_on is None else moved_on)


def test_a_position_in_a_partition_that_is_not_there_is_refused(store: Store) -> None:
    topic = store.topic("orders")

    with store.transaction() as tx, pytest.raises(NoSuchPartition):
        tx.commit_numbers(topic, "readers", {1: 0})


def test_the_state_of_a_transaction_is_known_by_its_id(store: Store) -> None:
    tx = store.transaction(id="mine")
    tx.put("orders", b"a")

    states = [store.transaction_state("mine")]
    tx.commit()
    states.append(store.transaction_state("mine"))

    assert states == [State.OPEN, State.DONE]
    assert store.transaction_state("another") is State.UNKNOWN
