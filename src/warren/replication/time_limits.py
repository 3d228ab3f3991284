"""How long the replicas of a shard wait for each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NEVER: Final = 1e300
"""A time that does not come."""
RATE_ALLOWANCE: Final = 0.02
"""By how much one steady clock may run faster than another. Only reads depend on it, acknowledged writes do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Durations in seconds of a replica's own steady clock. They are the same on all replicas of a shard."""

    lease_s: float = 1.0
    """How long a slave waits after its last fetch before it may lead. Until then the old master may answer reads."""
    lag_s: float = 2.0
    """A member that has acknowledged nothing for this long is removed from the in-sync set."""
    answer_s: float = 1.0
    """A slave that gets no answer for this long joins again. For a fetch, `fetch_wait_s` is added."""
    retry_s: float = 0.1
    """How long a slave that was refused, or lost its connection, waits before it joins again."""
    turn_s: float = 0.3
    """How long a candidate waits for each living member of the set that the shard prefers to it."""
    unreached_s: float = 3.0
    """A member that gets no answer from a living master for this long writes that to the registry."""
    ends_s: float = 0.005
    """How long committed ends wait for a round to be sent with, before they are sent alone."""
    refuse_s: float = 1.0
    """If a member has not acknowledged for this long, and the in-sync set cannot shrink, puts are refused."""

    @property
    def fetch_wait_s(self) -> float:
        """The time for which a master parks a fetch if there is nothing to send: well below the lease."""
        return 0.4 * self.lease_s

    @property
    def lease_held_s(self) -> float:
        """How long a master relies on its lease: less than `lease_s` on each clock within RATE_ALLOWANCE."""
        return self.lease_s * (1 - RATE_ALLOWANCE)
