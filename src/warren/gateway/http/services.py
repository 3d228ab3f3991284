"""GatewayServices: the parts of the broker that handlers of requests over HTTP use."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from warren.broker.security.broker_view import BrokerView
from warren.broker.services.status import Counted

if TYPE_CHECKING:
    from warren.broker.quotas.allotment import Allotment
    from warren.broker.quotas.quotas import Quotas
    from warren.broker.services.memory_budget import MemoryBudget
    from warren.broker.services.metrics import Metrics
    from warren.broker.services.read_memory import ReadMemory
    from warren.broker.services.status import StatusCache
    from warren.broker.services.turns import Turns
    from warren.broker.settings import BrokerLimits
    from warren.queue.topic import Topic
    from warren.transaction.store import Store

P = ParamSpec("P")
T = TypeVar("T")


class GroupPositions(Protocol):
    """Caches the positions of groups."""

    def drop(self, topic: Topic, group: str) -> None:
        """Drops the cached positions of a group that was deleted."""


class ProcessServices(Protocol):
    """The services that every replica has, also one that has no store open because it does not lead."""

    @property
    def metrics(self) -> Metrics: ...

    @property
    def connections(self) -> Sized: ...

    @property
    def budget(self) -> MemoryBudget: ...

    @property
    def quotas(self) -> Quotas: ...

    @property
    def is_stopping(self) -> bool: ...

    async def aside(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Calls `work` on the one thread for long computations, and returns its result."""


class GatewayServices(BrokerView, Counted, Protocol):
    """The services of a handler: rights and topics (BrokerView), counters (Counted), and the members below.

    Used on the event loop; `in_thread` and `aside` run what would block it.
    """

    @property
    def store(self) -> Store: ...

    @property
    def limits(self) -> BrokerLimits: ...

    @property
    def standings(self) -> StatusCache: ...

    @property
    def read_memory(self) -> ReadMemory: ...

    @property
    def turns(self) -> Turns: ...

    @property
    def allotment(self) -> Allotment: ...

    @property
    def positions(self) -> GroupPositions: ...

    @property
    def failed_logs(self) -> Sized: ...

    async def in_thread(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Calls `work` on a thread, for work that waits for the disk, and returns its result."""

    async def aside(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Calls `work` on the one thread for long computations, and returns its result."""
