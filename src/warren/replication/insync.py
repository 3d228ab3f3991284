"""The in-sync set: as the registry had it when it was read last, and as it may have it by now."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from warren.errors import Deposed
from warren.replication.shard_state import Identity, Proposal, ProposalOutcome, ShardState


class InSync:
    """The in-sync set of one epoch, kept by its master. One thread.

    Invariant: the set in the registry is at every moment a part of `counted()`. A set is counted before it is proposed,
    and until a higher version of the state is seen. If an answer was lost, the registry may apply the change later, but
    it never applies a change to a version that has passed.
    """

    def __init__(self, state: ShardState, version: int, me: Identity, min_insync: int) -> None:
        assert me in state.insync
        self.state, self.version = state, version
        self._me = me
        self.min_insync = min_insync
        self._proposed: frozenset[Identity] = frozenset()
        """Every identity of every proposal that may still be applied to this version."""
        self._sent: Proposal | None = None
        """The proposal whose outcome is not known yet. There is one at a time."""
        self._must_read = False
        """The outcome was not DONE: the state has to be read before the next proposal."""
        self._welcomed: dict[Identity, int] = {}
        self._count()

    @property
    def members(self) -> frozenset[Identity]:
        """The set as the registry had it when it was last read or written."""
        return self.state.insync

    def counted(self) -> frozenset[Identity]:
        """Returns the identities that must have a barrier before it is done, this master included."""
        return self._counted

    def others(self) -> frozenset[Identity]:
        """Returns `counted` without this master."""
        return self._others

    def welcome(self, identity: Identity, mark: int) -> None:
        """Counts a replica that is to come into the set. It may be proposed when it has acknowledged barrier `mark`.

        `mark` is the last barrier that was given. From now on every barrier waits for the replica, so when it has
        acknowledged the mark, it has everything that was ever answered. With a lower mark it could come into the set,
        and lead, without barriers that were done before it was counted.
        """
        self._welcomed.setdefault(identity, mark)
        self._count()

    def dismiss(self, identity: Identity) -> None:
        """Stops counting a replica that was welcomed. A member, and a replica that was proposed, stays counted."""
        if self._welcomed.pop(identity, None) is not None:
            self._count()

    @property
    def welcomed(self) -> list[Identity]:
        """The replicas that were welcomed and are not in the set yet."""
        return list(self._welcomed)

    def wish(self, out: Collection[Identity], acked: Mapping[Identity, int]) -> frozenset[Identity] | None:
        """Returns the set to propose; None if the set may stay as it is.

        It is without the members in `out`, in their order and as far as `min_insync` allows, and with the replicas that
        have reached their mark. A replica that has another disk or boot than before replaces its old identity.
        """
        ready = {identity for identity, mark in self._welcomed.items() if acked.get(identity, 0) >= mark}
        replicas = {identity.replica for identity in ready}
        wished = {member for member in self.members if member.replica not in replicas} | ready
        for member in out:
            if member in wished and member != self._me and len(wished) > self.min_insync:
                wished.remove(member)
        return frozenset(wished) if wished != self.members else None

    def propose(self, members: frozenset[Identity]) -> Proposal | None:
        """Returns the change to ask the registry for. From now on the old and the proposed set count together.

        Returns None if a change is under way, the state must be read first, or the set would be below `min_insync`.
        """
        if self._sent or self._must_read or len(members) < min(self.min_insync, len(self.members)):
            return None
        state = ShardState(epoch=self.state.epoch, master=self.state.master, insync=members, nonce=self.state.nonce)
        self._sent = Proposal(state, self.version)
        self._proposed |= members
        self._count()
        return self._sent

    @property
    def is_settled(self) -> bool:
        """Whether the registry is known to have `members`, and no change may still be applied."""
        return not self._sent and not self._must_read and not self._proposed

    @property
    def may_propose(self) -> bool:
        """Whether no proposal is under way, and the state need not be read first."""
        return not self._sent and not self._must_read

    def answered(self, outcome: ProposalOutcome) -> bool:
        """Takes the outcome of the proposal. Returns whether the state must be read before anything else."""
        sent, self._sent = self._sent, None
        if sent is None or sent.version < self.version:
            return False
        if outcome is ProposalOutcome.DONE:
            self._adopt(sent.state, sent.version + 1)
            return False
        self._must_read = True
        return True

    def settled(self, state: ShardState, version: int) -> None:
        """Takes the state as it was read. Raises Deposed if its epoch is higher than this master's.

        If the version is the one that a proposal was made for, the proposal may still be applied. So its set stays
        counted, and another proposal may be made. Only one of the two can be applied, because it raises the version.
        """
        if state.epoch > self.state.epoch:
            raise Deposed(self.state.epoch, state.epoch)
        if version > self.version:
            self._adopt(state, version)
        elif version == self.version:
            self._must_read = False

    def _adopt(self, state: ShardState, version: int) -> None:
        self.state, self.version = state, version
        self._must_read = False
        self._proposed = frozenset()
        self._welcomed = {identity: mark for identity, mark in self._welcomed.items() if identity not in state.insync}
        self._count()

    def _count(self) -> None:
        self._counted = self.state.insync | self._proposed | self._welcomed.keys()
        self._others = self._counted - {self._me}
