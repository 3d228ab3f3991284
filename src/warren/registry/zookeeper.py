"""A registry at a ZooKeeper. The only module that uses kazoo. It works around kazoo's pitfalls.

kazoo queues calls without a limit while it has no connection, never reports that a session is over while no server
answers, keeps a watch for one event only, and must not be called by its own listeners. So every call here has a
deadline, few calls may wait, an own clock says how long the session is certain to live, and listeners only leave a note
for a thread.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Condition, Thread
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RequestTimeoutError,
    RolledBackError,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent
from kazoo.security import make_digest_acl

from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import BadInput, RegistryBusy, RegistryClosed, RegistryDenied, RegistryFailed, RegistryUnreached
from warren.registry.addresses import Address
from warren.registry.lease_clock import LeaseClock
from warren.registry.limits import CALL_S_DEFAULT, SESSION_S_DEFAULT
from warren.registry.registry import (
    DONE,
    UNKNOWN,
    Callback,
    Change,
    Check,
    Create,
    Delete,
    Node,
    Outcome,
    Reason,
    Set,
    checked_changes,
    checked_path,
    checked_wait,
    refused,
)
from warren.registry.security import SECRET_USER, TlsFiles, checked_secret
from warren.registry.watch_table import WatchTable

CALLS_MAX: Final = 64
"""The calls of one registry that wait for a connection or an answer. One more is refused, and never queued."""
SESSION_S_MIN: Final = 1.0
"""kazoo may hang while it reconnects if sessions are very short."""
SESSION_S_MAX: Final = 60.0
CLOSE_S_MAX: Final = 3.0
"""How long `close` waits for ZooKeeper to end the session."""
HEARTBEATS_PER_SESSION: Final = 4
"""How often in a session timeout the registry asks ZooKeeper for a sign of life."""
RECONNECT_S_MIN: Final = 0.05
RECONNECT_S_MAX: Final = 1.0
"""The first and the longest pause between two rounds of connection attempts."""

LOGGER: Final = logging.getLogger(__name__)
REASONS: Final[dict[type[KazooException], Reason]] = {
    NodeExistsError: Reason.EXISTS,
    NoNodeError: Reason.MISSING,
    BadVersionError: Reason.VERSION,
    NotEmptyError: Reason.NOT_EMPTY,
    NoChildrenForEphemeralsError: Reason.EPHEMERAL_PARENT,
}
LOST: Final = (ConnectionLoss, OperationTimeoutError, RequestTimeoutError, SessionExpiredError, SessionMovedError)
"""Errors after which the request may or may not have been executed."""
READ_TIMEOUT_PART: Final = 2 / 3
"""kazoo waits for an answer for this part of the session timeout."""

Send = Callable[[], Sequence[Any]]
"""Sends requests in order, and returns kazoo's results for them."""


class ZooKeeperRegistry:
    """One session at a time at a ZooKeeper, in the background. Implements the contract of Registry; any thread may call
    it.

    Connects automatically, and again whenever the connection is lost. `wait_until_connected` waits for the first
    connection.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        *,
        session_s: float = SESSION_S_DEFAULT,
        call_s: float = CALL_S_DEFAULT,
        secret: str | None = None,
        tls: TlsFiles | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if not SESSION_S_MIN <= session_s <= SESSION_S_MAX:
            raise BadInput(f"session_s: expected {SESSION_S_MIN:g} to {SESSION_S_MAX:g} seconds, not {session_s!r}")
        self._call_s = checked_wait(call_s, "call_s")
        self._secret = None if secret is None else checked_secret(secret)
        self._addresses = ",".join(map(str, addresses))
        self._clock = clock
        self._lease = LeaseClock(session_s, clock)
        self._condition = Condition()
        self._is_live = False
        self._is_closed = False
        self._connections = 0
        self._session = 0
        self._calls = 0
        self._failure = LastFailure()
        context = None if tls is None else tls.context()
        self._client = self._made_client(session_s, context)
        self._watchers: dict[str, Callable[[WatchedEvent], None]] = {}
        self._watches = WatchTable(self._arm)
        self._client.start_async()
        self._heart = Thread(target=self._beat, name="warren registry heartbeat", daemon=True)
        self._heart.start()

    def _made_client(self, session_s: float, context: ssl.SSLContext | None) -> Any:
        client = KazooClient(
            hosts=self._addresses,
            timeout=session_s,
            handler=Handler(context),
            default_acl=None if self._secret is None else [make_digest_acl(SECRET_USER, self._secret, all=True)],
            auth_data=None if self._secret is None else {("digest", f"{SECRET_USER}:{self._secret}")},
            connection_retry={"max_tries": -1, "delay": RECONNECT_S_MIN, "backoff": 2, "max_delay": RECONNECT_S_MAX},
            logger=self._failure.logger,
        )
        client._connection = SturdyConnection(client, self._lease.agreed)
        client.add_listener(self._state_changed)
        return client

    # --- The contract ---

    def read(self, path: str, within_s: float | None = None) -> Node | None:
        """Returns the node, or None if it does not exist."""
        answer = self._read(path, within_s, lambda: self._client.get_async(path))
        if answer is None:
            return None
        data, stat = answer
        return Node(data or b"", stat.version, stat.czxid, stat.ephemeralOwner or 0, stat.mtime)

    def children(self, path: str, within_s: float | None = None) -> list[str]:
        """Returns the names of the children in order."""
        return sorted(self._read(path, within_s, lambda: self._client.get_children_async(path)) or ())

    def write(self, changes: Sequence[Change], within_s: float | None = None) -> Outcome:
        """Makes all changes together or none."""
        checked_changes(changes)
        request = self._client.transaction()
        for change in changes:
            _add(request, change)
        deadline_s = self._deadline_s(within_s)
        self._enter(deadline_s)
        sent_s = self._lease.sent()
        (result,) = self._sent(lambda: [request.commit_async()], deadline_s)
        if not result.ready() or isinstance(result.exception, LOST):
            return UNKNOWN
        self._lease.answered(sent_s)
        if result.exception is not None:
            raise self._translated(changes[0].path, result.exception)
        return self._outcome(changes, result.value)

    def watch(self, path: str, callback: Callback) -> None:
        """Calls `callback` when the watch is armed, after each change, and after each reconnection."""
        checked_path(path)
        if self._is_closed:
            raise RegistryClosed
        self._watches.add(path, callback)

    def unwatch(self, path: str, callback: Callback) -> None:
        """Ends a watch."""
        if not self._watches.remove(path, callback):
            self._watchers.pop(path, None)

    def is_connected(self) -> bool:
        """Returns whether a server answers this session."""
        return self._is_live and self.remaining_s() > 0

    def session(self) -> int:
        """Returns the number of the session, 0 before the first one."""
        return self._session

    def remaining_s(self) -> float:
        """Returns for how long the session is certain to live if no server answers from now on."""
        return self._lease.remaining_s()

    def close(self) -> None:
        """Ends the session. Returns within a few seconds, even if no server answers."""
        with self._condition:
            if self._is_closed:
                return
            self._is_closed = True
            self._is_live = False
            self._condition.notify_all()
        self._watches.close()
        # kazoo waits for its connection attempt without a limit, so a thread does this waiting.
        stopper = Thread(target=self._stop, name="warren registry end", daemon=True)
        stopper.start()
        stopper.join(CLOSE_S_MAX)
        self._lease.over()
        self._watches.join(CLOSE_S_MAX)

    def wait_until_connected(self, within_s: float) -> None:
        """Waits until a server answers. Otherwise raises RegistryUnreached, with the last known reason."""
        deadline_s = self._clock.steady_s() + within_s
        with self._condition:
            while not self.is_connected():
                left_s = deadline_s - self._clock.steady_s()
                if left_s <= 0 or self._is_closed:
                    raise RegistryUnreached(self._addresses, within_s, self._failure.reason())
                self._condition.wait(left_s)

    def protect(self, path: str, within_s: float | None = None) -> None:
        """Lets only clients with the secret of the cluster use an existing node. Safe to repeat."""
        assert self._secret is not None, "only a registry with a secret can protect nodes"
        acl = [make_digest_acl(SECRET_USER, self._secret, all=True)]
        self._read(path, within_s, lambda: self._client.set_acls_async(path, acl))

    # --- Calls ---

    def _read(self, path: str, within_s: float | None, send: Callable[[], Any]) -> Any:
        """Sends a request that may be repeated. Returns its answer, or None if the node does not exist.

        A server may lag behind the others. `sync` makes it catch up first, and travels with the request itself.
        """
        checked_path(path)
        deadline_s = self._deadline_s(within_s)
        while True:
            self._enter(deadline_s)
            sent_s = self._lease.sent()
            results = self._sent(lambda: [self._client.sync_async(path), send()], deadline_s)
            failures = [each.exception for each in results]
            if not all(each.ready() for each in results):
                raise self._unreached(within_s, "no answer came")
            if any(isinstance(failure, LOST) for failure in failures):
                continue
            self._lease.answered(sent_s)
            if isinstance(failures[-1], NoNodeError):
                return None
            for failure in failures:
                if failure is not None:
                    raise self._translated(path, failure)
            return results[-1].value

    def _deadline_s(self, within_s: float | None) -> float:
        return self._clock.steady_s() + (self._call_s if within_s is None else checked_wait(within_s))

    def _enter(self, deadline_s: float) -> None:
        """Counts a call and waits for a connection. Raises RegistryBusy, RegistryUnreached or RegistryClosed."""
        with self._condition:
            if self._is_closed:
                raise RegistryClosed
            if self._calls >= CALLS_MAX:
                raise RegistryBusy(CALLS_MAX)
            self._calls += 1
            begun_s = self._clock.steady_s()
            while not self._is_live:
                left_s = deadline_s - self._clock.steady_s()
                if left_s > 0 and not self._is_closed:
                    self._condition.wait(left_s)
                    continue
                self._calls -= 1
                if self._is_closed:
                    raise RegistryClosed
                raise RegistryUnreached(self._addresses, self._clock.steady_s() - begun_s, self._failure.reason())

    def _sent(self, send: Send, deadline_s: float) -> Sequence[Any]:
        """Sends requests and waits for their answers until the deadline. Ends the call that `_enter` counted.

        A call without an answer is counted until kazoo gives it up, because it is still in kazoo's queue.
        """
        try:
            results = send()
        except BaseException:
            self._leave()
            raise
        for result in results:
            result.wait(max(0.0, deadline_s - self._clock.steady_s()))
        if results[-1].ready():
            self._leave()
        else:
            results[-1].rawlink(lambda _: self._leave())
        return results

    def _leave(self) -> None:
        with self._condition:
            self._calls -= 1

    def _unreached(self, within_s: float | None, reason: str) -> RegistryUnreached:
        return RegistryUnreached(self._addresses, self._call_s if within_s is None else within_s, reason)

    def _translated(self, path: str, failure: BaseException) -> Exception:
        """Returns our error for an answer of ZooKeeper."""
        if isinstance(failure, NoAuthError | AuthFailedError):
            return RegistryDenied(path)
        return RegistryFailed(path, str(failure) or type(failure).__name__)

    def _outcome(self, changes: Sequence[Change], answers: Sequence[object]) -> Outcome:
        """Returns the outcome that the answers to the changes of one write mean.

        Changes before the refused one are rolled back.
        """
        for index, answer in enumerate(answers):
            if isinstance(answer, Exception) and not isinstance(answer, RolledBackError):
                reason = REASONS.get(type(answer)) if isinstance(answer, KazooException) else None
                if reason is None:
                    raise self._translated(changes[index].path, answer)
                return refused(index, reason)
        return DONE

    # --- In the background ---

    def _state_changed(self, state: str) -> None:
        """Notes a change of the connection. Runs on a thread of kazoo, so it must not call ZooKeeper."""
        identity = self._client.client_id
        with self._condition:
            self._is_live = state == KazooState.CONNECTED and not self._is_closed
            if self._is_live and identity is not None:
                self._connections += 1
                if identity[0] != self._session:
                    self._lease.over()
                    self._session = identity[0]
            elif state == KazooState.LOST:
                self._lease.over()
            self._condition.notify_all()
        if self._is_live:
            self._watches.mark_all()

    def _beat(self) -> None:
        """Sends several heartbeats in a session timeout, and one immediately after a connection is made."""
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._is_live or self._is_closed)
                if self._is_closed:
                    return
                connections = self._connections
            sent_s = self._lease.sent()
            result = self._client.exists_async("/")
            result.wait(self._lease.session_s)
            with self._condition:
                if result.ready() and not isinstance(result.exception, LOST):
                    self._lease.answered(sent_s)
                    self._condition.notify_all()
                self._rest(connections, self._lease.session_s / HEARTBEATS_PER_SESSION)

    def _rest(self, connections: int, within_s: float) -> None:
        """Waits until the next heartbeat is due: after a pause, or when there is another connection."""
        self._condition.wait_for(lambda: self._is_closed or self._connections != connections, within_s)

    def _arm(self, paths: Sequence[str]) -> None:
        """Makes the server report the next change of each path. Raises RegistryUnreached if it does not answer."""
        deadline_s = self._deadline_s(None)
        self._enter(deadline_s)
        sent_s = self._lease.sent()
        results = self._sent(lambda: [request for path in paths for request in self._armed(path)], deadline_s)
        if not all(each.ready() and not isinstance(each.exception, LOST) for each in results):
            raise self._unreached(None, "no answer came")
        self._lease.answered(sent_s)

    def _armed(self, path: str) -> tuple[Any, Any]:
        """Requests the node and its children with watches.

        If the node does not exist, the first watch reports its creation.
        """
        # The same function each time, because kazoo calls each function that is registered for a path.
        watcher = self._watchers.setdefault(path, partial(self._changed, path))
        return self._client.exists_async(path, watcher), self._client.get_children_async(path, watcher)

    def _changed(self, path: str, event: WatchedEvent) -> None:
        """Notes an event. Runs on a thread of kazoo. The events of a lost connection have no type."""
        if event.type != EventType.NONE:
            self._watches.mark(path)

    def _stop(self) -> None:
        # The process continues if kazoo cannot end its threads, even if it raises an error.
        with suppress(Exception):
            self._client.stop()
            self._client.close()


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads, with connections that trust only the authority of the cluster."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._context = context

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, timeout: float | None = None, **_: Any
    ) -> socket.socket:
        """Returns a connection to a server."""
        plain = socket.create_connection(address, timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is None:
            return plain
        try:
            return self._context.wrap_socket(plain, server_hostname=hostname)
        except BaseException:
            plain.close()
            raise


class SturdyConnection(ConnectionHandler):  # type: ignore[misc]
    """kazoo's connection. It also reports the session timeout that the server set, and never gives up.

    kazoo ends its only thread, without informing the client, if an answer is not as it expects.
    """

    def __init__(self, client: Any, agreed: Callable[[float], None]) -> None:
        super().__init__(client, client._conn_retry.copy(), logger=client.logger)
        self._agreed = agreed

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        read_timeout_ms, connect_timeout_ms = super()._connect(host, hostip, port)
        self._agreed(read_timeout_ms / 1000 / READ_TIMEOUT_PART)
        return read_timeout_ms, connect_timeout_ms

    def _connect_attempt(self, host: str, hostip: str, port: int, retry: Any) -> Any:
        try:
            return super()._connect_attempt(host, hostip, port, retry)
        except KazooException:
            raise
        except Exception:
            LOGGER.exception("the connection to ZooKeeper at %s:%d broke; a new one is made", host, port)
            # Fails the calls that wait for an answer, as for any lost connection.
            self.client._session_callback(KeeperState.CONNECTING)
            return None


class LastFailure(logging.Handler):
    """Remembers the last warning of kazoo, which is the only place with the reason for a missing connection."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.logger = logging.Logger("kazoo of warren")
        self.logger.addHandler(self)
        self._reason = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Remembers a message."""
        message = record.getMessage()
        LOGGER.debug("kazoo: %s", message)
        if ": " in message:
            self._reason = message.partition(": ")[2].removeprefix("socket connection error: ")

    def reason(self) -> str:
        """Returns why there is no connection, as far as it is known."""
        reason = self._reason
        if "CERTIFICATE" in reason or "ALERT" in reason:
            return f"TLS failed ({reason}); pass the files of the cluster's TLS"
        if "broken" in reason or "reset" in reason:
            return f"{reason}; perhaps it requires TLS, or a certificate"
        return reason or "there was no answer"


def _add(request: Any, change: Change) -> None:
    match change:
        case Create(path, data, is_ephemeral):
            request.create(path, data, ephemeral=is_ephemeral)
        case Set(path, data, version):
            request.set_data(path, data, version)
        case Delete(path, version):
            request.delete(path, version)
        case Check(path, version):
            request.check(path, version)
