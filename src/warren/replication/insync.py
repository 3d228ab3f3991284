"""The in-sync set: as the registry has it, and as it may have it by now."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from warren.errors import Deposed
from warren.replication.shard_state import Identity, Proposal, ProposalOutcome, ShardState


class InSync:
    """The in-sync set of one epoch, kept by its master. One thread.

    Invariant: the set in the registry is at every moment part of `counted()`. A set is counted before it is proposed,
    and until a higher version of the state is seen: an answer that was lost says nothing about when the registry
    applies the change, but no change applies to a version that has passed.
    """

    def __init__(self, state: ShardState, version: int, me: Identity, min_insync: int) -> None:
        assert me in state.insync
        self.state, self.version = state, version
        self._me = me
        self._min_insync = min_insync
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
        """Counts a replica that is to be taken in. It may be proposed when it has acknowledged barrier `mark`.

        `mark` is the last barrier that was given: from here on every barrier waits for the replica, so once it has
        acknowledged the mark it has everything that was ever answered. A mark that leaves out barriers which are done
        without the replica would let it lead without them.
        """
        self._welcomed.setdefault(identity, mark)
        self._count()

    def dismiss(self, identity: Identity) -> None:
        """Stops counting a replica that was welcomed and not proposed. A member stays counted."""
        if self._welcomed.pop(identity, None) is not None:
            self._count()

    @property
    def welcomed(self) -> list[Identity]:
        """The replicas that are to be taken in."""
        return list(self._welcomed)

    def wish(self, out: Collection[Identity], acked: Mapping[Identity, int]) -> frozenset[Identity] | None:
        """Returns the set that should be: without the members in `out`, with those that have reached their mark.

        `out` is in the order in which members are given up; no more of them go than `min_insync` allows. A replica that
        comes back with another disk or boot takes the place of the one in the set. None: the set stays as it is.
        """
        taken_in = {new for new, mark in self._welcomed.items() if acked.get(new, 0) >= mark}
        replicas = {new.replica for new in taken_in}
        wished = {member for member in self.members if member.replica not in replicas} | taken_in
        for member in out:
            if member in wished and member != self._me and len(wished) > self._min_insync:
                wished.remove(member)
        return frozenset(wished) if wished != self.members else None

    def propose(self, members: frozenset[Identity]) -> Proposal | None:
        """Returns the change to ask the registry for. The union of the sets counts from now on.

        None: a change is under way, the state has to be read first, or the set would be below `min_insync`.
        """
        if self._sent or self._must_read or len(members) < min(self._min_insync, len(self.members)):
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
        """Whether no outcome and no read is waited for."""
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
        """Takes the state as it was read. Raises Deposed for a higher epoch.

        If the version is the one that a proposal was made for, the proposal may still be applied. Then its set stays
        counted, and another proposal may be made: whichever comes first ends the other.
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
        self._welcomed = {new: mark for new, mark in self._welcomed.items() if new not in state.insync}
        self._count()

    def _count(self) -> None:
        self._counted = self.state.insync | self._proposed | self._welcomed.keys()
        self._others = self._counted - {self._me}
