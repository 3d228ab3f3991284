"""Broker: a store, and all that requests on it share."""

from __future__ import annotations

import asyncio
import base64
import logging
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from warren.broker.budget import Budget
from warren.broker.call import Answer, Call, Later
from warren.broker.dispatch import HANDLERS
from warren.broker.door import Door
from warren.broker.failed_logs import FailedLogs
from warren.broker.groups.coordinator import Coordinator
from warren.broker.groups.positions import Positions
from warren.broker.hidden_paths import without_paths
from warren.broker.limited_log import LimitedLog
from warren.broker.limits import Limits
from warren.broker.long_polls import LongPolls
from warren.broker.metrics import Metrics
from warren.broker.own.appending import Appends
from warren.broker.own.looks import Looks
from warren.broker.own.sessions import Session, Sessions
from warren.broker.own.transaction_memory import TransactionMemory
from warren.broker.pauses import Pauses
from warren.broker.places import Places
from warren.broker.producers import Producers
from warren.broker.progress import Progress
from warren.broker.quotas.allotment import Allotment
from warren.broker.quotas.file import QuotasFile
from warren.broker.quotas.quotas import Quotas
from warren.broker.security.logged_in import LoggedIn
from warren.broker.security.logins import Logins
from warren.broker.security.rights import Rights, RightsFile
from warren.broker.security.sasl import refusal_to_stranger
from warren.broker.security.users import Users
from warren.broker.settings import BrokerSettings
from warren.broker.standings import Standings
from warren.broker.topics import Topics
from warren.broker.transactions.registry import Transactions
from warren.broker.turns import Turns
from warren.broker.unpacking import Unpacking
from warren.config import BROKER_THREADS, QUOTAS_LOOK_S, STRANGERS_PART
from warren.errors import UnsupportedRequest
from warren.protocol.deliver_at import NAME
from warren.queue.topic import Topic
from warren.transaction.store import Store

if TYPE_CHECKING:
    from warren.broker.connection import Connection

P = ParamSpec("P")
T = TypeVar("T")

LOGGER: Final = logging.getLogger("warren.broker")


class Broker:
    """One store on the network. Made and used on the event loop; what blocks is done by `in_thread` or the door.

    Other processes may have the same store open: the broker keeps nobody out.
    """

    def __init__(self, store: Store, settings: BrokerSettings, limits: Limits, tasks: asyncio.TaskGroup) -> None:
        self.store, self.settings, self.limits, self.tasks = store, settings, limits, tasks
        self.metrics = Metrics(store.clock.steady_s)
        self.wanted_name = b"" if settings.deliver_at == "none" else NAME
        """What is looked for in batches, to see whether a record of them is to be delayed."""
        self.topics, self.standings = Topics(store), Standings(self)
        self.budget = Budget(limits.memory_size_max)
        self.long_polls = LongPolls(tasks)
        self.door = Door(self.long_polls.ring, self.metrics)
        self.producers = Producers(self.in_thread, tasks, store.filesystem)
        self.transactions = Transactions(self)
        self.coordinator, self.positions = Coordinator(store, self.in_thread, tasks, self.budget), Positions()
        self.sessions, self.appends, self.looks = Sessions(self._end, self.budget), Appends(), Looks()
        self.transaction_memory = TransactionMemory(self.budget)
        self.cluster_id = base64.urlsafe_b64encode(uuid.UUID(store.id).bytes).rstrip(b"=").decode()
        self.users = Users(store.path, store.filesystem, store.clock)
        self.logins, self.logged_in = Logins(store.clock.steady_s), LoggedIn(self.users)
        self.rights, self.denials = self._asked_rights(), LimitedLog("denied requests")
        self.failures = LimitedLog("errors with paths")
        self.closings = LimitedLog("connections that were closed for what they sent")
        self.failed_logins = LimitedLog("logins that failed")
        quotas = QuotasFile(store.path, store.filesystem, store.clock)
        self.quotas = Quotas(quotas, settings.quotas, store.clock.steady_s)
        self.allotment = Allotment(self)
        tasks.create_task(self._watch_quotas())
        self.advertised = "", 0
        self.is_stopping, self.stop_by_s = False, float("inf")
        self.connections = self._places()
        self.progress = Progress(self.connections, limits.stalled_s_max, self.transaction_memory.recount)
        self.unpacking, self.failed_logs = Unpacking(self.budget), FailedLogs(self)
        self._threads = ThreadPoolExecutor(BROKER_THREADS, "warren-broker")
        self.turns, self.pauses = Turns(store.clock.steady_s), Pauses(store.clock.steady_s)
        # One thread: each that computes makes the event loop wait for the interpreter, some milliseconds a turn.
        self._aside = ThreadPoolExecutor(1, "warren-aside")

    def _asked_rights(self) -> Rights | None:
        """Whom to ask what somebody may do; None where everybody may do everything."""
        if not self.settings.rights:
            return None
        file = RightsFile(self.store.path, self.store.filesystem, self.store.clock)

        def begin(rights: Rights) -> None:
            self.tasks.create_task(rights.refresh(self.in_thread))

        return Rights(file, self.settings.super_users, asyncio.get_running_loop().time, begin)

    def _places(self) -> Places[Connection]:
        """The places of connections. If users log in, strangers share a part of them."""
        limits = self.limits
        return Places(
            limits.connections_max,
            self._drop,
            unsettled_max=max(1, limits.connections_max // STRANGERS_PART) if self.settings.sasl else None,
            per_address_max=limits.connections_max_per_address,
            of_address=limits.of_address,
        )

    def _drop(self, connection: Connection) -> None:
        """Closes a connection whose place another one got."""
        self.metrics.connections_dropped += 1
        connection.abort()

    async def _watch_quotas(self) -> None:
        """Sees what other processes change. Nothing that is asked for often looks by itself."""
        while True:
            await asyncio.sleep(QUOTAS_LOOK_S)
            self.quotas.refresh()

    def admit(self, connection: Connection) -> bool:
        """Whether there is room for one more connection."""
        if self.is_stopping:
            return False
        if self.quotas.is_set and not self.quotas.admits(connection.peer.host):
            self.metrics.connections_refused += 1
            LOGGER.warning("connection of %s refused: it opens more than its quota allows", connection.peer)
            return False
        full = self.connections.admit(connection, connection.peer.host)
        if full is not None:
            self.metrics.connections_refused += 1
            LOGGER.warning("connection of %s refused: %s", connection.peer, full)
            return False
        self.metrics.connections += 1
        return True

    def forget(self, connection: Connection) -> None:
        """The connection is no more."""
        self.connections.leave(connection)
        self.logged_in.discard(connection)
        self.sessions.leave(connection.peer)

    def _end(self, session: Session) -> None:
        """Nobody comes back to what the session holds."""
        try:
            self._threads.submit(session.close)
        except RuntimeError:
            # The last threads are gone with the broker: what is held is closed here and now.
            session.close()

    def answer(self, call: Call) -> Answer | Awaitable[Answer] | Later:
        """The answer to a request, now or later; UnsupportedRequest where nobody has one."""
        handler = HANDLERS.get(call.request.api_key)
        if handler is None:
            raise UnsupportedRequest(call.request.api_key, call.request.version)
        if self.settings.sasl:
            refusal = refusal_to_stranger(call)
            if refusal is not None:
                return refusal
        return handler(call)

    def told(self, whom: object, error: BaseException | str) -> str:
        """What a client is told of an error, without paths of the server. Those are logged."""
        sentence = str(error)
        told = without_paths(self.store.path, sentence)
        if told != sentence:
            self.failures.tell("told %s: %s", whom, sentence)
        return told

    def serves(self, api_key: int) -> bool:
        """Whether somebody answers requests of this key."""
        return api_key in HANDLERS

    async def in_thread(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What `work` gives, done by a thread: for what waits for the disk."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: work(*arguments, **named))

    async def opened_topic(self, name: str) -> Topic:
        """The topic `name`; NoSuchTopic if there is none.

        If this process has it not open yet, a thread opens it, because that takes long if it has many partitions.
        """
        if self.store.opened_topic(name) is None and self.store.has_topic(name):
            await self.in_thread(self.store.existing_topic, name)
        return self.topics.find(name)

    async def aside(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What `work` gives, done by the one thread that computes for requests which are too long for the event loop.

        It must not touch what belongs to the event loop.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._aside, lambda: work(*arguments, **named))

    def stop(self) -> None:
        """Take no more requests: what was taken is answered."""
        self.is_stopping = True
        self.stop_by_s = asyncio.get_running_loop().time() + self.limits.stop_s_max
        self.long_polls.stop()
        self.coordinator.stop()
        for connection in list(self.connections):
            connection.stop()

    def close(self) -> None:
        """Let go of everything but the store."""
        for connection in list(self.connections):
            connection.abort()
        self.denials.close()
        self.failures.close()
        self.closings.close()
        self.failed_logins.close()
        self.sessions.close()
        self.transactions.stop()
        self.door.close()
        self.producers.close()
        self._threads.shutdown()
        self.logins.close()
        self._aside.shutdown(cancel_futures=True)
        self.unpacking.close()
        self.coordinator.close()
