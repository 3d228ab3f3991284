"""The journal of transactions: large ones wait in it, and finished ones leave it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.store.transaction_stores import bodies, journal_size, messages, open_store, put_two
from tests.tidy.documents import rows
from tests.tidy.source import ROOT
from warren.errors import (
    NoSuchTransaction,
    TransactionAborted,
    WrongState,
)
from warren.transaction import journal
from warren.transaction import transaction as transaction_module
from warren.transaction.journal import TRANSACTIONS_REMEMBERED_MAX
from warren.transaction.journal_entry import MARKER_START
from warren.transaction.states import State
from warren.transaction.store import Store
from warren.transaction.transaction import TRANSACTION_MEMORY_MAX


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


# --- Large ones ---


def test_a_transaction_too_large_for_memory_spills_to_the_journal(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_module, "TRANSACTION_MEMORY_MAX", 10_000)
    store.topic("old", version=1)
    large = [b"%d:" % number + bytes(1000) for number in range(50)]

    with store.transaction() as tx:
        for body in large:
            tx.put("orders", body, key=body[:3], headers={"n": body[:3]})
            tx.put("old", body, tag="t")
            assert tx.size < 12_000
        assert bodies(store, "orders") == bodies(store, "old") == []

    assert bodies(store, "orders") == bodies(store, "old") == large
    assert [(m.key, m.headers["n"]) for m in messages(store, "orders")] == [(body[:3], body[:3]) for body in large]
    assert {message.tag for message in messages(store, "old")} == {"t"}


def test_a_large_transaction_that_is_aborted_leaves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_module, "TRANSACTION_MEMORY_MAX", 100)
    tx = put_two(store.transaction(id="large"))
    tx.put("orders", bytes(200))

    tx.abort()

    with pytest.raises(TransactionAborted):
        store.commit("large")
    assert bodies(store, "orders") == []
    put_two(store.transaction(id="large")).commit()
    assert bodies(store, "orders") == [b"order"]


def test_a_large_open_transaction_can_be_aborted_from_elsewhere_and_not_be_committed(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_module, "TRANSACTION_MEMORY_MAX", 100)
    tx = put_two(store.transaction(id="large"))
    tx.put("orders", bytes(200))
    with pytest.raises(WrongState):
        other.commit("large")

    other.abort("large")

    with pytest.raises(TransactionAborted):
        tx.commit()
    assert bodies(store, "orders") == bodies(store, "audit") == []


def test_bodies_larger_than_a_block_of_the_journal_are_taken(store: Store) -> None:
    body = os.urandom(1 << 10) * (9 << 10)
    assert len(body) > max(TRANSACTION_MEMORY_MAX, 2 * journal.JOURNAL_BLOCK_SIZE)

    with store.transaction() as tx:
        tx.put("orders", body)
        tx.put("audit", b"noted")
    put_two(store.transaction()).commit()

    assert bodies(store, "orders") == [body, b"order"]


# --- The journal ---


def test_finished_transactions_leave_the_journal_and_the_last_ones_are_remembered(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "JOURNAL_BLOCK_SIZE", 32 << 10)
    monkeypatch.setattr(journal, "EVENTS_PER_SNAPSHOT", 50)
    monkeypatch.setattr(journal, "TRANSACTIONS_REMEMBERED_MAX", 20)
    with open_store(tmp_path, clock) as store:
        put_two(store.transaction(id="waiting")).prepare()
        store.abort("waiting")
        for number in range(300):
            with store.transaction(id=f"batch-{number}") as tx:
                tx.put("orders", bytes(1000))
                tx.put("audit", b"noted")
        assert journal_size(store) < 200 << 10

    with open_store(tmp_path, clock) as later:
        assert later.commit("batch-299") == later.commit("batch-280") == "done"
        with pytest.raises(NoSuchTransaction):
            later.commit("batch-279")
        assert len(bodies(later, "orders")) == 300


def test_a_prepared_transaction_keeps_its_rows_during_later_writes(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "JOURNAL_BLOCK_SIZE", 32 << 10)
    monkeypatch.setattr(journal, "EVENTS_PER_SNAPSHOT", 50)
    monkeypatch.setattr(transaction_module, "TRANSACTION_MEMORY_MAX", 1000)
    with open_store(tmp_path, clock) as store:
        put_two(store.transaction(id="waiting")).prepare()
        large = store.transaction(id="large")
        large.put("orders", b"l" * 1000)
        for _ in range(200):
            put_two(store.transaction()).commit()
        large.put("orders", b"m" * 1000)
        large.commit()

    with open_store(tmp_path, clock) as later:
        assert later.commit("waiting") == "done"
        stored = bodies(later, "orders")
    assert stored == [b"order"] * 200 + [b"l" * 1000, b"m" * 1000, b"order"]


def test_many_rows_are_retired_even_if_events_are_few(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "JOURNAL_BLOCK_SIZE", 64 << 10)
    monkeypatch.setattr(journal, "RETIRED_PER_SNAPSHOT", 100 << 10)
    with open_store(tmp_path, clock) as store:
        for _ in range(30):
            with store.transaction() as tx:
                tx.put("orders", bytes(20_000))
                tx.put("audit", b"noted")

        assert journal_size(store) < 300 << 10


def test_opening_the_store_replays_few_events(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "EVENTS_PER_SNAPSHOT", 4)
    monkeypatch.setattr(journal, "EVENTS_PER_SNAPSHOT_MAX", 20)
    with open_store(tmp_path, clock) as store:
        for number in range(300):
            # The remembered outcomes are larger than the events.
            put_two(store.transaction(id=f"{number}" + "x" * 150)).commit()
        log = store._coordinator._made_journal().log
        waiting = store.transaction(id="waiting")
        waiting.put_columns("orders", pa.record_batch({"body": [b"row"] * 5000}))
        waiting.prepare()
        numbers = [marked.number for marked in log.markers(0, b"transaction ") if marked.marker == b"snapshot"]

    with open_store(tmp_path, clock) as later:
        opened = later._coordinator._made_journal()
        replayed = list(opened.log.markers(numbers[-1] + 1, b"transaction "))
        assert len(replayed) <= 24
        assert opened._last_snapshot() == numbers[-1]
        assert [prepared.id for prepared in later.recover()] == ["waiting"]
        assert later.commit("0" + "x" * 150) == "done"


def test_staged_rows_are_retired_by_the_process_that_decides(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "JOURNAL_BLOCK_SIZE", 64 << 10)
    monkeypatch.setattr(journal, "RETIRED_PER_SNAPSHOT", 100 << 10)
    monkeypatch.setattr(journal, "EVENTS_PER_SNAPSHOT", 1 << 20)
    tx = store.transaction(id="staged")
    for _ in range(30):
        tx.put_columns("orders", pa.record_batch({"body": [bytes(20_000)]}))
    tx.prepare()
    log = store._coordinator._made_journal().log
    # While nothing can be retired, a snapshot would be useless.
    assert b"snapshot" not in [marked.marker for marked in log.markers(0)]
    assert journal_size(store) > 600_000

    other.commit_batch("application", 1, ["staged"])

    assert journal_size(store) < 200 << 10
    assert len(bodies(store, "orders")) == 30


def test_a_snapshot_is_on_disk_before_its_events_are_retired(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "EVENTS_PER_SNAPSHOT", 5)
    put_two(store.transaction()).commit()
    log = store._coordinator._made_journal().log
    synced: list[bool] = []

    def retire(*, before: int) -> int:
        synced.append(log._files.index().synced >= log.end)
        return log.first

    monkeypatch.setattr(log, "retire", retire)
    for _ in range(5):
        put_two(store.transaction()).commit()

    assert synced
    assert all(synced)


def test_ended_transactions_are_remembered_up_to_a_limit() -> None:
    transactions = journal.Transactions()

    for number in range(TRANSACTIONS_REMEMBERED_MAX + 5):
        transactions.end(str(number), State.DONE)

    assert len(transactions.ended) == TRANSACTIONS_REMEMBERED_MAX
    assert transactions.state("4") == "unknown"
    assert transactions.state("5") == "done"


# --- The document ---


def test_the_events_are_those_of_the_document(store: Store) -> None:
    document = (ROOT / "docs/formats.md").read_text()
    expected = {
        kind.encode(): fields.split(", ") for kind, fields in rows(document, "Files of a store", "event", "fields")
    }
    tx = store.transaction(id="a")
    tx.put("orders", b"1")
    tx.prepare()

    store.commit_batch("application", 1, ["a"])
    with store._coordinator._made_journal().changing():
        store._coordinator._made_journal()._write_snapshot()

    log = store._coordinator._made_journal().log
    events = {marked.marker: json.loads(log.read(marked.number)[0].body) for marked in log.markers(0, MARKER_START)}
    assert {kind: list(event) for kind, event in events.items()} == expected
    assert list(events[b"batch"]["entries"][0]) == expected[b"changed"]
    (target,) = events[b"batch"]["entries"][0]["targets"]
    assert target == ["orders", 0, None, 0, [[0, 1, True]]]
    assert next(log.markers(0)).marker.startswith(MARKER_START)
