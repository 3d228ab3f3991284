"""The process of a replica: it follows or leads, serves the store while it leads, and ends rather than step down."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import ssl
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import Any, Final, NamedTuple, NoReturn

from warren.broker.broker import Broker
from warren.broker.cluster.node import ReplicaNode
from warren.broker.cluster.node_setup import NodeEnd, NodeSetup
from warren.broker.cluster.paths import ClusterPaths
from warren.broker.cluster.replica_host import ReplicaHost, kafka_cluster_id, known_topics
from warren.broker.cluster.settings import ASYNC, ClusterSettings
from warren.broker.cluster.shard_registry import ShardRegistry, ShardSettings
from warren.broker.configuration import Configuration
from warren.broker.net.connection import Connection
from warren.broker.net.places import Reservation
from warren.broker.net.tasks import BackgroundTasks
from warren.broker.security.replica_user import ReplicaUser
from warren.broker.security.scram import HASHES
from warren.broker.security.tls import replica_context, tls_context
from warren.broker.server import (
    NO_SIDE_SERVER,
    Listener,
    SideServerFactory,
    check_address,
    connection_factory,
    fast_loop,
    open_listener,
    serve_open,
    served_alone,
    settle_down,
)
from warren.clock import SYSTEM_CLOCK
from warren.errors import BadConfiguration, BadInput, RegistryError, StoreServed, WarrenError, WrongCluster
from warren.queue.state import paths
from warren.queue.state.json_file import read_json, write_json
from warren.registry.connection import connect_registry
from warren.registry.security import read_secret, tls_files
from warren.registry.zookeeper import ZooKeeperRegistry
from warren.replication.disk.replica_directory import ReplicaDirectory
from warren.replication.disk.replicated_filesystem import ReplicatedFileSystem
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, FileSystem
from warren.transaction.store import Store

LOGGER: Final = logging.getLogger("warren.broker")
PUBLISH_S: Final = 2.0
"""How often the topics of MetaMorphosis' nodes are compared with those of the store."""
COMMANDS_LOOK_S: Final = 0.5
"""How soon a master ships what a command on its machine has changed of users, rights and quotas."""
LEAVE_S: Final = 10.0
"""How long a replica that is asked to stop may take."""
LOOK_S: Final = 0.02
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Exit(IntEnum):
    """Why the process has ended, for its parent."""

    STOPPED = 0
    """It was asked to."""
    REFUSED = 2
    """It cannot be a replica as it was started. Another start would end in the same way."""
    FAILED = 70
    """Something did not work. It may work later."""
    AGAIN = 75
    """It was deposed, or handed over, and shall come back as a slave."""


ENDS: Final[Mapping[NodeEnd, Exit]] = {
    NodeEnd.AGAIN: Exit.AGAIN,
    NodeEnd.FAILED: Exit.FAILED,
    NodeEnd.REFUSED: Exit.REFUSED,
}


def run_replica(
    data: str,
    configuration: Configuration,
    nonce: str,
    side_server_factory: SideServerFactory | None = None,
) -> NoReturn:
    """Runs the replica until it is asked to stop or has to end, and ends the process. Writes why to the log."""
    try:
        check_address(configuration)
        check_logins(configuration)
        code = _run(data, configuration, nonce, side_server_factory)
    except (BadInput, WrongCluster, StoreServed) as error:
        LOGGER.error("%s", error)
        code = Exit.REFUSED
    except WarrenError as error:
        LOGGER.error("%s", error)
        code = Exit.FAILED
    _exit(code)


def check_logins(configuration: Configuration) -> None:
    """Raises BadConfiguration if clients have to log in, and the replicas could not log in to each other."""
    if configuration["security.rights"] and not configuration["security.sasl"]:
        raise BadConfiguration("security.rights", "in a cluster it needs security.sasl, because replicas log in")
    if not configuration["security.sasl"]:
        return
    if not configuration["cluster.secret_file"]:
        raise BadConfiguration(
            "cluster.secret_file",
            "with security.sasl replicas log in to each other with the secret of the cluster, and no file is named; "
            "make one with (umask 077; openssl rand -hex 32 > secret), and give it to ZooKeeper and to all replicas",
        )
    if not any(each in HASHES for each in configuration["security.mechanisms"]):
        raise BadConfiguration("security.mechanisms", f"replicas log in by SCRAM: add {max(HASHES)}")


def _exit(code: Exit) -> NoReturn:
    """Ends the process now. No thread touches a file any more."""
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _run(data: str, configuration: Configuration, nonce: str, side_server_factory: SideServerFactory | None) -> Exit:
    cluster = configuration.cluster()
    tls, to_others = tls_context(**configuration.section("tls")), replica_context(**configuration.section("tls"))
    secret = read_secret(cluster.secret_file) if configuration["security.sasl"] else None
    filesystem = SYSTEM_FILE_SYSTEM
    filesystem.make_directory(os.path.abspath(data))
    settle_down()
    with served_alone(filesystem, os.path.abspath(data)):
        registry = connected_registry(cluster)
        security = _Security(tls, to_others, secret)
        replica = _Replica(os.path.abspath(data), configuration, registry, nonce, security, side_server_factory)
        with asyncio.Runner(loop_factory=fast_loop()) as runner:
            return runner.run(replica.run())


def connected_registry(cluster: ClusterSettings) -> ZooKeeperRegistry:
    """Returns a session at the cluster's ZooKeeper."""
    secret = read_secret(cluster.secret_file) if cluster.secret_file else None
    tls = tls_files(cluster.tls_ca or None, cluster.tls_certificate or None, cluster.tls_key or None)
    return connect_registry(cluster.zookeeper, session_s=cluster.session_timeout_s, secret=secret, tls=tls)


class _Security(NamedTuple):
    """The TLS of the listener and of connections to other replicas, and the secret if replicas log in."""

    tls: ssl.SSLContext | None
    to_others: ssl.SSLContext | None
    secret: str | None


class _Replica:
    """The parts of the process, and what the node asks of it. For the event loop's thread, if not said otherwise."""

    def __init__(
        self,
        path: str,
        configuration: Configuration,
        registry: ZooKeeperRegistry,
        nonce: str,
        security: _Security,
        side_server_factory: SideServerFactory | None,
    ) -> None:
        self.path, self.configuration, self.nonce, self.security = path, configuration, nonce, security
        self.filesystem: FileSystem = SYSTEM_FILE_SYSTEM
        self.cluster = configuration.cluster()
        self.registry = ShardRegistry(registry, ClusterPaths(self.cluster.root), self.cluster.shard)
        self._side_server = (
            NO_SIDE_SERVER if side_server_factory is None else side_server_factory(configuration, security.tls)
        )
        self._factory: Callable[..., Connection] | None = None
        self._broker: Broker | None = None
        self._store: Store | None = None
        self._node: ReplicaNode | None = None
        self._listener: Listener | None = None
        self._replicated: ReplicatedFileSystem | None = None
        self._published = 0
        self._notes_master = True

    async def run(self) -> Exit:
        self._stopping, self._is_stopped = asyncio.Event(), asyncio.Event()
        id, settings = self._checked_member()
        async with BackgroundTasks() as self._tasks:
            self._disk = ReplicaDirectory(self.path, filesystem=self.filesystem)
            self._listener = await self._listen()
            host, port = self._address()
            setup = NodeSetup(
                cluster=id,
                shard=self.cluster.shard,
                replica=self.cluster.replica,
                host=host,
                port=port,
                nonce=self.nonce,
                timing=self.cluster.timing,
                session_s=self.cluster.session_timeout_s,
                is_power_safe=self._disk.is_power_safe,
                rack=self.cluster.rack or None,
                slave_group=self.cluster.slave_group,
                http="" if self._side_server is NO_SIDE_SERVER else self.configuration.http_url(host),
                tls=self.security.to_others,
                user=self._user(id),
            )
            node = self._node = ReplicaNode(setup, self._disk, self.registry, self)
            limits, behaviour = self.configuration.limits(), self.configuration.settings()
            self._host = ReplicaHost(self.path, self.filesystem, SYSTEM_CLOCK, node, behaviour, limits, self._tasks)
            self._factory = self._host.connection
            async with self._side_server.following(self._host):
                await self._run_node(node, settings)
            raise _Ended
        return Exit.STOPPED

    async def _run_node(self, node: ReplicaNode, settings: ShardSettings) -> None:
        setup = node.setup
        self._watch_signals()
        await node.start()
        LOGGER.info(
            "replica %d of shard %d at %s:%d, cluster %s, in-sync set of at least %d",
            setup.replica,
            setup.shard,
            setup.host,
            setup.port,
            self.cluster.zookeeper,
            settings.min_insync,
        )
        self._tasks.create_task(self._publish())
        self._tasks.create_task(self._ship_commands())
        await self._stopping.wait()
        await self._leave()

    # --- Beginning ---

    def _user(self, cluster: str) -> ReplicaUser | None:
        """Returns as which replicas log in; None if clients need not log in."""
        secret, mechanisms = self.security.secret, self.configuration["security.mechanisms"]
        return None if secret is None else ReplicaUser(secret, cluster, mechanisms)

    def _checked_member(self) -> tuple[str, ShardSettings]:
        """Returns the id of the cluster, and the settings of the shard. Raises WrongCluster if they do not fit."""
        cluster, registry = self.cluster, self.registry
        id, settings = registry.cluster_id(), registry.settings()
        if id is None:
            raise WrongCluster(
                f"there is no cluster at {cluster.zookeeper} below {cluster.root}",
                f"make one: warren cluster init {cluster.zookeeper}",
            )
        if settings is None:
            raise WrongCluster(f"the cluster has no shard {cluster.shard}", "name another --shard")
        settings.check()
        replicas = settings.observers if cluster.mode == ASYNC else settings.replicas
        if cluster.replica not in replicas:
            raise WrongCluster(
                f"shard {cluster.shard} has no replica {cluster.replica} in mode {cluster.mode}, but "
                f"{list(settings.replicas)} in mode sync and {list(settings.observers)} in mode async",
                f"add it: warren cluster add-replica {cluster.zookeeper} {cluster.replica}",
            )
        self._check_directory({"cluster": id, "shard": cluster.shard, "replica": cluster.replica})
        return id, settings

    def _check_directory(self, member: Mapping[str, Any]) -> None:
        """Notes in an empty directory what it belongs to. Raises WrongCluster if it belongs to something else."""
        path = paths.replica_file(self.path)
        there = read_json(self.filesystem, path)
        if there is None:
            self.filesystem.make_directory(os.path.dirname(path))
            write_json(self.filesystem, path, member)
        elif there != member:
            raise WrongCluster(
                f"{self.path} belongs to replica {there.get('replica')} of shard {there.get('shard')} of the cluster "
                f"{there.get('cluster')}, and not to replica {member['replica']} of shard {member['shard']} of the "
                f"cluster {member['cluster']}",
                "start it with its own numbers, or give this replica an empty directory",
            )

    async def _listen(self) -> Listener:
        host, port = self.configuration["broker.host"], self.configuration["broker.port"]
        return await open_listener(self._connection, self._reserve, self._tasks, host, port, self.security.tls)

    def _connection(self, reservation: Reservation | None = None) -> Connection:
        assert self._factory is not None
        return self._factory(reservation)

    def _reserve(self, host: str, close: Callable[[], None]) -> Reservation | None:
        server = self._broker or self._host
        return server.reserve(host, close)

    def _address(self) -> tuple[str, int]:
        assert self._listener is not None
        advertised = self.configuration.advertised()
        if advertised is not None:
            return advertised
        host, port = self._listener.sockets[0].getsockname()[:2]
        return host, port

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.add_signal_handler(each, self._stopping.set)

    # --- What the node asks ---

    def open_store(self, filesystem: FileSystem) -> Store:
        """Opens the store as master. Called on a thread."""
        self._store = Store(self.path, defaults=self.configuration.section("topics"), filesystem=filesystem)
        assert isinstance(filesystem, ReplicatedFileSystem)
        self._replicated = filesystem
        return self._store

    def serve(self, store: Store) -> None:
        """Takes requests of clients, from now until the process ends."""
        self._tasks.create_task(self._serve(store))

    async def _serve(self, store: Store) -> None:
        configuration, node = self.configuration, self._node
        assert node is not None

        async def listen(broker: Broker) -> Listener:
            assert self._listener is not None
            broker.cluster_id = kafka_cluster_id(node.setup.cluster)
            self._broker, self._factory = broker, connection_factory(broker)
            self._host.send_clients_away()
            return self._listener

        await serve_open(
            store,
            listen,
            stopping=self._is_stopped,
            settings=configuration.settings(),
            limits=configuration.limits(),
            advertised=(node.setup.host, node.setup.port),
            side_server=self._side_server,
            started=lambda broker: None,
            leadership=self._host.leadership,
        )

    async def _ship_commands(self) -> None:
        """Ships the files that `warren user`, `acl` and `quota` replace without the broker."""
        files = [each(self.path) for each in (paths.users_file, paths.rights_file, paths.quotas_file)]
        stamps: dict[str, tuple[int, int]] = {}
        while True:
            await asyncio.sleep(COMMANDS_LOOK_S)
            replicated = self._replicated
            for path in files if replicated is not None else ():
                assert replicated is not None
                with suppress(FileNotFoundError, WarrenError):
                    status = os.stat(path)
                    stamp = status.st_mtime_ns, status.st_ino
                    if stamp != stamps.get(path):
                        await asyncio.to_thread(replicated.ship_changed, path)
                        stamps[path] = stamp

    def end(self, reason: str, end: NodeEnd) -> None:
        """Ends the process immediately, without touching a file. Its parent starts it again."""
        LOGGER.debug("the process ends: %s", reason)
        _exit(ENDS[end])

    # --- Ending ---

    async def _leave(self) -> None:
        """Hands over if this replica leads, and ends."""
        node = self._node
        assert node is not None
        LOGGER.info("replica %d was asked to stop", self.cluster.replica)
        loop = asyncio.get_running_loop()
        until = loop.time() + LEAVE_S
        if node.master is not None:
            with suppress(WarrenError):
                node.hand_over()
            # The process ends when the other one leads. If that does not work in time, it simply ends.
            while node.is_handing_over and loop.time() < until:
                await asyncio.sleep(LOOK_S)
            self._is_stopped.set()
        _exit(Exit.STOPPED)

    # --- MetaMorphosis' nodes ---

    async def _publish(self) -> None:
        """Keeps the registry's list of topics, which old clients read, and the address of the master on disk."""
        while True:
            await asyncio.sleep(PUBLISH_S)
            node = self._node
            assert node is not None
            master, own = node.watch.living_master(), node.own
            if master is not None:
                await self._note_master(master.address)
            if own is None or not (node.is_serving or node.slave is not None):
                continue
            role = "master" if node.master is not None else f"slave{own.replica}"
            broker = f"{own.shard}-{'m' if node.master is not None else f's{own.replica}'}"
            try:
                topics = await asyncio.to_thread(self._topic_counts)
                # In steps, because votes about the lead wait for the same thread.
                while not await node.watch.call(self.registry.publish, own, role, broker, topics):
                    pass
            except RegistryError as error:
                LOGGER.debug("the topics could not be published: %s", error)

    async def _note_master(self, address: str) -> None:
        """Keeps the address of the master on disk, or tries again after the next pause, as on a full disk."""
        try:
            await asyncio.to_thread(self._disk.note_master, address)
        except (WarrenError, OSError) as error:
            if self._notes_master:
                LOGGER.warning("the address of the master cannot be kept; this is tried again: %s", error)
            self._notes_master = False
        else:
            self._notes_master = True

    def _topic_counts(self) -> dict[str, int]:
        return {name: topic.partitions for name, topic in known_topics(self.filesystem, self.path).items()}


class _Ended(Exception):
    """Ends the tasks of a replica."""


def child_command(arguments: Sequence[str], nonce: str) -> list[str]:
    """Returns the command of the process that a parent runs as a replica."""
    return [sys.executable, "-m", "warren", *arguments, "--nonce", nonce]
