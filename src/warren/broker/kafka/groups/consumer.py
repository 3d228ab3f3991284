"""A consumer group of Kafka (KIP-848): the broker assigns the partitions, and members hand them over one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set
from enum import StrEnum

from warren.broker.kafka.errors import Code
from warren.broker.kafka.groups.assignors import ASSIGNORS, UNIFORM, AssignedPartition, TopicSnapshot
from warren.broker.kafka.groups.consumer_members import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    PAUSE_EPOCH,
    Beat,
    BeatReply,
    ConsumerMember,
    OwnedPlace,
    Subscription,
    has_given_up,
)
from warren.broker.kafka.groups.limits import GROUP_CONSUMER_SESSION_S, GROUP_MEMBERS_MAX, GROUP_TOPICS_LOOK_S


class ConsumerState(StrEnum):
    """The state of a consumer group, by Kafka's names."""

    EMPTY = "Empty"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """One group. For the event loop's thread alone; `now_s` is its time.

    Invariant: a partition belongs to one member at a time. The next member gets it only when the previous one reports
    that it no longer owns it, or is removed. `epoch` grows with every assignment; a member has reached it when it has
    given up all that the assignment gives to others.
    """

    taken_size = 0

    def __init__(self, name: str, now_s: Callable[[], float]) -> None:
        self.name, self._now_s = name, now_s
        self.epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, frozenset[AssignedPartition]] = {}
        self.assignor = UNIFORM
        self.last_lookup: Mapping[str, TopicSnapshot] = {}
        self._subscribed: dict[Subscription, frozenset[str]] = {}
        """The topic names that match each pattern now."""
        self._owners: dict[AssignedPartition, str] = {}
        self._is_stale = False
        self._looked_s = -GROUP_TOPICS_LOOK_S

    @property
    def topics(self) -> frozenset[str]:
        """Returns the topics of which members own partitions, or will soon."""
        return frozenset(self.last_lookup).union(partition.topic for partition in self._owners)

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        is_settled = not self._is_stale and all(
            member.epoch == self.epoch and member.assignment == self.targets.get(member.id, frozenset())
            for member in self.members.values()
        )
        return ConsumerState.STABLE if is_settled else ConsumerState.RECONCILING

    # --- Topics ---

    @property
    def size(self) -> int:
        """Returns about how many bytes its members take."""
        return sum([member.size for member in self.members.values()])

    def must_look(self, heartbeat: Beat) -> bool:
        """Returns whether to look up the topics: the last lookup is old, or `heartbeat` subscribes to other ones."""
        member = self.members.get(heartbeat.member_id)
        is_new = (
            member is None
            or heartbeat.names not in (None, member.names)
            or heartbeat.pattern not in (None, member.pattern)
        )
        return is_new or self._now_s() - self._looked_s >= GROUP_TOPICS_LOOK_S

    def update_topics(
        self, topics: Mapping[str, TopicSnapshot], patterns: Mapping[Subscription, frozenset[str]]
    ) -> None:
        """Stores the topics that members subscribe to and may read, and the names that match each pattern."""
        self._looked_s = self._now_s()
        if topics != self.last_lookup or patterns != self._subscribed:
            self.last_lookup, self._subscribed = dict(topics), dict(patterns)
            self._is_stale = True

    def _share_out(self) -> None:
        """Assigns the partitions again, if the assignment may have changed."""
        if not self._is_stale:
            return
        self._is_stale = False
        subscriptions = {
            member.id: member.names | self._subscribed.get(member.subscription, frozenset())
            for member in self.members.values()
        }
        votes = Counter(member.assignor for member in self.members.values())
        self.assignor = votes.most_common(1)[0][0]
        self.epoch += 1
        self.targets = ASSIGNORS[self.assignor](subscriptions, self.last_lookup, self.targets)

    # --- Members ---

    def beat(self, heartbeat: Beat) -> BeatReply:
        """Handles a heartbeat: the member stays, joins or leaves. Returns the partitions that it may own now."""
        if heartbeat.epoch in (LEAVE_EPOCH, PAUSE_EPOCH):
            return self._leave(heartbeat)
        member = self._come(heartbeat) if heartbeat.epoch == JOIN_EPOCH else self._checked_member(heartbeat)
        if not isinstance(member, ConsumerMember):
            return BeatReply(error=member, member_id=heartbeat.member_id, epoch=heartbeat.epoch)
        if member.note_heartbeat(heartbeat, self._now_s()):
            self._is_stale = True
        self._share_out()
        before = member.epoch, member.assignment
        self._reconcile(member, frozenset() if heartbeat.epoch == JOIN_EPOCH else heartbeat.owned)
        is_news = heartbeat.is_full or before != (member.epoch, member.assignment)
        return BeatReply(member_id=member.id, epoch=member.epoch, assignment=member.assignment if is_news else None)

    def _come(self, heartbeat: Beat) -> ConsumerMember | Code:
        """Adds a member, or lets an existing one start again."""
        static = self._static(heartbeat.instance_id)
        if static is not None and static.id != heartbeat.member_id:
            return self._replace(static, heartbeat) if static.is_away else Code.UNRELEASED_INSTANCE_ID
        member = self.members.get(heartbeat.member_id)
        if member is not None:
            return member if member.instance_id == heartbeat.instance_id else Code.INVALID_REQUEST
        if len(self.members) >= GROUP_MEMBERS_MAX:
            return Code.GROUP_MAX_SIZE_REACHED
        member = ConsumerMember(heartbeat.member_id, heartbeat.instance_id, self._now_s() + GROUP_CONSUMER_SESSION_S)
        self.members[member.id] = member
        self._is_stale = True
        return member

    def _replace(self, old: ConsumerMember, heartbeat: Beat) -> ConsumerMember:
        """Replaces a static member that came back. The new one inherits the partitions."""
        self._release(old, old.revoking)
        member = ConsumerMember(heartbeat.member_id, heartbeat.instance_id, old.deadline_s, assignment=old.assignment)
        member.names, member.pattern, member.assignor = old.names, old.pattern, old.assignor
        del self.members[old.id]
        self.members[member.id] = member
        self.targets[member.id] = self.targets.pop(old.id, frozenset())
        self._owners.update(dict.fromkeys(member.assignment, member.id))
        return member

    def _checked_member(self, heartbeat: Beat) -> ConsumerMember | Code:
        static, member = self._static(heartbeat.instance_id), self.members.get(heartbeat.member_id)
        if static is not None and static.id != heartbeat.member_id:
            return Code.FENCED_INSTANCE_ID
        if member is None:
            return Code.UNKNOWN_MEMBER_ID
        # It may not have received its last epoch. Then it owns only the partitions that it was assigned since.
        has_missed = heartbeat.epoch == member.previous_epoch and member.owns_no_more_than_assigned(heartbeat.owned)
        return member if heartbeat.epoch == member.epoch or has_missed else Code.FENCED_MEMBER_EPOCH

    def _static(self, instance_id: str | None) -> ConsumerMember | None:
        if instance_id is None:
            return None
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    def _leave(self, heartbeat: Beat) -> BeatReply:
        static, member = self._static(heartbeat.instance_id), self.members.get(heartbeat.member_id)
        reply = BeatReply(member_id=heartbeat.member_id, epoch=heartbeat.epoch)
        if static is not None and static.id != heartbeat.member_id:
            return BeatReply(error=Code.FENCED_INSTANCE_ID, member_id=heartbeat.member_id, epoch=heartbeat.epoch)
        if member is None:
            return BeatReply(error=Code.UNKNOWN_MEMBER_ID, member_id=heartbeat.member_id, epoch=heartbeat.epoch)
        if heartbeat.epoch == PAUSE_EPOCH and static is not None:
            self._release(member, member.revoking)
            member.revoking, member.epoch = frozenset(), PAUSE_EPOCH
            member.deadline_s = self._now_s() + GROUP_CONSUMER_SESSION_S
        else:
            self._remove(member)
        return reply

    def _remove(self, member: ConsumerMember) -> None:
        del self.members[member.id]
        self.targets.pop(member.id, None)
        self._release(member, member.assignment | member.revoking)
        self._is_stale = True
        if not self.members:
            self.last_lookup, self._subscribed, self.targets = {}, {}, {}

    def check_commit(self, member_id: str, epoch: int) -> Code:
        """Returns NONE if a client may commit and look up positions as this member, or else the error."""
        member = self.members.get(member_id)
        if member is None:
            return Code.UNKNOWN_MEMBER_ID
        return Code.NONE if member.epoch == epoch else Code.STALE_MEMBER_EPOCH

    # --- Changing over ---

    def _reconcile(self, member: ConsumerMember, owned: Set[OwnedPlace] | None) -> None:
        """Moves the assignment of the member towards its target. `owned` is None if the member did not report it."""
        if not has_given_up(owned, member.revoking):
            return
        self._release(member, member.revoking)
        target = self.targets.get(member.id, frozenset())
        member.revoking, member.assignment = member.assignment - target, member.assignment & target
        if not has_given_up(owned, member.revoking):
            member.revoke_deadline_s = self._now_s() + member.rebalance_timeout_s
            return
        self._release(member, member.revoking)
        member.revoking = frozenset()
        free = {partition for partition in target - member.assignment if partition not in self._owners}
        self._owners.update(dict.fromkeys(free, member.id))
        member.assignment |= free
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch

    def _release(self, member: ConsumerMember, partitions: frozenset[AssignedPartition]) -> None:
        for partition in partitions:
            if self._owners.get(partition) == member.id:
                del self._owners[partition]

    # --- Time ---

    def tick(self) -> None:
        """Removes members whose session has expired, and members that did not give up partitions in time."""
        now_s = self._now_s()
        for member in list(self.members.values()):
            if member.deadline_s <= now_s or (member.revoking and member.revoke_deadline_s <= now_s):
                self._remove(member)

    def wake_s(self) -> float | None:
        """Returns when `tick` has something to do next; None if there are no members."""
        times = [member.deadline_s for member in self.members.values()]
        times += [member.revoke_deadline_s for member in self.members.values() if member.revoking]
        return min(times, default=None)

    def stop(self) -> None:
        """Does nothing, because no request waits in a group of this kind."""
