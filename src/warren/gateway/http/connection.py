"""One HTTP/1.1 connection: a request, its reply, and the next one, each within limits of size and time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import h11

from warren.broker.services.memory_budget import MEMORY_SMALL_SIZE_MAX, MemoryKind
from warren.errors import TooLarge, TooMany, WarrenError
from warren.gateway.http.limits import HTTP_BODY_SIZE_MAX
from warren.gateway.http.problems import failure, malformed, problem
from warren.gateway.http.types import HttpReply, RequestHead

if TYPE_CHECKING:
    from warren.broker.net.places import ConnectionPlaces
    from warren.broker.services.memory_budget import MemoryBudget

LOGGER: Final = logging.getLogger("warren.gateway")
HTTP_HEAD_SIZE_MAX: Final = 32 << 10
"""The first line and the headers of a request."""
HTTP_IDLE_S_MAX: Final = 60.0
"""How long a connection may stay idle before the next request begins."""
HTTP_HEAD_S_MAX: Final = 10.0
"""How long the head of a request may take, from its first byte on.

For the first request: from the start of the connection on.
"""
HTTP_RECEIVE_S_MAX: Final = 60.0
"""How long the body of a request may take to arrive."""
HTTP_SEND_S_MAX: Final = 30.0
"""How long a client may take to receive a reply."""
HTTP_LINGER_S_MAX: Final = 2.0
"""How long further input is read and discarded, so that the client can receive the refusal."""
READ_SIZE: Final = 64 << 10
HTTP_PIECE_SIZE: Final = 256 << 10
"""The transport gets about this many bytes of a reply at a time."""
CONTINUE: Final = 100
TOO_LARGE_HEAD: Final = 431

T = TypeVar("T")
Finish = Callable[[bytes], Awaitable[HttpReply]]
"""Handles a request whose head was accepted. It gets the body."""


class Answerer(Protocol):
    """Decides by its head whether a request is accepted, and builds the text of errors.

    A WarrenError that `begin` raises becomes the reply. `answered` is called once for each reply. `is_last` says
    whether the connection is closed after its first reply.
    """

    @property
    def is_last(self) -> bool: ...
    async def begin(self, head: RequestHead, is_gone: Callable[[], bool]) -> Finish: ...
    def error_text(self, error: WarrenError) -> str: ...
    def answered(self, status: int, size_in: int, size_out: int) -> None: ...


class HttpConnection:
    """The connection of one client. Only the event loop's thread may use it.

    Invariant: a body is read only after its head was accepted. Its bytes and those of the reply are charged to the
    memory budget that all connections of the broker share.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answerer: Answerer, budget: MemoryBudget
    ) -> None:
        self._reader, self._writer, self._answerer, self._budget = reader, writer, answerer, budget
        self._machine = h11.Connection(h11.SERVER, max_incomplete_event_size=HTTP_HEAD_SIZE_MAX)
        self._taken = 0
        host = (writer.get_extra_info("peername") or ("",))[0]
        self._answer = budget.hold(MemoryKind.ANSWERS, 0, host)
        self._is_new = True
        self.is_working = False
        """Whether a request is in progress."""

    async def serve(self, places: ConnectionPlaces[HttpConnection]) -> None:
        """Handles one request after the other, until either side closes the connection.

        While no request is in progress, `places` may give the connection's place to another connection.
        """
        try:
            while await self._exchange(places):
                self._machine.start_next_cycle()
            if self._machine.their_state in (h11.SEND_BODY, h11.ERROR):
                await self._linger()
        except (OSError, TimeoutError, h11.LocalProtocolError):
            # The client has disconnected, or is too slow.
            pass
        finally:
            self._give_back()
            self._writer.close()

    async def _linger(self) -> None:
        """Reads and discards what the client still sends, because closing now could lose the reply."""
        if self._writer.can_write_eof():
            self._writer.write_eof()
        async with asyncio.timeout(HTTP_LINGER_S_MAX):
            while await self._reader.read(READ_SIZE):
                pass

    async def _exchange(self, places: ConnectionPlaces[HttpConnection]) -> bool:
        """Handles one request. Returns whether another one may follow."""
        try:
            head = await self._receive_head()
            if head is None:
                return False
            self.is_working = True
            places.settle(self)
            await self._send(await self._answered(head), head.method)
        except h11.RemoteProtocolError as error:
            await self._send(malformed(error.error_status_hint, str(error)), "")
            return False
        finally:
            self.is_working = False
            places.unsettle(self)
            self._give_back()
        return self._machine.our_state is h11.DONE and self._machine.their_state is h11.DONE

    async def _answered(self, head: RequestHead) -> HttpReply:
        finish = await _result_or_problem(self._answerer.begin(head, self._is_gone), self._answerer)
        if isinstance(finish, HttpReply):
            return finish
        try:
            body = await self._receive_body(head)
        except WarrenError as error:
            return problem(error, self._answerer.error_text(error))
        return await _result_or_problem(finish(body), self._answerer)

    def _is_gone(self) -> bool:
        return self._reader.at_eof() or self._writer.is_closing()

    # --- Receiving ---

    async def _receive_head(self) -> RequestHead | None:
        is_begun = self._is_new or bool(self._machine.trailing_data[0])
        self._is_new = False
        if not is_begun:
            async with asyncio.timeout(HTTP_IDLE_S_MAX):
                self._machine.receive_data(await self._reader.read(READ_SIZE))
        async with asyncio.timeout(HTTP_HEAD_S_MAX):
            event = await self._next()
        if not isinstance(event, h11.Request):
            return None
        size = len(event.target) + sum(len(name) + len(value) for name, value in event.headers)
        if size > HTTP_HEAD_SIZE_MAX:
            # h11 checks the size only of a head that is not complete yet.
            raise h11.RemoteProtocolError("the head of the request is too large", error_status_hint=TOO_LARGE_HEAD)
        path, _, query = event.target.decode("latin-1").partition("?")
        host, port = (self._writer.get_extra_info("peername") or ("", 0))[:2]
        headers: dict[str, str] = {}
        for name, value in event.headers:
            key = name.decode("latin-1").lower()
            # A header that comes more than once means the same as one header with all the values.
            headers[key] = f"{headers[key]}, {value.decode('latin-1')}" if key in headers else value.decode("latin-1")
        return RequestHead(
            method=event.method.decode("latin-1"), path=path, query=query, headers=headers, host=host, port=port
        )

    async def _receive_body(self, head: RequestHead) -> bytes:
        length = head.headers.get("content-length", "0")
        announced = int(length) if length.isdecimal() else 0
        if announced > HTTP_BODY_SIZE_MAX:
            raise TooLarge("the body of a request", announced, HTTP_BODY_SIZE_MAX)
        # Charged before it arrives: otherwise many incomplete bodies would exceed the budget together.
        self._take_body(announced)
        if self._machine.they_are_waiting_for_100_continue:
            await self._write(h11.InformationalResponse(status_code=CONTINUE, headers=[]))
        parts: list[bytes] = []
        size = 0
        async with asyncio.timeout(HTTP_RECEIVE_S_MAX):
            while True:
                event = await self._next()
                if not isinstance(event, h11.Data):
                    return b"".join(parts)
                size += len(event.data)
                if size > HTTP_BODY_SIZE_MAX:
                    raise TooLarge("the body of a request", size, HTTP_BODY_SIZE_MAX)
                if not announced:
                    self._take_body(len(event.data))
                parts.append(bytes(event.data))

    async def _next(self) -> Any:
        """Returns the next event. The caller sets a timeout."""
        while True:
            event = self._machine.next_event()
            if event is not h11.NEED_DATA:
                return event
            self._machine.receive_data(await self._reader.read(READ_SIZE))

    # --- Sending ---

    async def _send(self, reply: HttpReply, method: str) -> None:
        self._answerer.answered(reply.status, self._taken, len(reply.body))
        self._answer.resize(len(reply.body))
        headers = [
            ("Content-Type", reply.kind),
            ("Content-Length", str(len(reply.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            *reply.headers.items(),
        ]
        if not reply.body:
            headers = headers[2:]
        if self._answerer.is_last or self._machine.their_state not in (h11.DONE, h11.IDLE):
            # The rest of the request is not read.
            headers.append(("Connection", "close"))
        if self._machine.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        parts: list[Any] = [h11.Response(status_code=reply.status, headers=headers)]
        if reply.body and method != "HEAD":
            parts.append(h11.Data(data=reply.body))
        await self._write(*parts, h11.EndOfMessage())

    async def _write(self, *events: Any) -> None:
        data = memoryview(b"".join(self._machine.send(event) or b"" for event in events))
        async with asyncio.timeout(HTTP_SEND_S_MAX):
            # In pieces, because a TLS transport does not count bytes that it has encrypted, so a large reply in one
            # piece would seem to be sent.
            for at in range(0, len(data), HTTP_PIECE_SIZE):
                self._writer.write(data[at : at + HTTP_PIECE_SIZE])
                await self._writer.drain()

    # --- Memory ---

    def _take_body(self, size: int) -> None:
        """Charges `size` bytes of a body. Raises TooMany if the body is large and the budget is used up."""
        if self._taken + size > MEMORY_SMALL_SIZE_MAX and self._budget.size + size > self._budget.size_max:
            self._budget.refusals += 1
            raise TooMany("bytes of requests in progress", self._budget.size_max)
        self._take(size)

    def _take(self, size: int) -> None:
        self._taken += size
        self._budget.take(size)

    def _give_back(self) -> None:
        self._answer.release()
        size, self._taken = self._taken, 0
        if size:
            self._budget.give_back(size)

    def close(self) -> None:
        """Closes the connection now, even if a request is in progress."""
        self._writer.transport.abort()


async def _result_or_problem(work: Awaitable[T], answerer: Answerer) -> T | HttpReply:
    """Returns the result of `work`, or the reply for the error that it raised."""
    try:
        return await work
    except WarrenError as error:
        return problem(error, answerer.error_text(error))
    except Exception:
        LOGGER.exception("a request over HTTP could not be answered")
        return failure()
