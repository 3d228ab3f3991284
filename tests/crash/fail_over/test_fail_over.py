"""The first disk is gone at any moment, and the tests of crashes continue with the second one of a replicated store.

These are the tests of logs, stores, groups, delays and transactions as they stand, on a `ReplicatedDisk`: every way to
die in them is a fail-over. Its slave applies what is shipped when a caller waits for it and not before, so that
an answer without a barrier is missed. Version 1 is left out, because its logs are not replicated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from types import ModuleType
from typing import Any, Final

import pytest

from tests.crash import life, test_disk_full, test_store_cuts, world
from tests.crash.queue import test_delay_cuts, test_queue_group_cuts, test_stream_group_cuts
from tests.crash.transaction import test_transaction_cuts, transaction_life
from tests.support.replication.replicated_disk import ReplicatedDataDisk, ReplicatedDisk, ReplicatedStoreDisk
from tests.support.replication.steps import settle_in_steps
from warren.queue.delay import done_bits, due_index
from warren.queue.state import ledger

PARTS: Final = 4
LOG_LIVES: Final = 30
FAIL_OVERS_PER_LOG: Final = 12
STORE_LIVES: Final = 4


@pytest.fixture(scope="session")
def first_seed(request: pytest.FixtureRequest) -> int:
    """New fail-overs with `make test SEED=…`; the same ones without."""
    return int(request.config.getoption("--hypothesis-seed") or 0) * 1_000_000


def use(monkeypatch: pytest.MonkeyPatch, module: ModuleType, disk: type[ReplicatedDisk]) -> None:
    monkeypatch.setattr(module, "SimulatedFileSystem", disk)


def lives_of(part: int, first_seed: int, count: int) -> range:
    return range(first_seed + part * count, first_seed + (part + 1) * count)


def run(seed: int, live: Callable[..., Any], *arguments: Any) -> None:
    try:
        live(*arguments)
    except Exception as error:
        error.add_note(f"seed {seed}, on a replicated disk")
        raise


@pytest.mark.parametrize("is_in_steps", [False, True])
@pytest.mark.parametrize("part", range(PARTS))
def test_a_log_keeps_its_promise_through_fail_overs(
    part: int, is_in_steps: bool, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, world, ReplicatedDisk)
    counts = settle_in_steps(monkeypatch) if is_in_steps else []
    for seed in lives_of(part, first_seed, LOG_LIVES):
        random = Random(seed)
        setup = dataclasses.replace(life.draw_setup(random), replication=random.choice(("sync", "as synced")))
        if setup.version != 1:
            life.Life(seed, setup).run(FAIL_OVERS_PER_LOG)
    assert bool(counts) is is_in_steps


def test_a_fail_over_on_a_full_disk_loses_nothing_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, test_disk_full, ReplicatedDisk)

    for seed in range(40):
        run(seed, test_disk_full.test_a_crash_on_a_full_disk_loses_nothing_acknowledged, seed)


@pytest.mark.parametrize("part", range(PARTS))
def test_a_transaction_happens_wholly_or_not_at_all_through_fail_overs(
    part: int, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, transaction_life, ReplicatedStoreDisk)
    topics = [(*topic[:3], 2) for topic in transaction_life.TOPICS]
    monkeypatch.setattr(transaction_life, "TOPICS", topics)
    for seed in lives_of(part, first_seed, STORE_LIVES):
        run(seed, transaction_life.TransactionLife(seed).run, test_transaction_cuts.CRASHES_PER_LIFE)


@pytest.mark.parametrize("durability", ["commit", "os"])
@pytest.mark.parametrize("part", range(PARTS))
def test_a_queue_group_keeps_its_promise_through_fail_overs(
    part: int, durability: str, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, test_queue_group_cuts, ReplicatedDataDisk)
    monkeypatch.setattr(ledger, "EVENTS_PER_SNAPSHOT", 8)
    monkeypatch.setattr(ledger, "SNAPSHOT_SHARE_MAX", 1)
    monkeypatch.setattr(ledger, "LEDGER_BLOCK_SIZE", 8192)
    for seed in lives_of(part, first_seed, STORE_LIVES):
        life = test_queue_group_cuts.GroupLife(seed, durability)
        run(seed, life.run, test_queue_group_cuts.CUTS_PER_LIFE)


@pytest.mark.parametrize("durability", ["commit", "os"])
@pytest.mark.parametrize("part", range(PARTS))
def test_delayed_messages_keep_their_promise_through_fail_overs(
    part: int, durability: str, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, test_delay_cuts, ReplicatedStoreDisk)
    monkeypatch.setattr(done_bits, "BITS_PER_FILE", 32)
    monkeypatch.setattr(due_index, "TAIL_ROWS_MAX", 4)
    monkeypatch.setattr(due_index, "FILES_MAX", 3)
    monkeypatch.setattr(due_index, "MERGE_ROWS", 3)
    for seed in lives_of(part, first_seed, STORE_LIVES):
        life = test_delay_cuts.DelayLife(seed, durability=durability, version=2, crashes=("power cut", "loss", "kill"))
        run(seed, life.run, test_delay_cuts.CUTS_PER_LIFE)


@pytest.mark.parametrize("part", range(test_stream_group_cuts.PARTS))
def test_a_stream_group_is_at_its_committed_position_after_a_fail_over(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, test_stream_group_cuts, ReplicatedStoreDisk)

    test_stream_group_cuts.test_a_group_is_at_its_committed_position_after_any_crash(part, "kill")


STORE_TESTS: Final = [
    test
    for name, test in vars(test_store_cuts).items()
    if name.startswith("test_") and name != "test_too_many_calls_would_be_noticed"
]


@pytest.mark.parametrize("test", STORE_TESTS)
def test_a_store_opens_after_a_fail_over(test: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, test_store_cuts, ReplicatedDataDisk)

    test()
