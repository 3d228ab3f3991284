"""A share group of Kafka (KIP-932): all members take messages of all partitions, with the leases of a queue group."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from warren.broker.kafka.errors import Code
from warren.broker.kafka.groups.assignors import AssignedPartition, TopicSnapshot
from warren.broker.kafka.groups.consumer_members import JOIN_EPOCH, LEAVE_EPOCH, Beat, BeatReply, ConsumerMember
from warren.broker.kafka.groups.limits import (
    GROUP_CONSUMER_SESSION_S,
    GROUP_MEMBERS_MAX,
    GROUP_TOPICS_LOOK_S,
    SHARE_TAKEN_SIZE,
)
from warren.broker.kafka.groups.share_sessions import ShareSession
from warren.queue.leases.queue_group import QueueGroup


class ShareGroup:
    """One group. For the event loop's thread alone; `now_s` is its time.

    Every member gets all partitions of the topics that it subscribes to. A message goes to the member that takes it. A
    session outlives its member for a while, so that its messages can still be acknowledged.
    """

    def __init__(self, name: str, now_s: Callable[[], float]) -> None:
        self.name, self._now_s = name, now_s
        self.epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.sessions: dict[str, ShareSession] = {}
        self.queues: dict[str, QueueGroup] = {}
        self.last_lookup: Mapping[str, TopicSnapshot] = {}
        self._looked_s = -GROUP_TOPICS_LOOK_S

    # --- Members ---

    @property
    def size(self) -> int:
        """Returns about how many bytes its members and the messages that they have taken take."""
        return self.taken_size + sum([member.size for member in self.members.values()])

    @property
    def taken_size(self) -> int:
        """Returns about how many bytes the messages that members have taken take."""
        return SHARE_TAKEN_SIZE * sum([len(session.taken) for session in self.sessions.values()])

    def must_look(self, heartbeat: Beat) -> bool:
        """Returns whether to look up the topics: the last lookup is old, or `heartbeat` subscribes to other ones."""
        member = self.members.get(heartbeat.member_id)
        is_new = member is None or heartbeat.names not in (None, member.names)
        return is_new or self._now_s() - self._looked_s >= GROUP_TOPICS_LOOK_S

    def update_topics(self, topics: Mapping[str, TopicSnapshot]) -> None:
        """Stores the topics that members subscribe to, as they are now."""
        self._looked_s = self._now_s()
        if topics != self.last_lookup:
            self.last_lookup = dict(topics)
            self.epoch += 1

    def beat(self, heartbeat: Beat) -> BeatReply:
        """Handles a heartbeat: the member stays, joins or leaves. Returns the partitions it may take from."""
        member = self.members.get(heartbeat.member_id)
        if heartbeat.epoch == LEAVE_EPOCH:
            error = Code.UNKNOWN_MEMBER_ID if self.members.pop(heartbeat.member_id, None) is None else Code.NONE
            self.epoch += 1
            return BeatReply(error=error, member_id=heartbeat.member_id, epoch=heartbeat.epoch)
        if member is None and heartbeat.epoch != JOIN_EPOCH:
            return BeatReply(error=Code.UNKNOWN_MEMBER_ID, member_id=heartbeat.member_id, epoch=heartbeat.epoch)
        if member is None:
            if len(self.members) >= GROUP_MEMBERS_MAX:
                return BeatReply(
                    error=Code.GROUP_MAX_SIZE_REACHED, member_id=heartbeat.member_id, epoch=heartbeat.epoch
                )
            member = self.members[heartbeat.member_id] = ConsumerMember(heartbeat.member_id, None, 0.0)
            self.epoch += 1
        elif heartbeat.epoch not in (JOIN_EPOCH, member.epoch, member.previous_epoch):
            return BeatReply(error=Code.FENCED_MEMBER_EPOCH, member_id=heartbeat.member_id, epoch=heartbeat.epoch)
        return self._reply(member, heartbeat)

    def _reply(self, member: ConsumerMember, heartbeat: Beat) -> BeatReply:
        if member.note_heartbeat(heartbeat, self._now_s()):
            self.epoch += 1
        session = self.sessions.get(member.id)
        if session is not None:
            session.deadline_s = member.deadline_s
        assignment = frozenset(
            AssignedPartition(name, topic.id, number)
            for name, topic in self.last_lookup.items()
            if name in member.names
            for number in range(topic.partition_count)
        )
        is_news = heartbeat.epoch == JOIN_EPOCH or heartbeat.epoch != self.epoch or assignment != member.assignment
        member.assignment = assignment
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch
        return BeatReply(member_id=member.id, epoch=member.epoch, assignment=assignment if is_news else None)

    # --- Sessions ---

    def open_session(self, member_id: str, epoch: int) -> ShareSession | Code:
        """Returns the session for a fetch with this epoch. A new one takes over the messages of the one before."""
        session = self.sessions.get(member_id)
        if epoch == JOIN_EPOCH:
            if session is None and len(self.sessions) >= GROUP_MEMBERS_MAX:
                return Code.GROUP_MAX_SIZE_REACHED
            messages = {} if session is None else session.taken
            session = self.sessions[member_id] = ShareSession(messages)
        elif session is None:
            return Code.SHARE_SESSION_NOT_FOUND
        elif epoch not in (LEAVE_EPOCH, session.epoch):
            return Code.INVALID_SHARE_SESSION_EPOCH
        session.epoch += 1
        session.deadline_s = self._now_s() + GROUP_CONSUMER_SESSION_S
        return session

    # --- Time ---

    def tick(self) -> list[ShareSession]:
        """Removes members that sent no heartbeat. Returns their sessions."""
        now_s = self._now_s()
        for member in list(self.members.values()):
            if member.deadline_s <= now_s:
                del self.members[member.id]
                self.epoch += 1
        over = {id: session for id, session in self.sessions.items() if session.deadline_s <= now_s}
        for id in over:
            del self.sessions[id]
        return list(over.values())

    def wake_s(self) -> float | None:
        """Returns when `tick` has something to do next; None if there are no members."""
        times = [member.deadline_s for member in self.members.values()]
        times += [session.deadline_s for session in self.sessions.values()]
        return min(times, default=None)
