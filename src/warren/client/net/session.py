"""Calls to a broker from any thread, over a few connections that are replaced when they break.

Retries back off, with jitter.
"""

from __future__ import annotations

import itertools
import random
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Final, NamedTuple, TypeVar

from warren.client.net.call_steps import Hurry, Pause, Steps, run
from warren.client.net.connection import Connection
from warren.client.net.first_contact import explained
from warren.client.net.known_brokers import KnownBrokers
from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import (
    BadInput,
    ConnectionLost,
    NotAuthenticated,
    NotMaster,
    OutcomeUnknown,
    StoreClosed,
    UserWanted,
    WarrenError,
)
from warren.limits import WAIT_S_MAX
from warren.protocol.limits import NATIVE_WAIT_S_MAX
from warren.protocol.login import Login
from warren.protocol.native.calls import VERSION, checked, error_of
from warren.protocol.native_messages import (
    AppendRequest,
    CloseHandleRequest,
    OpenSessionRequest,
    WireError,
)
from warren.protocol.native_schemas import NUMBERED, NativeKey
from warren.protocol.wire_struct import (
    AnyRequest,
    NativeResponse,
    NumberedRequest,
    WaitingRequest,
    WireRequest,
    replaced,
)
from warren.storage.disk.open_files import process_residents

CLIENT_TIMEOUT_S_DEFAULT: Final = 30.0
CLIENT_BACKOFF_S_MIN: Final = 0.02
CLIENT_BACKOFF_S_MAX: Final = 1.0
CLIENT_CONNECT_S: Final = 2.0
"""How long a client that knows several brokers waits for one of them to take its connection."""
CLIENT_SILENT_S_MAX: Final = 5.0
"""How long a client that knows several brokers waits for an answer before it asks another one who leads now.

The broker may be slow, and not paused. Then the others name it again, and it recognises the call."""
CLIENT_CONNECTIONS_KEPT_MAX: Final = 8
"""How many idle connections a client keeps."""

SOFTWARE: Final = "warren python"
NO_NUMBER: Final = 0
NO_HANDLE: Final = 0
NEVER_SENT: Final = -1
GOING: Final = frozenset((NativeKey.COMMIT_GROUP, NativeKey.SEEK_GROUP))
"""Calls that move a group. They are numbered because one that arrives late would move the group back.

Repeating them does no harm.
"""
CHANGING: Final = NUMBERED - {NativeKey.TAKE} - GOING | {NativeKey.APPEND}
"""Calls that change something. If the client cannot find out whether one has happened, it raises OutcomeUnknown."""
UNREPEATABLE: Final = NUMBERED - {
    *GOING,
    NativeKey.TAKE,
    NativeKey.BEGIN_TRANSACTION,
    NativeKey.CHANGE_TRANSACTION,
}
"""Calls that must not be sent again to a broker that has forgotten the session.

It answers the others with an error that says so.
"""
MARKER_START_SIZE: Final = 8
R = TypeVar("R", bound=NativeResponse)
Repeat = Callable[[Any], Any]
"""Turns a request into the one to send if the first may have arrived."""


class FailedAttempt(NamedTuple):
    """The first attempt of a call whose connection broke."""

    begun_s: float
    connection: Connection
    error: ConnectionLost


class Calls:
    """The connections of one client, which share a session. Any thread may call; each call uses a connection of its
    own.

    A call whose connection breaks is tried again until `timeout_s` have passed. That is safe because the broker has not
    received it yet, or recognises it, or can carry it out twice without harm. Until a broker has answered for the first
    time, a call is tried again only for `first_wait_s`, because the address may be wrong.

    In a cluster `address` is that of the master. Another broker answers that it does not lead, and who does. Nothing is
    done then, so the client asks that one.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float,
        first_wait_s: float = 0.0,
        tls: ssl.SSLContext | None,
        login: Login | None,
        clock: Clock = SYSTEM_CLOCK,
        follows_master: bool = True,
    ) -> None:
        self._brokers = KnownBrokers(address, follows_master=follows_master)
        if not 0 < timeout_s <= WAIT_S_MAX:
            raise BadInput(f"timeout {timeout_s!r}: expected seconds above 0, at most {WAIT_S_MAX:.0f}")
        if not 0 <= first_wait_s <= WAIT_S_MAX:
            raise BadInput(f"wait {first_wait_s!r}: expected seconds from 0 to {WAIT_S_MAX:.0f}")
        self.timeout_s, self.clock = timeout_s, clock
        self._first_wait_s = first_wait_s
        self._silent_s = timeout_s if self._brokers.is_one else min(timeout_s, CLIENT_SILENT_S_MAX)
        self.tls, self.login = tls, login
        self._handles, self._puts = itertools.count(1), itertools.count(1)
        self.store_id = ""
        self.is_closed = False
        self.after_fork()
        process_residents().register(self)

    # --- As a resident of the process: called after a fork, has no files to close ---

    file_count = 0

    def rest(self) -> bool:
        return False

    def after_fork(self) -> None:
        """Makes the child of a fork an independent client with new connections, a new session and new markers."""
        self._session, self._marker = uuid.uuid4().bytes, uuid.uuid4().bytes[:MARKER_START_SIZE]
        self._mutex = threading.Lock()
        self._numbers = itertools.count(1)
        self._open_numbers: dict[int, None] = {}
        """The numbers of calls that may be sent again, the lowest first."""
        self._idle: list[Connection] = []
        self._parked: set[Connection] = set()
        """Connections that wait for an answer, possibly for a long time."""
        self._throttled_until_s = 0.0
        """Until this time the broker asks this client to send nothing, on any connection; 0 if it does not ask."""

    @property
    def address(self) -> str:
        """The address of the broker that led last."""
        return self._brokers.leader

    # --- Calling ---

    def new_handle(self) -> int:
        """Returns a handle number that this client has not used."""
        return next(self._handles)

    def new_marker(self) -> bytes:
        """Returns marker bytes that no other put has."""
        return self._marker + next(self._puts).to_bytes(MARKER_START_SIZE, "big")

    def call(self, request: WireRequest[R], *, repeat: Repeat | None = None) -> R:
        """Returns the answer to one of Warren's own calls. Raises the error that the answer contains.

        `repeat` makes the request that is sent if an earlier one may have arrived. Without `repeat` the call is
        numbered, if its kind allows that, so that the broker recognises it. Raises OutcomeUnknown if the call changes
        something and the client cannot find out whether it happened, because the broker has forgotten the session or
        cannot be reached.
        """
        if repeat is None or self._throttled_until_s or (connection := self._free()) is None:
            return run(self.calling(request, repeat=repeat))
        # The usual case is written without generators, because they make a put 6 % slower over loopback (115 µs).
        begun_s = self.clock.steady_s()
        try:
            answer = self._exchange(connection, request, self._silent_s)
        except ConnectionLost as error:
            return run(self._trying(request, 0.0, repeat, failed=FailedAttempt(begun_s, connection, error)))
        if answer.error is not None and self._turns_away(answer):
            return run(self._trying(request, 0.0, repeat))
        return checked(answer)

    def calling(
        self,
        request: WireRequest[R],
        *,
        wait_s: float = 0.0,
        repeat: Repeat | None = None,
        is_tried_once: bool = False,
    ) -> Steps[R]:
        """Returns the steps of a call. The broker may wait for `wait_s` before it answers."""
        trying = self._trying(request, wait_s, repeat, is_tried_once=is_tried_once)
        if repeat is None and isinstance(request, NumberedRequest) and request.call_number == NO_NUMBER:
            with self._numbering(request):
                return (yield from trying)
        return (yield from trying)

    @contextmanager
    def _numbering(self, request: NumberedRequest[Any]) -> Iterator[None]:
        """Numbers a request for the length of the block. The number counts as open until the block ends."""
        with self._mutex:
            number = next(self._numbers)
            self._open_numbers[number] = None
            first = next(iter(self._open_numbers))
        request.call_number, request.answered_below = number, first
        try:
            yield
        finally:
            request.call_number = NO_NUMBER
            with self._mutex:
                del self._open_numbers[number]

    def _trying(
        self,
        request: WireRequest[R],
        wait_s: float,
        repeat: Repeat | None,
        *,
        is_tried_once: bool = False,
        failed: FailedAttempt | None = None,
    ) -> Steps[R]:
        """Returns the steps of a call that is tried until its time is over, possibly after a failed first attempt."""
        begun_s = self.clock.steady_s() if failed is None else failed.begun_s
        backoff_s, sent_in = CLIENT_BACKOFF_S_MIN, NEVER_SENT
        while True:
            connection: Connection | None = None
            if left_s := self._throttle_left_s():
                # The time for which the broker throttles a client does not count against the timeout.
                begun_s += left_s
                yield Pause(self.clock, left_s)
            try:
                if failed is not None:
                    (_, connection, error), failed = failed, None
                    raise error
                connection = self._connected_for(request, sent_in, repeat)
                # Another broker is asked only if the call can be sent again.
                answer_s = self._silent_s if repeat is not None or _is_numbered(request) else self.timeout_s
                answer = yield from self._asking(connection, request, wait_s, answer_s)
                if not self._turns_away(answer):
                    return checked(answer)
                # Nothing was done, so it is as if the request had not been sent.
                connection = None
                checked(answer)
            except OutcomeUnknown:
                raise
            except (ConnectionLost, NotMaster) as error:
                if connection is not None:
                    # The other idle connections are most likely broken too. Closing them loses nothing.
                    self._drop_idle()
                    self._brokers.note_failure(connection.address, error)
                    sent_in = connection.incarnation
                    if repeat is not None:
                        request = repeat(request)
                    elif not _is_numbered(request):
                        raise
                # A broker answered, although it does not lead, so the address is right.
                is_reached = self.store_id or isinstance(error, NotMaster)
                patience_s = self.timeout_s + wait_s if is_reached else self._first_wait_s
                is_over = self.clock.steady_s() + backoff_s >= begun_s + patience_s
                if is_tried_once or not error.retryable or is_over:
                    if sent_in != NEVER_SENT and repeat is not same and request.api_key in CHANGING:
                        reason = error.reason if isinstance(error, ConnectionLost) else str(error)
                        raise OutcomeUnknown(self.address, reason) from error
                    raise
                # Random, so that clients do not all retry at the same moment.
                yield Pause(self.clock, backoff_s * random.uniform(0.5, 1.0))
                backoff_s = min(backoff_s * 2, CLIENT_BACKOFF_S_MAX)

    def _exchange(self, connection: Connection, request: WireRequest[R], answer_s: float) -> R:
        """Sends a request and returns its answer. The connection is then free for the next request."""
        try:
            connection.send(request, VERSION, answer_s)
            answer = connection.receive(request)
        except BaseException as error:
            self._leave(connection, error)
            raise
        self._give_back(connection)
        return answer

    def _asking(self, connection: Connection, request: WireRequest[R], wait_s: float, answer_s: float) -> Steps[R]:
        """Does what `_exchange` does, in steps if the broker may wait before it answers."""
        if not wait_s:
            return self._exchange(connection, request, answer_s)
        try:
            connection.send(request, VERSION, answer_s + wait_s)
            self._parked.add(connection)
            try:
                yield connection
            except Hurry:
                # An answer that has come already must be read, because the broker assigned its messages to this client.
                if not connection.has_come():
                    raise
            finally:
                self._parked.discard(connection)
            answer = connection.receive(request)
        except TimeoutError as error:
            raise connection.lost(error) from error
        except BaseException as error:
            self._leave(connection, error)
            raise
        self._give_back(connection)
        return answer

    def _leave(self, connection: Connection, error: BaseException) -> None:
        """Ends the use of a connection after an error."""
        if isinstance(error, BadInput):
            # Nothing was sent.
            self._give_back(connection)
        else:
            # An answer may still arrive, and the next request would take it for its own.
            connection.close()

    def waiting(
        self,
        request: WaitingRequest[R],
        wait_s: float,
        is_done: Callable[[R], bool],
        *,
        repeat: Repeat | None = None,
        is_more: Callable[[R], bool] = lambda answer: False,
    ) -> Steps[R]:
        """Returns the steps of a call that waits at the broker. It is repeated until it is done or `wait_s` have
        passed.

        If the answer has `is_more`, the broker has not searched everything yet, and the call is repeated after that
        time too.
        """
        deadline_s = self.clock.steady_s() + wait_s
        while True:
            left_s = max(0.0, deadline_s - self.clock.steady_s())
            part_s = min(left_s, NATIVE_WAIT_S_MAX)
            request.wait_ms = round(part_s * 1000)
            with self._numbering(request) if repeat is None and isinstance(request, NumberedRequest) else nullcontext():
                try:
                    answer = yield from self.calling(request, wait_s=part_s, repeat=repeat)
                except Hurry:
                    # The broker may have assigned messages to this client at the last moment, so the client asks once
                    # more.
                    deadline_s, request.wait_ms = 0.0, 0
                    again = request if repeat is None else repeat(request)
                    answer = yield from self.calling(again, repeat=repeat, is_tried_once=True)
            if is_done(answer) or (deadline_s <= self.clock.steady_s() and not is_more(answer)):
                return answer

    def _throttle_left_s(self) -> float:
        """Returns how long this client must still send nothing."""
        if not self._throttled_until_s:
            return 0.0
        with self._mutex:
            left_s = max(0.0, self._throttled_until_s - self.clock.steady_s())
            if not left_s:
                self._throttled_until_s = 0.0
            return left_s

    # --- Connections ---

    def _connected_for(self, request: WireRequest[Any], sent_in: int, repeat: Repeat | None) -> Connection:
        """Returns a connection for a request that was sent in the session `sent_in`, or not yet.

        Raises OutcomeUnknown if the broker has forgotten that session and could do the same a second time.
        """
        connection = self._free() or self._brokers.connect(self._opened_at)
        if sent_in in (NEVER_SENT, connection.incarnation) or repeat is not None or request.api_key not in UNREPEATABLE:
            return connection
        self._give_back(connection)
        raise OutcomeUnknown(self.address, "the broker has forgotten the session of this client")

    def _free(self) -> Connection | None:
        """Returns an open connection that is not in use; None if there is none. Raises StoreClosed after `close`."""
        with self._mutex:
            if self.is_closed:
                raise StoreClosed(self.address)
            return self._idle.pop() if self._idle else None

    def _turns_away(self, answer: NativeResponse) -> bool:
        """Returns whether the broker says that it does not lead. Then it has done nothing, and is not asked again."""
        error = answer.error
        if not isinstance(error, WireError) or error.code != NotMaster.code:
            return False
        self._drop_idle()
        self._brokers.note_leader(getattr(error_of(error), "address", ""))
        return True

    def _opened_at(self, address: str) -> Connection:
        """Returns a new connection of the session. At first contact the error says what the client lacks."""
        try:
            return self._met(address)
        except NotAuthenticated as error:
            raise UserWanted(address) from error
        except ConnectionLost as error:
            if self.store_id or not self._brokers.is_one:
                raise
            explanation = explained(error, address, self.tls)
            if explanation is error:
                raise
            raise explanation from error

    def _met(self, address: str) -> Connection:
        # Another broker may lead, so a silent one is not waited for as long as a call may take.
        connect_s = self.timeout_s if self._brokers.is_one else min(self.timeout_s, CLIENT_CONNECT_S)
        connection = Connection(address, self.tls, connect_s)
        try:
            if self.login is not None:
                connection.log_in(self.login)
            self._begin(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _begin(self, connection: Connection) -> None:
        """Adds a new connection to the session."""
        opened = connection.call(OpenSessionRequest(self._session, SOFTWARE), VERSION, self._silent_s)
        self.store_id = checked(opened).store_id
        connection.incarnation = opened.incarnation

    def _give_back(self, connection: Connection) -> None:
        with self._mutex:
            if connection.throttle_s:
                until_s = self.clock.steady_s() + connection.throttle_s
                self._throttled_until_s = max(self._throttled_until_s, until_s)
            if not self.is_closed and len(self._idle) < CLIENT_CONNECTIONS_KEPT_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def _drop_idle(self) -> None:
        with self._mutex:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Closes the connections. The broker then releases what this client held. Closing twice does no harm."""
        with self._mutex:
            is_first, self.is_closed = not self.is_closed, True
            parked = list(self._parked)
        if is_first and (self._idle or parked):
            self._end_session()
        self._drop_idle()
        for connection in parked:
            connection.shut()

    def _end_session(self) -> None:
        # If the broker cannot be reached, it ends the session by itself after NATIVE_SESSION_S.
        with suppress(WarrenError):
            connection = self._idle.pop() if self._idle else self._brokers.connect(self._opened_at)
            connection.call(CloseHandleRequest(NO_HANDLE), VERSION, self._silent_s)
            connection.close()


def _is_numbered(request: WireRequest[Any]) -> bool:
    return isinstance(request, NumberedRequest) and request.call_number != NO_NUMBER


def retried(request: AppendRequest) -> AppendRequest:
    """Returns the request marked as a repetition: the broker first looks for the result of the earlier one."""
    return replaced(request, is_retry=True)


def same(request: AnyRequest) -> AnyRequest:
    """Returns the request unchanged, for a call that does no harm if it is carried out twice."""
    return request
