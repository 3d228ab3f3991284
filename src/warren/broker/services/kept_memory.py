"""The memory of what clients have open between requests. What the budget has no room for goes elsewhere."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from warren.broker.services.memory_budget import Hold, MemoryBudget, MemoryKind
from warren.broker.threads import InThread
from warren.queue.leases.queue_group import QueueGroup
from warren.queue.leases.unread import Supply


class HasSize(Protocol):
    """An object that a client has open, such as a transaction."""

    @property
    def size(self) -> int:
        """Returns how many bytes it has in memory; 0 if it is over."""
        ...


K = TypeVar("K", bound=HasSize)


class KeptMemory(Generic[K]):
    """The bytes that each object of one kind takes from the budget. For the event loop's thread alone.

    What is over holds nothing, even if another client ended it; the next `recount` sees it at the latest.
    """

    def __init__(self, budget: MemoryBudget, kind: MemoryKind) -> None:
        self._budget, self._kind = budget, kind
        self._holds: dict[K, Hold] = {}

    def count(self, kept: K, owner: str) -> bool:
        """Counts what the object holds now. Returns False if there is no room: the caller then makes it smaller."""
        hold, size = self._holds.get(kept), kept.size
        more = size if hold is None else size - hold.size
        if more > 0 and not self._budget.may_keep(more, owner):
            self.recount()
            if not self._budget.may_keep(more, owner):
                self._budget.refusals += 1
                return False
        if hold is None and size:
            self._holds[kept] = self._budget.hold(self._kind, size, owner)
        elif hold is not None:
            self._resize(kept, hold, size)
        return True

    def recount(self) -> None:
        """Gives back the memory of objects that are over or have less in memory than before."""
        for kept, hold in list(self._holds.items()):
            self._resize(kept, hold, min(hold.size, kept.size))

    def _resize(self, kept: K, hold: Hold, size: int) -> None:
        if not size:
            del self._holds[kept]
        if size != hold.size:
            hold.resize(size)


class AheadMemory:
    """The messages that queue groups with a filter or an order by key have read ahead. For the event loop's thread."""

    def __init__(self, budget: MemoryBudget, in_thread: InThread) -> None:
        self._memory, self._in_thread = KeptMemory[Supply](budget, MemoryKind.AHEAD), in_thread

    async def keep(self, group: QueueGroup, owner: str) -> None:
        """Counts what the group keeps after a take. If there is no room for it, the group reads it again next time."""
        if not self._memory.count(group.chooser.supply, owner):
            await self._in_thread(group.chooser.forget_ahead)
            self._memory.count(group.chooser.supply, owner)

    def recount(self) -> None:
        """Gives back the memory of groups that were closed or have handed out what they had read."""
        self._memory.recount()
