"""Sessions of Warren's own clients: the groups, transactions, producers and queues that they have open, by handle."""

from __future__ import annotations

import asyncio
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from warren.broker.native.call_dedup import AnswerRoom, Answers
from warren.broker.security.broker_view import NO_NAMES, HandleNames
from warren.broker.security.peer import Peer
from warren.broker.services.memory_budget import MemoryBudget
from warren.errors import BadInput, NoSuchHandle, StoreBusy, WarrenError

NATIVE_HANDLES_MAX: Final = 10_000
"""How many groups, transactions, producers and queues one client may have open."""
NATIVE_SESSION_S: Final = 10.0
"""How long a session outlives its last connection, so that a client that reconnects keeps what it held."""


class HeldObject(ABC):
    """An object that a client has open."""

    @property
    def names(self) -> HandleNames:
        """Returns the names of the topic, group or id behind it."""
        return NO_NAMES

    def leave(self) -> bool:
        """Closes it for the client. Returns whether a part of it is kept until the session ends."""
        self.close()
        return False

    @abstractmethod
    def close(self) -> None:
        """Closes it, because the client has disconnected. Nothing is kept."""

    def is_over(self) -> bool:
        """Returns whether it can no longer have an effect. The session then drops it, even if the client did not."""
        return False


H = TypeVar("H", bound=HeldObject)
INCARNATION_BITS: Final = 63
SWEPT_FROM: Final = 64
"""When a client holds this many objects, the session drops those that are over."""


class ClientSession:
    """One client, over any number of connections. Any thread may use it.

    Invariant: what it holds is closed when it ends. It ends NATIVE_SESSION_S after its last connection, or with that
    connection if the client has said that it leaves. A session that has ended holds nothing.
    """

    def __init__(self, id: bytes, user: str, answers: Answers) -> None:
        self.id, self.user, self.answers = id, user, answers
        self.incarnation = secrets.randbits(INCARNATION_BITS)
        """Distinguishes it from an earlier session of the same client, and from one at another broker."""
        self.is_leaving = False
        """Whether the client has said that it will not come back."""
        self.connections: set[int] = set()
        self.is_closed = False
        self._held: dict[int, HeldObject] = {}
        self._left: list[HeldObject] = []
        self._swept_at = SWEPT_FROM
        self._mutex = threading.Lock()

    def hold(self, handle: int, held: HeldObject) -> None:
        """Stores `held` under a handle that the client chose. Closes what the client held by that handle before.

        Raises NoSuchHandle if the session has ended, and StoreBusy if the client holds NATIVE_HANDLES_MAX objects.
        """
        self._sweep()
        with self._mutex:
            old = self._held.pop(handle, None)
            is_full, is_refused = len(self._held) >= NATIVE_HANDLES_MAX, self.is_closed
            if not is_full and not is_refused:
                self._held[handle] = held
        if old is not None:
            _close(old)
        if is_full or is_refused:
            _close(held)
            raise NoSuchHandle(handle) if is_refused else StoreBusy(f"a client with {NATIVE_HANDLES_MAX} handles")

    def _sweep(self) -> None:
        """Drops objects that are over, if the client holds many. Runs again when their number has doubled."""
        if len(self._held) + len(self._left) < self._swept_at:
            return
        with self._mutex:
            held = [*self._left, *self._held.values()]
        over = {id(each): each for each in held if _is_over(each)}
        with self._mutex:
            self._held = {handle: each for handle, each in self._held.items() if id(each) not in over}
            self._left = [each for each in self._left if id(each) not in over]
            count = len(self._held) + len(self._left)
            self._swept_at = max(SWEPT_FROM, min(2 * count, NATIVE_HANDLES_MAX))
        for each in over.values():
            _close(each)

    def find(self, handle: int, kind: type[H]) -> H:
        """Returns what is held by a handle. Raises NoSuchHandle if nothing is, BadInput if it is of another kind."""
        held = self._held.get(handle)
        if held is None:
            raise NoSuchHandle(handle)
        if not isinstance(held, kind):
            raise BadInput(f"handle {handle} is no {kind.__name__}")
        return held

    def names(self, handle: int) -> HandleNames:
        """Returns the names that a handle stands for; NO_NAMES if nothing is held by it."""
        held = self._held.get(handle)
        return NO_NAMES if held is None else held.names

    def let_go(self, handle: int) -> None:
        """Closes what the client holds by a handle, if it holds anything."""
        with self._mutex:
            held = self._held.pop(handle, None)
        if held is not None and held.leave():
            self._sweep()
            with self._mutex:
                self._left.append(held)
                kept_max = 0 if self.is_closed else NATIVE_HANDLES_MAX
                cut = max(0, len(self._left) - kept_max)
                over, self._left = self._left[:cut], self._left[cut:]
            for each in over:
                _close(each)

    def close(self) -> None:
        """Closes everything that the session holds."""
        with self._mutex:
            self.is_closed = True
            held, self._held = [*self._left, *self._held.values()], {}
            self._left = []
        for each in reversed(held):
            _close(each)


def _close(held: HeldObject) -> None:
    # An error must not keep the others from being closed, and there is no client left to send it to.
    with suppress(WarrenError, OSError):
        held.close()


def _is_over(held: HeldObject) -> bool:
    # If this fails now, the next sweep tries again.
    with suppress(WarrenError, OSError):
        return held.is_over()
    return False


class Sessions:
    """The sessions of a broker. For the event loop's thread alone."""

    def __init__(self, ended: Callable[[ClientSession], None], budget: MemoryBudget) -> None:
        self._ended, self._budget = ended, budget
        self._sessions: dict[bytes, ClientSession] = {}
        self._by_peer: dict[int, ClientSession] = {}
        self._parked: dict[int, asyncio.Future[bool]] = {}
        self._leaving: dict[bytes, asyncio.TimerHandle] = {}

    def join(self, peer: Peer, id: bytes) -> ClientSession:
        """Adds the connection of `peer` to session `id`, which begins if there is none. Returns the session."""
        session = self._sessions.get(id)
        if session is None:
            session = self._sessions[id] = ClientSession(id, peer.user, Answers(AnswerRoom(self._budget, peer.owner)))
        if session.user != peer.user:
            raise BadInput("the session belongs to another user")
        if self._by_peer.get(_key(peer)) is not session:
            self.leave(peer)
        session.connections.add(_key(peer))
        self._by_peer[_key(peer)] = session
        timer = self._leaving.pop(id, None)
        if timer is not None:
            timer.cancel()
        return session

    def of(self, peer: Peer) -> ClientSession:
        """Returns the session of a connection. Raises BadInput if it has not begun one."""
        session = self._by_peer.get(_key(peer))
        if session is None:
            raise BadInput("this call takes a session: OpenSession comes first")
        return session

    def names(self, peer: Peer, handle: int) -> HandleNames:
        """Returns the names that a handle of the connection's session stands for; NO_NAMES without a session."""
        session = self._by_peer.get(_key(peer))
        return NO_NAMES if session is None else session.names(handle)

    def has(self, peer: Peer) -> bool:
        """Returns whether the connection is still open, as part of a session."""
        return _key(peer) in self._by_peer

    def park(self, peer: Peer, woken: asyncio.Future[bool]) -> None:
        """Sets `woken`, which a request of this connection awaits, when the connection ends."""
        self._parked[_key(peer)] = woken

    def leave(self, peer: Peer) -> None:
        """Removes a connection that ended. Ends its session, now or after a while, if it was the last connection."""
        session = self._by_peer.pop(_key(peer), None)
        woken = self._parked.pop(_key(peer), None)
        if woken is not None and not woken.done():
            woken.set_result(True)
        if session is None:
            return
        session.connections.discard(_key(peer))
        if session.connections:
            return
        if session.is_leaving:
            self._end(session)
        else:
            loop = asyncio.get_running_loop()
            self._leaving[session.id] = loop.call_later(NATIVE_SESSION_S, self._end, session)

    def _end(self, session: ClientSession) -> None:
        self._leaving.pop(session.id, None)
        self._sessions.pop(session.id, None)
        session.answers.close()
        self._ended(session)

    def close(self) -> None:
        """Ends all sessions."""
        for timer in self._leaving.values():
            timer.cancel()
        for session in list(self._sessions.values()):
            self._end(session)


def _key(peer: Peer) -> int:
    """Returns the key of a connection: the identity of its peer object, because two peers may have one address."""
    return id(peer)
