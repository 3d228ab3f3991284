"""What groups and their members may take: counts, sizes in bytes, waits in seconds, and the memory that is counted."""

from __future__ import annotations

from typing import Final, Protocol

from warren.broker.services.kafka_errors import Code
from warren.broker.services.memory_budget import Hold, MemoryBudget, MemoryKind

GROUP_MEMBERS_MAX: Final = 1_000
GROUPS_MAX: Final = 100_000
GROUP_REBALANCE_S_MAX: Final = 3600.0
"""How long members have to join again and to share out, whatever they ask for."""
GROUP_SIZE_MAX: Final = 4 << 20
"""What all members of a group may say of themselves, and be assigned: four times what Kafka has room for."""
GROUP_MEMBER_SIZE: Final = 1 << 10
SHARE_TAKEN_SIZE: Final = 512
"""About what a member takes besides, and a message that a member of a share group has taken."""
GROUP_CONSUMER_SESSION_S: Final = 10.0
"""How often members of a consumer group are to be heard of, and after which silence they are gone."""
GROUP_TOPICS_LOOK_S: Final = 1.0
"""How often a consumer group looks for topics and partitions that are new, or gone, while members are heard of."""
GROUP_SUBSCRIPTIONS_MAX: Final = 10_000
SHARE_TAKEN_FIRST: Final = 16
"""How many are taken first, to see how large messages are."""
SHARE_TAKEN_MAX: Final = 20_000
"""How many messages a member of a share group may have that it has not acknowledged."""


class MeasuredGroup(Protocol):
    """A group that knows about how many bytes its members take, and how many of them for what they have taken."""

    @property
    def size(self) -> int: ...
    @property
    def taken_size(self) -> int: ...


class MemberMemory:
    """The bytes that each group takes from the budget. For the event loop's thread alone.

    A group's bytes are counted for the owner of the member that came first.
    """

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._holds: dict[MeasuredGroup, Hold] = {}

    def refusal(self, group: MeasuredGroup, size: int, owner: str) -> Code:
        """NONE if a member may say `size` bytes more of itself. The caller tells by `changed` what came of it."""
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
        """Whether there is room for so many bytes more; if not, that is counted as a refusal."""
        has_room = self._budget.may_keep(size, owner)
        self._budget.refusals += not has_room
        return has_room

    def changed(self, group: MeasuredGroup) -> None:
        """Count what the group takes now."""
        hold = self._holds.get(group)
        if hold is not None and hold.size != (size := group.size):
            hold.resize(size)

    def forget(self, group: MeasuredGroup) -> None:
        """The group is no more."""
        hold = self._holds.pop(group, None)
        if hold is not None:
            hold.release()
