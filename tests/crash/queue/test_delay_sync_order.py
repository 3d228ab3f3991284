"""Each sync of the delay comes before the state that it protects: crashes at chosen moments, which random ones rarely
meet.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import PowerCut, SimulatedFile, SimulatedFileSystem
from warren.queue.delay import due_index
from warren.queue.delay.due_index import run_files
from warren.queue.delay.intent import Intent, IntentFile
from warren.queue.state import paths
from warren.queue.store import Store
from warren.storage import Log

PATH: Final = "/store"
SECOND_NS: Final = 1_000_000_000
SEEDS: Final = range(5)


def open_store(disk: SimulatedFileSystem, clock: SimulatedClock) -> Store:
    return Store(PATH, filesystem=disk, clock=clock, keeps=False, defaults={"durability": "os", "block_size": 8192})


def delivered(store: Store) -> list[bytes]:
    return sorted(message.body for log in store.topic("orders").logs for message in log.read(log.first))


def deliver_all(store: Store) -> list[bytes]:
    while store.mover.run() == 0:
        pass
    return delivered(store)


def ways_to_end(disk: SimulatedFileSystem) -> Iterator[SimulatedFileSystem]:
    yield disk.after_process_kill()
    yield from (disk.after_power_cut(seed, same_boot=is_same) for seed in SEEDS for is_same in (False, True))


def run_mover(store: Store, disk: SimulatedFileSystem, at: int) -> bool:
    """Lets the mover run up to its `at`-th call of the seam. Returns whether it got that far."""
    disk.cut_at_call = disk.calls + at
    try:
        store.mover.run()
    except PowerCut:
        return True
    disk.cut_at_call = None
    return False


def test_a_delivered_message_that_is_on_disk_is_never_lost() -> None:
    """Also if the topic itself is not synced: the message is parked, or delivered, for any loss in a power cut."""
    for at in itertools.count(1):
        disk, clock = SimulatedFileSystem(seed=at), SimulatedClock()
        store = open_store(disk, clock)
        store.topic("orders").put(b"a", delay=1.0)
        store.topic("orders").delay.log("minute").sync()
        clock.pass_ns(SECOND_NS)
        is_cut = run_mover(store, disk, at)

        for after in ways_to_end(disk):
            assert deliver_all(open_store(after, clock)) == [b"a"]
        if not is_cut:
            break


def test_an_intent_of_another_process_is_on_disk_before_its_messages_are_appended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for at in itertools.count(1):
        disk, clock = SimulatedFileSystem(seed=at), SimulatedClock()
        store = open_store(disk, clock)
        store.topic("orders").put(b"a", delay=0.0)
        store.mover.run()
        store.topic("orders").put(b"b", delay=0.0)
        kill_before_the_intent_is_synced(store, disk, monkeypatch)
        disk = disk.after_process_kill(at)
        is_cut = run_mover(open_store(disk, clock), disk, at)

        for after in ways_to_end(disk):
            assert deliver_all(open_store(after, clock)) == [b"a", b"b"]
        if not is_cut:
            break


def kill_before_the_intent_is_synced(store: Store, disk: SimulatedFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    write = IntentFile.write

    def write_and_die(self: IntentFile, intent: Intent) -> None:
        monkeypatch.setattr(SimulatedFile, "sync", lambda file: disk.cut())
        write(self, intent)

    monkeypatch.setattr(IntentFile, "write", write_and_die)
    with pytest.raises(PowerCut):
        store.mover.run()
    monkeypatch.undo()


def test_an_intent_never_names_a_number_that_a_power_cut_may_give_to_another_message() -> None:
    for at in itertools.count(1):
        disk, clock = SimulatedFileSystem(seed=at), SimulatedClock()
        store = open_store(disk, clock)
        store.topic("orders").put(b"a", delay=0.0)
        is_cut = run_mover(store, disk, at)

        for after in ways_to_end(disk):
            again = open_store(after, clock)
            again.topic("orders").put(b"later", delay=50.0)
            assert deliver_all(again) in ([b"a"], []), "a message that is not due was delivered instead of a lost one"
        if not is_cut:
            break


def test_a_run_speaks_of_messages_that_are_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_index, "TAIL_ROWS_MAX", 4)
    disk, clock = SimulatedFileSystem(), SimulatedClock()
    store = open_store(disk, clock)
    topic = store.topic("orders")
    for _ in range(6):
        topic.put(b"a", delay=30.0)
    store.mover.run()
    order = paths.order_directory(topic.delay.directory, "minute")

    assert run_files(disk, order), "the tail was stored"
    for seed in SEEDS:
        after = disk.after_power_cut(seed)
        with Log.open(topic.delay.log("minute").path, filesystem=after) as log:
            names = after.names(order) if after.exists(order) else []
            ends = [numbers.stop for name in names if (numbers := paths.run_numbers(name)) is not None]
            assert all(end <= log.end for end in ends)


def test_a_run_leaves_out_only_messages_that_stay_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut may undo a cancel of a topic that is not synced: then the message is delivered."""
    monkeypatch.setattr(due_index, "TAIL_ROWS_MAX", 4)
    for seed in range(20):
        disk, clock = SimulatedFileSystem(seed=seed), SimulatedClock()
        store = open_store(disk, clock)
        handles = store.topic("orders").put_many([b"%d" % number for number in range(6)], delay=30.0)
        assert handles[1].cancel()
        assert deliver_all(store) == []
        assert run_files(disk, paths.order_directory(store.topic("orders").delay.directory, "minute"))
        assert handles[4].cancel()
        clock.pass_ns(30 * SECOND_NS)

        again = open_store(disk.after_power_cut(seed), clock)
        done_numbers = again.topic("orders").delay.parking("minute").done
        bodies = [b"%d" % number for number in range(6) if not done_numbers.is_done(number)]
        assert deliver_all(again) == bodies


def test_a_handle_does_not_cancel_a_message_that_got_the_number_of_its_message() -> None:
    disk, clock = SimulatedFileSystem(), SimulatedClock()
    store = open_store(disk, clock)
    store.topic("orders").delay.log("minute").sync()
    handle = store.topic("orders").put(b"lost", delay=5.0)
    after = next(candidate for seed in range(100) if _parked_count(candidate := disk.after_power_cut(seed)) == 0)
    clock.pass_ns(SECOND_NS)
    again = open_store(after, clock)
    another = again.topic("orders").put(b"kept", delay=5.0)

    assert another.number == handle.number
    assert again.topic("orders").cancel(handle.id) is False
    clock.pass_ns(5 * SECOND_NS)
    assert deliver_all(again) == [b"kept"]


def _parked_count(disk: SimulatedFileSystem) -> int:
    with Log.open(PATH + "/topics/orders/delayed/minute", filesystem=disk) as log:
        return log.end
