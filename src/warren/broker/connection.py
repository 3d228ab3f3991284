"""One connection: frames in, answers out in the order of their requests, never more of either than the limits say."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, cast

from warren.broker.call import Answer, Call, Later, Parked
from warren.broker.peer import Peer
from warren.config import AUTHENTICATION_S_MAX, AUTHENTICATION_SIZE_MAX, FIRST_BYTE_S_MAX
from warren.errors import ProtocolError, WarrenError
from warren.protocol.alike import RequestReader
from warren.protocol.frames import FrameReader
from warren.protocol.heads import Request, response_frame

if TYPE_CHECKING:
    from warren.broker.broker import Broker

LOGGER: Final = logging.getLogger("warren.broker")
UNKNOWN_KEY: Final = -1
"""All keys that are not served are counted as one: there are more of them than anybody wants to count."""


class Connection(asyncio.BufferedProtocol):
    """One client. For the event loop's thread alone.

    Invariant: one request at a time is worked on, the oldest; those behind it wait, and their bytes are taken from the
    budget of the connection and of the broker. Where either is used up, or the client does not read its answers,
    nothing more is read from it.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        is_known = not broker.settings.sasl
        self._frames = FrameReader(broker.limits.frame_size_max if is_known else AUTHENTICATION_SIZE_MAX)
        self._requests = RequestReader()
        # Bound here: it is called for each frame, and there is nothing to add.
        self.get_buffer = self._frames.buffer  # type: ignore[method-assign]
        self._waiting: deque[tuple[Request, int]] = deque()
        self._waiting_size = 0
        self._is_working = self._is_reading_paused = self._is_writing_paused = self._is_closing = False
        self._parked: Parked | None = None
        self._transport: asyncio.Transport | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._is_new = True
        self.peer = Peer("", 0)

    # --- What the transport tells ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        self.peer = Peer(host, port)
        if self._broker.settings.sasl:
            self.peer.welcome = self._welcome
            self._patience = asyncio.get_running_loop().call_later(FIRST_BYTE_S_MAX, self.abort)
        self._transport.set_write_buffer_limits(high=self._broker.limits.unsent_size_max)
        if not self._broker.admit(self):
            self._transport.abort()

    def _welcome(self) -> None:
        """It has shown who it is: it may take its time, and send as much as anybody, and keeps its place."""
        self._broker.connections.settle(self)
        self._frames.size_max = self._broker.limits.frame_size_max
        if self._patience is not None:
            self._patience.cancel()

    def _heard(self) -> None:
        """Restarts the clock of a connection that has to log in: its first byte has come."""
        if self._patience is not None:
            self._patience.cancel()
            self._patience = asyncio.get_running_loop().call_later(AUTHENTICATION_S_MAX, self.abort)
            self._is_new = False

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_new:
            self._heard()
        try:
            for frame in self._frames.received(nbytes):
                request, size = self._requests.read(frame), len(frame)
                if self._is_working or self._waiting or self._is_writing_paused or self._is_closing:
                    self._waiting.append((request, size))
                    self._count(size)
                elif self._begin(request, size):
                    # Of what is answered at once nothing waits.
                    self._count(size)
        except ProtocolError as error:
            # What follows cannot be made out, and nobody knows whose answer this would be.
            LOGGER.warning("connection of %s closed: %s", self.peer, error)
            self.abort()
            return
        if self._is_over_limits() or self._is_reading_paused:
            self._pause_or_resume()

    def eof_received(self) -> bool:
        # A client that has closed its side reads no answers.
        return False

    def pause_writing(self) -> None:
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._work()
        self._pause_or_resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        if self._patience is not None:
            self._patience.cancel()
        self._broker.budget.forget(self)
        self._give_back(self._waiting_size)
        self._waiting.clear()
        if self._parked is not None:
            self._parked.drop()
        self._broker.forget(self)

    # --- Requests, one after the other ---

    def _work(self) -> None:
        """Answer those that wait, until one of them is not answered at once."""
        while self._waiting and not (self._is_working or self._is_writing_paused or self._is_closing):
            request, size = self._waiting.popleft()
            if not self._begin(request, size):
                self._give_back(size)

    def _begin(self, request: Request, size: int) -> bool:
        """Answer a request, now or later; whether it is worked on from now on."""
        begun_s = self._broker.metrics.now()
        if self._is_new:
            # Without users to log in, a connection keeps its place once it has sent a whole request.
            self._is_new = False
            self._broker.connections.settle(self)
        try:
            found = self._broker.answer(Call(self._broker, self.peer, request))
        except WarrenError as error:
            self._refuse(request, error)
            return False
        except Exception as error:  # noqa: BLE001  # It is logged, and ends no other connection.
            self._fail(request, error)
            return False
        if type(found) is list or found is None:
            self._reply(request, size, found, begun_s)
            return False
        if isinstance(found, Later):
            found.told = functools.partial(self._told, request, size, begun_s)
            if type(found) is Parked:
                self._parked = found
        elif inspect.isawaitable(found):
            self._broker.tasks.create_task(self._finish(request, size, found, begun_s))
        else:
            self._reply(request, size, found, begun_s)
            return False
        self._is_working = True
        return True

    async def _finish(self, request: Request, size: int, answer: Awaitable[Answer], begun_s: float) -> None:
        try:
            found: Answer | BaseException = await answer
        except Exception as error:  # noqa: BLE001  # It is told, and ends no other connection.
            found = error
        self._told(request, size, begun_s, found)

    def _told(self, request: Request, size: int, begun_s: float, found: Answer | BaseException) -> None:
        self._is_working, self._parked = False, None
        self._give_back(size)
        if isinstance(found, WarrenError):
            self._refuse(request, found)
        elif isinstance(found, BaseException):
            self._fail(request, found)
        else:
            self._reply(request, size, found, begun_s)
            if self._waiting:
                self._work()
            if self._is_reading_paused or self._is_writing_paused:
                self._pause_or_resume()

    def _reply(self, request: Request, size: int, answer: Answer, begun_s: float) -> None:
        broker, transport, sent = self._broker, self._transport, 0
        if answer is not None and transport is not None and not transport.is_closing():
            sent, frame = response_frame(request, answer)
            if len(frame) == 1:
                transport.write(frame[0])
            else:
                transport.writelines(frame)
        broker.metrics.answered(request.api_key, size, sent, begun_s)
        if broker.is_stopping and not self._waiting and transport is not None:
            transport.close()

    def _refuse(self, request: Request, error: WarrenError) -> None:
        """A request that has no answer its client would understand."""
        LOGGER.warning("connection of %s closed: %s", self.peer, error)
        self._broker.metrics.failed(request.api_key if self._broker.serves(request.api_key) else UNKNOWN_KEY)
        self.abort()

    def _fail(self, request: Request, error: BaseException) -> None:
        """A mistake of the broker's own ends the connection it was met on, and no other."""
        LOGGER.error("request %d of %s could not be answered", request.api_key, self.peer, exc_info=error)
        self._broker.metrics.failed(request.api_key)
        self.abort()

    def _count(self, size: int) -> None:
        self._waiting_size += size
        self._broker.budget.take(size)

    def _give_back(self, size: int) -> None:
        # Of a connection that was lost meanwhile all was given back with it.
        size = min(size, self._waiting_size)
        self._waiting_size -= size
        self._broker.budget.give_back(size)

    # --- Reading no further than the limits ---

    def _is_over_limits(self) -> bool:
        broker = self._broker
        return broker.budget.is_full or self._is_writing_paused or self._waiting_size >= broker.limits.waiting_size_max

    def _pause_or_resume(self) -> None:
        transport, budget = self._transport, self._broker.budget
        if transport is None or transport.is_closing():
            return
        if budget.is_full:
            budget.wait(self, self._pause_or_resume)
        should_pause = self._is_over_limits()
        if should_pause and not self._is_reading_paused:
            transport.pause_reading()
        elif self._is_reading_paused and not should_pause:
            transport.resume_reading()
        self._is_reading_paused = should_pause

    # --- Ending ---

    def stop(self) -> None:
        """Take no more requests, and close when those that were taken are answered."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.pause_reading()
            if not self._is_working and not self._waiting:
                transport.close()

    def abort(self) -> None:
        """Close now, whatever waits."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()
