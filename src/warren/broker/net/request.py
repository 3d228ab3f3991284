"""Services and Call: the parts of the broker that a handler uses, one request, and what a handler may return."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Generic, ParamSpec, Protocol, TypeVar

from warren.broker.security.asker import Asker
from warren.broker.security.broker_view import BrokerView
from warren.protocol.headers import Request
from warren.protocol.primitives import Buffer

if TYPE_CHECKING:
    from warren.broker.net.places import OpenConnections
    from warren.broker.net.progress import ProgressWatch
    from warren.broker.quotas.allotment import Allotment
    from warren.broker.quotas.quotas import Quotas
    from warren.broker.security.logged_in import LoggedIn
    from warren.broker.security.logins import Logins
    from warren.broker.security.peer import Peer
    from warren.broker.security.users import Users
    from warren.broker.services.append_queue import AppendQueue
    from warren.broker.services.batch_checks import BatchChecks
    from warren.broker.services.kept_memory import AheadMemory
    from warren.broker.services.leadership import Leadership
    from warren.broker.services.limited_log import LimitedLog
    from warren.broker.services.long_polls import LongPolls
    from warren.broker.services.memory_budget import MemoryBudget
    from warren.broker.services.metrics import Metrics
    from warren.broker.services.open_topics import OpenTopics
    from warren.broker.services.pauses import Pauses
    from warren.broker.services.read_memory import ReadMemory
    from warren.broker.services.status import StatusCache
    from warren.broker.services.topics import Topics
    from warren.broker.services.turns import Turns
    from warren.broker.settings import BrokerLimits

P = ParamSpec("P")
T = TypeVar("T")
Answer = Sequence[Buffer] | None
"""The body of a response; None if the client expects none."""


class Services(BrokerView, Protocol):
    """The parts of the broker that handlers of more than one room use. The `call.py` of a room adds what only it uses.

    Used on the event loop; `in_thread` and `aside` run what would block it.
    """

    @property
    def limits(self) -> BrokerLimits: ...

    @property
    def tasks(self) -> asyncio.TaskGroup: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def topics(self) -> Topics: ...

    @property
    def standings(self) -> StatusCache: ...

    @property
    def budget(self) -> MemoryBudget: ...

    @property
    def read_memory(self) -> ReadMemory: ...

    @property
    def ahead_memory(self) -> AheadMemory: ...

    @property
    def long_polls(self) -> LongPolls: ...

    @property
    def append_queue(self) -> AppendQueue: ...

    @property
    def unpacking(self) -> BatchChecks: ...

    @property
    def turns(self) -> Turns: ...

    @property
    def pauses(self) -> Pauses: ...

    @property
    def open_topics(self) -> OpenTopics: ...

    @property
    def quotas(self) -> Quotas: ...

    @property
    def allotment(self) -> Allotment: ...

    @property
    def users(self) -> Users: ...

    @property
    def logins(self) -> Logins: ...

    @property
    def logged_in(self) -> LoggedIn: ...

    @property
    def closings(self) -> LimitedLog: ...

    @property
    def failed_logins(self) -> LimitedLog: ...

    @property
    def connections(self) -> OpenConnections: ...

    @property
    def progress(self) -> ProgressWatch: ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def advertised(self) -> tuple[str, int]: ...

    @property
    def leadership(self) -> Leadership: ...

    @property
    def is_stopping(self) -> bool: ...

    async def in_thread(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Calls `work` on a thread, for work that waits for the disk, and returns its result."""

    async def aside(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Calls `work` on the one thread for long computations, and returns its result."""


class DeferredReply:
    """An answer that comes later, without a task or a future, for frequent requests. For the event loop's thread alone.

    The handler that returns this must call `on_done` exactly once, with the answer or an error, and only after it has
    returned, because the connection sets `on_done` then.
    """

    __slots__ = ("on_done",)
    on_done: Callable[[Answer | BaseException], None]

    def finish(self, answer: Callable[[T], Answer], outcome: T) -> None:
        """Calls `on_done` with what `answer` returns for the outcome, or with what it raises."""
        try:
            result: Answer | BaseException = answer(outcome)
        except BaseException as error:  # noqa: BLE001  # The connection gets it.
            result = error
        self.on_done(result)


class WaitingReply(DeferredReply):
    """A deferred reply of a long poll, which waits for `rung`. The connection drops it if it ends first."""

    __slots__ = ("is_dropped", "rung")
    rung: asyncio.Future[bool]

    def __init__(self) -> None:
        self.is_dropped = False

    def drop(self) -> None:
        """Ends the wait. A handler that has just been woken sees `is_dropped` and does not wait again."""
        self.is_dropped = True
        self.rung.cancel()


S_co = TypeVar("S_co", bound=Services, covariant=True)


class ServedCall(Asker, Generic[S_co]):
    """A request, the services of the broker that answers it, and the client that sent it. Immutable."""

    __slots__ = ("broker", "peer", "request", "version")
    broker: S_co

    def __init__(self, broker: S_co, peer: Peer, request: Request) -> None:
        self.broker, self.peer, self.request = broker, peer, request
        self.version = request.version

    @property
    def client_id(self) -> str:
        return self.request.client_id or ""


Call = ServedCall[Services]
"""A request for a handler that uses only these services."""
Reply = Answer | Awaitable[Answer] | DeferredReply
"""What a handler returns: the answer, or a promise of it. Blocking work belongs on a thread."""
