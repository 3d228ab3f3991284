"""The memory of groups: what members of Kafka's groups say of themselves, are assigned and have taken."""

from __future__ import annotations

from typing import Protocol

from warren.broker.budget import Budget, Hold, Kind
from warren.broker.kafka_errors import Code
from warren.config import GROUP_SIZE_MAX


class Group(Protocol):
    """A group that knows about how many bytes its members take, and how many of them for what they have taken."""

    @property
    def size(self) -> int: ...
    @property
    def taken_size(self) -> int: ...


class MemberMemory:
    """The bytes that each group takes from the budget. For the event loop's thread alone.

    A group's bytes are counted for the owner of the member that came first.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._holds: dict[Group, Hold] = {}

    def refusal(self, group: Group, size: int, owner: str) -> Code:
        """NONE if a member may say `size` bytes more of itself. The caller tells by `changed` what came of it."""
        hold = self._holds.get(group)
        if hold is not None and hold.size - group.taken_size + size > GROUP_SIZE_MAX:
            self._budget.refusals += 1
            return Code.GROUP_MAX_SIZE_REACHED
        if not self.has_room(size, owner):
            return Code.COORDINATOR_NOT_AVAILABLE
        if hold is None:
            self._holds[group] = self._budget.hold(Kind.MEMBERS, size, owner)
        return Code.NONE

    def has_room(self, size: int, owner: str) -> bool:
        """Whether there is room for so many bytes more; if not, that is counted as a refusal."""
        has_room = self._budget.may_keep(size, owner)
        self._budget.refusals += not has_room
        return has_room

    def changed(self, group: Group) -> None:
        """Count what the group takes now."""
        hold = self._holds.get(group)
        if hold is not None and hold.size != (size := group.size):
            hold.resize(size)

    def forget(self, group: Group) -> None:
        """The group is no more."""
        hold = self._holds.pop(group, None)
        if hold is not None:
            hold.release()
