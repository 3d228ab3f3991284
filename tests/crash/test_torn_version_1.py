"""Version 1 has no checksum: a message that is written a second time, and torn by a power cut, does not count as
written.

A message that was acknowledged elsewhere (parked, decided, dead, put under a number) is written to a log of version 1.
The power is cut before that write is synced, and keeps the first sectors of the record, with its id, and loses others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import PowerCut, SimulatedFileSystem
from warren.message import Message
from warren.transaction.store import Store

BODY: Final = b"whole" * 400
CALLS_MAX: Final = 400
SEEDS: Final = range(200)
CUTS_AT_LEAST: Final = 40
TORN_AT_LEAST: Final = 3

Act = Callable[[Store, SimulatedClock], None]


def open_store(disk: SimulatedFileSystem, clock: SimulatedClock) -> Store:
    store = Store("/data", keeps=False, filesystem=disk, clock=clock)
    store.topic("orders", version=1)
    return store


def found_bodies(store: Store) -> list[bytes]:
    log = store.topic("orders").partition(0)
    return [message.body for message in log.read(log.first)]


def park(store: Store, clock: SimulatedClock) -> None:
    store.topic("orders").put(BODY, delay=1.0, tag="t")
    clock.pass_ns(2 * 10**9)


def deliver(store: Store, clock: SimulatedClock) -> None:
    while store.mover.run() == 0:
        pass


def prepare(store: Store, clock: SimulatedClock) -> None:
    transaction = store.transaction(id="tx")
    transaction.put("orders", BODY, tag="t")
    transaction.prepare()
    store.topic("other").put(b"for a waiting reader")


def decide(store: Store, clock: SimulatedClock) -> None:
    store.commit("tx")


def kill_message(store: Store, clock: SimulatedClock) -> None:
    store.topic("orders").put(BODY, tag="t")
    with store.topic("orders").group("workers", mode="queue", attempts_max=1) as group:
        message = group.take()
        assert isinstance(message, Message)
        group.reject(message, "no")


def redrive(store: Store, clock: SimulatedClock) -> None:
    with store.topic("orders").group("workers", mode="queue", attempts_max=1) as group:
        group.redrive()


def after_cuts(disk: SimulatedFileSystem, call: int) -> list[SimulatedFileSystem]:
    """Yields the remaining disks: many variants if the message is stored and not synced, otherwise one."""
    is_on_its_way = any(file.content.count(BODY) > file.durable.count(BODY) for file in disk.freeze().files.values())
    seeds = SEEDS if is_on_its_way else SEEDS[:1]
    return [disk.after_power_cut(call * 1000 + seed, same_boot=(call + seed) % 2 > 0) for seed in seeds]


def cut_everywhere(prepared: Act, act: Act) -> Sequence[tuple[SimulatedFileSystem, SimulatedClock]]:
    """Yields the disks that remain when the power is cut at one call of `act` after the other."""
    disks = []
    for call in range(1, CALLS_MAX):
        disk, clock = SimulatedFileSystem(seed=call), SimulatedClock()
        store = open_store(disk, clock)
        prepared(store, clock)
        disk.cut_at_call = disk.calls + call
        try:
            act(store, clock)
        except PowerCut:
            disks += [(cut, clock) for cut in after_cuts(disk, call)]
        else:
            break
    assert len(disks) > CUTS_AT_LEAST
    return disks


@pytest.mark.parametrize(
    ("prepared", "act", "is_dead_first"),
    [(park, deliver, False), (prepare, decide, False), (kill_message, redrive, True)],
    ids=["delayed", "transaction", "dead letter"],
)
def test_acknowledged_messages_are_complete_and_exist_once(prepared: Act, act: Act, is_dead_first: bool) -> None:
    torn = 0
    for disk, clock in cut_everywhere(prepared, act):
        store = open_store(disk, clock)
        act(store, clock)

        bodies = found_bodies(store)

        assert bodies.count(BODY) == (2 if is_dead_first else 1)
        torn += len(bodies) > bodies.count(BODY)
    assert torn >= TORN_AT_LEAST


def test_a_producer_that_puts_its_number_again_has_it_whole_and_once() -> None:
    torn = 0
    for call in range(1, CALLS_MAX):
        disk, clock = SimulatedFileSystem(seed=call), SimulatedClock()
        producer = open_store(disk, clock).producer("loader")
        producer.put("orders", b"first")
        disk.cut_at_call = disk.calls + call
        is_cut = True
        with suppress(PowerCut):
            producer.put("orders", BODY, tag="t")
            is_cut = False
        if not is_cut:
            break
        for cut in after_cuts(disk, call):
            store = open_store(cut, clock)
            with store.producer("loader") as again:
                for sequence in range(again.sequence + 1, 3):
                    again.put("orders", BODY, tag="t", sequence=sequence)
            bodies = found_bodies(store)
            assert bodies.count(b"first") == 1
            assert bodies.count(BODY) == 1
            torn += len(bodies) > 2
    assert torn >= TORN_AT_LEAST
