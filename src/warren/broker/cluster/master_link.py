"""MasterLink: a slave's connection to its master. One request at a time; its answer, or the loss, comes as a call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from warren.broker.cluster.node_setup import NodeSetup
from warren.broker.cluster.replica_login import log_in, loss_of
from warren.broker.security.replica_user import ReplicaUser
from warren.errors import LoginFailed, WarrenError
from warren.protocol.frames import FrameReader
from warren.protocol.limits import ANSWER_SIZE_MAX
from warren.protocol.native.calls import VERSION, checked, read_answer, request_bytes
from warren.protocol.wire_struct import WireRequest

CLIENT_ID: Final = "warren replica"
CONNECT_S: Final = 1.0


class MasterLink(asyncio.BufferedProtocol):
    """A connection to a master. For the event loop's thread alone.

    `answered` gets each answer and `lost` the reason, once, if the connection ends other than by `close`. After either
    `lost` or `close` nothing is called any more.
    """

    def __init__(self, answered: Callable[[Any], None], lost: Callable[[str], None]) -> None:
        self._answered, self._lost = answered, lost
        self._frames = FrameReader(ANSWER_SIZE_MAX)
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._request: WireRequest[Any] | None = None
        self._answer: asyncio.Future[Any] | None = None
        """Gets the answer to a request of the login; None after it."""
        self._login: ReplicaUser | None = None
        """As which it logs in now."""
        self._address = ""
        self._correlation_id = self._version = 0
        self._is_closed = False

    def connect(self, host: str, port: int, setup: NodeSetup, first: WireRequest[Any]) -> None:
        """Connects in the background, logs in if replicas have to, and sends the first request."""
        self._address = f"{host}:{port}"
        loop = asyncio.get_running_loop()
        self._connecting = loop.create_task(self._connect(host, port, setup, first))

    async def _connect(self, host: str, port: int, setup: NodeSetup, first: WireRequest[Any]) -> None:
        loop, user = asyncio.get_running_loop(), setup.user
        try:
            if user is not None:
                await asyncio.sleep(user.pause_s(loop.time()))
            async with asyncio.timeout(CONNECT_S):
                await loop.create_connection(lambda: self, host, port, ssl=setup.tls)
                if user is not None:
                    self._login = user
                    await log_in(user.login, self._address, self._ask)
                    self._login = None
            self.send(first)
        except (OSError, TimeoutError, WarrenError) as error:
            if self._login is not None and isinstance(error, LoginFailed | TimeoutError):
                self._login.failed(loop.time())
            self._fail(loss_of(self._address, error))

    async def _ask(self, request: WireRequest[Any], version: int) -> Any:
        """Sends a request of the login, and returns its answer."""
        self._answer = asyncio.get_running_loop().create_future()
        self._write(request, version)
        return await self._answer

    def send(self, request: WireRequest[Any]) -> None:
        """Sends a request. The answer to the last one must have come."""
        self._answer = None
        self._write(request, VERSION)

    def _write(self, request: WireRequest[Any], version: int) -> None:
        if self._transport is None or self._is_closed:
            return
        self._request, self._version = request, version
        self._correlation_id += 1
        self._transport.write(request_bytes(request, version, self._correlation_id, CLIENT_ID))

    def close(self) -> None:
        """Ends the connection. Calls nothing."""
        if self._login is not None:
            # The master delays its answer after failed logins.
            self._login.failed(asyncio.get_running_loop().time())
        self._end()

    def _end(self) -> None:
        self._is_closed, self._login = True, None
        if self._connecting is not None:
            self._connecting.cancel()
        if self._transport is not None:
            self._transport.abort()

    # --- Callbacks of the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._is_closed:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.received(nbytes):
                request, self._request = self._request, None
                if request is None or self._is_closed:
                    return
                answer: Any = read_answer(request, self._version, self._correlation_id, frame)
                if self._answer is None:
                    self._answered(checked(answer))
                elif not self._answer.done():
                    self._answer.set_result(answer)
        except WarrenError as error:
            self._fail(f"{self._address}: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._frames.close()
        self._fail(loss_of(self._address, exc))

    def _fail(self, reason: str) -> None:
        if not self._is_closed:
            self._end()
            self._lost(reason)
