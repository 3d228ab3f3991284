"""Batches of an outside system: its transactions are decided together with its progress, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.store.transaction_stores import Killed, bodies, die, kill_at, open_store
from warren.errors import (
    BadInput,
    NoSuchTransaction,
    TooLarge,
    TransactionAborted,
    TransactionCommitted,
    WrongState,
)
from warren.transaction import journal
from warren.transaction.coordinator import APPLICATION_NAME_SIZE_MAX
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


def stage(store: Store, *ids: str, topic: str = "orders", **options: Any) -> list[str]:
    """Prepared transactions, each with its id as its message."""
    for id in ids:
        tx = store.transaction(id=id, **options)
        tx.put(topic, id.encode())
        tx.prepare()
    return list(ids)


def test_all_of_a_batch_happens(store: Store, other: Store) -> None:
    ids = stage(store, "a", "b") + stage(store, "c", topic="audit")
    assert other.last_version("query") is None

    assert other.commit_batch("query", 0, ids) == "done"

    assert bodies(store, "orders") == [b"a", b"b"]
    assert bodies(store, "audit") == [b"c"]
    assert store.last_version("query") == 0
    assert store.recover() == []
    assert store.commit("a") == "done"


def test_a_version_is_decided_once(store: Store) -> None:
    store.commit_batch("query", 5, stage(store, "a"))

    for version in (5, 4, 0):
        assert store.commit_batch("query", version, stage(store, f"again-{version}")) == "done"

    assert bodies(store, "orders") == [b"a"]
    assert store.recover() == []
    assert store.last_version("query") == 5
    assert store.commit_batch("query", 6, stage(store, "b")) == "done"
    assert store.commit_batch("other", 5, stage(store, "c")) == "done"
    assert bodies(store, "orders") == [b"a", b"b", b"c"]


def test_the_same_call_again_does_nothing(store: Store) -> None:
    ids = stage(store, "a", "b")

    assert [store.commit_batch("query", 1, ids) for _ in range(3)] == ["done"] * 3

    assert bodies(store, "orders") == [b"a", b"b"]


def test_a_batch_may_be_empty(store: Store) -> None:
    assert store.commit_batch("query", 3, []) == "done"

    assert store.last_version("query") == 3
    assert store.commit_batch("query", 3, stage(store, "late")) == "done"
    assert bodies(store, "orders") == []


def test_an_id_that_is_used_twice_happens_once(store: Store) -> None:
    stage(store, "a")

    assert store.commit_batch("query", 3, ["a", "a"]) == "done"

    assert bodies(store, "orders") == [b"a"]


def test_if_one_transaction_cannot_be_committed_none_is(store: Store, clock: SimulatedClock) -> None:
    stage(store, "good", "done", "aborted")
    stage(store, "late", prepared_timeout=5.0)
    store.commit("done")
    store.abort("aborted")
    still_open = store.transaction(id="open")
    still_open.put_many("orders", [b"x"] * 10)
    store._coordinator.spill(still_open)
    clock.sleep(5.0)

    for id, error in (
        ("done", TransactionCommitted),
        ("aborted", TransactionAborted),
        ("late", TransactionAborted),
        ("open", WrongState),
        ("never", NoSuchTransaction),
    ):
        with pytest.raises(error):
            store.commit_batch("query", 1, ["good", id])

    assert store.last_version("query") is None
    assert bodies(store, "orders") == [b"done"]
    assert "good" in [prepared.id for prepared in store.recover()]
    assert store.commit_batch("query", 1, ["good"]) == "done"
    assert bodies(store, "orders") == [b"done", b"good"]


def test_abandoned_transactions_are_removed_by_the_next_batch_after_their_timeout(
    store: Store, clock: SimulatedClock
) -> None:
    stage(store, "abandoned", prepared_timeout=60.0)
    stage(store, "kept")
    clock.sleep(61.0)

    store.commit_batch("query", 1, [])

    assert [prepared.id for prepared in store.recover()] == ["kept"]


def test_a_batch_aborts_nothing_else(store: Store) -> None:
    stage(store, "query/1/a", "query/2/a", "stranger")

    store.commit_batch("query", 2, ["query/2/a"])

    assert [prepared.id for prepared in store.recover()] == ["query/1/a", "stranger"]


def test_transactions_of_an_application_are_aborted_by_their_prefix(store: Store, other: Store) -> None:
    stage(store, "query/1/a", "query/1/b", "query/2/a", "stranger")

    assert other.abort_prepared("query/1/") == ["query/1/a", "query/1/b"]

    assert [prepared.id for prepared in store.recover()] == ["query/2/a", "stranger"]
    assert other.abort_prepared("query/1/") == []
    assert bodies(store, "orders") == []


def test_transactions_of_an_application_are_aborted_up_to_a_version(store: Store) -> None:
    stage(store, "query/1/a", "query/2/a", "query/3/a", "a")

    assert store.abort_prepared("query/", before="query/3") == ["query/1/a", "query/2/a"]

    assert [prepared.id for prepared in store.recover()] == ["query/3/a", "a"]


def test_transactions_are_committed_together_without_an_application(store: Store, other: Store) -> None:
    ids = stage(store, "a", "b")

    assert [other.commit_all(ids) for _ in range(2)] == ["done"] * 2

    assert bodies(store, "orders") == [b"a", b"b"]
    assert store._coordinator._made_journal().transactions.versions == {}
    with pytest.raises(TransactionCommitted):
        store.commit_all([*stage(store, "c"), "a"])
    assert other.commit_all([]) == "done"
    assert bodies(store, "orders") == [b"a", b"b"]


def test_transactions_of_a_dead_process_are_removed_by_the_next_batch(
    tmp_path: Path, clock: SimulatedClock, store: Store
) -> None:
    victim = open_store(tmp_path, clock)
    tx = victim.transaction(id="staging")
    tx.put("orders", b"x")
    victim._coordinator.spill(tx)
    die(victim)

    store.commit_batch("query", 1, [])

    assert store._coordinator._made_journal().entries() == []


def test_messages_of_an_aborted_transaction_are_given_back(store: Store) -> None:
    store.topic("jobs").put(b"job")
    work = store.topic("jobs").group("workers", mode="queue")
    tx = store.transaction(id="query/1")
    tx.ack(work, work.take(1))
    tx.prepare()

    store.abort_prepared("query/")

    assert store.recover() == []
    assert [message.body for message in work.take(1)] == [b"job"]


def test_positions_and_acknowledgements_are_part_of_a_batch(store: Store) -> None:
    store.topic("jobs").put(b"job")
    work = store.topic("jobs").group("workers", mode="queue")
    tx = store.transaction(id="a")
    tx.ack(work, work.take(1))
    tx.put("orders", b"order")
    tx.prepare()

    assert store.commit_batch("query", 1, ["a"]) == "done"

    assert work.take(1) == []
    assert bodies(store, "orders") == [b"order"]


# --- Remembered commits ---


def test_versions_survive_snapshots_and_openings(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "EVENTS_PER_SNAPSHOT", 4)
    with open_store(tmp_path, clock) as store:
        for version in range(30):
            store.commit_batch("query", version, stage(store, f"{version}"))
            store.commit_batch("rare", 7, [])

    with open_store(tmp_path, clock) as store:
        assert (store.last_version("query"), store.last_version("rare")) == (29, 7)
        assert store.last_version("unknown") is None
        assert len(bodies(store, "orders")) == 30


def test_the_application_that_was_used_longest_ago_is_forgotten(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "APPLICATIONS_REMEMBERED_MAX", 3)
    for name in ("a", "b", "c"):
        store.commit_batch(name, 1, [])
    store.commit_batch("a", 2, [])
    store.commit_batch("d", 1, [])

    assert [other.last_version(name) for name in "abcd"] == [2, None, 1, 1]


@pytest.mark.parametrize(
    ("application", "version", "ids"),
    [
        ("", 1, []),
        (None, 1, []),
        (b"query", 1, []),
        ("x" * (APPLICATION_NAME_SIZE_MAX + 1), 1, []),
        ("query", -1, []),
        ("query", "1", []),
        ("query", True, []),
        ("query", 1 << 63, []),
        ("query", 1, "ids"),
        ("query", 1, None),
        ("query", 1, [""]),
        ("query", 1, [7]),
    ],
)
def test_an_invalid_batch_is_refused(store: Store, application: Any, version: Any, ids: Any) -> None:
    with pytest.raises(BadInput):
        store.commit_batch(application, version, ids)

    assert store.last_version("query") is None


def test_other_names_and_prefixes_are_checked_as_well(store: Store) -> None:
    with pytest.raises(BadInput):
        store.last_version("")
    with pytest.raises(BadInput):
        store.abort_prepared("")
    with pytest.raises(TooLarge):
        store.abort_prepared("x" * 201)


# --- After a crash ---


def test_a_batch_is_decided_by_one_event(store: Store) -> None:
    ids = stage(store, "a", "b", "c")
    log = store._coordinator._made_journal().log
    before = log.end

    store.commit_batch("query", 1, ids)

    kinds = [(marked.marker, marked.message_count) for marked in log.markers(before)]
    assert kinds == [(b"batch", 1), (b"ended", 1), (b"ended", 1), (b"ended", 1)]
    event = json.loads(log.read(before)[0].body)
    assert (event["application"], event["version"]) == ("query", 1)
    assert [(entry["id"], entry["state"]) for entry in event["entries"]] == [(id, "committed") for id in ids]


@pytest.mark.parametrize("moment", ["decide", "sync", "put_all", "end"])
def test_after_a_killed_driver_a_batch_is_committed_whole_or_not_at_all(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    victim = open_store(tmp_path, clock)
    ids = stage(victim, "a", "b") + stage(victim, "c", topic="audit")
    coordinator = victim._coordinator
    owner: object = coordinator._finishing._apply if moment == "put_all" else coordinator._made_journal()
    with monkeypatch.context() as patched:
        kill_at(patched, owner, moment)
        with pytest.raises(Killed):
            victim.commit_batch("query", 1, ids)
    die(victim)

    with open_store(tmp_path, clock) as survivor:
        was_decided = survivor.last_version("query") == 1
        assert was_decided == (moment != "decide")
        assert bodies(survivor, "orders") == ([b"a", b"b"] if was_decided else [])
        assert len(survivor.recover()) == (0 if was_decided else 3)
        # The restarted driver runs the batch again.
        again = stage(survivor, "a2", "b2") + stage(survivor, "c2", topic="audit")
        assert survivor.commit_batch("query", 1, again) == "done"
        assert bodies(survivor, "orders") == ([b"a", b"b"] if was_decided else [b"a2", b"b2"])
        assert bodies(survivor, "audit") == ([b"c"] if was_decided else [b"c2"])


def test_a_decision_that_cannot_be_applied_now_stays_decided(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = stage(store, "a", "b")

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(store.topic("orders").logs[0], "append_packed", full)
        assert store.commit_batch("query", 1, ids) == "committed"

    assert store.last_version("query") == 1
    assert "No space left on device" in store.last_failure
    store.keep()
    assert bodies(store, "orders") == [b"a", b"b"]


def test_a_topic_that_was_deleted_took_its_part_with_it(store: Store) -> None:
    ids = stage(store, "a") + stage(store, "b", topic="audit")
    store.delete_topic("orders")

    assert store.commit_batch("query", 1, ids) == "done"

    assert not store.has_topic("orders")
    assert bodies(store, "audit") == [b"b"]


def test_partitions_that_another_process_added_are_put_to(store: Store, other: Store) -> None:
    other.topic("orders").put(b"first")
    store.topic("orders").configure(partitions=3)
    tx = store.transaction(id="a")
    tx.put("orders", b"new", partition=2)
    tx.prepare()

    assert other.commit_batch("query", 1, ["a"]) == "done"

    assert [message.body for message in store.topic("orders").logs[2].read(0)] == [b"new"]
