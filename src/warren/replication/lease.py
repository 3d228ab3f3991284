"""The read lease: may the master say now that there is nothing more, although another one may be about to begin?"""

from __future__ import annotations

from collections.abc import Callable

from warren.replication.shard_state import Identity
from warren.replication.time_limits import NEVER, TimeLimits


class ReadLease:
    """Which members of the set have promised not to lead, and until when. One thread; one epoch.

    A slave that wants to lead lets `lease_s` pass after the fetch that it sent last. The master does not know when a
    fetch was sent, because it may have been under way for long. But a fetch is sent after the answer that it follows
    was received, so it was sent after the master sent that answer. The lease counts from there.

    Committed messages may be shown without the lease. Ends, and answers that there is nothing, need it.
    """

    def __init__(self, timing: TimeLimits, others: Callable[[], frozenset[Identity]]) -> None:
        self._held_s = timing.lease_held_s
        self._others = others
        self._answered: dict[Identity, float] = {}
        self._promised: dict[Identity, float] = {}

    def answered(self, member: Identity, now: float) -> None:
        """An answer is sent to a member at `now`, read before it is sent."""
        self._answered[member] = now

    def fetched(self, member: Identity) -> None:
        """A fetch has come that follows the answer sent last."""
        self._promised[member] = self._answered[member]

    def is_held(self, now: float) -> bool:
        """Whether no other member can lead yet at `now`, which must be read after the request came that asks this."""
        return now < self.ends_at()

    def ends_at(self) -> float:
        """Returns when the lease ends; infinity if the master is alone in the set."""
        promised = self._promised
        return min((promised.get(member, -NEVER) for member in self._others()), default=NEVER) + self._held_s
