"""Calls to a broker by any thread: over a few connections, replaced when they break, with growing pauses and jitter."""

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
from warren.client.net.connection import Connection, parse_address
from warren.client.net.first_contact import explained
from warren.client.net.login import Login
from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import (
    BadInput,
    ConnectionLost,
    NotAuthenticated,
    OutcomeUnknown,
    StoreClosed,
    UserWanted,
    WarrenError,
)
from warren.limits import WAIT_S_MAX
from warren.protocol.limits import NATIVE_WAIT_S_MAX
from warren.protocol.native.calls import VERSION, checked
from warren.protocol.native_messages import AppendRequest, CloseHandleRequest, OpenSessionRequest, ReadGroupRequest
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
CLIENT_CONNECTIONS_KEPT_MAX: Final = 8
"""How many idle connections a client keeps."""

SOFTWARE: Final = "warren python"
NO_NUMBER: Final = 0
NO_HANDLE: Final = 0
NEVER_SENT: Final = -1
GOING: Final = frozenset((NativeKey.COMMIT_GROUP, NativeKey.SEEK_GROUP))
"""Calls that move a group. They are numbered, because one that arrives late would move it back. Repeats do no harm."""
CHANGING: Final = NUMBERED - {NativeKey.TAKE} - GOING | {NativeKey.APPEND}
"""Calls that change something. If the client cannot find out whether one has happened, it raises OutcomeUnknown."""
UNREPEATABLE: Final = NUMBERED - {
    *GOING,
    NativeKey.TAKE,
    NativeKey.BEGIN_TRANSACTION,
    NativeKey.CHANGE_TRANSACTION,
}
"""What must not be sent again to a broker that has forgotten the session. Of the others it says that all is gone."""
MARKER_START_SIZE: Final = 8
R = TypeVar("R", bound=NativeResponse)
Retried = TypeVar("Retried", AppendRequest, ReadGroupRequest)
Repeat = Callable[[Any], Any]
"""Makes of a request the one that is sent when it may have arrived before."""


class FailedAttempt(NamedTuple):
    """A first attempt of a call, whose connection broke."""

    begun_s: float
    connection: Connection
    error: ConnectionLost


class Calls:
    """The connections of one client, which share a session. Any thread may call; each call has a connection to itself.

    A call whose connection breaks is tried again until `timeout_s` have passed. That is safe because the broker has not
    got it yet, or recognises it by what it carries, or can do it twice without harm. Before a broker has answered for
    the first time, a call is tried again only for `first_wait_s`, because the address may be wrong.
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
    ) -> None:
        parse_address(address)
        if not 0 < timeout_s <= WAIT_S_MAX:
            raise BadInput(f"timeout {timeout_s!r}: expected seconds above 0, at most {WAIT_S_MAX:.0f}")
        if not 0 <= first_wait_s <= WAIT_S_MAX:
            raise BadInput(f"wait {first_wait_s!r}: expected seconds from 0 to {WAIT_S_MAX:.0f}")
        self.address, self.timeout_s, self.clock = address, timeout_s, clock
        self._first_wait_s = first_wait_s
        self._tls, self._login = tls, login
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
        """Makes the child of a fork a client of its own, with connections, a session and markers of its own."""
        self._session, self._marker = uuid.uuid4().bytes, uuid.uuid4().bytes[:MARKER_START_SIZE]
        self._mutex = threading.Lock()
        self._numbers = itertools.count(1)
        self._open_numbers: dict[int, None] = {}
        """Of calls that may be sent again, the lowest first."""
        self._idle: list[Connection] = []
        self._parked: set[Connection] = set()
        """Connections that wait for an answer, perhaps for long."""
        self._throttled_until_s = 0.0
        """The broker asks this client, on whatever connection, to send nothing before; 0 if it does not."""

    # --- Calling ---

    def new_handle(self) -> int:
        """Returns a handle that this client has not used."""
        return next(self._handles)

    def new_marker(self) -> bytes:
        """Returns bytes that no other put has."""
        return self._marker + next(self._puts).to_bytes(MARKER_START_SIZE, "big")

    def call(self, request: WireRequest[R], *, repeat: Repeat | None = None) -> R:
        """Returns the answer to one of Warren's own calls. Raises the error that the answer holds.

        `repeat` makes the request that is sent when an earlier one may have arrived. Without it the call is numbered,
        if it can be, so that the broker recognises it. Raises OutcomeUnknown if neither helps, because the broker has
        forgotten the session or cannot be reached, and the call changes something.
        """
        if repeat is None or self._throttled_until_s or (connection := self._free()) is None:
            return run(self.calling(request, repeat=repeat))
        # The usual case, without generators: they would make a put 6 % slower over loopback (115 µs).
        begun_s = self.clock.steady_s()
        try:
            answer = self._exchange(connection, request)
        except ConnectionLost as error:
            return run(self._trying(request, 0.0, repeat, failed=FailedAttempt(begun_s, connection, error)))
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
        """Numbers a request. The request has the number, and the number counts as open, until the end of the block."""
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
        """Returns the steps of a call that is tried until its time is over, also after a first attempt that failed."""
        begun_s = self.clock.steady_s() if failed is None else failed.begun_s
        backoff_s, sent_in = CLIENT_BACKOFF_S_MIN, NEVER_SENT
        while True:
            connection: Connection | None = None
            if self._throttled_until_s and (left_s := self._throttle_left_s()):
                # It is the broker that makes it wait: that takes nothing from its time.
                begun_s += left_s
                yield Pause(self.clock, left_s)
            try:
                if failed is not None:
                    (_, connection, error), failed = failed, None
                    raise error
                connection = self._connected()
                if (
                    sent_in not in (NEVER_SENT, connection.incarnation)
                    and repeat is None
                    and request.api_key in UNREPEATABLE
                ):
                    self._give_back(connection)
                    raise OutcomeUnknown(self.address, "the broker has forgotten what this client had asked for")
                answer = yield from self._asking(connection, request, wait_s)
            except OutcomeUnknown:
                raise
            except ConnectionLost as error:
                if connection is not None:
                    # The others are most likely broken as well, and nothing is lost with them.
                    self._drop_idle()
                    sent_in = connection.incarnation
                    if repeat is not None:
                        request = repeat(request)
                    elif not isinstance(request, NumberedRequest) or request.call_number == NO_NUMBER:
                        raise
                patience_s = self.timeout_s + wait_s if self.store_id else self._first_wait_s
                is_over = self.clock.steady_s() + backoff_s >= begun_s + patience_s
                if is_tried_once or not error.retryable or is_over:
                    if sent_in != NEVER_SENT and repeat is not same and request.api_key in CHANGING:
                        raise OutcomeUnknown(self.address, error.reason) from error
                    raise
                # Not all clients at once.
                yield Pause(self.clock, backoff_s * random.uniform(0.5, 1.0))
                backoff_s = min(backoff_s * 2, CLIENT_BACKOFF_S_MAX)
                continue
            return checked(answer)

    def _exchange(self, connection: Connection, request: WireRequest[R]) -> R:
        """Sends a request and returns its answer. Then the connection is free for the next one."""
        try:
            connection.send(request, VERSION, self.timeout_s)
            answer = connection.receive(request)
        except BaseException as error:
            self._leave(connection, error)
            raise
        self._give_back(connection)
        return answer

    def _asking(self, connection: Connection, request: WireRequest[R], wait_s: float) -> Steps[R]:
        """Does what `_exchange` does, in steps if the broker may wait before it answers."""
        if not wait_s:
            return self._exchange(connection, request)
        try:
            connection.send(request, VERSION, self.timeout_s + wait_s)
            self._parked.add(connection)
            try:
                yield connection
            except Hurry:
                # An answer that has come already must be read: the broker gave its messages to this client.
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
            # An answer may be under way that the next request would take for its own.
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
        """Returns the steps of a call that waits at the broker. It is repeated until it is done or `wait_s` passed.

        If the answer `is_more`, the broker has not searched everything yet, and is asked again also after that time.
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
                    # Messages that came at the last moment belong to this client, so it asks for them once more.
                    deadline_s, request.wait_ms = 0.0, 0
                    again = request if repeat is None else repeat(request)
                    answer = yield from self.calling(again, repeat=repeat, is_tried_once=True)
            if is_done(answer) or (deadline_s <= self.clock.steady_s() and not is_more(answer)):
                return answer

    def _throttle_left_s(self) -> float:
        """Returns for how long nothing is to be sent yet."""
        with self._mutex:
            left_s = max(0.0, self._throttled_until_s - self.clock.steady_s())
            if not left_s:
                self._throttled_until_s = 0.0
            return left_s

    # --- Connections ---

    def _connected(self) -> Connection:
        """Returns a connection that belongs to the session."""
        return self._free() or self._opened()

    def _free(self) -> Connection | None:
        """Returns a connection that is open and not in use; None if there is none. Raises StoreClosed after `close`."""
        with self._mutex:
            if self.is_closed:
                raise StoreClosed(self.address)
            return self._idle.pop() if self._idle else None

    def _opened(self) -> Connection:
        """Returns a new connection of the session. At first contact the error says what the client lacks."""
        try:
            return self._met()
        except NotAuthenticated as error:
            raise UserWanted(self.address) from error
        except ConnectionLost as error:
            if self.store_id:
                raise
            explanation = explained(error, self.address, self._tls)
            if explanation is error:
                raise
            raise explanation from error

    def _met(self) -> Connection:
        connection = Connection(self.address, self._tls, self.timeout_s)
        try:
            if self._login is not None:
                connection.log_in(self._login)
            opened = connection.call(OpenSessionRequest(self._session, SOFTWARE), VERSION, self.timeout_s)
            self.store_id = checked(opened).store_id
            connection.incarnation = opened.incarnation
        except BaseException:
            connection.close()
            raise
        return connection

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
        """Closes the connections. The broker frees what this client held. Closing twice does no harm."""
        with self._mutex:
            is_first, self.is_closed = not self.is_closed, True
            parked = list(self._parked)
        if is_first and (self._idle or parked):
            # If the broker cannot be reached, it ends the session by itself after NATIVE_SESSION_S.
            with suppress(WarrenError):
                connection = self._idle.pop() if self._idle else self._opened()
                connection.call(CloseHandleRequest(NO_HANDLE), VERSION, self.timeout_s)
                connection.close()
        self._drop_idle()
        for connection in parked:
            connection.shut()


def retried(request: Retried) -> Retried:
    """Returns the request as it is sent when it may have arrived before: the broker looks for what it did first."""
    return replaced(request, is_retry=True)


def same(request: AnyRequest) -> AnyRequest:
    """Returns the request unchanged, for a call that does no harm if it is done twice."""
    return request
