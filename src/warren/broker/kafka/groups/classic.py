"""A classic group of Kafka: members join, their leader assigns the partitions, and each gets its share."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from warren.broker.kafka.errors import Code
from warren.broker.kafka.groups.limits import GROUP_MEMBERS_MAX
from warren.broker.kafka.groups.members import (
    Joined,
    Joining,
    Member,
    MemberIdentity,
    Synced,
    Syncing,
    TellJoined,
    TellSynced,
)

GROUP_FIRST_JOIN_S: Final = 0.1
"""How long a new group waits for more members before its first assignment."""
CLIENT_ID_SIZE_MAX: Final = 128
"""How many characters of the client id go into the member ids that the broker makes."""


class GroupState(StrEnum):
    """The state of a group, by Kafka's names. DEAD stands for a group that does not exist."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupEvent(StrEnum):
    """An event in the life of a group."""

    MEMBERS_CHANGE = "a member came, went or subscribes to other topics"
    ALL_JOINED = "all have joined"
    ALL_GONE = "no member is left"
    SHARED_OUT = "the leader shared out"


TRANSITIONS: Final[Mapping[tuple[GroupState, GroupEvent], GroupState]] = {
    (GroupState.EMPTY, GroupEvent.MEMBERS_CHANGE): GroupState.PREPARING,
    (GroupState.PREPARING, GroupEvent.MEMBERS_CHANGE): GroupState.PREPARING,
    (GroupState.PREPARING, GroupEvent.ALL_JOINED): GroupState.COMPLETING,
    (GroupState.PREPARING, GroupEvent.ALL_GONE): GroupState.EMPTY,
    (GroupState.COMPLETING, GroupEvent.MEMBERS_CHANGE): GroupState.PREPARING,
    (GroupState.COMPLETING, GroupEvent.SHARED_OUT): GroupState.STABLE,
    (GroupState.COMPLETING, GroupEvent.ALL_GONE): GroupState.EMPTY,
    (GroupState.STABLE, GroupEvent.MEMBERS_CHANGE): GroupState.PREPARING,
    (GroupState.STABLE, GroupEvent.ALL_GONE): GroupState.EMPTY,
}


class ClassicGroup:
    """One group. Only for the event loop's thread; `now_s` is its time. Callbacks get answers, now or in bounded time.

    Invariant: `generation` grows with every assignment, and only members of the current generation may sync, commit or
    keep what they own. A member that sends no heartbeat within its session timeout is removed.
    """

    taken_size = 0

    def __init__(self, name: str, now_s: Callable[[], float]) -> None:
        self.name, self._now_s = name, now_s
        self.state, self.generation, self.leader = GroupState.EMPTY, 0, ""
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.members: dict[str, Member] = {}
        self._pending: dict[str, float] = {}
        """The member ids that the broker handed out, and until when a client must join with each."""
        self._unsynced: set[str] = set()
        """Members that have joined this generation and have not asked for their assignment yet."""
        self._deadline_s = self._first_join_s = 0.0
        self._assigned_topics: frozenset[str] = frozenset()

    def _change(self, event: GroupEvent) -> None:
        self.state = TRANSITIONS[self.state, event]

    @property
    def topics(self) -> frozenset[str]:
        """Returns the topics that members subscribe to or own partitions of, if their protocol names topics."""
        return self._assigned_topics.union(*(member.join_request.topics for member in self.members.values()))

    @property
    def size(self) -> int:
        """Returns about how many bytes its members and the pending member ids take."""
        pending = len(self._pending) * CLIENT_ID_SIZE_MAX
        return pending + sum([member.size for member in self.members.values()])

    # --- Joining ---

    def join(self, request: Joining, tell: TellJoined) -> None:
        """Adds the client as a member, or keeps it as one. Calls the callback when all members have joined."""
        error = self._check(request)
        static = self._static(request.instance_id)
        if error is not Code.NONE:
            tell(Joined(error=error, member_id=request.member_id))
        elif not request.member_id and static is not None:
            self._replace(static, request, tell)
        elif not request.member_id and request.needs_id_first and request.instance_id is None:
            id = self._new_id(request)
            self._pending[id] = self._now_s() + request.session_timeout_s
            tell(Joined(error=Code.MEMBER_ID_REQUIRED, member_id=id))
        elif not request.member_id:
            self._add(self._new_id(request), request, tell)
        elif static is not None and static.id != request.member_id:
            tell(Joined(error=Code.FENCED_INSTANCE_ID, member_id=request.member_id))
        elif self._pending.pop(request.member_id, None) is not None:
            self._add(request.member_id, request, tell)
        elif request.member_id not in self.members or (request.instance_id is not None and static is None):
            tell(Joined(error=Code.UNKNOWN_MEMBER_ID, member_id=request.member_id))
        else:
            self._rejoin(self.members[request.member_id], request, tell)

    def _check(self, request: Joining) -> Code:
        if not request.protocols or not request.protocol_type:
            return Code.INCONSISTENT_GROUP_PROTOCOL
        static = self._static(request.instance_id)
        others = [each for each in self.members.values() if each.id != request.member_id and each is not static]
        if others and (request.protocol_type != self.protocol_type or not _common_protocols(request, others)):
            return Code.INCONSISTENT_GROUP_PROTOCOL
        is_known = request.member_id in self.members or request.member_id in self._pending or static is not None
        if not is_known and len(self.members) + len(self._pending) >= GROUP_MEMBERS_MAX:
            return Code.GROUP_MAX_SIZE_REACHED
        return Code.NONE

    def _static(self, instance_id: str | None) -> Member | None:
        if instance_id is None:
            return None
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    @staticmethod
    def _new_id(request: Joining) -> str:
        return f"{(request.instance_id or request.client_id or 'member')[:CLIENT_ID_SIZE_MAX]}-{uuid.uuid4()}"

    def _add(self, id: str, request: Joining, tell: TellJoined) -> None:
        member = self.members[id] = Member(id, request, self._now_s())
        self.protocol_type = request.protocol_type
        self.leader = self.leader or id
        member.wait_to_join(tell)
        self._rebalance()

    def _replace(self, old: Member, request: Joining, tell: TellJoined) -> None:
        """Gives a static member that came back a new id, and fences a client that still uses the old one."""
        del self.members[old.id]
        self._unsynced.discard(old.id)
        old.tell(Code.FENCED_INSTANCE_ID)
        member = Member(self._new_id(request), request, self._now_s(), old.assignment)
        self.members[member.id] = member
        self.protocol_type = request.protocol_type
        was_leader = self.leader == old.id
        if was_leader:
            self.leader = member.id
        if self.state is not GroupState.STABLE or not old.knows(request):
            member.wait_to_join(tell)
            self._rebalance()
            return
        # Nothing that the assignment depends on has changed, so the leader need not assign again.
        if was_leader and not request.can_skip_assignment:
            tell(self._joined(member, leader=old.id))
        else:
            tell(self._joined(member, leader=self.leader, skip_assignment=was_leader))

    def _rejoin(self, member: Member, request: Joining, tell: TellJoined) -> None:
        is_known = member.knows(request)
        member.join_request = request
        self.protocol_type = request.protocol_type
        member.renew_session(self._now_s())
        # The member did not get the last answer, or it repeats its request. If the leader repeats it, it wants a new
        # assignment.
        is_settled = self.state is GroupState.COMPLETING or (
            self.state is GroupState.STABLE and member.id != self.leader
        )
        if is_known and is_settled:
            tell(self._joined(member, leader=self.leader))
        else:
            member.wait_to_join(tell)
            self._rebalance()

    # --- Rebalancing ---

    def _rebalance(self) -> None:
        """Makes all members join again, until the deadline."""
        if self.state is not GroupState.PREPARING:
            now_s = self._now_s()
            # Members of a new group join one after the other. A short wait saves further assignments.
            self._first_join_s = now_s + GROUP_FIRST_JOIN_S if self.state is GroupState.EMPTY else now_s
            self._deadline_s = now_s + self._rebalance_timeout_s()
            self._unsynced.clear()
            for member in self.members.values():
                if member.is_waiting:
                    member.renew_session(now_s)
                member.tell_synced(Synced(error=Code.REBALANCE_IN_PROGRESS))
        self._change(GroupEvent.MEMBERS_CHANGE)
        self._try_complete()

    def _rebalance_timeout_s(self) -> float:
        return max(member.join_request.rebalance_timeout_s for member in self.members.values())

    def _try_complete(self) -> None:
        now_s = self._now_s()
        if self.state is not GroupState.PREPARING or now_s < self._first_join_s:
            return
        self._first_join_s = 0.0
        absent = [member for member in self.members.values() if not member.is_joining]
        if (absent or self._pending) and now_s < self._deadline_s:
            return
        for member in absent:
            if member.instance_id is None:
                self._forget(member, Code.UNKNOWN_MEMBER_ID)
        if not self.members:
            self._end()
        elif any(member.is_joining for member in self.members.values()):
            self._complete()
        else:
            # Only static members are left. They may come back while their sessions last.
            self._deadline_s = now_s + self._rebalance_timeout_s()

    def _complete(self) -> None:
        now_s = self._now_s()
        self.generation += 1
        self.protocol = self._elected()
        joined = [member for member in self.members.values() if member.is_joining]
        if self.leader not in {member.id for member in joined}:
            self.leader = joined[0].id
        self._change(GroupEvent.ALL_JOINED)
        self._deadline_s = now_s + self._rebalance_timeout_s()
        self._unsynced = {member.id for member in joined}
        for member in self.members.values():
            member.assignment = b""
        for member in joined:
            member.renew_session(now_s)
            member.tell_joined(self._joined(member, leader=self.leader))

    def _elected(self) -> str:
        """Returns the protocol that all members support and most of them prefer."""
        members = list(self.members.values())
        names = _common_protocols(members[0].join_request, members[1:])
        votes = Counter(
            next(each.name for each in member.join_request.protocols if each.name in names) for member in members
        )
        return votes.most_common(1)[0][0]

    def _joined(self, member: Member, *, leader: str, skip_assignment: bool = False) -> Joined:
        protocol = self.protocol or ""
        others = self.members.values() if member.id == leader else ()
        return Joined(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=protocol,
            leader=leader,
            member_id=member.id,
            members=[(each.id, each.instance_id, each.metadata(protocol)) for each in others],
            skip_assignment=skip_assignment,
        )

    # --- Assigning ---

    def sync(self, request: Syncing, tell: TellSynced) -> None:
        """Passes the member its assignment, once the leader has sent the assignments of all members."""
        error = self.check_member(request.claim)
        if error is Code.NONE and (
            request.protocol_type not in (None, self.protocol_type) or request.protocol not in (None, self.protocol)
        ):
            error = Code.INCONSISTENT_GROUP_PROTOCOL
        if error is Code.NONE and self.state is GroupState.PREPARING:
            error = Code.REBALANCE_IN_PROGRESS
        if error is not Code.NONE:
            tell(Synced(error=error))
            return
        member = self.members[request.claim.member_id]
        member.renew_session(self._now_s())
        self._unsynced.discard(member.id)
        member.wait_to_sync(tell)
        if self.state is GroupState.STABLE:
            member.tell_synced(self._synced(member))
        elif member.id == self.leader:
            self._share_out(request)

    def _share_out(self, request: Syncing) -> None:
        self._assigned_topics = request.topics
        self._change(GroupEvent.SHARED_OUT)
        for member in self.members.values():
            member.assignment = request.assignments.get(member.id, b"")
            if member.is_waiting:
                member.renew_session(self._now_s())
                member.tell_synced(self._synced(member))

    def _synced(self, member: Member) -> Synced:
        return Synced(protocol_type=self.protocol_type, protocol=self.protocol, assignment=member.assignment)

    # --- Staying and leaving ---

    def check_member(self, claim: MemberIdentity) -> Code:
        """Returns NONE if this is a member of the current generation, or else the error."""
        static = self._static(claim.instance_id)
        if static is not None and static.id != claim.member_id:
            return Code.FENCED_INSTANCE_ID
        if claim.member_id not in self.members or (claim.instance_id is not None and static is None):
            return Code.UNKNOWN_MEMBER_ID
        return Code.NONE if claim.generation == self.generation else Code.ILLEGAL_GENERATION

    def heartbeat(self, claim: MemberIdentity) -> Code:
        """Renews the session of the member. Returns REBALANCE_IN_PROGRESS if it has to join again."""
        error = self.check_member(claim)
        if error is not Code.NONE:
            return error
        self.members[claim.member_id].renew_session(self._now_s())
        return Code.REBALANCE_IN_PROGRESS if self.state is GroupState.PREPARING else Code.NONE

    def check_commit(self, claim: MemberIdentity) -> Code:
        """Returns NONE if the member may commit: also before it joins again, but not before it has its assignment."""
        error = self.check_member(claim)
        if error is not Code.NONE:
            return error
        self.members[claim.member_id].renew_session(self._now_s())
        return Code.REBALANCE_IN_PROGRESS if self.state is GroupState.COMPLETING else Code.NONE

    def leave(self, member_id: str, instance_id: str | None = None) -> Code:
        """Removes a member. A static member can be removed by its instance id alone."""
        if instance_id is not None:
            static = self._static(instance_id)
            if static is None:
                return Code.UNKNOWN_MEMBER_ID
            if member_id and static.id != member_id:
                return Code.FENCED_INSTANCE_ID
            member_id = static.id
        if self._pending.pop(member_id, None) is not None:
            self._try_complete()
            return Code.NONE
        if member_id not in self.members:
            return Code.UNKNOWN_MEMBER_ID
        self._remove(self.members[member_id])
        return Code.NONE

    def _remove(self, member: Member) -> None:
        self._forget(member, Code.UNKNOWN_MEMBER_ID)
        if not self.members:
            self._end()
        elif self.state is GroupState.PREPARING:
            self._try_complete()
        else:
            self._rebalance()

    def _forget(self, member: Member, error: Code) -> None:
        del self.members[member.id]
        self._unsynced.discard(member.id)
        member.tell(error)
        if self.leader == member.id:
            self.leader = next(iter(self.members), "")

    def _end(self) -> None:
        self._change(GroupEvent.ALL_GONE)
        self.generation += 1
        self.leader, self.protocol, self._assigned_topics = "", None, frozenset()

    def stop(self) -> None:
        """Ends all waits. The waiting members get an error that makes them search for another coordinator."""
        for member in self.members.values():
            member.tell(Code.COORDINATOR_NOT_AVAILABLE)

    # --- Time ---

    def tick(self) -> None:
        """Removes members whose session has expired, and members that did not ask for their assignment in time."""
        now_s = self._now_s()
        self._pending = {id: until_s for id, until_s in self._pending.items() if until_s > now_s}
        silent = [each for each in self.members.values() if not each.is_waiting and each.deadline_s <= now_s]
        if self.state is not GroupState.PREPARING and now_s >= self._deadline_s:
            silent += [self.members[id] for id in self._unsynced if self.members[id] not in silent]
        for member in silent:
            # Members that were removed before this one may have caused its removal as well.
            if member.id in self.members:
                self._remove(member)
        self._try_complete()

    def wake_s(self) -> float | None:
        """Returns when `tick` has something to do next; None if nothing is waited for."""
        times = [member.deadline_s for member in self.members.values() if not member.is_waiting]
        times += self._pending.values()
        if self.state is GroupState.PREPARING:
            # Compared without the clock: the deadline may have passed since the clock was read, and no timer would be
            # set for it.
            times.append(self._first_join_s or self._deadline_s)
        elif self._unsynced:
            times.append(self._deadline_s)
        return min(times, default=None)


def _common_protocols(request: Joining, others: Sequence[Member]) -> set[str]:
    """Returns the names of the protocols that the joining client and all others support."""
    names = {protocol.name for protocol in request.protocols}
    for member in others:
        names &= {protocol.name for protocol in member.join_request.protocols}
    return names
