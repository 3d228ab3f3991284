"""The HTTP side port, which runs in the broker's event loop and ends with the broker."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final, cast

from warren.broker.configuration import Configuration
from warren.broker.net.places import BROKER_BACKLOG, ConnectionPlaces, Full, Reservation, is_loopback
from warren.broker.net.tls_listener import TlsListener, bound_sockets
from warren.errors import BadInput, CannotListen, NotAcceptedKind, Stopping, TooMany, WarrenError
from warren.gateway.http.auth import Access
from warren.gateway.http.charges import Spending
from warren.gateway.http.connection import Finish, HttpConnection
from warren.gateway.http.counts import NO_ROUTE, Counts
from warren.gateway.http.openapi import document_of
from warren.gateway.http.routes import HttpHandler, Route, RouteMatch, Routes, read_query
from warren.gateway.http.schemas import Fields
from warren.gateway.http.types import JSON, HttpReply, HttpRequest, RequestHead, json_reply
from warren.gateway.route_table import routes_of, slave_routes

if TYPE_CHECKING:
    from warren.broker.broker import Broker
    from warren.broker.cluster.replica_host import ReplicaHost

LOGGER: Final = logging.getLogger("warren.gateway")
HTTP_CONNECTIONS_MAX: Final = 256
HTTP_SPARE_CONNECTIONS_MAX: Final = 16
"""Extra connections that may only request health and metrics."""
HTTP_ELEMENTS_MAX: Final = 50_000
"""The largest number of values in the JSON of a request. Parsing more would hold up every other thread."""
HTTP_LOOP_SIZE_MAX: Final = 16 << 10
"""Up to this size, JSON is parsed on the event loop; above it, on a thread."""
POLL_S: Final = 0.01
STATE_PATHS: Final = ("/v1/topics", "/v1/groups", "/v1/statistics")
"""Routes without a body below these paths show ends of logs and positions of groups."""
UNKNOWN_VERSION: Final = "0"


class SidePort:
    """The HTTP port of one process: that of a broker. In a cluster it serves a replica first, until that one leads.

    `is_local`: only this machine reaches the address. Calls `on_listening` with the address once it listens. Only the
    event loop's thread may use it.
    """

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        *,
        is_local: bool,
        on_listening: Callable[[str, int], None] = lambda host, port: None,
    ) -> None:
        self._host, self._port, self._tls, self._is_local = host, port, tls, is_local
        self._on_listening = on_listening
        self._counts = Counts()
        self._gateway: Gateway | None = None
        self._server: asyncio.Server | TlsListener | None = None

    @asynccontextmanager
    async def serving(self, broker: Broker) -> AsyncIterator[None]:
        """Serves a broker, at the address at which its replica was served."""
        replica, gateway = self._gateway, self._made(broker, routes_of)
        self._gateway = gateway
        if replica is not None:
            replica.send_clients_away()
        server = self._server or await self._listen(broker.tasks)
        try:
            yield
        finally:
            server.close()
            await gateway.finish()

    @asynccontextmanager
    async def following(self, host: ReplicaHost) -> AsyncIterator[None]:
        """Serves a replica that does not lead: its health and its metrics."""
        # The routes of a slave use nothing but what this class has.
        gateway = self._gateway = self._made(cast("Broker", host), partial(slave_routes, host))
        server = await self._listen(host.tasks)
        try:
            yield
        finally:
            server.close()
            gateway.send_clients_away()

    def _made(self, broker: Broker, routes: Callable[[HttpHandler, Counts], Routes]) -> Gateway:
        return Gateway(broker, routes, self._counts, is_local=self._is_local, is_secret=self._tls is not None)

    async def _listen(self, tasks: asyncio.TaskGroup) -> asyncio.Server | TlsListener:
        host, port, tls = self._host, self._port, self._tls
        try:
            if tls is None:
                server: asyncio.Server | TlsListener = await asyncio.start_server(
                    lambda reader, writer: self._present.connected(reader, writer), host, port, backlog=BROKER_BACKLOG
                )
            else:
                sockets = await bound_sockets(host, port)
                server = TlsListener(
                    sockets,
                    tls,
                    lambda host, close: self._present.reserve(host, close),
                    lambda reservation: self._present.protocol(reservation),
                    tasks,
                )
        except OSError as error:
            number = error.errno or 0
            raise CannotListen(host, port, os.strerror(number) if number > 0 else str(error)) from error
        self._server = server
        address = server.sockets[0].getsockname()[:2]
        LOGGER.info("HTTP on %s:%d", *address)
        self._on_listening(*address)
        return server

    @property
    def _present(self) -> Gateway:
        assert self._gateway is not None
        return self._gateway


def http_side_server(configuration: Configuration, tls: ssl.SSLContext | None) -> SidePort:
    """Returns the side port as configured."""
    host, port = configuration["http.host"], configuration["http.port"]
    return SidePort(host, port, tls, is_local=is_loopback(host))


class Gateway:
    """The side port of one broker, or of one replica that does not lead. Only the event loop's thread may use it.

    Every connection is a task of the broker. While the broker stops, only the health checks work.
    """

    def __init__(
        self,
        broker: Broker,
        routes: Callable[[HttpHandler, Counts], Routes],
        counts: Counts,
        *,
        is_local: bool,
        is_secret: bool,
    ) -> None:
        self._broker, self._is_local, self._is_secret = broker, is_local, is_secret
        self.counts = counts
        self._routes = routes(self._openapi, self.counts)
        self.is_over = False
        """Whether each connection closes after the request that is in progress."""
        self._places: ConnectionPlaces[HttpConnection] = ConnectionPlaces(
            HTTP_CONNECTIONS_MAX,
            self._drop,
            per_address_max=broker.limits.http_connections_max_per_address,
            of_address=broker.limits.of_address,
        )
        self._spare_places: ConnectionPlaces[HttpConnection] = ConnectionPlaces(HTTP_SPARE_CONNECTIONS_MAX, self._drop)

    def reserve(self, host: str, close: Callable[[], None]) -> Reservation | None:
        """Reserves a place, or a spare one, for a connection whose TLS handshake begins.

        Returns None if there is none.
        """

        def drop() -> None:
            self._broker.metrics.connections_dropped += 1
            close()

        place = self._places.reserve(host, drop)
        if isinstance(place, Full):
            spare = self._spare_places.reserve(host, drop)
            if isinstance(spare, Full):
                self._refuse(host, place)
                return None
            return spare
        return place

    def protocol(self, reservation: Reservation) -> asyncio.StreamReaderProtocol:
        """Returns the protocol of a connection that is served once its TLS handshake is done."""
        connected = partial(self.connected, reservation=reservation)
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), connected)

    def connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reservation: Reservation | None = None
    ) -> None:
        """Serves a new connection, which takes the place of its reservation.

        If requests in progress use all places, it gets a spare place, which serves only health and metrics.
        """
        host = (writer.get_extra_info("peername") or ("",))[0]
        close = writer.transport.abort
        access = Access(self._broker, close, is_local=self._is_local, is_secret=self._is_secret)
        session = HttpSession(self, access)
        connection = HttpConnection(reader, writer, session, self._broker.budget)
        if reservation is not None:
            reservation.leave()
        # Admitted here and not in the task, because many connections may come before the first task runs.
        places, session.full = self._places, self._places.admit(connection, host)
        if session.full is not None:
            places = self._spare_places
            if places.admit(connection, host) is not None:
                self._refuse(host, session.full)
                writer.transport.abort()
                return
        self._broker.tasks.create_task(self._serve(connection, places, access))

    def _refuse(self, host: str, full: Full) -> None:
        self._broker.metrics.connections_refused += 1
        LOGGER.warning("connection over HTTP of %s refused: %s", host, full)

    def _drop(self, connection: HttpConnection) -> None:
        """Closes a connection whose place was given to another one."""
        self._broker.metrics.connections_dropped += 1
        connection.close()

    async def _serve(
        self, connection: HttpConnection, places: ConnectionPlaces[HttpConnection], access: Access
    ) -> None:
        try:
            await connection.serve(places)
        except Exception:
            # An unexpected exception must end this connection only.
            LOGGER.exception("a connection over HTTP failed")
        finally:
            places.leave(connection)
            access.end()

    async def _openapi(self, request: HttpRequest) -> HttpReply:
        return json_reply(document_of(self._routes, _version(), needs_login=self._broker.settings.sasl))

    def error_text(self, error: WarrenError) -> str:
        """Returns the text of an error for a client."""
        return self._broker.client_message("a client over HTTP", error)

    def find(self, head: RequestHead) -> RouteMatch:
        """Returns the route of a request."""
        return self._routes.find(head.method, head.path)

    async def begin(
        self, head: RequestHead, match: RouteMatch, access: Access, spending: Spending, is_gone: Callable[[], bool]
    ) -> Finish:
        """Decides whether the request is accepted: checks login, quota, query and rights.

        Returns the function that handles it.
        """
        access.check_place(head)
        if match.route.refusal is not None:
            raise match.route.refusal(head.target)
        if match.route.is_free:
            return self._finish(
                match.route, HttpRequest(broker=self._broker, peer=access.stranger(head), row=match.route.row), head
            )
        if self._broker.is_stopping:
            raise Stopping
        peer = await access.peer_of(head)
        if not match.route.is_spared:
            spending.begin(peer)
        query = read_query(match.route, head.query)
        request = HttpRequest(
            broker=self._broker, peer=peer, row=match.route.row, path=match.path, query=query, is_gone=is_gone
        )
        topic = match.path.get("topic")
        if topic is not None and (closed := self._broker.open_topics.closed((topic,))):
            await self._broker.open_topics.open(closed)
        # Checked here and again with the body, because the body may name further resources.
        request.check()
        return spending.timed(self._finish(match.route, request, head))

    def spending(self) -> Spending:
        """Returns the object that charges the requests of one connection to the quotas."""
        return Spending(self._broker.quotas, self._broker.metrics.now)

    def _finish(self, route: Route, request: HttpRequest, head: RequestHead) -> Finish:
        async def finish(data: bytes) -> HttpReply:
            if route.body is None:
                if data:
                    raise BadInput(f"{route.method} {route.path} accepts no body")
                reply = await route.handle(request)
                self._check_ends(route)
                return reply
            _check_kind(head)
            whole = dataclasses.replace(request, body=await self._body(route.body, data))
            whole.check()
            return await route.handle(whole)

        return finish

    def _check_ends(self, route: Route) -> None:
        """Raises NotMaster if the reply shows the state of topics or groups, and another broker may lead by now."""
        if route.path.startswith(STATE_PATHS):
            error = self._broker.leadership.refusal_of_ends()
            if error is not None:
                raise error

    async def _body(self, shape: Fields, data: bytes) -> Any:
        if len(data) <= HTTP_LOOP_SIZE_MAX:
            return shape.take(read_json(data), "body")
        return await self._broker.in_thread(lambda: shape.take(read_json(data), "body"))

    def send_clients_away(self) -> None:
        """Closes each connection as soon as it has no request in progress, so that its client connects again."""
        self.is_over = True
        for connection in self._open():
            if not connection.is_working:
                connection.close()

    async def finish(self) -> None:
        """Waits for accepted requests, at most until the broker must stop; then closes all connections."""
        loop = asyncio.get_running_loop()
        while any(each.is_working for each in self._open()) and loop.time() < self._broker.stop_by_s:
            await asyncio.sleep(POLL_S)
        for connection in self._open():
            connection.close()

    def _open(self) -> list[HttpConnection]:
        return [*self._places, *self._spare_places]


class HttpSession:
    """The requests of one connection, which share its login.

    If the connection has a spare place, `full` is the reason, and only health and metrics are served.
    """

    def __init__(self, gateway: Gateway, access: Access) -> None:
        self._gateway, self._access = gateway, access
        self._route = NO_ROUTE
        self._spending = gateway.spending()
        self.full: Full | None = None

    @property
    def is_last(self) -> bool:
        return self.full is not None or self._gateway.is_over

    async def begin(self, head: RequestHead, is_gone: Callable[[], bool]) -> Finish:
        match = self._gateway.find(head)
        self._route = f"{match.route.method} {match.route.path}"
        if self.full is not None and not match.route.is_spared:
            origin = "" if self.full.host is None else f" from {self.full.host}"
            raise TooMany(f"connections over HTTP{origin}", self.full.open_count)
        return await self._gateway.begin(head, match, self._access, self._spending, is_gone)

    def error_text(self, error: WarrenError) -> str:
        return self._gateway.error_text(error)

    def answered(self, status: int, size_in: int, size_out: int) -> None:
        self._gateway.counts.answered(self._route, status, size_in, size_out)
        self._spending.end(size_in, size_out)
        self._route = NO_ROUTE


def _check_kind(head: RequestHead) -> None:
    kind = head.headers.get("content-type", "")
    name, _, more = kind.partition(";")
    if name.strip().lower() != JSON or more.strip().lower().replace('"', "") not in ("", "charset=utf-8"):
        raise NotAcceptedKind(kind[:100], JSON)


def read_json(data: bytes) -> Any:
    """Returns the value of a JSON text. Raises BadInput if it is not JSON or has more than HTTP_ELEMENTS_MAX values."""
    if count_elements(data) > HTTP_ELEMENTS_MAX:
        raise BadInput(f"body: more than {HTTP_ELEMENTS_MAX} values")
    try:
        return json.loads(data, parse_constant=_no_constant)
    except RecursionError:
        raise BadInput("body: JSON that is nested too deeply") from None
    except ValueError as error:
        raise BadInput(f"body: not JSON: {error}") from None


def count_elements(data: bytes) -> int:
    """Returns an upper bound of the number of values, without parsing: commas and brackets outside strings.

    Each step is one call that takes milliseconds. Parsing a body of some megabytes of brackets would hold the
    interpreter for a second.
    """
    count = _separators(data)
    if count <= HTTP_ELEMENTS_MAX:
        return count
    # Without escaped characters, a string is the text between one quote and the next.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes = plain.count(b'"')
    if quotes > 4 * HTTP_ELEMENTS_MAX:
        # A value has at most two quotes, or four with its name.
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
