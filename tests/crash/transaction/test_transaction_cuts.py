"""The power is cut, or the process killed, at any call and any line of a transaction: all of it happens, or nothing.

Checked after every crash, over several topics and partitions of both format versions, with puts (delayed ones too),
positions and acknowledgements: acknowledged calls hold, interrupted ones happened completely or not at all, nothing
happened twice, and prepared transactions can still be decided.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.crash.transaction.transaction_life import TransactionLife
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import PowerCut, SimulatedFileSystem
from warren.transaction.store import Store

PARTS = 8
LIVES_PER_PART = 3
CRASHES_PER_LIFE = 14


@pytest.fixture(scope="session")
def first_seed(request: pytest.FixtureRequest) -> int:
    """The same crashes in every run of `make test`; another seed draws others."""
    return int(request.config.getoption("--hypothesis-seed") or 0) * 1_000_000


@pytest.mark.parametrize("part", range(PARTS))
def test_a_transaction_happens_wholly_or_not_at_all(part: int, first_seed: int) -> None:
    for life in range(LIVES_PER_PART):
        seed = first_seed + part * LIVES_PER_PART + life
        try:
            TransactionLife(seed).run(CRASHES_PER_LIFE)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error


def open_store(disk: SimulatedFileSystem) -> Store:
    return Store("/store", keeps=False, filesystem=disk, clock=SimulatedClock())


def bodies(store: Store, topic: str) -> list[bytes]:
    log = store.topic(topic).logs[0]
    return [message.body for message in log.read(log.first)]


def commit_until(store: Store, owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits a transaction for two topics; the process is killed when it calls `name` of `owner`."""

    def killed(*arguments: object, **named: object) -> None:
        raise PowerCut

    tx = store.transaction(id="t")
    tx.put("synced", b"tx")
    tx.put("loose", b"tx")
    monkeypatch.setattr(owner, name, killed)
    with pytest.raises(PowerCut):
        tx.commit()


def test_an_unsynced_decision_is_synced_by_the_process_that_finishes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedFileSystem()
    store = open_store(disk)
    store.topic("synced")
    store.topic("loose", durability="os")
    commit_until(store, store._coordinator._made_journal(), "sync", monkeypatch)
    counts = set()

    for at in range(1, 200):
        killed = disk.after_process_kill(at)
        killed.cut_at_call = killed.calls + at
        try:
            open_store(killed)
        except PowerCut:
            survivor = open_store(killed.after_power_cut(at))
            counts.add((len(bodies(survivor, "synced")), len(bodies(survivor, "loose"))))
        else:
            break

    assert counts == {(0, 0), (1, 1)}


def test_an_append_that_was_tried_is_found_after_a_power_cut_took_the_end_of_a_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimulatedFileSystem()
    store = open_store(disk)
    store.topic("synced").put(b"0")
    for number in range(5):
        store.topic("loose", durability="os").put(b"%d" % number)
    commit_until(store, store._coordinator._finishing._apply, "put_all", monkeypatch)
    shortened = 0

    for seed in range(3):
        cut = disk.after_power_cut(seed)
        for at in range(1, 400, 3):
            killed = cut.after_process_kill(at)
            killed.cut_at_call = killed.calls + at
            try:
                open_store(killed)
            except PowerCut:
                survivor = open_store(killed.after_process_kill(at))
                assert bodies(survivor, "synced") == [b"0", b"tx"]
                assert bodies(survivor, "loose").count(b"tx") == 1
                shortened += len(bodies(survivor, "loose")) < 6
            else:
                break

    assert shortened > 10
