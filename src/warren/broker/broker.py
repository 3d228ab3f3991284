"""Broker: a store, and all services that its requests share."""

from __future__ import annotations

import asyncio
import base64
import logging
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from warren.broker.kafka.groups.coordinator import GroupCoordinator
from warren.broker.kafka.groups.positions import PositionStore
from warren.broker.kafka.producers.registry import Producers
from warren.broker.kafka.transactions.registry import TransactionalProducers
from warren.broker.native.append_tries import Appends
from warren.broker.native.poll_sharing import PollSharing
from warren.broker.native.sessions import ClientSession, Sessions
from warren.broker.net.places import ConnectionPlaces, Full, Reservation
from warren.broker.net.progress import ProgressWatch
from warren.broker.quotas.allotment import Allotment
from warren.broker.quotas.file import QuotasFile
from warren.broker.quotas.quotas import Quotas
from warren.broker.security.logged_in import LoggedIn
from warren.broker.security.logins import Logins
from warren.broker.security.replica_user import REPLICA_USER
from warren.broker.security.rights import Rights, RightsFile
from warren.broker.security.users import Users
from warren.broker.services.append_queue import AppendQueue
from warren.broker.services.batch_checks import BatchChecks
from warren.broker.services.failed_logs import FailedLogs
from warren.broker.services.hidden_paths import without_paths
from warren.broker.services.kept_memory import AheadMemory, KeptMemory
from warren.broker.services.leadership import Alone, Leadership
from warren.broker.services.limited_log import LimitedLog
from warren.broker.services.long_polls import LongPolls
from warren.broker.services.memory_budget import MemoryBudget, MemoryKind
from warren.broker.services.metrics import Metrics
from warren.broker.services.open_topics import OpenTopics
from warren.broker.services.pauses import Pauses
from warren.broker.services.read_memory import ReadMemory
from warren.broker.services.status import StatusCache
from warren.broker.services.topics import Topics
from warren.broker.services.turns import Turns
from warren.broker.settings import BrokerLimits, BrokerSettings
from warren.errors import StorageFull
from warren.queue.topic import Topic
from warren.transaction.store import Store
from warren.transaction.transaction import Transaction

if TYPE_CHECKING:
    from warren.broker.net.connection import Connection

STRANGERS_PART: Final = 4
"""If users have to log in, connections that have not logged in yet get 1/N of the places."""
QUOTAS_LOOK_S: Final = 0.5
"""How soon the broker notices a change of quotas by another process."""
BROKER_THREADS: Final = 8

P = ParamSpec("P")
T = TypeVar("T")

LOGGER: Final = logging.getLogger("warren.broker")


class Broker:
    """One store on the network. Created and used on the event loop; blocking work is for `in_thread` or the append
    queue.

    Other processes may have the same store open.
    """

    def __init__(
        self,
        store: Store,
        settings: BrokerSettings,
        limits: BrokerLimits,
        tasks: asyncio.TaskGroup,
        leadership: Leadership | None = None,
    ) -> None:
        self.store, self.settings, self.limits, self.tasks = store, settings, limits, tasks
        self.metrics = Metrics(store.clock.steady_s)
        self.topics, self.standings = Topics(store), StatusCache(store, self.in_thread, tasks)
        self.budget = MemoryBudget(limits.memory_size_max)
        self.read_memory = ReadMemory(self.budget, self.in_thread)
        self.long_polls = LongPolls(tasks)
        self.advertised = "", 0
        self.leadership: Leadership = leadership or Alone(lambda: self.advertised)
        refusal = None if leadership is None else leadership.refusal_of_puts
        self.append_queue = AppendQueue(self.long_polls.ring, self.metrics, refusal, self.leadership.note_full_disk)
        self.producers = Producers(self.in_thread, tasks, store.filesystem)
        self.transactions = TransactionalProducers(self)
        self.coordinator, self.positions = GroupCoordinator(store, self.in_thread, tasks, self.budget), PositionStore()
        self.sessions, self.appends, self.poll_sharing = Sessions(self._end, self.budget), Appends(), PollSharing()
        self.transaction_memory = KeptMemory[Transaction](self.budget, MemoryKind.TRANSACTIONS)
        self.ahead_memory = AheadMemory(self.budget, self.in_thread)
        self.cluster_id = base64.urlsafe_b64encode(uuid.UUID(store.id).bytes).rstrip(b"=").decode()
        replicas = None if leadership is None else leadership.replica_user
        self.users = Users(store.path, store.filesystem, store.clock, replicas)
        self.logins, self.logged_in = Logins(store.clock.steady_s), LoggedIn(self.users)
        self.rights, self.denials = self._asked_rights(), LimitedLog("denied requests")
        self.failures = LimitedLog("errors with paths")
        self.closings = LimitedLog("connections that were closed for what they sent")
        self.failed_logins = LimitedLog("logins that failed")
        quotas = QuotasFile(store.path, store.filesystem, store.clock)
        self.quotas = Quotas(quotas, settings.quotas, store.clock.steady_s)
        self.allotment = Allotment(store, self.quotas, limits, self.in_thread)
        tasks.create_task(self._watch_quotas())
        self.is_stopping, self.stop_by_s = False, float("inf")
        self.connections = self._places()
        self.progress = ProgressWatch(self.connections, limits.stalled_s_max, self._recount)
        self.unpacking = BatchChecks(self.budget)
        self.failed_logs, self.open_topics = FailedLogs(store, self.in_thread), OpenTopics(store, self.in_thread)
        self._threads = ThreadPoolExecutor(BROKER_THREADS, "warren-broker")
        self.turns, self.pauses = Turns(store.clock.steady_s), Pauses(store.clock.steady_s)
        # One thread, because each computing thread makes the event loop wait for the interpreter, some milliseconds a
        # turn.
        self._aside = ThreadPoolExecutor(1, "warren-aside")

    def _asked_rights(self) -> Rights | None:
        """Returns the rights to check requests against; None if every user may do everything."""
        if not self.settings.rights:
            return None
        file = RightsFile(self.store.path, self.store.filesystem, self.store.clock)
        # Replicas pass on what they have checked.
        rights = Rights(file, frozenset({*self.settings.super_users, REPLICA_USER}))
        self.tasks.create_task(rights.watch(self.in_thread))
        return rights

    def _places(self) -> ConnectionPlaces[Connection]:
        """Returns the places of connections. If users have to log in, connections without a login share a part."""
        limits = self.limits
        return ConnectionPlaces(
            limits.connections_max,
            self._drop,
            unsettled_max=max(1, limits.connections_max // STRANGERS_PART) if self.settings.sasl else None,
            per_address_max=limits.connections_max_per_address,
            of_address=limits.of_address,
        )

    def _drop(self, connection: Connection) -> None:
        """Closes a connection whose place was given to another one."""
        self.metrics.connections_dropped += 1
        connection.abort()

    async def _watch_quotas(self) -> None:
        """Reads changes of quotas by other processes from time to time, so that no request has to."""
        while True:
            await asyncio.sleep(QUOTAS_LOOK_S)
            self.quotas.refresh()

    def _recount(self) -> None:
        """Gives back the memory of what clients had open between their requests, and have no longer."""
        self.transaction_memory.recount()
        self.ahead_memory.recount()

    def reserve(self, host: str, close: Callable[[], None]) -> Reservation | None:
        """Reserves a place for a connection whose TLS handshake begins. Returns None, and logs why,
        if there is none.
        """

        def drop() -> None:
            self.metrics.connections_dropped += 1
            close()

        if self.is_stopping or self._is_over_quota(host, host):
            return None
        reservation = self.connections.reserve(host, drop)
        if isinstance(reservation, Full):
            self._refuse(host, reservation)
            return None
        return reservation

    def admit(self, connection: Connection, reservation: Reservation | None = None) -> bool:
        """Returns whether the connection gets a place, that of its reservation if it has one. Logs why if not."""
        if self.is_stopping:
            return False
        host = connection.peer.host
        if reservation is not None:
            # Nothing comes in between, so the place is free for this connection. The quota has counted it already.
            reservation.leave()
        elif self._is_over_quota(host, connection.peer):
            return False
        full = self.connections.admit(connection, host)
        if full is not None:
            self._refuse(connection.peer, full)
            return False
        self.metrics.connections += 1
        return True

    def _is_over_quota(self, host: str, whom: object) -> bool:
        if not self.quotas.is_set or self.quotas.admits(host):
            return False
        self._refuse(whom, "it opens more than its quota allows")
        return True

    def _refuse(self, whom: object, why: object) -> None:
        self.metrics.connections_refused += 1
        LOGGER.warning("connection of %s refused: %s", whom, why)

    def forget(self, connection: Connection) -> None:
        """Forgets a connection that has ended."""
        self.connections.leave(connection)
        self.logged_in.discard(connection)
        self.sessions.leave(connection.peer)

    def _end(self, session: ClientSession) -> None:
        """Closes what a session holds, on a thread, because its client will not come back."""
        try:
            self._threads.submit(session.close)
        except RuntimeError:
            # The threads have ended because the broker closes, so what the session holds is closed here.
            session.close()

    def client_message(self, whom: object, error: BaseException | str) -> str:
        """Returns an error's message for a client, without paths of the server. Logs the full text if it had some."""
        sentence = str(error)
        text = without_paths(self.store.path, sentence)
        if text != sentence:
            self.failures.tell("error sent to %s: %s", whom, sentence)
        return text

    async def in_thread(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Calls `work` in a thread, for work that waits for the disk, and returns its result."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, lambda: work(*arguments, **named))
        except StorageFull:
            self.leadership.note_full_disk()
            raise

    async def opened_topic(self, name: str) -> Topic:
        """Returns the topic `name`. Raises NoSuchTopic if it does not exist.

        If this process has not opened it yet, a thread opens it, because that takes long if it has many partitions.
        """
        if closed := self.open_topics.closed((name,)):
            await self.open_topics.open(closed)
        return self.topics.find(name)

    async def aside(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Calls `work` in the one thread for computations that are too long for the event loop, and returns its result.

        It must not touch objects that belong to the event loop.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._aside, lambda: work(*arguments, **named))

    def stop(self) -> None:
        """Accepts no more requests. Those that were accepted are answered."""
        self.is_stopping = True
        self.stop_by_s = asyncio.get_running_loop().time() + self.limits.stop_s_max
        self.long_polls.stop()
        self.coordinator.stop()
        for connection in list(self.connections):
            connection.stop()

    def close(self) -> None:
        """Closes everything but the store."""
        for connection in list(self.connections):
            connection.abort()
        self.denials.close()
        self.failures.close()
        self.closings.close()
        self.failed_logins.close()
        self.sessions.close()
        self.transactions.stop()
        self.append_queue.close()
        self.producers.close()
        self._threads.shutdown()
        self.logins.close()
        self._aside.shutdown(cancel_futures=True)
        self.unpacking.close()
        self.coordinator.close()
