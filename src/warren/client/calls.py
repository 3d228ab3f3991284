"""Calls to a broker by any thread: over a few connections, made anew when they break, with patience and jitter."""

from __future__ import annotations

import itertools
import random
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Final

from warren.client.connection import Connection, parse_address
from warren.client.first_contact import explained
from warren.client.login import Login
from warren.client.steps import Hurry, Pause, Steps, run
from warren.clock import SYSTEM_CLOCK, Clock
from warren.config import (
    CLIENT_BACKOFF_S_MAX,
    CLIENT_BACKOFF_S_MIN,
    CLIENT_CONNECTIONS_KEPT_MAX,
    OWN_WAIT_S_MAX,
    WAIT_S_MAX,
)
from warren.errors import (
    BadInput,
    ConnectionLost,
    NotAuthenticated,
    OutcomeUnknown,
    StoreClosed,
    UserWanted,
    WarrenError,
)
from warren.protocol.kafka_codec import Fields, Values
from warren.protocol.own_api import VERSION, Asked, checked
from warren.protocol.own_append import LoneAppend
from warren.protocol.own_schemas import NUMBERED, OwnKey
from warren.storage.residents import process_residents

SOFTWARE: Final = "warren python"
NUMBER: Final = "call_number"
NO_HANDLE: Final = 0
GOING: Final = frozenset((OwnKey.COMMIT_GROUP, OwnKey.SEEK_GROUP))
"""Where a group stands: numbered because one that arrives late would take it back. To say it again does no harm."""
CHANGING: Final = NUMBERED - {OwnKey.TAKE} - GOING | {OwnKey.APPEND}
"""What happens twice, or not at all, where it is not known whether it has happened."""
UNREPEATABLE: Final = NUMBERED - {
    *GOING,
    OwnKey.TAKE,
    OwnKey.BEGIN_TRANSACTION,
    OwnKey.CHANGE_TRANSACTION,
}
"""What must not be sent again to a broker that has forgotten the session. Of the others it says that all is gone."""
MARKER_START_SIZE: Final = 8
Repeat = Callable[[Any], Any]
"""Makes of a request the one that is sent when it may have arrived before."""


class Calls:
    """The connections of one client, which share a session. Any thread may call; each call has a connection to itself.

    A call whose connection breaks is tried again until `timeout_s` have passed: either nobody has seen it yet, or it is
    known again by what it carries, or it can be done twice without harm. Before a broker has answered for the first
    time a call is tried again only for `first_wait_s`: the address may be wrong.
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

    # --- As a resident of the process: told when it forks, asked for no files ---

    file_count = 0

    def rest(self) -> bool:
        return False

    def after_fork(self) -> None:
        """A child is another client: it has connections, a session and markers of its own."""
        self._session, self._marker = uuid.uuid4().bytes, uuid.uuid4().bytes[:MARKER_START_SIZE]
        self._mutex = threading.Lock()
        self._numbers = itertools.count(1)
        self._open_numbers: dict[int, None] = {}
        """Of calls that may be sent again, the lowest first."""
        self._idle: list[Connection] = []
        self._parked: set[Connection] = set()
        """Those whose answer is waited for, perhaps for long."""
        self._throttled_until_s = 0.0
        """The broker asks this client, on whatever connection, to send nothing before; 0 if it does not."""

    # --- Calling ---

    def new_handle(self) -> int:
        """A handle that this client has not used."""
        return next(self._handles)

    def new_marker(self) -> bytes:
        """Bytes that no other put has."""
        return self._marker + next(self._puts).to_bytes(MARKER_START_SIZE, "big")

    def call(self, key: OwnKey, values: Asked, *, repeat: Repeat | None = None) -> Fields:
        """The answer to one of our own calls; its error is raised.

        `repeat` makes the request that is sent when an earlier one may have arrived. Without it the call is numbered,
        if it can be: the broker knows it again. OutcomeUnknown where neither helps, because the broker has forgotten
        the session or cannot be reached, and what was asked for changes something.
        """
        return run(self.calling(key, values, repeat=repeat))

    def append(self, asked: LoneAppend) -> Fields:
        """The answer to the most frequent of all calls, by the shortest way; where that fails, by the longer one."""
        if self._throttled_until_s:
            self.clock.sleep(self._throttle_left_s())
        connection = self._connected()
        try:
            connection.send(OwnKey.APPEND, VERSION, asked, self.timeout_s)
            answer = connection.receive()
        except ConnectionLost:
            self._drop_idle()
            try:
                return self.call(OwnKey.APPEND, retried(asked), repeat=retried)
            except ConnectionLost as error:
                raise OutcomeUnknown(self.address, error.reason) from error
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        found: Fields = checked(answer)
        return found

    def calling(
        self,
        key: OwnKey,
        values: Asked,
        *,
        wait_s: float = 0.0,
        repeat: Repeat | None = None,
        is_tried_once: bool = False,
    ) -> Steps[Fields]:
        """The steps of a call. `wait_s` is for how long the broker may wait before it answers."""
        if repeat is None and key in NUMBERED and isinstance(values, Mapping) and NUMBER not in values:
            with self._numbering(values) as numbered:
                return (yield from self._trying(key, numbered, wait_s, None, is_tried_once))
        return (yield from self._trying(key, values, wait_s, repeat, is_tried_once))

    @contextmanager
    def _numbering(self, values: Values) -> Iterator[dict[str, Any]]:
        """The values of a call with its number, which is that of an open call until it was answered."""
        with self._mutex:
            number = next(self._numbers)
            self._open_numbers[number] = None
            first = next(iter(self._open_numbers))
        try:
            yield {**values, NUMBER: number, "answered_below": first}
        finally:
            with self._mutex:
                del self._open_numbers[number]

    def _trying(
        self, key: OwnKey, values: Asked, wait_s: float, repeat: Repeat | None, is_tried_once: bool
    ) -> Steps[Fields]:
        begun_s = self.clock.steady_s()
        backoff_s, sent_in = CLIENT_BACKOFF_S_MIN, -1
        while True:
            connection: Connection | None = None
            if self._throttled_until_s and (left_s := self._throttle_left_s()):
                # It is the broker that makes it wait: that takes nothing from its time.
                begun_s += left_s
                yield Pause(self.clock, left_s)
            try:
                connection = self._connected()
                if sent_in not in (-1, connection.incarnation) and repeat is None and key in UNREPEATABLE:
                    self._give_back(connection)
                    raise OutcomeUnknown(self.address, "the broker has forgotten what this client had asked for")
                answer = yield from self._asking(connection, key, values, wait_s)
            except OutcomeUnknown:
                raise
            except ConnectionLost as error:
                if connection is not None:
                    # The others are most likely broken as well, and nothing is lost with them.
                    self._drop_idle()
                    sent_in = connection.incarnation
                    if repeat is not None:
                        values = repeat(values)
                    elif NUMBER not in values:
                        raise
                patience_s = self.timeout_s + wait_s if self.store_id else self._first_wait_s
                is_over = self.clock.steady_s() + backoff_s >= begun_s + patience_s
                if is_tried_once or not error.retryable or is_over:
                    if sent_in != -1 and repeat is not same and key in CHANGING:
                        raise OutcomeUnknown(self.address, error.reason) from error
                    raise
                # Not all clients at once.
                yield Pause(self.clock, backoff_s * random.uniform(0.5, 1.0))
                backoff_s = min(backoff_s * 2, CLIENT_BACKOFF_S_MAX)
                continue
            found: Fields = checked(answer)
            return found

    def _asking(self, connection: Connection, key: OwnKey, values: Asked, wait_s: float) -> Steps[Fields]:
        try:
            connection.send(key, VERSION, values, self.timeout_s + wait_s)
            if wait_s:
                self._parked.add(connection)
                try:
                    yield connection
                except Hurry:
                    # What has come already is for nobody else.
                    if not connection.has_come():
                        raise
                finally:
                    self._parked.discard(connection)
            answer = connection.receive()
        except BadInput:
            # Nothing was sent.
            self._give_back(connection)
            raise
        except TimeoutError as error:
            raise connection.lost(error) from error
        except BaseException:
            # An answer may be under way that the next request would take for its own.
            connection.close()
            raise
        self._give_back(connection)
        return answer

    def waiting(
        self,
        key: OwnKey,
        values: dict[str, Any],
        wait_s: float,
        is_done: Callable[[Fields], bool],
        *,
        repeat: Repeat | None = None,
        is_more: Callable[[Fields], bool] = lambda answer: False,
    ) -> Steps[Fields]:
        """The steps of a call that waits at the broker, asked again until it is done or `wait_s` have passed.

        If the answer `is_more`, the broker has not looked at everything yet, and is asked again also after that time.
        """
        deadline_s = self.clock.steady_s() + wait_s
        while True:
            left_s = max(0.0, deadline_s - self.clock.steady_s())
            part_s = min(left_s, OWN_WAIT_S_MAX)
            asked = {**values, "wait_ms": round(part_s * 1000)}
            with self._numbering(asked) if repeat is None else nullcontext(asked) as asked:
                try:
                    answer = yield from self.calling(key, asked, wait_s=part_s, repeat=repeat)
                except Hurry:
                    # What came at the last moment is asked for once more, or it would be nobody's.
                    deadline_s, again = 0.0, {**asked, "wait_ms": 0}
                    again = again if repeat is None else dict(repeat(again))
                    answer = yield from self.calling(key, again, repeat=repeat, is_tried_once=True)
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
        """A connection that belongs to the session."""
        with self._mutex:
            if self.is_closed:
                raise StoreClosed(self.address)
            if self._idle:
                return self._idle.pop()
        return self._opened()

    def _opened(self) -> Connection:
        """A new connection that belongs to the session. At first contact the error says what the client lacks."""
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
            opened = connection.call(
                OwnKey.OPEN_SESSION, VERSION, {"session": self._session, "software": SOFTWARE}, self.timeout_s
            )
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
        """The broker frees what this client held. Closing twice does no harm."""
        with self._mutex:
            is_first, self.is_closed = not self.is_closed, True
            parked = list(self._parked)
        if is_first and (self._idle or parked):
            # Where it cannot be told, the broker finds out by itself after a while.
            with suppress(WarrenError):
                connection = self._idle.pop() if self._idle else self._opened()
                connection.call(OwnKey.CLOSE_HANDLE, VERSION, {"handle": NO_HANDLE}, self.timeout_s)
                connection.close()
        self._drop_idle()
        for connection in parked:
            connection.shut()


def retried(asked: LoneAppend) -> LoneAppend:
    """To be sent when it may have arrived: looked for first."""
    return asked._replace(is_retry=True)


def same(values: Values) -> Values:
    """To be sent again as it is: what does no harm when it is done twice."""
    return values
