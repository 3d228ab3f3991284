"""Replication keeps its promises in ten thousand simulated shards, in which the important faults do happen."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from tests.crash.replication.run import PROFILES, Run

RUNS: Final = 10_000
BATCH: Final = 1_000
OFTEN: Final = {
    "promotion": 1000,
    "end read": 2000,
    "set shrunk": 500,
    "set grown": 500,
    "tail cut": 100,
    "old ranges sent": 500,
    "outcome unknown": 300,
    "outcome refused": 10,
    "lease wait": 300,
    "session expired": 300,
    "unreached": 200,
    "power cut": 200,
    "pause": 200,
    "process ended": 200,
    "hand-over begun": 30,
    "disk swapped": 10,
    "start from nothing": 1,
}
"""How often each of these must happen in a batch. Otherwise the runs would prove little."""


@pytest.mark.parametrize("first_seed", range(0, RUNS, BATCH))
def test_nothing_acknowledged_is_lost_and_every_shard_recovers(first_seed: int) -> None:
    counts = sum((Run(seed).run() for seed in range(first_seed, first_seed + BATCH)), Counter[str]())

    assert {name: counts[name] for name in OFTEN if counts[name] < OFTEN[name]} == {}


@pytest.mark.parametrize("profile", PROFILES)
def test_two_runs_of_one_seed_are_the_same(profile: str) -> None:
    first, second = Run(7, profile), Run(7, profile)

    assert first.run() == second.run()
    assert (first.cluster.now, first.cluster.step_count) == (second.cluster.now, second.cluster.step_count)
    assert [each.disk.logs for each in first.cluster.machines] == [each.disk.logs for each in second.cluster.machines]


def test_a_run_is_the_same_if_its_drawn_profile_is_named() -> None:
    drawn = Run(11)

    named = Run(11, drawn.profile)

    assert drawn.run() == named.run()
    assert drawn.cluster.now == named.cluster.now
