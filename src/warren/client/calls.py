"""Calls to a broker by any thread: over a few connections, made anew when they break, with patience and jitter."""

from __future__ import annotations

import itertools
import random
import ssl
import threading
import uuid
from collections.abc import Callable
from typing import Any, Final

from warren.client.connection import Connection, parse_address
from warren.clock import SYSTEM_CLOCK, Clock
from warren.config import (
    CLIENT_BACKOFF_S_MAX,
    CLIENT_BACKOFF_S_MIN,
    CLIENT_CONNECTIONS_KEPT_MAX,
    OWN_WAIT_S_MAX,
    WAIT_S_MAX,
)
from warren.errors import BadInput, ConnectionLost, StoreClosed
from warren.protocol.kafka_codec import Fields, Values
from warren.protocol.own_api import VERSION, checked
from warren.protocol.own_schemas import OwnKey
from warren.storage.residents import process_residents

SOFTWARE: Final = "warren python"
MARKER_START_SIZE: Final = 8


class Calls:
    """The connections of one client, which share a session. Any thread may call; each call has a connection to itself.

    A call whose connection breaks is tried again until `timeout_s` have passed, where that does no harm: either nobody
    has seen it yet, or `repeat` says how it is told apart from the first try.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float,
        tls: ssl.SSLContext | None,
        user: str | None,
        password: str | None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        parse_address(address)
        if (user is None) != (password is None):
            raise BadInput("give both user and password, or neither")
        if not 0 < timeout_s <= WAIT_S_MAX:
            raise BadInput(f"timeout {timeout_s!r}: expected seconds above 0, at most {WAIT_S_MAX:.0f}")
        self.address, self.timeout_s, self.clock = address, timeout_s, clock
        self._tls, self._user, self._password = tls, user, password
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
        self._idle: list[Connection] = []

    # --- Calling ---

    def new_handle(self) -> int:
        """A handle that this client has not used."""
        return next(self._handles)

    def new_marker(self) -> bytes:
        """Bytes that no other put has."""
        return self._marker + next(self._puts).to_bytes(MARKER_START_SIZE, "big")

    def call(
        self,
        key: OwnKey,
        values: Values,
        *,
        wait_s: float = 0.0,
        repeat: Callable[[Values], Values] | None = None,
    ) -> Fields:
        """The answer to one of our own calls; its error is raised.

        `wait_s` is for how long the broker may wait before it answers. `repeat` makes the request that is sent when an
        earlier one may have arrived: ConnectionLost where there is none.
        """
        deadline_s = self.clock.steady_s() + self.timeout_s + wait_s
        backoff_s = CLIENT_BACKOFF_S_MIN
        while True:
            connection: Connection | None = None
            try:
                connection = self._connected()
                answer = self._asked(connection, key, values, self.timeout_s + wait_s)
            except ConnectionLost:
                if connection is not None:
                    # The others are most likely broken as well, and nothing is lost with them.
                    self._drop_idle()
                    if repeat is None:
                        raise
                    values = repeat(values)
                if self.clock.steady_s() + backoff_s >= deadline_s:
                    raise
                # Not all clients at once.
                self.clock.sleep(backoff_s * random.uniform(0.5, 1.0))
                backoff_s = min(backoff_s * 2, CLIENT_BACKOFF_S_MAX)
                continue
            return checked(answer)

    def _asked(self, connection: Connection, key: OwnKey, values: Values, timeout_s: float) -> Fields:
        try:
            answer = connection.call(key, VERSION, values, timeout_s)
        except BadInput:
            # Nothing was sent.
            self._give_back(connection)
            raise
        except BaseException:
            # An answer may be under way that the next request would take for its own.
            connection.close()
            raise
        self._give_back(connection)
        return answer

    def waited(
        self, key: OwnKey, values: dict[str, Any], wait_s: float, is_done: Callable[[Fields], bool], **options: Any
    ) -> Fields:
        """The answer of a call that waits at the broker, asked again until it is done or `wait_s` have passed."""
        deadline_s = self.clock.steady_s() + wait_s
        while True:
            left_s = max(0.0, deadline_s - self.clock.steady_s())
            part_s = min(left_s, OWN_WAIT_S_MAX)
            asked = {**values, "wait_ms": round(part_s * 1000)}
            answer = self.call(key, asked, wait_s=part_s, **options)
            if is_done(answer) or deadline_s <= self.clock.steady_s():
                return answer

    # --- Connections ---

    def _connected(self) -> Connection:
        """A connection that belongs to the session."""
        with self._mutex:
            if self.is_closed:
                raise StoreClosed(self.address)
            if self._idle:
                return self._idle.pop()
        connection = Connection(self.address, self._tls, self.timeout_s)
        try:
            if self._user is not None:
                connection.login(self._user, self._password or "")
            opened = connection.call(
                OwnKey.OPEN_SESSION, VERSION, {"session": self._session, "software": SOFTWARE}, self.timeout_s
            )
            self.store_id = checked(opened).store_id
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, connection: Connection) -> None:
        with self._mutex:
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
            self.is_closed = True
        self._drop_idle()


def same(values: Values) -> Values:
    """To be sent again as it is: what does no harm when it is done twice."""
    return values
