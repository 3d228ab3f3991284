"""Forwarder: passes a request of a Kafka client on to the master, for what any broker of a cluster answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from warren.broker.cluster.master_link import log_in, loss_of
from warren.broker.cluster.node_setup import NodeSetup
from warren.errors import ConnectionLost, LoginFailed, ProtocolError
from warren.protocol.api_keys import APIS
from warren.protocol.headers import Request, read_response_head, request_frame
from warren.protocol.limits import ANSWER_SIZE_MAX
from warren.protocol.native.calls import read_answer, request_bytes
from warren.protocol.primitives import INT32, UNREADABLE
from warren.protocol.wire_struct import WireRequest

CLIENT_ID: Final = "warren replica"
FORWARD_S: Final = 10.0
CONNECT_S: Final = 2.0


class Forwarder:
    """One connection to the master, made when it is needed. Requests go one after the other. For the event loop.

    `address` returns the host and port of the master; None if there is none. If replicas log in, the master takes the
    requests for those of this replica, so the caller checks the rights of the client.
    """

    def __init__(self, address: Callable[[], tuple[str, int] | None], setup: NodeSetup) -> None:
        self._address, self._setup = address, setup
        self._lock = asyncio.Lock()
        self._streams: tuple[tuple[str, int], asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._correlation_id = 0

    async def ask(self, request: Request) -> list[memoryview]:
        """Returns the body of the master's answer. Raises ConnectionLost if it does not answer."""
        async with self._lock:
            address = self._address()
            if address is None:
                raise ConnectionLost("the master", "there is none now")
            try:
                async with asyncio.timeout(FORWARD_S):
                    return [await self._exchange(address, request)]
            except (OSError, EOFError, TimeoutError, ProtocolError, LoginFailed) as error:
                self.close()
                where = f"{address[0]}:{address[1]}"
                raise ConnectionLost(where, loss_of(where, error)) from error

    async def _exchange(self, address: tuple[str, int], request: Request) -> memoryview:
        if self._streams is None or self._streams[0] != address:
            self.close()
            await self._connect(address)
        self._correlation_id += 1
        is_flexible = APIS[request.api_key].is_flexible(request.version)
        frame = request_frame(request._replace(correlation_id=self._correlation_id), is_flexible=is_flexible)
        answer = await self._sent(INT32.pack(len(frame)) + frame)
        try:
            answered_id, _, position = read_response_head(answer, is_flexible=is_flexible)
        except UNREADABLE as error:
            raise OSError(str(error)) from error
        if answered_id != self._correlation_id:
            raise OSError(f"an answer to request {answered_id}, not {self._correlation_id}")
        return answer[position:]

    async def _connect(self, address: tuple[str, int]) -> None:
        user = self._setup.user
        async with asyncio.timeout(CONNECT_S):
            self._streams = address, *await asyncio.open_connection(*address, ssl=self._setup.tls)
            if user is not None:
                await log_in(user.login, f"{address[0]}:{address[1]}", self._ask)

    async def _ask(self, request: WireRequest[Any], version: int) -> Any:
        """Sends a request of the login, and returns its answer."""
        self._correlation_id += 1
        answer = await self._sent(request_bytes(request, version, self._correlation_id, CLIENT_ID))
        return read_answer(request, version, self._correlation_id, answer)

    async def _sent(self, data: bytes) -> memoryview:
        """Sends a request, and returns the frame of its answer."""
        assert self._streams is not None
        _, reader, writer = self._streams
        writer.write(data)
        (size,) = INT32.unpack(await reader.readexactly(INT32.size))
        if not 0 <= size <= ANSWER_SIZE_MAX:
            raise OSError(f"an answer of {size} bytes")
        return memoryview(await reader.readexactly(size))

    def close(self) -> None:
        """Ends the connection. The next request makes another one."""
        if self._streams is not None:
            with suppress(OSError):
                self._streams[2].transport.abort()
            self._streams = None
