"""One connection: reads requests, and writes their answers in order, within the limits of memory."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol, cast

from warren.broker.net.outbox import OUTBOX_PIECE_SIZE, Outbox
from warren.broker.net.progress import Mark
from warren.broker.net.request import Answer, DeferredReply, Reply, WaitingReply
from warren.broker.quotas.windows import Timed
from warren.broker.security.peer import Peer
from warren.broker.services.memory_budget import MEMORY_SMALL_SIZE_MAX, Hold, MemoryBudget, MemoryKind
from warren.errors import ProtocolError, WarrenError
from warren.protocol.api_keys import APIS, ApiKey
from warren.protocol.frames import FrameReader
from warren.protocol.headers import Request, read_request, response_frame
from warren.protocol.native_schemas import NativeKey
from warren.protocol.throttle import throttled

if TYPE_CHECKING:
    from warren.broker.net.places import ConnectionPlaces, Reservation
    from warren.broker.net.progress import ProgressWatch
    from warren.broker.quotas.quotas import Quotas
    from warren.broker.security.logged_in import LoggedIn
    from warren.broker.security.users import KeptPassword
    from warren.broker.services.limited_log import LimitedLog
    from warren.broker.services.metrics import Metrics
    from warren.broker.settings import BrokerLimits, BrokerSettings

AUTHENTICATION_S_MAX: Final = 30.0
"""How long a connection may take to log in."""
FIRST_BYTE_S_MAX: Final = 5.0
"""How long a connection that has to log in may take to send its first byte."""
AUTHENTICATION_SIZE_MAX: Final = 64 << 10
"""The largest request of a client that has not logged in, if it has to."""

LOGGER: Final = logging.getLogger("warren.broker")
UNKNOWN_KEY: Final = -1
"""The API key under which all keys that are not served are counted, so that clients cannot make many counters."""
LARGE_ANSWERS: Final = frozenset(
    (
        ApiKey.FETCH,
        ApiKey.SHARE_FETCH,
        NativeKey.READ,
        NativeKey.READ_GROUP,
        NativeKey.TAKE,
        NativeKey.SCAN,
        NativeKey.LIST_DEAD,
        NativeKey.USE_QUEUE,
    )
)
"""Requests for messages. They wait while too many answers are held for clients that do not take them."""
QueuedRequest = tuple[Request, int, Hold | None]
"""A request, its size, and the memory that was taken for it; None if it is small."""


class ConnectionHost(Protocol):
    """The broker that a connection belongs to, or a replica that has no store open."""

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def limits(self) -> BrokerLimits: ...

    @property
    def tasks(self) -> asyncio.TaskGroup: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def budget(self) -> MemoryBudget: ...

    @property
    def quotas(self) -> Quotas: ...

    @property
    def logged_in(self) -> LoggedIn: ...

    @property
    def closings(self) -> LimitedLog: ...

    @property
    def progress(self) -> ProgressWatch: ...

    @property
    def is_stopping(self) -> bool: ...

    @property
    def connections(self) -> ConnectionPlaces[Connection]: ...

    def admit(self, connection: Connection, reservation: Reservation | None = None) -> bool:
        """Returns whether there is room for one more connection, which takes the place of its reservation."""

    def forget(self, connection: Connection) -> None:
        """Lets go of a connection that has ended."""


class Connection(asyncio.BufferedProtocol):
    """One client. For the event loop's thread alone.

    Invariant: the connection works on one request at a time, the oldest. Requests behind it wait, and their bytes count
    against the memory of the connection and of the broker. If the connection's memory is used up, or the client does
    not read its answers, the connection reads nothing more. If the broker's memory is used up, no large request is
    begun, and only as many small ones are read as fit the buffer. So a heartbeat or an acknowledgement is served at any
    time.
    """

    def __init__(
        self,
        broker: ConnectionHost,
        answer: Callable[[Peer, Request], Reply],
        reservation: Reservation | None = None,
    ) -> None:
        self._broker, self._answer, self._reservation = broker, answer, reservation
        is_known = not broker.settings.sasl
        size_max = broker.limits.frame_size_max if is_known else AUTHENTICATION_SIZE_MAX
        self._frames = FrameReader(size_max, admit=self._admit)
        self._frame: Hold | None = None
        """The memory of the large request that is being received."""
        self._unsent: Hold | None = None
        """The memory of answers that the client has not taken."""
        self._mark = Mark()
        self._is_asking = False
        """Whether a large request waits for memory before it is received."""
        self._waiting: deque[QueuedRequest] = deque()
        self._waiting_size = 0
        self._is_working = self._is_reading_paused = self._is_writing_paused = self._is_closing = False
        self._parked: tuple[WaitingReply, int, Hold | None] | None = None
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._is_new = True
        self._muted: asyncio.TimerHandle | None = None
        self._spent_s = 0.0
        self.peer = Peer("", 0)

    # --- Callbacks of the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        self.peer = Peer(host, port)
        if self._broker.settings.sasl:
            self.peer.welcome = self._welcome
            self._patience = asyncio.get_running_loop().call_later(FIRST_BYTE_S_MAX, self.abort)
        self._outbox = Outbox(self._transport, self._broker.limits.unsent_size_max)
        if not self._broker.admit(self, self._reservation):
            self._transport.abort()
        self._reservation = None

    def _welcome(self, password: KeptPassword) -> None:
        """Notes that the client has logged in: it keeps its place, and no longer has the limits of a stranger."""
        self._broker.logged_in.add(self, password, self.abort)
        self._broker.connections.settle(self)
        self._frames.size_max = self._broker.limits.frame_size_max
        if self._patience is not None:
            self._patience.cancel()

    def _restart_patience(self) -> None:
        """Restarts the clock of a connection that has to log in: its first byte has come."""
        if self._patience is not None:
            self._patience.cancel()
            self._patience = asyncio.get_running_loop().call_later(AUTHENTICATION_S_MAX, self.abort)
            self._is_new = False

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_new:
            self._restart_patience()
        hold, budget = self._frame, self._broker.budget
        try:
            frames = self._frames.received(nbytes)
            if hold is not None:
                if not frames:
                    return
                # A large request comes alone, and is whole now.
                self._frame = None
                hold.move(MemoryKind.REQUESTS)
            for frame in frames:
                request, size = read_request(frame), len(frame)
                is_held_back = budget.is_crowded and request.api_key in LARGE_ANSWERS
                if self._is_working or self._waiting or self._is_writing_paused or self._is_closing or is_held_back:
                    self._waiting.append((request, size, hold))
                    self._count(size, hold)
                elif self._begin(request, size, hold):
                    # A request that is answered immediately is not counted, because it never waits.
                    self._count(size, hold)
                elif hold is not None:
                    hold.release()
        except ProtocolError as error:
            # The bytes that follow cannot be parsed, and there is no request that an answer would belong to.
            self._broker.closings.tell("connection of %s closed: %s", self.peer, error)
            if hold is not None:
                hold.release()
            self.abort()
            return
        if budget.is_crowded:
            self._work()
        if self._is_over_limits() or self._is_reading_paused:
            self._pause_or_resume()

    def eof_received(self) -> bool:
        # A client that has closed its side reads no answers.
        return False

    def pause_writing(self) -> None:
        self._is_writing_paused = True
        if self._outbox is not None:
            self._outbox.pause()

    def resume_writing(self) -> None:
        if self._outbox is not None and not self._outbox.resume():
            return
        self._is_writing_paused = False
        self._work()
        self._pause_or_resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = self.peer.is_gone = True
        for timer in (self._patience, self._muted):
            if timer is not None:
                timer.cancel()
        # Reader and peer know their connection: a reference cycle would keep all of them, with their buffers, until the
        # collector runs.
        self._frames.close()
        self.peer.welcome = lambda *_: None
        if self._outbox is not None:
            self._outbox.clear()
        self._broker.budget.forget(self)
        for hold in (self._frame, self._unsent):
            if hold is not None:
                hold.release()
        # The memory of running requests is released when they end, although the client has disconnected.
        for _, size, taken in self._waiting:
            self._give_back(size, taken)
        self._waiting.clear()
        if self._parked is not None:
            parked, size, taken = self._parked
            self._parked = None
            parked.drop()
            self._give_back(size, taken)
        self._broker.forget(self)

    # --- Requests, one after the other ---

    def _work(self) -> None:
        """Answers requests that wait, until one of them is not answered immediately."""
        budget = self._broker.budget
        while self._waiting and not (self._is_working or self._is_writing_paused or self._is_closing):
            if budget.is_crowded and self._waiting[0][0].api_key in LARGE_ANSWERS:
                budget.hold_back(self, self._go_on)
                return
            request, size, hold = self._waiting.popleft()
            if not self._begin(request, size, hold):
                self._give_back(size, hold)

    def _go_on(self) -> None:
        self._work()
        self._pause_or_resume()

    def _begin(self, request: Request, size: int, hold: Hold | None) -> bool:
        """Answer a request, now or later; whether it is worked on from now on."""
        begun_s = self._broker.metrics.now()
        if self._is_new:
            # Without users to log in, a connection keeps its place once it has sent a whole request.
            self._is_new = False
            self._broker.connections.settle(self)
        try:
            answer = self._answer(self.peer, request)
        except WarrenError as error:
            self._refuse(request, error)
            return False
        except Exception as error:  # noqa: BLE001  # It is logged, and ends no other connection.
            self._fail(request, error)
            return False
        if self._broker.quotas.is_set:
            self._spent_s = self._broker.metrics.now() - begun_s
        if type(answer) is list or answer is None:
            self._reply(request, size, answer, begun_s)
            return False
        if isinstance(answer, DeferredReply):
            answer.on_done = functools.partial(self._conclude, request, size, hold, begun_s)
            if type(answer) is WaitingReply:
                self._parked = answer, size, hold
        elif inspect.isawaitable(answer):
            self._broker.tasks.create_task(self._finish(request, size, hold, answer, begun_s))
        else:
            self._reply(request, size, answer, begun_s)
            return False
        self._is_working = True
        return True

    async def _finish(
        self, request: Request, size: int, hold: Hold | None, answer: Awaitable[Answer], begun_s: float
    ) -> None:
        try:
            if self._broker.quotas.is_set:
                answer = Timed(answer, self._broker.metrics.now, self._spend)
            outcome: Answer | BaseException = await answer
        except Exception as error:  # noqa: BLE001  # It is logged, and must end no other connection.
            outcome = error
        self._conclude(request, size, hold, begun_s, outcome)

    def _conclude(
        self, request: Request, size: int, hold: Hold | None, begun_s: float, outcome: Answer | BaseException
    ) -> None:
        self._is_working, self._parked = False, None
        self._give_back(size, hold)
        if isinstance(outcome, WarrenError):
            self._release_answer()
            self._refuse(request, outcome)
        elif isinstance(outcome, BaseException):
            self._release_answer()
            self._fail(request, outcome)
        else:
            self._reply(request, size, outcome, begun_s)
            if self.peer.answer_memory:
                self._release_answer()
            if self._waiting:
                self._work()
            if self._is_reading_paused or self._is_writing_paused:
                self._pause_or_resume()

    def _reply(self, request: Request, size: int, answer: Answer, begun_s: float) -> None:
        broker, transport, outbox, sent, throttle_s = self._broker, self._transport, self._outbox, 0, 0.0
        if broker.quotas.is_set:
            throttle_s = self._charged(request, size, answer)
        if answer is not None and transport is not None and outbox is not None and not transport.is_closing():
            if throttle_s:
                answer = throttled(request, answer, throttle_s)
            sent, frame = response_frame(request, answer, throttle_s)
            if sent > OUTBOX_PIECE_SIZE or self._is_writing_paused:
                outbox.write(frame, sent)
            elif len(frame) == 1:
                transport.write(frame[0])
            else:
                transport.writelines(frame)
            if sent > MEMORY_SMALL_SIZE_MAX and self.see_unsent():
                broker.progress.answered(self)
        broker.metrics.answered(request.api_key, size, sent, begun_s)
        if throttle_s and not broker.is_stopping:
            self._mute(throttle_s)
        if broker.is_stopping and not self._waiting and outbox is not None:
            outbox.close()

    # --- Quotas ---

    def _charged(self, request: Request, size: int, answer: Answer) -> float:
        """Returns for how many seconds nothing more is done for the client, because it has used more than it may."""
        sent = 0 if answer is None else sum(map(len, answer))
        return self._broker.quotas.charge(
            self.peer.user, request.client_id or "", request.api_key, size, sent, self._spent_s
        )

    def _spend(self, seconds: float) -> None:
        self._spent_s += seconds

    def _mute(self, seconds: float) -> None:
        """Neither reads nor answers for a while, as Kafka does, because some clients ignore throttling."""
        # Requests that were received already wait as they do for one that is worked on.
        self._is_working = True
        self._muted = asyncio.get_running_loop().call_later(seconds, self._unmute)
        self._pause_or_resume()

    def _unmute(self) -> None:
        self._muted, self._is_working = None, False
        self._work()
        self._pause_or_resume()

    def _refuse(self, request: Request, error: WarrenError) -> None:
        """Closes the connection, because its request has no answer that the client would understand."""
        self._broker.closings.tell("connection of %s closed: %s", self.peer, error)
        self._broker.metrics.failed(request.api_key if request.api_key in APIS else UNKNOWN_KEY)
        self.abort()

    def _fail(self, request: Request, error: BaseException) -> None:
        """Logs an error of the broker itself, and ends only the connection whose request met it."""
        LOGGER.error("request %d of %s could not be answered", request.api_key, self.peer, exc_info=error)
        self._broker.metrics.failed(request.api_key)
        self.abort()

    def _count(self, size: int, hold: Hold | None) -> None:
        self._waiting_size += size
        if hold is None:
            self._broker.budget.take(size)

    def _release_answer(self) -> None:
        """Gives back the memory of an answer that was made: the transport has it, or it is dropped."""
        releases, self.peer.answer_memory = self.peer.answer_memory, []
        for release in releases:
            release()

    def _give_back(self, size: int, hold: Hold | None) -> None:
        self._waiting_size -= size
        if hold is None:
            self._broker.budget.give_back(size)
        else:
            hold.release()

    # --- Reading no further than the limits ---

    def _admit(self, size: int) -> bool:
        """Returns whether there is memory for a request that is too large for the buffer; if not, waits for memory."""
        self._frame = self._broker.budget.ask(self, MemoryKind.FRAMES, size, self.peer.owner, self._granted)
        self._is_asking = self._frame is None
        return not self._is_asking

    def _granted(self, hold: Hold) -> None:
        self._frame, self._is_asking = hold, False
        self._frames.begin()
        self._pause_or_resume()

    def _is_over_limits(self) -> bool:
        broker = self._broker
        if self._is_asking or self._is_writing_paused or self._waiting_size >= broker.limits.waiting_size_max:
            return True
        # One small request at a time is always served, even if memory is short.
        return self._muted is not None or (broker.budget.is_full and bool(self._waiting))

    def _pause_or_resume(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        should_pause = self._is_over_limits()
        if should_pause and not self._is_reading_paused:
            transport.pause_reading()
        elif self._is_reading_paused and not should_pause and not self._broker.is_stopping:
            transport.resume_reading()
        self._is_reading_paused = should_pause

    # --- Coming on ---

    def see_unsent(self) -> bool:
        """Counts the bytes of answers that the client has not read. Returns whether they are many."""
        size = 0 if self._outbox is None else self._outbox.size
        if size <= MEMORY_SMALL_SIZE_MAX:
            if self._unsent is not None:
                self._unsent.release()
                self._unsent = None
            return False
        if self._unsent is None:
            self._unsent = self._broker.budget.hold(MemoryKind.ANSWERS, size, self.peer.owner)
        else:
            self._unsent.resize(size)
        return True

    def check_progress(self, now_s: float) -> None:
        """Closes the connection if it holds memory and the client neither sends the rest nor reads its answers."""
        budget, limits, frames = self._broker.budget, self._broker.limits, self._frames
        self.see_unsent()
        unsent = 0 if self._unsent is None else self._unsent.size
        # A client that is not read from cannot send.
        size = 0 if self._is_reading_paused else frames.size
        why = self._mark.stalled(
            now_s,
            limits.stalled_s_max,
            is_hurried=budget.is_waited_for,
            frame=(frames.large_count, frames.filled, size),
            unsent=unsent if budget.is_short_of_answers else 0,
        )
        if why:
            LOGGER.warning("connection of %s closed: %s", self.peer, why)
            budget.drops += 1
            self.abort()

    # --- Ending ---

    def stop(self) -> None:
        """Accepts no more requests, and closes when the accepted ones are answered."""
        transport, outbox = self._transport, self._outbox
        if transport is not None and outbox is not None and not transport.is_closing():
            if self._muted is not None:
                self._muted.cancel()
                self._unmute()
            transport.pause_reading()
            if not self._is_working and not self._waiting:
                outbox.close()

    def abort(self) -> None:
        """Closes the connection now, even if requests wait."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()
