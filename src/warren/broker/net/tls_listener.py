"""TlsListener: accepts connections over TLS. Each of them takes its place before the handshake, and not after it."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from warren.broker.net.places import BROKER_BACKLOG, Reservation

ACCEPTS_AT_ONCE: Final = 16
"""How many connections are accepted before the event loop closes those that they took a place from."""
ACCEPT_AGAIN_S: Final = 1.0
"""How long to wait after an accept failed, because for example no descriptor is left."""
TLS_HANDSHAKE_S_MAX: Final = 5.0

LOGGER: Final = logging.getLogger("warren.broker")
Reserve = Callable[[str, Callable[[], None]], Reservation | None]
"""Keeps a place for a connection, given its host and what closes it. Returns None if there is no place."""
ProtocolFactory = Callable[[Reservation], asyncio.BaseProtocol]
"""Makes the protocol of a connection whose place is kept. `connection_made` is called after the handshake."""


async def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """Returns a socket for each address of `host`, bound as the event loop binds those of a server."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port, start_serving=False)
    sockets = [socket.fromfd(each.fileno(), each.family, each.type) for each in server.sockets]
    server.close()
    return sockets


class TlsListener:
    """Accepts connections on sockets that are bound. For the event loop's thread alone.

    A server of asyncio informs a protocol of its connection after the handshake. Until then nothing would count the
    connection, so that a client that opens connections and sends nothing could take all descriptors of the process.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        tls: ssl.SSLContext,
        reserve: Reserve,
        protocol_factory: ProtocolFactory,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self.sockets = sockets
        self._tls, self._reserve, self._protocol_factory, self._tasks = tls, reserve, protocol_factory, tasks
        self._loop = asyncio.get_running_loop()
        self._handshakes: dict[socket.socket, Reservation] = {}
        self._is_closed = False
        for each in sockets:
            each.setblocking(False)
            each.listen(BROKER_BACKLOG)
            self._watch(each)

    def _watch(self, listening: socket.socket) -> None:
        if not self._is_closed:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                client, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                LOGGER.warning("a connection could not be accepted: %s", error)
                # The socket stays readable: without a pause the event loop would only try again.
                self._loop.remove_reader(listening)
                self._loop.call_later(ACCEPT_AGAIN_S, self._watch, listening)
                return
            client.setblocking(False)
            reservation = self._reserve(address[0], partial(_shut, client))
            if reservation is None:
                client.close()
                continue
            self._handshakes[client] = reservation
            self._tasks.create_task(self._shake_hands(client, reservation))

    async def _shake_hands(self, client: socket.socket, reservation: Reservation) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._protocol_factory(reservation),
                client,
                ssl=self._tls,
                ssl_handshake_timeout=TLS_HANDSHAKE_S_MAX,
            )
        except OSError:
            # The client has disconnected, is too slow, or does not speak TLS. An error of TLS is an OSError too.
            pass
        finally:
            del self._handshakes[client]
            reservation.leave()

    def close(self) -> None:
        """Accepts no more connections, and ends the handshakes in progress. A second call does nothing."""
        self._is_closed = True
        for listening in self.sockets:
            if listening.fileno() >= 0:
                self._loop.remove_reader(listening)
                listening.close()
        for client, reservation in self._handshakes.items():
            reservation.leave()
            _shut(client)


def _shut(client: socket.socket) -> None:
    """Ends the handshake of a client: the transport, which owns the socket, sees the end of the stream and closes."""
    with suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)
