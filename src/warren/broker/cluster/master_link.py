"""MasterLink: a slave's connection to its master, and the login at another replica, by SCRAM.

One request at a time; its answer, or the loss, comes as a call.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, cast

from warren.broker.cluster.node_setup import NodeSetup
from warren.broker.security.replica_user import ReplicaUser
from warren.errors import LoginFailed, WarrenError
from warren.protocol.frames import FrameReader
from warren.protocol.kafka_messages import SaslAuthenticateRequest, SaslHandshakeRequest
from warren.protocol.limits import ANSWER_SIZE_MAX
from warren.protocol.login import Login
from warren.protocol.native.calls import VERSION, checked, read_answer, request_bytes
from warren.protocol.wire_struct import WireRequest

CLIENT_ID: Final = "warren replica"
CONNECT_S: Final = 1.0
HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 2
SAME_SECRET: Final = "the secret in cluster.secret_file must be the same on all replicas"
Ask = Callable[[WireRequest[Any], int], Awaitable[Any]]
"""Sends a request of a version over the connection, and returns its answer."""


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


async def log_in(login: Login, address: str, ask: Ask) -> None:
    """Logs in. Raises LoginFailed if the other replica refuses, or does not prove that it knows the secret."""
    mechanism = login.first
    handshake = await ask(SaslHandshakeRequest(mechanism=mechanism), HANDSHAKE_VERSION)
    if handshake.error_code:
        offers = f"it accepts {', '.join(handshake.mechanisms)}" if handshake.mechanisms else "it has no logins"
        raise LoginFailed(address, login.user, f"{offers}; [security] must be the same on all replicas")
    steps = login.steps(mechanism)
    token: bytes | None = next(steps)
    while token is not None:
        answer = await ask(SaslAuthenticateRequest(auth_bytes=token), AUTHENTICATE_VERSION)
        if answer.error_code:
            raise LoginFailed(address, login.user, f"{answer.error_message}; {SAME_SECRET}")
        # On a thread, because a salted password takes a tenth of a second.
        token, fault = await asyncio.to_thread(_next_token, steps, bytes(answer.auth_bytes))
        if fault:
            raise LoginFailed(address, login.user, f"{fault}; {SAME_SECRET}")


def _next_token(steps: Generator[bytes, bytes, str], answer: bytes) -> tuple[bytes | None, str]:
    """Returns the next token, or None at the end; and what is wrong with the other one's proof."""
    try:
        return steps.send(answer), ""
    except StopIteration as proved:
        return None, proved.value


def loss_of(address: str, error: BaseException | None) -> str:
    """Returns a sentence about a connection to another replica that `error` has ended."""
    if error is None:
        return f"{address}: the connection ended"
    if isinstance(error, LoginFailed):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"{address}: its certificate was not accepted: {error.verify_message}; "
            "tls.replica_ca names what has signed it, and it must have the host of this address"
        )
    if isinstance(error, ssl.SSLError) and "CERTIFICATE" in (error.reason or ""):
        alert = str(error.reason).rpartition("ALERT_")[2].replace("_", " ").lower()
        return f"{address}: it does not accept the certificate of this replica: {alert}"
    return f"{address}: {str(error) or type(error).__name__}"
