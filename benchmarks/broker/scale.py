"""How much of each thing a run of these benchmarks does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.workspace import QUICK, Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerScale:
    """Counts are of messages in one round, for about a second; seconds are those of one round."""

    rounds: int
    rounds_synced: int
    """Measurements that wait for the disk get more and shorter turns: a sync takes 0.1 ms at one moment and 4 ms at
    another.
    """
    produced: int
    added: int
    """The count for Redis, which takes longer."""
    puts: int
    puts_synced: int
    connections: int
    put_s: float
    idle: int
    idle_s: float


FULL: Final = BrokerScale(
    rounds=7,
    rounds_synced=11,
    produced=1_000_000,
    added=100_000,
    puts=3_000,
    puts_synced=400,
    connections=200,
    put_s=1.0,
    idle=1_000,
    idle_s=20.0,
)
SMALL: Final = BrokerScale(
    rounds=1,
    rounds_synced=1,
    produced=50_000,
    added=10_000,
    puts=200,
    puts_synced=50,
    connections=50,
    put_s=0.3,
    idle=100,
    idle_s=1.0,
)


def scale_of(workspace: Workspace) -> BrokerScale:
    return SMALL if workspace.scale is QUICK else FULL
