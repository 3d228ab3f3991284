"""How much of each thing a run of these benchmarks does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.workspace import QUICK, Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterScale:
    """Counts are of messages in one round; `fail_overs` is how often a master is killed, unless `--runs` says it."""

    rounds: int
    rounds_synced: int
    """Measurements that wait for the disk get more and shorter turns."""
    fail_overs: int
    produced: int
    puts_synced: int
    caught_up: int
    """The messages that a slave fetches from nothing, in batches of 1,000."""
    catch_ups: int
    put_s: float
    """How long puts are watched without a catch-up, for comparison."""
    topics: int
    promotions: int


FULL: Final = ClusterScale(
    rounds=5,
    rounds_synced=7,
    fail_overs=20,
    produced=500_000,
    puts_synced=300,
    caught_up=10_000_000,
    catch_ups=3,
    put_s=10.0,
    topics=1_000,
    promotions=3,
)
SMALL: Final = ClusterScale(
    rounds=1,
    rounds_synced=1,
    fail_overs=2,
    produced=50_000,
    puts_synced=50,
    caught_up=500_000,
    catch_ups=1,
    put_s=2.0,
    topics=50,
    promotions=1,
)


def scale_of(workspace: Workspace) -> ClusterScale:
    return SMALL if workspace.scale is QUICK else FULL


def runs_of(workspace: Workspace, default: int) -> int:
    """Returns how often something is repeated: as `--runs` says, or as the scale does."""
    return default if workspace.runs is None else workspace.runs
