"""A consumer group of Kafka (KIP-848): the broker shares the partitions out, and members change over one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set
from enum import StrEnum

from warren.broker.groups.assignors import ASSIGNORS, UNIFORM, Partition, SeenTopic
from warren.broker.groups.consumer_members import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    PAUSE_EPOCH,
    Beat,
    ConsumerMember,
    OwnedPlace,
    Subscription,
    Told,
    has_given_up,
)
from warren.broker.kafka_errors import Code
from warren.config import GROUP_CONSUMER_SESSION_S, GROUP_MEMBERS_MAX, GROUP_TOPICS_LOOK_S


class ConsumerState(StrEnum):
    """Where a consumer group stands, by Kafka's names."""

    EMPTY = "Empty"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """One group. For the event loop's thread alone; `now_s` is its time.

    Invariant: a partition is given to one member at a time, and to the next only when the one before says that it owns
    it no more, or is gone. `epoch` grows with every sharing out; a member has reached it when it has given up what is
    not its own by it.
    """

    taken_size = 0

    def __init__(self, name: str, now_s: Callable[[], float]) -> None:
        self.name, self._now_s = name, now_s
        self.epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, frozenset[Partition]] = {}
        self.assignor = UNIFORM
        self.seen: Mapping[str, SeenTopic] = {}
        self._subscribed: dict[Subscription, frozenset[str]] = {}
        """The names that each pattern stands for now."""
        self._owners: dict[Partition, str] = {}
        self._is_stale = False
        self._looked_s = -GROUP_TOPICS_LOOK_S

    @property
    def topics(self) -> frozenset[str]:
        """What members may own partitions of, or soon may."""
        return frozenset(self.seen).union(partition.topic for partition in self._owners)

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        is_settled = not self._is_stale and all(
            member.epoch == self.epoch and member.given == self.targets.get(member.id, frozenset())
            for member in self.members.values()
        )
        return ConsumerState.STABLE if is_settled else ConsumerState.RECONCILING

    # --- What there is to share out ---

    @property
    def size(self) -> int:
        """About how many bytes its members take."""
        return sum([member.size for member in self.members.values()])

    def must_look(self, said: Beat) -> bool:
        """Whether it is time to look which topics there are, or `said` asks for others."""
        member = self.members.get(said.member_id)
        is_new = member is None or said.names not in (None, member.names) or said.pattern not in (None, member.pattern)
        return is_new or self._now_s() - self._looked_s >= GROUP_TOPICS_LOOK_S

    def see(self, topics: Mapping[str, SeenTopic], patterns: Mapping[Subscription, frozenset[str]]) -> None:
        """These are the topics that members want and may have, and what their patterns stand for."""
        self._looked_s = self._now_s()
        if topics != self.seen or patterns != self._subscribed:
            self.seen, self._subscribed = dict(topics), dict(patterns)
            self._is_stale = True

    def _share_out(self) -> None:
        """Decide anew who should own what, where that may be another than before."""
        if not self._is_stale:
            return
        self._is_stale = False
        wanted = {
            member.id: member.names | self._subscribed.get(member.subscription, frozenset())
            for member in self.members.values()
        }
        votes = Counter(member.assignor for member in self.members.values())
        self.assignor = votes.most_common(1)[0][0]
        self.epoch += 1
        self.targets = ASSIGNORS[self.assignor](wanted, self.seen, self.targets)

    # --- Members ---

    def beat(self, said: Beat) -> Told:
        """The member lives, joins or leaves; what it may own now."""
        if said.epoch in (LEAVE_EPOCH, PAUSE_EPOCH):
            return self._leave(said)
        found = self._come(said) if said.epoch == JOIN_EPOCH else self._known(said)
        if not isinstance(found, ConsumerMember):
            return Told(error=found, member_id=said.member_id, epoch=said.epoch)
        if found.heard(said, self._now_s()):
            self._is_stale = True
        self._share_out()
        before = found.epoch, found.given
        self._reconcile(found, frozenset() if said.epoch == JOIN_EPOCH else said.owned)
        is_news = said.is_full or before != (found.epoch, found.given)
        return Told(member_id=found.id, epoch=found.epoch, assignment=found.given if is_news else None)

    def _come(self, said: Beat) -> ConsumerMember | Code:
        """Somebody joins, or begins anew."""
        static = self._static(said.instance_id)
        if static is not None and static.id != said.member_id:
            return self._replace(static, said) if static.is_away else Code.UNRELEASED_INSTANCE_ID
        member = self.members.get(said.member_id)
        if member is not None:
            return member if member.instance_id == said.instance_id else Code.INVALID_REQUEST
        if len(self.members) >= GROUP_MEMBERS_MAX:
            return Code.GROUP_MAX_SIZE_REACHED
        member = ConsumerMember(said.member_id, said.instance_id, self._now_s() + GROUP_CONSUMER_SESSION_S)
        self.members[member.id] = member
        self._is_stale = True
        return member

    def _replace(self, old: ConsumerMember, said: Beat) -> ConsumerMember:
        """A static member came back: what it owned is its own."""
        self._release(old, old.revoking)
        member = ConsumerMember(said.member_id, said.instance_id, old.deadline_s, given=old.given)
        member.names, member.pattern, member.assignor = old.names, old.pattern, old.assignor
        del self.members[old.id]
        self.members[member.id] = member
        self.targets[member.id] = self.targets.pop(old.id, frozenset())
        self._owners.update(dict.fromkeys(member.given, member.id))
        return member

    def _known(self, said: Beat) -> ConsumerMember | Code:
        static, member = self._static(said.instance_id), self.members.get(said.member_id)
        if static is not None and static.id != said.member_id:
            return Code.FENCED_INSTANCE_ID
        if member is None:
            return Code.UNKNOWN_MEMBER_ID
        # It may not have heard of its last epoch: then it owns nothing that it was not given since.
        has_missed = said.epoch == member.previous_epoch and member.owns_no_more_than_given(said.owned)
        return member if said.epoch == member.epoch or has_missed else Code.FENCED_MEMBER_EPOCH

    def _static(self, instance_id: str | None) -> ConsumerMember | None:
        if instance_id is None:
            return None
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    def _leave(self, said: Beat) -> Told:
        static, member = self._static(said.instance_id), self.members.get(said.member_id)
        told = Told(member_id=said.member_id, epoch=said.epoch)
        if static is not None and static.id != said.member_id:
            return Told(error=Code.FENCED_INSTANCE_ID, member_id=said.member_id, epoch=said.epoch)
        if member is None:
            return Told(error=Code.UNKNOWN_MEMBER_ID, member_id=said.member_id, epoch=said.epoch)
        if said.epoch == PAUSE_EPOCH and static is not None:
            self._release(member, member.revoking)
            member.revoking, member.epoch = frozenset(), PAUSE_EPOCH
            member.deadline_s = self._now_s() + GROUP_CONSUMER_SESSION_S
        else:
            self._remove(member)
        return told

    def _remove(self, member: ConsumerMember) -> None:
        del self.members[member.id]
        self.targets.pop(member.id, None)
        self._release(member, member.given | member.revoking)
        self._is_stale = True
        if not self.members:
            self.seen, self._subscribed, self.targets = {}, {}, {}

    def check_commit(self, member_id: str, epoch: int) -> Code:
        """Whether somebody may commit, or look up, as this member."""
        member = self.members.get(member_id)
        if member is None:
            return Code.UNKNOWN_MEMBER_ID
        return Code.NONE if member.epoch == epoch else Code.STALE_MEMBER_EPOCH

    # --- Changing over ---

    def _reconcile(self, member: ConsumerMember, owned: Set[OwnedPlace] | None) -> None:
        """Bring what the member may own nearer to what it should; `owned` is what it says, where it does."""
        if not has_given_up(owned, member.revoking):
            return
        self._release(member, member.revoking)
        target = self.targets.get(member.id, frozenset())
        member.revoking, member.given = member.given - target, member.given & target
        if not has_given_up(owned, member.revoking):
            member.revoke_deadline_s = self._now_s() + member.rebalance_timeout_s
            return
        self._release(member, member.revoking)
        member.revoking = frozenset()
        free = {partition for partition in target - member.given if partition not in self._owners}
        self._owners.update(dict.fromkeys(free, member.id))
        member.given |= free
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch

    def _release(self, member: ConsumerMember, partitions: frozenset[Partition]) -> None:
        for partition in partitions:
            if self._owners.get(partition) == member.id:
                del self._owners[partition]

    # --- Time ---

    def tick(self) -> None:
        """Do what is due: members that are not heard of go, and so do those that give up nothing in their time."""
        now_s = self._now_s()
        for member in list(self.members.values()):
            if member.deadline_s <= now_s or (member.revoking and member.revoke_deadline_s <= now_s):
                self._remove(member)

    def wake_s(self) -> float | None:
        """When `tick` has something to do next; None where nobody is there."""
        times = [member.deadline_s for member in self.members.values()]
        times += [member.revoke_deadline_s for member in self.members.values() if member.revoking]
        return min(times, default=None)

    def stop(self) -> None:
        """Nobody waits here: nothing is to be told."""
