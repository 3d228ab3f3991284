"""Limits of groups and their members that more than one module checks, and the memory that members take."""

from __future__ import annotations

from typing import Final, Protocol

from warren.broker.kafka.errors import Code
from warren.broker.services.memory_budget import Hold, MemoryBudget, MemoryKind

GROUP_MEMBERS_MAX: Final = 1_000
GROUPS_MAX: Final = 100_000
GROUP_REBALANCE_S_MAX: Final = 3600.0
"""How long members have to join again and to sync, even if they ask for more."""
GROUP_SIZE_MAX: Final = 4 << 20
"""The metadata and assignments of all members of a group: four times what Kafka allows."""
GROUP_MEMBER_SIZE: Final = 1 << 10
SHARE_TAKEN_SIZE: Final = 512
"""About how many bytes a member takes apart from its metadata, and a message that a share-group member has taken."""
GROUP_CONSUMER_SESSION_S: Final = 10.0
"""The silence after which members of consumer and share groups are removed."""
GROUP_TOPICS_LOOK_S: Final = 1.0
"""How often a group looks up new, changed and deleted topics while members send heartbeats."""
GROUP_SUBSCRIPTIONS_MAX: Final = 10_000
SHARE_TAKEN_FIRST: Final = 16
"""How many messages are taken first, to learn their size."""
SHARE_TAKEN_MAX: Final = 20_000
"""How many unacknowledged messages a member of a share group may have."""


class MeasuredGroup(Protocol):
    """A group with its size in bytes, and the part of it for messages that members have taken."""

    @property
    def size(self) -> int: ...
    @property
    def taken_size(self) -> int: ...


class MemberMemory:
    """The bytes that each group takes from the memory budget. For the event loop's thread alone.

    A group's bytes are charged to the owner of its first member.
    """

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._holds: dict[MeasuredGroup, Hold] = {}

    def refusal(self, group: MeasuredGroup, size: int, owner: str) -> Code:
        """Returns NONE if the member may store `size` more bytes. The caller reports the result with `changed`."""
        hold = self._holds.get(group)
        if hold is not None and hold.size - group.taken_size + size > GROUP_SIZE_MAX:
            self._budget.refusals += 1
            return Code.GROUP_MAX_SIZE_REACHED
        if not self.has_room(size, owner):
            return Code.COORDINATOR_NOT_AVAILABLE
        if hold is None:
            self._holds[group] = self._budget.hold(MemoryKind.MEMBERS, size, owner)
        return Code.NONE

    def has_room(self, size: int, owner: str) -> bool:
        """Returns whether there is room for `size` more bytes. Counts a refusal if there is not."""
        has_room = self._budget.may_keep(size, owner)
        self._budget.refusals += not has_room
        return has_room

    def changed(self, group: MeasuredGroup) -> None:
        """Charges the bytes that the group takes now."""
        hold = self._holds.get(group)
        if hold is not None and hold.size != (size := group.size):
            hold.resize(size)

    def forget(self, group: MeasuredGroup) -> None:
        """Releases the memory of a group that has ended."""
        hold = self._holds.pop(group, None)
        if hold is not None:
            hold.release()
