"""Transactions are applied exactly once, despite deaths of processes and errors."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import WatchedDisk
from tests.support.moody_filesystem import MoodyFileSystem
from tests.support.patience import WAIT_S
from tests.support.simulated_clock import SimulatedClock
from tests.support.store.transaction_stores import Killed, bodies, die, kill_at, open_store, put_two
from warren import errors
from warren.errors import (
    StorageFull,
    TransactionAborted,
    TransactionCommitted,
)
from warren.queue.topic import Topic
from warren.transaction import transaction as transaction_module
from warren.transaction.completion import Completion
from warren.transaction.journal import Journal
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


# --- Others finish what a dead process began ---


def test_opening_the_store_finishes_committed_transactions(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = open_store(tmp_path, clock)
    tx = put_two(victim.transaction(id="batch-7"))
    with monkeypatch.context() as patched:
        kill_at(patched, victim._coordinator._finishing._apply, "put_all")
        with pytest.raises(Killed):
            tx.commit()
    assert bodies(victim, "orders") == []
    die(victim)

    with open_store(tmp_path, clock) as survivor:
        assert bodies(survivor, "orders") == [b"order"]
        assert bodies(survivor, "audit") == [b"noted"]
        assert survivor.commit("batch-7") == "done"
        assert bodies(survivor, "orders") == [b"order"]


def test_a_partly_applied_transaction_is_completed_and_not_repeated(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = open_store(tmp_path, clock)
    for topic in ("first", "second", "third"):
        victim.topic(topic, version=1 if topic == "second" else 2)
    tx = victim.transaction()
    for topic in ("first", "second", "third"):
        tx.put_many(topic, [topic.encode(), b"%d" % os.getpid()])
    with monkeypatch.context() as patched:
        kill_at(patched, victim.topic("third").logs[0], "append_packed")
        with pytest.raises(Killed):
            tx.commit()
    assert len(bodies(victim, "first")) == len(bodies(victim, "second")) == 2
    # Messages of other processes do not hide the written ones.
    victim.topic("first").put(b"other")
    victim.topic("second").put(b"other", id="other")
    die(victim)

    with open_store(tmp_path, clock) as survivor:
        stored = {topic: bodies(survivor, topic) for topic in ("first", "second", "third")}

    own = b"%d" % os.getpid()
    assert stored == {
        "first": [b"first", own, b"other"],
        "second": [b"second", own, b"other"],
        "third": [b"third", own],
    }


def test_rows_that_were_journaled_unpacked_for_version_1_are_still_finished(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_packed = Journal.add_packed
    victim = open_store(tmp_path, clock)
    victim.topic("old", version=1)
    tx = victim.transaction()
    tx.put_many("old", [b"a", b"b"])
    tx.put("orders", b"order")
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "add_packed", lambda *args: add_packed(*args)._replace(is_packed=False))
        kill_at(patched, Completion, "carry_out")
        with pytest.raises(Killed):
            tx.commit()
    die(victim)

    with open_store(tmp_path, clock) as survivor:
        assert bodies(survivor, "old") == [b"a", b"b"]
        assert bodies(survivor, "orders") == [b"order"]


def test_a_living_process_finishes_its_own_work(store: Store, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    tx = put_two(store.transaction(id="batch-7"))
    with monkeypatch.context() as patched:
        kill_at(patched, store._coordinator._finishing._apply, "put_all")
        with pytest.raises(Killed):
            tx.commit()

    other.settle()
    other.keep()
    assert other.commit("batch-7") == "committed"
    assert bodies(other, "orders") == []

    store.keep()
    assert other.commit("batch-7") == "done"
    assert bodies(other, "orders") == [b"order"]


class Patience(SimulatedClock):
    """A clock on which other stores work while one sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[Store] = []

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        for store in self.others:
            store.keep()


def test_a_decision_of_a_process_that_seems_alive_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Patience()
    with open_store(tmp_path, clock) as store, open_store(tmp_path, clock) as other:
        tx = put_two(store.transaction())
        with monkeypatch.context() as patched:
            kill_at(patched, store._coordinator._finishing._apply, "put_all")
            with pytest.raises(Killed):
                tx.commit()
        clock.others.append(store)

        other.settle()

        assert bodies(other, "orders") == [b"order"]


class Meanwhile(SimulatedClock):
    """A clock that lets another thread run during a sleep, for as long as the sleep lasts or until `is_applied`."""

    def __init__(self) -> None:
        super().__init__()
        self.slept = threading.Event()
        self.is_applied = threading.Event()

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.slept.set()
        self.is_applied.wait(seconds)


def test_a_transaction_that_another_thread_applies_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Meanwhile()
    victim, survivor = open_store(tmp_path, clock), open_store(tmp_path, clock)
    with survivor, monkeypatch.context() as patched:
        tx = put_two(victim.transaction())
        kill_at(patched, victim._coordinator._finishing._apply, "put_all")
        with pytest.raises(Killed):
            tx.commit()
        die(victim)
        apply, has_begun = survivor._coordinator._finishing._apply, threading.Event()
        put_all = apply.put_all

        def slowly(*arguments: Any) -> None:
            has_begun.set()
            assert clock.slept.wait(WAIT_S), "no thread waits for this"
            put_all(*arguments)
            clock.is_applied.set()

        patched.setattr(apply, "put_all", slowly)
        keeper = threading.Thread(target=survivor.keep)
        keeper.start()
        assert has_begun.wait(WAIT_S)

        survivor.settle()

        assert clock.slept.is_set()
        assert bodies(survivor, "orders") == [b"order"]
        keeper.join()


def test_survivors_finish_a_transaction_while_they_have_the_store_open(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tx = put_two(store.transaction(id="batch-7"))
    with monkeypatch.context() as patched:
        kill_at(patched, store._coordinator._finishing._apply, "put_all")
        with pytest.raises(Killed):
            tx.commit()
    die(store)

    assert other.commit("batch-7") == "done"

    assert bodies(other, "orders") == [b"order"]


def test_an_open_transaction_of_a_dead_process_is_aborted(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_module, "TRANSACTION_MEMORY_MAX", 100)
    tx = put_two(store.transaction(id="large"))
    tx.put("orders", bytes(200))
    die(store)

    other.keep()

    with pytest.raises(TransactionAborted):
        other.commit("large")
    assert bodies(other, "orders") == []


# --- Failures ---


def test_a_full_disk_before_the_decision_aborts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put_two(store.transaction()).commit()
    tx = put_two(store.transaction())

    def full(*arguments: object, **named: object) -> None:
        raise StorageFull("journal", 100)

    with monkeypatch.context() as patched:
        patched.setattr(store._coordinator._made_journal().log, "append_many", full)
        with pytest.raises(StorageFull):
            tx.commit()

    assert tx.state == "aborted"
    store.keep()
    assert bodies(store, "orders") == [b"order"]


def test_a_decision_that_cannot_be_applied_stays_and_is_retried(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tx = put_two(store.transaction(id="batch-7"))

    def full(*arguments: object, **named: object) -> None:
        raise StorageFull("audit", 100)

    with monkeypatch.context() as patched, caplog.at_level(logging.ERROR, "warren"):
        patched.setattr(store.topic("audit").logs[0], "append_packed", full)
        tx.commit()
        assert tx.state == store.commit("batch-7") == "committed"
        assert "batch-7" in caplog.text
        with pytest.raises(TransactionCommitted):
            store.abort("batch-7")
    assert (bodies(store, "orders"), bodies(store, "audit")) == ([b"order"], [])

    store.keep()

    assert tx.state == "done"
    assert (bodies(store, "orders"), bodies(store, "audit")) == ([b"order"], [b"noted"])


def test_a_decision_that_may_not_be_on_disk_is_not_carried_out(tmp_path: Path, clock: SimulatedClock) -> None:
    disk = MoodyFileSystem(really_syncs=False)
    with open_store(tmp_path, clock, disk) as store:
        put_two(store.transaction()).commit()
        tx = put_two(store.transaction(id="unknown"))
        disk.fails = True
        with pytest.raises(errors.SyncFailed):
            tx.commit()
        disk.fails = False
        assert bodies(store, "orders") == [b"order"]
        with pytest.raises(errors.StorageError):
            put_two(store.transaction()).commit()

    with open_store(tmp_path, clock) as later:
        assert bodies(later, "orders") == [b"order"] * 2
        assert later.commit("unknown") == "done"


# --- The order of syncs ---


def test_the_decision_is_on_disk_before_anything_is_appended(tmp_path: Path, clock: SimulatedClock) -> None:
    syncs: list[tuple[str, bool]] = []
    topics: list[Topic] = []

    def note(path: str) -> None:
        syncs.append((Path(path).parent.name, any(topic.logs[0].end > 1 for topic in topics)))

    with open_store(tmp_path, clock, WatchedDisk(note)) as store:
        tx = put_two(store.transaction())
        put_two(store.transaction()).commit()
        topics += [store.topic("orders"), store.topic("audit")]
        syncs.clear()

        tx.commit()
        topics.clear()

    assert syncs[0] == ("journal", False)
    assert sorted(name for name, _ in syncs[:3]) == ["0", "0", "journal"]


@pytest.mark.parametrize("durability", ["os", "interval:50ms"])
def test_topics_that_do_not_sync_are_synced_before_the_journal_forgets(
    tmp_path: Path, clock: SimulatedClock, durability: str
) -> None:
    disk = WatchedDisk()
    with open_store(tmp_path, clock, disk, durability=durability) as store:
        put_two(store.transaction()).commit()
        disk.syncs.clear()

        put_two(store.transaction()).commit()

        assert len([name for name in disk.syncs if name.endswith(".block")]) == 3
