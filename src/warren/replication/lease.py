"""The read lease: until when a master may answer that there is nothing more, because no other replica can lead yet."""

from __future__ import annotations

from collections.abc import Callable

from warren.replication.shard_state import Identity
from warren.replication.time_limits import NEVER, TimeLimits


class ReadLease:
    """Which members of the set have promised not to lead, and until when. One thread; one epoch.

    A slave that wants to lead waits `lease_s` after the fetch that it sent last. The master does not know when a fetch
    was sent, because it may have been under way for long. But each fetch follows an answer: it was sent after the
    master sent that answer. So the lease counts from the time of the answer.

    Committed messages may be shown without the lease. Ends, and answers that there is nothing more, need it.
    """

    def __init__(self, timing: TimeLimits, others: Callable[[], frozenset[Identity]]) -> None:
        self._held_s = timing.lease_held_s
        self._others = others
        self._answered: dict[Identity, float] = {}
        self._promised: dict[Identity, float] = {}

    def answered(self, member: Identity, now: float) -> None:
        """Notes that an answer is sent to a member. `now` was read before it is sent."""
        self._answered[member] = now

    def fetched(self, member: Identity) -> None:
        """Notes that a fetch has come that follows the answer sent last."""
        self._promised[member] = self._answered[member]

    def is_held(self, now: float) -> bool:
        """Whether no other member can lead yet at `now`, which must be read after the client's request came."""
        return now < self.ends_at()

    def ends_at(self) -> float:
        """Returns when the lease ends; infinity if the master is alone in the set."""
        promised = self._promised
        return min((promised.get(member, -NEVER) for member in self._others()), default=NEVER) + self._held_s
