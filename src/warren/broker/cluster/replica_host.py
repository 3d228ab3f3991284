"""ReplicaHost: takes the connections of a replica that has no store open, and of slaves to a master."""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar, cast

from warren.broker.cluster.forwarder import Forwarder
from warren.broker.cluster.kafka_answers import KnownTopic, kafka_answer
from warren.broker.cluster.node import ReplicaNode
from warren.broker.cluster.requests import SHARD_HANDLERS
from warren.broker.cluster.shard_leadership import ShardLeadership
from warren.broker.cluster.slave_reads import SlaveReads
from warren.broker.kafka.call import Call as KafkaCall
from warren.broker.kafka.sasl import refusal_to_stranger, sasl_authenticate, sasl_handshake
from warren.broker.native.call import Call
from warren.broker.native.handler import refusal
from warren.broker.net.connection import Connection
from warren.broker.net.places import ConnectionPlaces, Full, Reservation
from warren.broker.net.progress import ProgressWatch
from warren.broker.net.request import Answer, Reply, ServedCall
from warren.broker.quotas.file import QuotasFile
from warren.broker.quotas.quotas import Quotas
from warren.broker.security.logged_in import LoggedIn
from warren.broker.security.logins import Logins
from warren.broker.security.peer import Peer
from warren.broker.security.rights import Rights, RightsFile
from warren.broker.security.users import Users
from warren.broker.services.hidden_paths import without_paths
from warren.broker.services.leadership import Leadership
from warren.broker.services.limited_log import LimitedLog
from warren.broker.services.memory_budget import MemoryBudget
from warren.broker.services.metrics import Metrics
from warren.broker.settings import BrokerLimits, BrokerSettings
from warren.clock import Clock
from warren.errors import UnsupportedRequest
from warren.protocol import native_messages
from warren.protocol.api_keys import ApiKey, served
from warren.protocol.headers import Request
from warren.protocol.kafka_messages import SaslAuthenticateRequest, SaslHandshakeRequest
from warren.protocol.native_schemas import NativeKey
from warren.protocol.schema_codec import RESPONSE, message_buffers, read_request
from warren.queue.state import paths
from warren.queue.state.json_file import read_json
from warren.queue.state.settings import TopicSettings
from warren.storage.disk.filesystem import FileSystem

P = ParamSpec("P")
T = TypeVar("T")
TOPICS_KEPT_S: Final = 0.2
"""How old the list of topics may be that a replica answers Metadata with."""


class ReplicaHost:
    """What a connection and its requests need, without a store. For the event loop's thread.

    It knows the users, rights and quotas of the store from its files, which replication keeps as the master has them.
    """

    def __init__(
        self,
        path: str,
        filesystem: FileSystem,
        clock: Clock,
        node: ReplicaNode,
        settings: BrokerSettings,
        limits: BrokerLimits,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self.path, self.filesystem, self.clock = path, filesystem, clock
        self.node, self.settings, self.limits, self.tasks = node, settings, limits, tasks
        self.leadership: Leadership = ShardLeadership(node)
        self.metrics = Metrics(clock.steady_s)
        self.budget = MemoryBudget(limits.memory_size_max)
        self.users = Users(path, filesystem, clock, node.setup.user)
        self.logins, self.logged_in = Logins(clock.steady_s), LoggedIn(self.users)
        self.quotas = Quotas(QuotasFile(path, filesystem, clock), settings.quotas, clock.steady_s)
        self.rights = self._asked_rights()
        self.denials = LimitedLog("denied requests")
        self.failures = LimitedLog("errors with paths")
        self.closings = LimitedLog("connections that were closed for what they sent")
        self.failed_logins = LimitedLog("logins that failed")
        self.connections: ConnectionPlaces[Connection] = ConnectionPlaces(
            limits.connections_max,
            self._drop,
            per_address_max=limits.connections_max_per_address,
            of_address=limits.of_address,
        )
        self.progress = ProgressWatch(self.connections, limits.stalled_s_max)
        self.is_stopping = False
        self._threads = ThreadPoolExecutor(2, "warren-replica")
        self._aside = ThreadPoolExecutor(1, "warren-replica-aside")
        if settings.sasl:
            tasks.create_task(self.logged_in.watch())
        self._forwarder = Forwarder(self._master_address, node.setup)
        self.reads = node.readers = SlaveReads(self)
        self._topics: tuple[float, Mapping[str, KnownTopic]] = (float("-inf"), {})

    def _asked_rights(self) -> Rights | None:
        if not self.settings.rights:
            return None
        rights = Rights(RightsFile(self.path, self.filesystem, self.clock), frozenset(self.settings.super_users))
        self.tasks.create_task(rights.watch(self.in_thread))
        return rights

    @property
    def cluster_id(self) -> str:
        return kafka_cluster_id(self.node.setup.cluster)

    def connection(self, reservation: Reservation | None = None) -> Connection:
        """Returns the protocol of a new connection."""
        return Connection(self, self.answer, reservation)

    def answer(self, peer: Peer, request: Request) -> Reply:
        """Returns the answer to a request, or a promise of it. Raises UnsupportedRequest if only silence is one."""
        # The handlers that come here use nothing but what this class has.
        call = cast(Call, ServedCall(cast(Any, self), peer, request))
        if self.settings.sasl:
            stranger = refusal_to_stranger(call)
            if stranger is not None:
                return stranger
        key = request.api_key
        if key in SHARD_HANDLERS:
            return SHARD_HANDLERS[key](call)
        if key == ApiKey.SASL_HANDSHAKE:
            served(key, request.version)
            handshake = sasl_handshake(call, read_request(SaslHandshakeRequest, request.version, request.body))
            return message_buffers(handshake, request.version)
        if key == ApiKey.SASL_AUTHENTICATE:
            return self._authenticated(call)
        if key in NativeKey._value2member_map_:
            served(key, request.version)
            answer = self.reads.answer(call)
            if answer is not None:
                return answer
            kind = getattr(native_messages, f"{NativeKey(key).title}{RESPONSE}")
            return refusal(call, kind, self.node.watch.not_master())
        if key not in ApiKey._value2member_map_:
            raise UnsupportedRequest(key, request.version)
        reading = self.reads.fetch if key == ApiKey.FETCH else None
        return kafka_answer(
            cast(KafkaCall, call), self._find_topics, self.node.watch.not_master(), self._forwarder.ask, reading
        )

    def _master_address(self) -> tuple[str, int] | None:
        master = self.node.watch.other_master()
        return None if master is None else (master.host, master.port)

    async def _authenticated(self, call: Call) -> Answer:
        served(call.request.api_key, call.version)
        request = read_request(SaslAuthenticateRequest, call.version, call.request.body)
        if self.node.master is None and not self.filesystem.exists(self.users.path):
            # The users have not come from the master yet. The connection ends, so that the client asks another replica.
            raise self.node.watch.not_master()
        return message_buffers(await sasl_authenticate(call, request), call.version)

    async def _find_topics(self) -> Mapping[str, KnownTopic]:
        at, topics = self._topics
        if self.clock.steady_s() > at + TOPICS_KEPT_S:
            topics = await self.in_thread(known_topics, self.filesystem, self.path)
            self._topics = self.clock.steady_s(), topics
        return topics

    # --- What connections and handlers use ---

    def admit(self, connection: Connection, reservation: Reservation | None = None) -> bool:
        """Returns whether there is room for one more connection."""
        if reservation is not None:
            reservation.leave()
        full = None if self.is_stopping else self.connections.admit(connection, connection.peer.host)
        if full is not None:
            self.metrics.connections_refused += 1
            return False
        self.metrics.connections += 1
        return not self.is_stopping

    def reserve(self, host: str, close: Callable[[], None]) -> Reservation | None:
        """Keeps a place for a connection whose TLS handshake begins; None if there is none."""
        reservation = self.connections.reserve(host, close)
        return None if isinstance(reservation, Full) else reservation

    def forget(self, connection: Connection) -> None:
        """Lets go of a connection that has ended."""
        self.connections.leave(connection)
        self.logged_in.discard(connection)

    def _drop(self, connection: Connection) -> None:
        self.metrics.connections_dropped += 1
        connection.abort()

    def client_message(self, whom: object, error: BaseException | str) -> str:
        """Returns an error's message for a client, without paths of the server."""
        sentence = str(error)
        text = without_paths(self.path, sentence)
        if text != sentence:
            self.failures.tell("error sent to %s: %s", whom, sentence)
        return text

    async def in_thread(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Calls `work` on a thread, for work that waits for the disk, and returns its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments, **named))

    async def aside(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Calls `work` on the one thread for long computations, and returns its result."""
        return await asyncio.get_running_loop().run_in_executor(self._aside, partial(work, *arguments, **named))

    def send_clients_away(self) -> None:
        """Closes the connections that ask nothing as slaves, so that their clients come again and are served."""
        self.reads.close()
        for connection in list(self.connections):
            if not connection.peer.is_replica:
                connection.abort()

    def close(self) -> None:
        """Closes all connections."""
        self.is_stopping = True
        self.reads.close()
        self._forwarder.close()
        for connection in list(self.connections):
            connection.abort()
        for log in (self.denials, self.failures, self.closings, self.failed_logins):
            log.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._aside.shutdown(wait=False, cancel_futures=True)
        self.logins.close()


def kafka_cluster_id(id: str) -> str:
    """Returns the id of a cluster as Kafka's clients see it."""
    return base64.urlsafe_b64encode(uuid.UUID(id).bytes).rstrip(b"=").decode()


def known_topics(filesystem: FileSystem, store: str) -> dict[str, KnownTopic]:
    """Returns the topics of a store that is not open, by name. A file that cannot be read is passed over."""
    topics: dict[str, KnownTopic] = {}
    directory = paths.topics_directory(store)
    if not filesystem.exists(directory):
        return topics
    for name in filesystem.names(directory):
        path = paths.topic_file(paths.topic_directory(store, name))
        data = read_json(filesystem, path)
        if data is None or "id" not in data:
            continue
        settings = TopicSettings.from_json(path, data)
        topics[name] = KnownTopic(name, uuid.UUID(data["id"]).bytes, settings.partitions)
    return topics
