"""A member of a consumer group: its subscription, the partitions that it may own, and those that it has to give up."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Final, NamedTuple

from warren.broker.kafka.errors import Code
from warren.broker.kafka.groups.assignors import UNIFORM, AssignedPartition
from warren.broker.kafka.groups.limits import GROUP_CONSUMER_SESSION_S, GROUP_MEMBER_SIZE

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
PAUSE_EPOCH: Final = -2
"""The epoch that a static member sends when it leaves and will come back. Its partitions stay reserved for it."""


class OwnedPlace(NamedTuple):
    """A partition as members name it: topic id and number."""

    topic_id: bytes
    number: int


class Subscription(NamedTuple):
    """A pattern of topic names, with the user and host of its member, who must have the right to describe a topic."""

    pattern: str
    user: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A heartbeat. A field that is None did not change."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    user: str = ""
    rebalance_timeout_s: float | None = None
    names: frozenset[str] | None = None
    pattern: str | None = None
    """A pattern of topic names; empty if the member no longer subscribes by a pattern."""
    assignor: str | None = None
    owned: Set[OwnedPlace] | None = None

    @property
    def size(self) -> int:
        """Returns about how many bytes its topic names and its pattern take."""
        return len(self.pattern or "") + sum(map(len, self.names or ()))

    @property
    def is_full(self) -> bool:
        """Returns whether it is a full heartbeat: the member joins, or does not know whether its last one arrived."""
        is_all = None not in (self.rebalance_timeout_s, self.owned) and (self.names, self.pattern) != (None, None)
        return self.epoch == JOIN_EPOCH or is_all


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatReply:
    """The answer to a heartbeat: the epoch, and the partitions that the member may own, if they changed."""

    error: Code = Code.NONE
    member_id: str = ""
    epoch: int = 0
    assignment: frozenset[AssignedPartition] | None = None


@dataclass(slots=True, eq=False)
class ConsumerMember:
    """One member. For the event loop's thread alone.

    Invariant: the member may own `assignment`. It has to give up `revoking`, and no other member gets those partitions
    before it has. Until then its epoch stays behind the group's.
    """

    id: str
    instance_id: str | None
    deadline_s: float
    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    user: str = ""
    rebalance_timeout_s: float = GROUP_CONSUMER_SESSION_S
    names: frozenset[str] = frozenset()
    pattern: str = ""
    assignor: str = UNIFORM
    assignment: frozenset[AssignedPartition] = frozenset()
    revoking: frozenset[AssignedPartition] = frozenset()
    revoke_deadline_s: float = 0.0
    said_size: int = 0

    @property
    def size(self) -> int:
        """Returns about how many bytes it takes."""
        return GROUP_MEMBER_SIZE + self.said_size

    @property
    def subscription(self) -> Subscription:
        """Returns its pattern with its user and host."""
        return Subscription(self.pattern, self.user, self.client_host)

    @property
    def is_away(self) -> bool:
        """Returns whether it left with PAUSE_EPOCH."""
        return self.epoch == PAUSE_EPOCH

    def note_heartbeat(self, heartbeat: Beat, now_s: float) -> bool:
        """Renews the session and stores the changes of the subscription. Returns whether they need a new assignment."""
        self.deadline_s = now_s + GROUP_CONSUMER_SESSION_S
        self.client_id, self.client_host, self.user = heartbeat.client_id, heartbeat.client_host, heartbeat.user
        if heartbeat.rack_id is not None:
            self.rack_id = heartbeat.rack_id
        if heartbeat.rebalance_timeout_s is not None:
            self.rebalance_timeout_s = heartbeat.rebalance_timeout_s
        before = self.names, self.pattern, self.assignor
        if heartbeat.names is not None:
            self.names = heartbeat.names
        if heartbeat.pattern is not None:
            self.pattern = heartbeat.pattern
        if heartbeat.assignor is not None:
            self.assignor = heartbeat.assignor
        if heartbeat.names is not None or heartbeat.pattern is not None:
            self.said_size = len(self.pattern) + sum(map(len, self.names))
        return before != (self.names, self.pattern, self.assignor)

    def owns_no_more_than_assigned(self, owned: Set[OwnedPlace] | None) -> bool:
        """Returns whether all partitions that it reports as owned were given to it; False if it reports none."""
        return owned is not None and owned <= places(self.assignment)


def has_given_up(owned: Set[OwnedPlace] | None, partitions: Set[AssignedPartition]) -> bool:
    """Returns whether a member that reports `owned` has none of `partitions`; False if it did not report."""
    return not partitions or (owned is not None and not owned & places(partitions))


def places(partitions: Set[AssignedPartition]) -> frozenset[OwnedPlace]:
    """Returns the partitions as members name them."""
    return frozenset(OwnedPlace(each.topic_id, each.number) for each in partitions)
