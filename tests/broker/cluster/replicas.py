"""Replicas of one shard in one event loop: real nodes, real sockets, a registry in memory, and disks in memory."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from tests.support.broker.fake_replica import FakeReplica
from warren.broker.cluster.node import ReplicaNode
from warren.broker.cluster.node_setup import NodeEnd, NodeSetup
from warren.broker.cluster.paths import ClusterPaths
from warren.broker.cluster.replica_host import ReplicaHost
from warren.broker.cluster.shard_registry import ShardRegistry, ShardSettings
from warren.broker.net.tasks import BackgroundTasks
from warren.broker.security.replica_user import ReplicaUser
from warren.broker.settings import BrokerLimits, BrokerSettings
from warren.clock import SYSTEM_CLOCK
from warren.registry.local import LocalEnsemble, LocalRegistry
from warren.replication.time_limits import TimeLimits
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, FileSystem

NO_URLS: Final[Mapping[int, str]] = MappingProxyType({})
NO_USERS: Final[Mapping[int, ReplicaUser]] = MappingProxyType({})
CLUSTER = "0b5ad4a6-7c6d-4d8c-9a55-2f6f6b0f2c11"
TIMING = TimeLimits(lease_s=0.3, lag_s=0.6, answer_s=0.4, retry_s=0.05, turn_s=0.05, unreached_s=0.8, refuse_s=0.3)


class Process:
    """One process of a replica, from its start to its end."""

    def __init__(self, shard: Shard, replica: int) -> None:
        self.shard, self.replica = shard, replica
        self.disk = shard.disks[replica]
        self.is_serving = False
        self.ended: tuple[str, NodeEnd] | None = None
        self.host: ReplicaHost
        self.session: LocalRegistry = shard.ensemble.connect(session_s=1.0)

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: self.host.connection(), "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        setup = NodeSetup(
            cluster=CLUSTER,
            shard=0,
            replica=self.replica,
            host="127.0.0.1",
            port=port,
            nonce=uuid.uuid4().hex,
            timing=TIMING,
            session_s=1.0,
            is_power_safe=True,
            user=self.shard.users.get(self.replica),
            http=self.shard.urls.get(self.replica, ""),
        )
        self.node = ReplicaNode(setup, self.disk, ShardRegistry(self.session, ClusterPaths(), 0), self)
        self.host = ReplicaHost(
            str(self.shard.path),
            SYSTEM_FILE_SYSTEM,
            SYSTEM_CLOCK,
            self.node,
            BrokerSettings(sasl=bool(self.shard.users)),
            BrokerLimits(),
            self.shard.tasks,
        )
        self.leadership = self.host.leadership
        await self.node.start()

    def open_store(self, filesystem: FileSystem) -> Any:
        return object()

    def serve(self, store: Any) -> None:
        self.is_serving = True

    def end(self, reason: str, end: NodeEnd) -> None:
        self.ended = reason, end
        self.stop()

    def stop(self) -> None:
        """Ends its node and its connections. Its session in the registry stays open."""
        self.is_serving = False
        self.node.close()
        self.server.close()
        self.host.close()

    def kill(self) -> None:
        """Ends as by kill -9: its session ends, and its parent removes it from the registry."""
        self.stop()
        self.session.close()
        registry = ShardRegistry(self.shard.ensemble.connect(), ClusterPaths(), 0)
        registry.unregister(self.replica, self.node.setup.nonce)


class Shard:
    """The replicas, by number."""

    def __init__(
        self,
        path: Any,
        tasks: asyncio.TaskGroup,
        settings: ShardSettings,
        users: Mapping[int, ReplicaUser],
        urls: Mapping[int, str],
    ) -> None:
        self.path, self.tasks, self.settings, self.users = path, tasks, settings, users
        self.ensemble = LocalEnsemble()
        self.disks = {replica: FakeReplica(f"disk {replica}") for replica in (*settings.replicas, *settings.observers)}
        self.processes: dict[int, Process] = {}
        self.urls = urls
        self.registry = ShardRegistry(self.ensemble.connect(), ClusterPaths(), 0)
        self.registry.found_cluster(CLUSTER)
        self.registry.found_shard(settings)

    async def start(self, *replicas: int) -> None:
        for replica in replicas:
            self.processes[replica] = Process(self, replica)
            await self.processes[replica].start()

    @property
    def masters(self) -> list[Process]:
        return [each for each in self.processes.values() if each.is_serving]

    async def master(self) -> Process:
        await until(lambda: bool(self.masters))
        return self.masters[0]

    async def put(self, log: str, record: bytes) -> None:
        """Puts a record, and waits until the in-sync set has it."""
        master = await self.master()
        barrier = master.disk.put(log, record)
        assert master.disk.barriers is not None
        await until(lambda: master.disk.barriers is not None and master.disk.barriers.is_done(barrier))


async def until(is_true: Callable[[], bool], within_s: float = 10.0) -> None:
    """Waits until the condition is true."""
    async with asyncio.timeout(within_s):
        while not is_true():
            await asyncio.sleep(0.01)


async def with_shard(
    path: Any,
    scenario: Callable[[Shard], Awaitable[None]],
    replicas: Sequence[int] = (0, 1, 2),
    min_insync: int = 2,
    users: Mapping[int, ReplicaUser] = NO_USERS,
    observers: Sequence[int] = (),
    urls: Mapping[int, str] = NO_URLS,
) -> None:
    """Runs a shard with all of its replicas started but the observers, and a scenario with it.

    Replicas log in if they have `users`. They say that they serve HTTP at `urls`.
    """
    failure: BaseException | None = None
    settings = ShardSettings(replicas=tuple(replicas), observers=tuple(observers), min_insync=min_insync)
    try:
        async with BackgroundTasks() as tasks:
            shard = Shard(path, tasks, settings, users, urls)
            try:
                await shard.start(*replicas)
                await scenario(shard)
            except Exception as error:  # noqa: BLE001  # It is raised below, without the group around it.
                failure = error
            for each in shard.processes.values():
                if each.ended is None:
                    each.stop()
            raise _Over
    except* _Over:
        pass
    if failure is not None:
        raise failure


class _Over(Exception):
    """Ends the tasks of a shard."""
