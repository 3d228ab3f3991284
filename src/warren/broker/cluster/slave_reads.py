"""SlaveReads: clients read from a slave what is committed, with the same requests as from the master (KIP-392)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, ParamSpec, Protocol, TypeVar, cast

from warren.broker.cluster.node import ReplicaNode
from warren.broker.cluster.shard_leadership import ShardLeadership
from warren.broker.kafka.call import Call
from warren.broker.kafka.fetch import fetch
from warren.broker.native.call import Call as NativeCall
from warren.broker.native.handler import Handler, own
from warren.broker.native.read import read, scan
from warren.broker.net.request import Reply, ServedCall
from warren.broker.quotas.quotas import Quotas
from warren.broker.security.rights import Rights
from warren.broker.services.limited_log import LimitedLog
from warren.broker.services.long_polls import LongPolls
from warren.broker.services.memory_budget import MemoryBudget
from warren.broker.services.metrics import Metrics
from warren.broker.services.open_topics import OpenTopics
from warren.broker.services.read_memory import ReadMemory
from warren.broker.services.topics import Topics
from warren.broker.services.turns import Turns
from warren.broker.settings import BrokerLimits
from warren.clock import Clock
from warren.errors import WarrenError
from warren.protocol.native_messages import (
    FindReplicasRequest,
    FindReplicasResponse,
    ReadRequest,
    ReadResponse,
    ScanRequest,
)
from warren.protocol.native_schemas import NativeKey
from warren.queue.topic import Topic
from warren.replication.changes import Item, RemovedLog
from warren.replication.disk.log_facts import directory_of
from warren.storage.disk.filesystem import FileSystem
from warren.transaction.store import Store

P = ParamSpec("P")
T = TypeVar("T")
ACTIVE_S: Final = 60.0
"""For how long after a read more reads are expected. A consumer's Fetch may wait for so long."""


class SlaveHost(Protocol):
    """The process of a slave, as its readers see it. `ReplicaHost` is the real one."""

    path: str
    filesystem: FileSystem
    clock: Clock
    node: ReplicaNode
    limits: BrokerLimits
    tasks: asyncio.TaskGroup
    metrics: Metrics
    budget: MemoryBudget
    quotas: Quotas
    rights: Rights | None
    denials: LimitedLog
    is_stopping: bool

    def client_message(self, whom: object, error: BaseException | str) -> str:
        """Returns an error's message for a client, without paths of the server."""
        ...

    async def in_thread(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Calls `work` on a thread, for work that waits for the disk, and returns its result."""
        ...

    async def aside(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Calls `work` on the one thread for long computations, and returns its result."""
        ...


class SlaveLeadership(ShardLeadership):
    """The leadership in a read from a slave: the end that it gives is that of what it shows, and not the last one."""

    @property
    def is_offered(self) -> bool:
        """Whether clients may read here: the slave has a link to its master, and is in the in-sync set."""
        return self.replica.is_linked and self.node in self.insync

    def refusal_of_ends(self) -> WarrenError | None:
        # A read that waited finds nothing any more if the slave was cut off in the meantime.
        return None if self.is_offered else self.replica.watch.not_master()


async def read_shown(call: NativeCall, request: ReadRequest) -> ReadResponse:
    """Returns messages that this slave shows. Backwards it gives none if it does not show the number to begin with."""
    if request.is_backwards:
        topic = await call.broker.opened_topic(request.topic)
        if any(each.number >= topic.partition(each.partition).end for each in request.positions):
            return ReadResponse(positions=request.positions, partition_count=topic.partition_count)
    return await read(call, request)


def find_this(call: NativeCall, request: FindReplicasRequest) -> FindReplicasResponse:
    """Says that clients may read here. It is the first request of a client, which compares the id of the store."""
    return FindReplicasResponse(store_id=call.broker.store.id)


READERS: Final[Mapping[int, Handler]] = MappingProxyType(
    {
        NativeKey.FIND_REPLICAS: own(FindReplicasRequest, find_this),
        NativeKey.READ: own(ReadRequest, read_shown),
        NativeKey.SCAN: own(ScanRequest, scan),
    }
)
"""Our own calls that a slave answers."""


class SlaveReads:
    """The parts of a broker that reads use, over the store of a slave, which is opened for reading.

    For the event loop's thread. The store is closed before logs are removed, and opened again by the next read.
    """

    def __init__(self, host: SlaveHost) -> None:
        self._host = host
        self.leadership = SlaveLeadership(host.node)
        self.limits, self.tasks, self.metrics = host.limits, host.tasks, host.metrics
        self.budget, self.quotas, self.rights = host.budget, host.quotas, host.rights
        self.denials = host.denials
        self.long_polls = LongPolls(host.tasks, watches=False)
        self.read_memory = ReadMemory(host.budget, host.in_thread)
        self.turns = Turns(host.clock.steady_s)
        self._store: Store | None = None
        self._topics: Topics | None = None
        self._open_topics: OpenTopics | None = None
        self._active_until = float("-inf")

    @property
    def are_active(self) -> bool:
        """Whether a client has read within ACTIVE_S."""
        return self._host.clock.steady_s() < self._active_until

    @property
    def is_stopping(self) -> bool:
        return self._host.is_stopping

    def fetch(self, call: Call) -> Reply | None:
        """Returns the answer to a Fetch of Kafka's; None if the consumer has to ask the master."""
        return self._answer(call, fetch)

    def answer(self, call: NativeCall) -> Reply | None:
        """Returns the answer to one of our own calls; None if the client has to ask the master."""
        handler = READERS.get(call.request.api_key)
        return None if handler is None else self._answer(call, handler)

    def _answer(self, call: ServedCall[Any], handle: Callable[[Any], Reply]) -> Reply | None:
        if not self.leadership.is_offered:
            return None
        self._active_until = self._host.clock.steady_s() + ACTIVE_S
        try:
            self._open()
        except (WarrenError, OSError):
            # The files of the store are not here yet.
            return None
        # A read uses nothing but what this class has.
        return handle(ServedCall(cast(Any, self), call.peer, call.request))

    # --- What a read uses ---

    @property
    def store(self) -> Store:
        return self._open()

    @property
    def topics(self) -> Topics:
        self._open()
        assert self._topics is not None
        return self._topics

    @property
    def open_topics(self) -> OpenTopics:
        self._open()
        assert self._open_topics is not None
        return self._open_topics

    async def opened_topic(self, name: str) -> Topic:
        """Returns the topic `name`. Raises NoSuchTopic if it does not exist."""
        if closed := self.open_topics.closed((name,)):
            await self.open_topics.open(closed)
        return self.topics.find(name)

    def client_message(self, whom: object, error: BaseException | str) -> str:
        """Returns an error's message for a client, without paths of the server."""
        return self._host.client_message(whom, error)

    async def in_thread(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Calls `work` on a thread, for work that waits for the disk, and returns its result."""
        return await self._host.in_thread(work, *arguments, **named)

    async def aside(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Calls `work` on the one thread for long computations, and returns its result."""
        return await self._host.aside(work, *arguments, **named)

    # --- What the node says ---

    def wake_readers(self, ends: Mapping[str, int]) -> None:
        """Wakes the requests that wait for these logs, because readers see more of them."""
        if self._store is None:
            return
        directories = {os.path.join(self._host.path, *directory_of(name).split("/")) for name in ends}
        self.long_polls.ring_in(directories)

    def prepare_for(self, items: Sequence[Item]) -> None:
        """Closes the store if the items, which are about to be carried out, remove a log."""
        if any(isinstance(item, RemovedLog) for item in items):
            self.close_store()

    def close_store(self) -> None:
        """Closes the store, because logs are about to be removed. Requests that wait are answered with an error."""
        store, self._store = self._store, None
        if store is not None:
            store.close()
            self.long_polls.ring_all()

    def close(self) -> None:
        """Ends all waiting requests."""
        self.close_store()
        self.long_polls.stop()

    def _open(self) -> Store:
        if self._store is None:
            host = self._host
            store = self._store = Store(host.path, read_only=True, filesystem=host.filesystem, clock=host.clock)
            self._topics, self._open_topics = Topics(store), OpenTopics(store, host.in_thread)
        return self._store
