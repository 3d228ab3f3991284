"""A classic group of Kafka: members join, the leader among them shares the partitions out, all are told."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from warren.broker.groups.members import Joined, Joining, Member, Synced
from warren.broker.kafka_errors import Code
from warren.config import GROUP_FIRST_JOIN_S, GROUP_MEMBERS_MAX


class State(StrEnum):
    """Where a group stands, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(StrEnum):
    """What happens to a group."""

    JOIN = "somebody joins"
    ALL_JOINED = "all have joined"
    ALL_GONE = "nobody is left"
    SHARED_OUT = "the leader shared out"
    DELETE = "it is deleted"


TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (State.EMPTY, Event.JOIN): State.PREPARING,
    (State.EMPTY, Event.DELETE): State.DEAD,
    (State.EMPTY, Event.ALL_GONE): State.EMPTY,
    (State.PREPARING, Event.JOIN): State.PREPARING,
    (State.PREPARING, Event.ALL_JOINED): State.COMPLETING,
    (State.PREPARING, Event.ALL_GONE): State.EMPTY,
    (State.COMPLETING, Event.JOIN): State.PREPARING,
    (State.COMPLETING, Event.SHARED_OUT): State.STABLE,
    (State.COMPLETING, Event.ALL_GONE): State.EMPTY,
    (State.STABLE, Event.JOIN): State.PREPARING,
    (State.STABLE, Event.ALL_GONE): State.EMPTY,
}


class ClassicGroup:
    """One group. For the event loop's thread alone; `now_s` is the clock's steady time.

    Invariant: `generation` grows with every sharing out, and only members of the current one may sync, commit or keep
    what they own. A member that is not heard of in its time is none any more.
    """

    def __init__(self, name: str, now_s: Callable[[], float]) -> None:
        self.name, self._now_s = name, now_s
        self.state, self.generation, self.leader = State.EMPTY, 0, ""
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.members: dict[str, Member] = {}
        self._pending: dict[str, float] = {}
        """Ids that were given out, and until when somebody must join with them."""
        self._rebalance_deadline_s = 0.0
        self._first_join_s = 0.0

    def _change(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state, event]

    # --- Joining ---

    def join(self, said: Joining) -> Joined | Awaitable[Joined]:
        """Become a member, or say that one still is. Answered when all have joined."""
        error = self._check(said)
        if error is not Code.NONE:
            return Joined(error=error, member_id=said.member_id)
        static = self._static(said.instance_id)
        if not said.member_id:
            if static is not None:
                return self._replace(static, said)
            if said.needs_id_first and said.instance_id is None:
                id = self._new_id(said)
                self._pending[id] = self._now_s() + said.session_timeout_s
                return Joined(error=Code.MEMBER_ID_REQUIRED, member_id=id)
            return self._add(said, self._new_id(said))
        if static is not None and static.id != said.member_id:
            return Joined(error=Code.FENCED_INSTANCE_ID, member_id=said.member_id)
        if said.member_id in self._pending:
            del self._pending[said.member_id]
            return self._add(said, said.member_id)
        member = self.members.get(said.member_id)
        if member is None:
            return Joined(error=Code.UNKNOWN_MEMBER_ID, member_id=said.member_id)
        return self._rejoin(member, said)

    def _check(self, said: Joining) -> Code:
        if not said.protocols or not said.protocol_type:
            return Code.INCONSISTENT_GROUP_PROTOCOL
        others = [member for member in self.members.values() if member.id != said.member_id]
        if others and (said.protocol_type != self.protocol_type or not self._common(said, others)):
            return Code.INCONSISTENT_GROUP_PROTOCOL
        if len(self.members) >= GROUP_MEMBERS_MAX and said.member_id not in self.members:
            return Code.GROUP_MAX_SIZE_REACHED
        return Code.NONE

    @staticmethod
    def _common(said: Joining, others: Sequence[Member]) -> set[str]:
        names = {protocol.name for protocol in said.protocols}
        for member in others:
            names &= {protocol.name for protocol in member.said.protocols}
        return names

    def _static(self, instance_id: str | None) -> Member | None:
        if instance_id is None:
            return None
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    @staticmethod
    def _new_id(said: Joining) -> str:
        return f"{said.instance_id or said.client_id or 'member'}-{uuid.uuid4()}"

    def _add(self, said: Joining, id: str) -> Awaitable[Joined]:
        member = self.members[id] = Member(id, said, self._now_s() + said.session_timeout_s)
        if not self.leader:
            self.leader = id
        self.protocol_type = said.protocol_type
        return self._wait(member)

    def _replace(self, old: Member, said: Joining) -> Joined | Awaitable[Joined]:
        """A static member came back: it has a new id, and whoever still uses the old one is fenced."""
        del self.members[old.id]
        old.tell_joined(Joined(error=Code.FENCED_INSTANCE_ID, member_id=old.id))
        old.tell_synced(Synced(error=Code.FENCED_INSTANCE_ID))
        member = Member(self._new_id(said), said, self._now_s() + said.session_timeout_s, old.assignment)
        self.members[member.id] = member
        was_leader = self.leader == old.id
        if was_leader:
            self.leader = member.id
        if self.state is State.STABLE and old.knows(said):
            # Nothing that anybody shared out by has changed.
            member.is_new = False
            return self._told(member, skip_assignment=was_leader)
        return self._wait(member)

    def _rejoin(self, member: Member, said: Joining) -> Joined | Awaitable[Joined]:
        is_known = member.knows(said)
        member.said = said
        member.heard(self._now_s())
        if self.state is State.COMPLETING and is_known:
            # It did not hear the answer to its last one.
            return self._told(member)
        if self.state is State.STABLE and is_known and member.id != self.leader:
            return self._told(member)
        return self._wait(member)

    def _wait(self, member: Member) -> Awaitable[Joined]:
        member.tell_joined(Joined(error=Code.UNKNOWN_MEMBER_ID, member_id=member.id))
        waiting = member.joining = asyncio.get_running_loop().create_future()
        self._rebalance()
        return waiting

    def _rebalance(self) -> None:
        """All have to join again."""
        now_s = self._now_s()
        if self.state is not State.PREPARING:
            # Members of a group that begins come one after the other: waiting a moment saves sharing out again.
            self._first_join_s = now_s + GROUP_FIRST_JOIN_S if self.state is State.EMPTY else now_s
            for member in self.members.values():
                member.tell_synced(Synced(error=Code.REBALANCE_IN_PROGRESS))
        self._change(Event.JOIN)
        self._rebalance_deadline_s = now_s + max(
            (member.said.rebalance_timeout_s for member in self.members.values()), default=0.0
        )
        self._try_complete()

    def _try_complete(self) -> None:
        now_s = self._now_s()
        if self.state is not State.PREPARING or now_s < self._first_join_s:
            return
        is_all = not self._pending and all(member.joining is not None for member in self.members.values())
        if not is_all and now_s < self._rebalance_deadline_s:
            return
        for member in [each for each in self.members.values() if each.joining is None and each.instance_id is None]:
            del self.members[member.id]
        if not any(member.joining is not None for member in self.members.values()):
            self._end_if_empty()
            return
        self._complete()

    def _complete(self) -> None:
        self.generation += 1
        self.protocol = self._elected()
        joined = [member for member in self.members.values() if member.joining is not None]
        if self.leader not in {member.id for member in joined}:
            self.leader = joined[0].id
        self._change(Event.ALL_JOINED)
        self._rebalance_deadline_s = self._now_s() + max(member.said.rebalance_timeout_s for member in joined)
        for member in joined:
            member.is_new = False
            member.heard(self._now_s())
            member.tell_joined(self._told(member))

    def _elected(self) -> str:
        """The protocol that all know and most like best."""
        members = list(self.members.values())
        common = self._common(members[0].said, members[1:])
        votes = Counter(next(each.name for each in member.said.protocols if each.name in common) for member in members)
        return votes.most_common(1)[0][0]

    def _told(self, member: Member, *, skip_assignment: bool = False) -> Joined:
        protocol = self.protocol or ""
        is_leader = member.id == self.leader
        members = [(each.id, each.instance_id, each.metadata(protocol)) for each in self.members.values()]
        return Joined(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=protocol,
            leader=self.leader,
            member_id=member.id,
            members=members if is_leader else (),
            skip_assignment=skip_assignment,
        )

    # --- Sharing out ---

    def sync(
        self, member_id: str, instance_id: str | None, generation: int, assignments: Mapping[str, bytes]
    ) -> Synced | Awaitable[Synced]:
        """What the member owns; the leader says what everybody does. Answered when it has."""
        error = self.check_member(member_id, instance_id, generation)
        if error is not Code.NONE:
            return Synced(error=error)
        member = self.members[member_id]
        member.heard(self._now_s())
        if self.state is State.PREPARING:
            return Synced(error=Code.REBALANCE_IN_PROGRESS)
        if self.state is State.STABLE:
            return self._shared(member)
        waiting = member.syncing = asyncio.get_running_loop().create_future()
        if member_id == self.leader:
            for each in self.members.values():
                each.assignment = assignments.get(each.id, b"")
            self._change(Event.SHARED_OUT)
            for each in self.members.values():
                each.tell_synced(self._shared(each))
        return waiting

    def _shared(self, member: Member) -> Synced:
        return Synced(protocol_type=self.protocol_type, protocol=self.protocol, assignment=member.assignment)

    # --- Staying and leaving ---

    def check_member(self, member_id: str, instance_id: str | None, generation: int) -> Code:
        """Whether this is a member of the current generation."""
        static = self._static(instance_id)
        if static is not None and static.id != member_id:
            return Code.FENCED_INSTANCE_ID
        if member_id not in self.members:
            return Code.UNKNOWN_MEMBER_ID
        return Code.NONE if generation == self.generation else Code.ILLEGAL_GENERATION

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> Code:
        """The member lives; REBALANCE_IN_PROGRESS where it has to join again."""
        error = self.check_member(member_id, instance_id, generation)
        if error is not Code.NONE:
            return error
        self.members[member_id].heard(self._now_s())
        return Code.REBALANCE_IN_PROGRESS if self.state is State.PREPARING else Code.NONE

    def leave(self, member_id: str, instance_id: str | None = None) -> Code:
        """The member is none any more."""
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
        del self.members[member.id]
        member.tell_joined(Joined(error=Code.UNKNOWN_MEMBER_ID, member_id=member.id))
        member.tell_synced(Synced(error=Code.UNKNOWN_MEMBER_ID))
        if self.leader == member.id:
            self.leader = next(iter(self.members), "")
        if not self.members:
            self._end_if_empty()
        elif self.state is State.PREPARING:
            self._try_complete()
        else:
            self._rebalance()

    def _end_if_empty(self) -> None:
        if not self.members:
            self._change(Event.ALL_GONE)
            self.generation += 1
            self.leader, self.protocol = "", None

    def delete(self) -> Code:
        """The group is no more, where it has no members."""
        if self.state is not State.EMPTY:
            return Code.NON_EMPTY_GROUP
        self._change(Event.DELETE)
        return Code.NONE

    # --- Time ---

    def tick(self) -> None:
        """Do what is due: members that are not heard of go, and a sharing out that takes too long begins anew."""
        now_s = self._now_s()
        for id in [id for id, until_s in self._pending.items() if until_s <= now_s]:
            del self._pending[id]
        for member in list(self.members.values()):
            is_waiting = member.joining is not None or member.syncing is not None
            if not is_waiting and member.deadline_s <= now_s and member.id in self.members:
                self._remove(member)
        self._try_complete()
        if self.state is State.COMPLETING and now_s >= self._rebalance_deadline_s:
            # The leader did not share out in time.
            silent = [each for each in self.members.values() if each.syncing is None]
            for member in silent:
                if member.id in self.members:
                    self._remove(member)

    def wake_s(self) -> float | None:
        """When `tick` has something to do next; None where nothing is waited for."""
        times = [member.deadline_s for member in self.members.values()]
        times += self._pending.values()
        if self.state is State.PREPARING:
            is_first = self._first_join_s > self._now_s()
            times.append(self._first_join_s if is_first else self._rebalance_deadline_s)
        if self.state is State.COMPLETING:
            times.append(self._rebalance_deadline_s)
        return min(times, default=None)
