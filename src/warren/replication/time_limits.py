"""How long the replicas of a shard wait for each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NEVER: Final = 1e300
"""A time that does not come."""
RATE_ALLOWANCE: Final = 0.02
"""So much faster may one steady clock run than another. Nothing that was acknowledged depends on it: only reads do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Lengths of time, in seconds of a replica's own steady clock. They are the same on all replicas of a shard."""

    lease_s: float = 1.0
    """A slave that wants to lead lets this pass after its last fetch. So long the old master may answer reads."""
    lag_s: float = 2.0
    """A member that has acknowledged nothing for so long is taken out of the in-sync set."""
    answer_s: float = 1.0
    """A slave that gets no answer for so long, beside the time for which the master parks a fetch, joins again."""
    retry_s: float = 0.1
    """A slave that was refused, or lost its connection, waits so long before it joins again."""
    turn_s: float = 0.3
    """A candidate waits so long for each living member of the set that the shard prefers to it."""
    unreached_s: float = 3.0
    """A member that gets no answer from a living master for so long says so in the registry."""
    ends_s: float = 0.005
    """Committed ends wait so long for a round that they can travel with."""
    refuse_s: float = 1.0
    """If a full in-sync set has not acknowledged for so long, and cannot shrink, new puts are refused."""

    @property
    def fetch_wait_s(self) -> float:
        """The time for which a master parks a fetch if there is nothing to send: well below the lease."""
        return 0.4 * self.lease_s

    @property
    def lease_held_s(self) -> float:
        """The time for which a master believes in its lease: shorter than `lease_s` on any clock within the rate."""
        return self.lease_s * (1 - RATE_ALLOWANCE)
