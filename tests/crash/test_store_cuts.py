"""A store that loses its power while it is created, or while a topic is created, changed or deleted, opens again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import PowerCut, SimulatedFileSystem
from warren.broker.quotas.entities import Entity
from warren.broker.quotas.file import QuotasFile
from warren.queue.state import paths
from warren.queue.state.json_file import read_json
from warren.queue.store import Store

CALLS_MAX = 1000


def open_store(disk: SimulatedFileSystem) -> Store:
    return Store("/data", keeps=False, filesystem=disk, clock=SimulatedClock())


def cut_at_each_call(
    begin: Callable[[], SimulatedFileSystem], act: Callable[[SimulatedFileSystem], None]
) -> list[Store]:
    """Yields the stores that are found when the power is cut at one call of `act` after the other, until it is
    complete.
    """
    stores = []
    for call in range(1, CALLS_MAX):
        disk = begin()
        disk.cut_at_call = disk.calls + call
        try:
            act(disk)
        except PowerCut:
            stores += [open_store(disk.after_power_cut(call * 10 + seed, same_boot=seed > 1)) for seed in range(4)]
            stores.append(open_store(disk.after_process_kill(call)))
        else:
            break
    assert len(stores) > 20
    return stores


def made() -> SimulatedFileSystem:
    disk = SimulatedFileSystem()
    open_store(disk).close()
    return disk


def with_topic() -> SimulatedFileSystem:
    disk = SimulatedFileSystem()
    with open_store(disk) as store:
        store.topic("orders", partitions=2).put(b"one", partition=0)
    return disk


def test_a_store_that_was_being_made_can_be_made() -> None:
    for store in cut_at_each_call(SimulatedFileSystem, lambda disk: open_store(disk).close()):
        assert store.topics() == []
        store.topic("orders").put(b"one")


def test_a_topic_that_was_being_created_exists_or_not() -> None:
    for store in cut_at_each_call(made, lambda disk: _make_topic(open_store(disk))):
        assert store.topics() in ([], ["orders"])
        topic = store.topic("orders", partitions=2)
        assert topic.put(b"one", partition=1).number == 0


def _make_topic(store: Store) -> None:
    store.topic("orders", partitions=2)


def test_settings_that_were_being_changed_are_the_old_or_the_new() -> None:
    for store in cut_at_each_call(with_topic, lambda disk: _configure(open_store(disk))):
        topic = store.topic("orders")
        assert (topic.partition_count, topic.settings.retention_age_s) in ((2, None), (3, 60.0))
        assert [message.body for message in topic.partition(0).read(0)] == [b"one"]


def _configure(store: Store) -> None:
    store.topic("orders").configure(partitions=3, retention_age_s=60.0)


def test_a_cut_while_the_owner_is_stored_leaves_a_whole_topic_with_the_owner_or_without() -> None:
    for store in cut_at_each_call(with_topic, lambda disk: open_store(disk).note_owner("orders", "ann")):
        data = read_json(store.filesystem, paths.topic_file("/data/topics/orders"))
        assert data is not None
        assert data.get("owner") in (None, "ann")
        assert [message.body for message in store.topic("orders").partition(0).read(0)] == [b"one"]


def test_quotas_that_were_being_changed_are_the_old_or_the_new() -> None:
    def begun() -> SimulatedFileSystem:
        disk = made()
        QuotasFile("/data", disk, SimulatedClock()).alter([(Entity("ann"), {"request_rate": 1.0})])
        return disk

    def change(disk: SimulatedFileSystem) -> None:
        both = [(Entity("ann"), {"request_rate": 2.0}), (Entity("bob"), {"request_rate": 3.0})]
        QuotasFile("/data", disk, SimulatedClock()).alter(both)

    old = {Entity("ann"): {"request_rate": 1.0}}
    new = {Entity("ann"): {"request_rate": 2.0}, Entity("bob"): {"request_rate": 3.0}}
    for store in cut_at_each_call(begun, change):
        assert QuotasFile("/data", store.filesystem, SimulatedClock()).read() in (old, new)


def test_a_topic_that_was_being_deleted_is_complete_or_deleted() -> None:
    for store in cut_at_each_call(with_topic, lambda disk: open_store(disk).delete_topic("orders")):
        is_there = store.topics() == ["orders"]
        bodies = [message.body for message in store.topic("orders", partitions=2).partition(0).read(0)]
        assert bodies == ([b"one"] if is_there else [])


def test_too_many_calls_would_be_noticed() -> None:
    with pytest.raises(AssertionError):
        cut_at_each_call(made, lambda disk: None)
