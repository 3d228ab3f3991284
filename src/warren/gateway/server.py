"""The side port: HTTP in the broker's own event loop, which ends when the broker does."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

from warren.broker.configuration import Configuration
from warren.broker.places import Full, Places, is_loopback
from warren.broker.server import Beside
from warren.config import (
    BROKER_BACKLOG,
    HTTP_CONNECTIONS_MAX,
    HTTP_ELEMENTS_MAX,
    HTTP_LOOP_SIZE_MAX,
    HTTP_SPARE_CONNECTIONS_MAX,
    TLS_HANDSHAKE_S_MAX,
)
from warren.errors import BadInput, CannotListen, NotAcceptedKind, Stopping, TooMany, WarrenError
from warren.gateway.access import Access
from warren.gateway.api import routes_of
from warren.gateway.connection import Finish, HttpConnection
from warren.gateway.counts import NO_ROUTE, Counts
from warren.gateway.exchange import JSON, Asked, Head, Reply, json_reply
from warren.gateway.openapi import document_of
from warren.gateway.routes import Found, Route, read_query
from warren.gateway.shapes import Fields
from warren.gateway.spending import Spending

if TYPE_CHECKING:
    from warren.broker.broker import Broker

LOGGER: Final = logging.getLogger("warren.gateway")
LOOK_S: Final = 0.01
UNKNOWN_VERSION: Final = "0"


def side_port(
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    *,
    is_local: bool,
    told: Callable[[str, int], None] = lambda host, port: None,
) -> Beside:
    """What serves HTTP beside a broker. `is_local`: only this machine reaches the address. `told` is told where."""

    @asynccontextmanager
    async def serving(broker: Broker) -> AsyncIterator[None]:
        gateway = Gateway(broker, is_local=is_local, is_secret=tls is not None)
        server = await _listen(gateway, host, port, tls)
        where = server.sockets[0].getsockname()[:2]
        LOGGER.info("HTTP on %s:%d", *where)
        told(*where)
        try:
            yield
        finally:
            server.close()
            await gateway.finish()

    return serving


def neighbour(configuration: Configuration, tls: ssl.SSLContext | None) -> Beside:
    """HTTP as it was configured."""
    host, port = configuration["http.host"], configuration["http.port"]
    return side_port(host, port, tls, is_local=is_loopback(host))


async def _listen(gateway: Gateway, host: str, port: int, tls: ssl.SSLContext | None) -> asyncio.Server:
    handshake_s = None if tls is None else TLS_HANDSHAKE_S_MAX
    try:
        return await asyncio.start_server(
            gateway.connected, host, port, ssl=tls, backlog=BROKER_BACKLOG, ssl_handshake_timeout=handshake_s
        )
    except OSError as error:
        number = error.errno or 0
        raise CannotListen(host, port, os.strerror(number) if number > 0 else str(error)) from error


class Gateway:
    """All that is served over HTTP beside one broker. For the event loop's thread alone.

    Every connection is a task of the broker's. While the broker stops it is asked for its health alone.
    """

    def __init__(self, broker: Broker, *, is_local: bool, is_secret: bool) -> None:
        self._broker, self._is_local, self._is_secret = broker, is_local, is_secret
        self.counts = Counts()
        self._routes = routes_of(self._openapi, self.counts)
        self._places: Places[HttpConnection] = Places(
            HTTP_CONNECTIONS_MAX,
            self._drop,
            per_address_max=broker.limits.http_connections_max_per_address,
            of_address=broker.limits.of_address,
        )
        self._spare_places: Places[HttpConnection] = Places(HTTP_SPARE_CONNECTIONS_MAX, self._drop)

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a new connection.

        If all places are taken by requests under way, it gets a spare one, where health and metrics are answered.
        """
        host = (writer.get_extra_info("peername") or ("",))[0]
        close = writer.transport.abort
        access = Access(self._broker, close, is_local=self._is_local, is_secret=self._is_secret)
        talk = Talk(self, access)
        connection = HttpConnection(reader, writer, talk, self._broker.budget)
        # Counted at once: many may come before the first of their tasks has begun.
        places, talk.full = self._places, self._places.admit(connection, host)
        if talk.full is not None:
            places = self._spare_places
            if places.admit(connection, host) is not None:
                LOGGER.warning("connection over HTTP of %s refused: %s", host, talk.full)
                self._broker.metrics.connections_refused += 1
                writer.transport.abort()
                return
        self._broker.tasks.create_task(self._serve(connection, places, access))

    def _drop(self, connection: HttpConnection) -> None:
        """Closes a connection whose place another one got."""
        self._broker.metrics.connections_dropped += 1
        connection.close()

    async def _serve(self, connection: HttpConnection, places: Places[HttpConnection], access: Access) -> None:
        try:
            await connection.serve(places)
        except Exception:
            # Whatever it is, it is of this connection alone.
            LOGGER.exception("a connection over HTTP failed")
        finally:
            places.leave(connection)
            access.end()

    async def _openapi(self, asked: Asked) -> Reply:
        return json_reply(document_of(self._routes, _version(), is_asked_who=self._broker.settings.sasl))

    def told(self, error: WarrenError) -> str:
        """What a client is told of an error."""
        return self._broker.told("a client over HTTP", error)

    def find(self, head: Head) -> Found:
        """Who answers the request."""
        return self._routes.find(head.method, head.path)

    async def begin(
        self, head: Head, found: Found, access: Access, spending: Spending, is_gone: Callable[[], bool]
    ) -> Finish:
        """See whether the request is taken: by who sends it, by what they may do, and by what they have used."""
        access.check_place(head)
        if found.route.is_free:
            return self._finish(
                found.route, Asked(broker=self._broker, peer=access.stranger(head), row=found.route.row), head
            )
        if self._broker.is_stopping:
            raise Stopping
        peer = await access.peer_of(head)
        if not found.route.is_spared:
            spending.begin(peer)
        query = read_query(found.route, head.query)
        asked = Asked(
            broker=self._broker, peer=peer, row=found.route.row, path=found.path, query=query, is_gone=is_gone
        )
        # Before the body is read, and again when it is, because it may name more.
        asked.check()
        return spending.timed(self._finish(found.route, asked, head))

    def spending(self) -> Spending:
        """Returns what the requests of one connection use of the quotas."""
        return Spending(self._broker)

    def _finish(self, route: Route, asked: Asked, head: Head) -> Finish:
        async def finish(data: bytes) -> Reply:
            if route.body is None:
                if data:
                    raise BadInput(f"{route.method} {route.path} takes no body")
                return await route.handle(asked)
            _check_kind(head)
            whole = dataclasses.replace(asked, body=await self._body(route.body, data))
            whole.check()
            return await route.handle(whole)

        return finish

    async def _body(self, shape: Fields, data: bytes) -> Any:
        if len(data) <= HTTP_LOOP_SIZE_MAX:
            return shape.take(read_json(data), "body")
        return await self._broker.in_thread(lambda: shape.take(read_json(data), "body"))

    async def finish(self) -> None:
        """Answer what was taken, no longer than the broker may take to stop; then close all connections."""
        loop = asyncio.get_running_loop()
        while any(each.is_working for each in self._open()) and loop.time() < self._broker.stop_by_s:
            await asyncio.sleep(LOOK_S)
        for connection in self._open():
            connection.close()

    def _open(self) -> list[HttpConnection]:
        return [*self._places, *self._spare_places]


class Talk:
    """What one connection says, and to whom: its requests share what is known of who asks.

    If the connection has a spare place, `full` says why, and nothing but health and metrics is answered.
    """

    def __init__(self, gateway: Gateway, access: Access) -> None:
        self._gateway, self._access = gateway, access
        self._route = NO_ROUTE
        self._spending = gateway.spending()
        self.full: Full | None = None

    @property
    def is_last(self) -> bool:
        return self.full is not None

    async def begin(self, head: Head, is_gone: Callable[[], bool]) -> Finish:
        found = self._gateway.find(head)
        self._route = f"{found.route.method} {found.route.path}"
        if self.full is not None and not found.route.is_spared:
            whose = "" if self.full.host is None else f" from {self.full.host}"
            raise TooMany(f"connections over HTTP{whose}", self.full.open_count)
        return await self._gateway.begin(head, found, self._access, self._spending, is_gone)

    def told(self, error: WarrenError) -> str:
        return self._gateway.told(error)

    def answered(self, status: int, size_in: int, size_out: int) -> None:
        self._gateway.counts.answered(self._route, status, size_in, size_out)
        self._spending.end(size_in, size_out)
        self._route = NO_ROUTE


def _check_kind(head: Head) -> None:
    kind = head.headers.get("content-type", "")
    name, _, more = kind.partition(";")
    if name.strip().lower() != JSON or more.strip().lower().replace('"', "") not in ("", "charset=utf-8"):
        raise NotAcceptedKind(kind[:100], JSON)


def read_json(data: bytes) -> Any:
    """The value that JSON stands for. Raises BadInput if it is no JSON, or has more than HTTP_ELEMENTS_MAX values."""
    if count_elements(data) > HTTP_ELEMENTS_MAX:
        raise BadInput(f"body: more than {HTTP_ELEMENTS_MAX} values")
    try:
        return json.loads(data, parse_constant=_no_constant)
    except RecursionError:
        raise BadInput("body: JSON that is nested too deeply") from None
    except ValueError as error:
        raise BadInput(f"body: not JSON: {error}") from None


def count_elements(data: bytes) -> int:
    """How many values JSON has at most, counted without reading it: commas and brackets outside of its strings.

    Every step is one call that takes milliseconds. Reading would hold the interpreter for a second if a body of some
    megabytes were nothing but brackets.
    """
    count = _separators(data)
    if count <= HTTP_ELEMENTS_MAX:
        return count
    # Without what is escaped, strings are what stands between one quote and the next.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes = plain.count(b'"')
    if quotes > 4 * HTTP_ELEMENTS_MAX:
        # A value has two quotes, or four with its name.
        return quotes // 4
    return sum(map(_separators, plain.split(b'"')[::2]))


def _separators(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _no_constant(name: str) -> Any:
    raise BadInput(f"body: not JSON: {name}")


def _version() -> str:
    try:
        return version("warren")
    except PackageNotFoundError:
        return UNKNOWN_VERSION
