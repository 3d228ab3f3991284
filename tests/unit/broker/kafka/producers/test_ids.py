"""Ids of producers, and the producers of transactional ids: every id is on disk before a client gets it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedFileSystem
from warren.broker.kafka.producers.ids import PRODUCER_IDS_RESERVED, TAG_BITS, ProducerIds, is_given_to
from warren.broker.kafka.transactions import identities as identities_module
from warren.broker.kafka.transactions.identities import EPOCH_MAX, NO_EPOCH, Identities, Identity
from warren.errors import CorruptSettings, StorageFull, TooLarge
from warren.queue.state import json_file, paths
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM

NEW = ("used_ms", "owner")
"""Fields that the first brokers did not write."""


def ids(path: Path) -> ProducerIds:
    return ProducerIds(SYSTEM_FILE_SYSTEM, str(path))


def identities(path: Path) -> Identities:
    return Identities(SYSTEM_FILE_SYSTEM, str(path), ids(path))


def test_no_producer_id_is_assigned_twice_even_after_restarts(tmp_path: Path) -> None:
    assigned: list[int] = []

    for _ in range(3):
        counter = ids(tmp_path)
        with ThreadPoolExecutor(4) as pool:
            assigned += pool.map(lambda _, counter=counter: counter.take(), range(PRODUCER_IDS_RESERVED + 1))

    assert len(set(assigned)) == len(assigned)


def test_an_id_that_could_not_be_reserved_is_not_assigned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = ids(tmp_path)

    def full(*arguments: Any) -> None:
        raise StorageFull("disk", 1)

    with monkeypatch.context() as patched:
        patched.setattr(json_file, "replace_file", full)
        with pytest.raises(StorageFull):
            counter.take()

    assert counter.take() >> TAG_BITS == (ids(tmp_path).take() >> TAG_BITS) - PRODUCER_IDS_RESERVED


def test_a_producer_id_belongs_to_the_user_that_it_was_assigned_to(tmp_path: Path) -> None:
    counter = ids(tmp_path)

    assigned = {user: [counter.take(user) for _ in range(100)] for user in ("", "ann", "bob", "\udcff")}

    for user, numbers in assigned.items():
        assert all(is_given_to(number, user) and 0 <= number < 1 << 63 for number in numbers)
        others = [number for other, theirs in assigned.items() if other != user for number in theirs]
        assert not any(is_given_to(number, user) for number in [*others, -1, 0, 7])


@pytest.mark.parametrize("text", ["{", '{"reserved": -1}', '{"reserved": "many"}'])
def test_a_count_that_cannot_be_read_is_an_error_and_not_a_new_beginning(tmp_path: Path, text: str) -> None:
    ids(tmp_path).take()
    Path(paths.producer_ids_file(paths.broker_directory(str(tmp_path)))).write_text(text)

    with pytest.raises(CorruptSettings):
        ids(tmp_path).take()


def test_the_producer_of_a_transactional_id_is_found_after_a_restart(tmp_path: Path) -> None:
    made = identities(tmp_path).make("a/b c\n", 1000)

    identity = identities(tmp_path).find("a/b c\n")

    assert identity == made
    assert replace(made, used_ms=0, producer_id=0) == Identity(
        transactional_id="a/b c\n", producer_id=0, epoch=0, timeout_ms=1000
    )
    assert identities(tmp_path).find("another") is None


def test_epochs_rise_and_after_the_last_one_comes_another_producer_id(tmp_path: Path) -> None:
    store = identities(tmp_path)
    made = store.make("mine", 1000).begun()
    last = replace(made, epoch=EPOCH_MAX)

    raised = store.raised(made, timeout_ms=2000, previous_epoch=0)
    renewed = store.raised(last, timeout_ms=2000, previous_epoch=EPOCH_MAX)

    assert raised == replace(made, epoch=1, previous_epoch=0, timeout_ms=2000, transaction=0, is_open=False)
    assert (renewed.epoch, renewed.previous_epoch) == (0, NO_EPOCH)
    assert renewed.producer_id != made.producer_id


def test_each_transaction_has_its_own_id(tmp_path: Path) -> None:
    first = identities(tmp_path).make("mine", 1000).begun()
    second = first.aborted().begun()
    of_the_next_epoch = identities(tmp_path).raised(second, timeout_ms=1, previous_epoch=NO_EPOCH).begun()

    assert len({each.transaction_id for each in (first, second, of_the_next_epoch)}) == 3
    assert first.is_open
    assert not first.aborted().is_open


def test_a_file_of_another_transactional_id_is_an_error(tmp_path: Path) -> None:
    identities(tmp_path).make("mine", 1000)
    directory = paths.transactional_directory(paths.broker_directory(str(tmp_path)))
    Path(paths.transactional_file(directory, "mine")).write_text('{"epoch": 1}')

    with pytest.raises(CorruptSettings):
        identities(tmp_path).find("mine")


# --- Unused ids ---


def expiring(path: Path, clock: SimulatedClock) -> Identities:
    return Identities(SYSTEM_FILE_SYSTEM, str(path), ids(path), clock)


def test_an_id_that_is_not_used_for_long_is_forgotten_and_its_producer_id_is_not_used_again(tmp_path: Path) -> None:
    clock = SimulatedClock()
    store = expiring(tmp_path, clock)
    old, other = store.make("old", 1000), store.make("used", 1000)
    clock.sleep(10)
    since_ms = clock.now_ns() // 1_000_000
    store.keep(other.begun())

    unused = store.unused(since_ms)
    forgotten = [store.forget(each, since_ms) for each in ("old", "used", "never")]

    assert unused == ["old"]
    assert forgotten == [True, False, False]
    assert (store.find("old"), expiring(tmp_path, clock).find("old")) == (None, None)
    assert expiring(tmp_path, clock).find("used") is not None
    assert store.make("old", 1000).producer_id not in (old.producer_id, other.producer_id)


def test_an_id_of_a_broker_that_did_not_note_its_use_is_counted_from_now_on(tmp_path: Path) -> None:
    clock = SimulatedClock()
    store = expiring(tmp_path, clock)
    store.make("old", 1000)
    path = Path(store._path("old"))
    path.write_text(
        json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name not in NEW})
    )
    now_ms = clock.now_ns() // 1_000_000

    first = store.unused(now_ms), store.forget("old", now_ms)
    clock.sleep(10)
    second = store.forget("old", now_ms), store.forget("old", now_ms + 1)

    assert first == (["old"], False)
    assert second == (False, True)


def test_a_user_cannot_take_all_transactional_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities_module, "TRANSACTIONAL_IDS_MAX", 5)
    monkeypatch.setattr(identities_module, "TRANSACTIONAL_IDS_MAX_PER_USER", 2)
    clock = SimulatedClock()
    store = expiring(tmp_path, clock)
    for id in ("a", "b"):
        store.make(id, 1000, "ann")

    # Also by a broker that starts after that.
    for current in (store, expiring(tmp_path, clock)):
        with pytest.raises(TooLarge):
            current.make("c", 1000, "ann")
    for id in ("d", "e", "f"):
        store.make(id, 1000)
    with pytest.raises(TooLarge):
        store.make("g", 1000, "bob")
    clock.sleep(10)
    assert store.forget("a", clock.now_ns() // 1_000_000)

    assert store.make("g", 1000, "ann").owner == "ann"


def test_a_damaged_id_does_not_keep_others_from_being_removed(tmp_path: Path) -> None:
    clock = SimulatedClock()
    store = expiring(tmp_path, clock)
    for id in ("a", "b"):
        store.make(id, 1000)
    Path(store._path("a")).write_text("nothing")
    clock.sleep(10)

    assert store.unused(clock.now_ns() // 1_000_000) == ["b"]


def test_a_power_cut_while_an_id_is_removed_leaves_all_or_none_of_it() -> None:
    clock = SimulatedClock()
    for seed in range(20):
        disk = SimulatedFileSystem(seed=seed)
        disk.make_directory("/store")
        store = Identities(disk, "/store", ProducerIds(disk, "/store"), clock)
        made = store.make("mine", 1000)
        clock.sleep(10)
        store.forget("mine", clock.now_ns() // 1_000_000)

        after = disk.after_power_cut(seed)
        identity = Identities(after, "/store", ProducerIds(after, "/store"), clock).find("mine")

        assert identity in (None, made)
