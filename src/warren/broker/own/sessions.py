"""What clients of our own hold at the broker: groups, transactions, producers and queues, by handle."""

from __future__ import annotations

import asyncio
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from warren.broker.budget import Budget
from warren.broker.own.numbered import AnswerRoom, Answers
from warren.broker.peer import Peer
from warren.config import OWN_HANDLES_MAX, OWN_SESSION_S
from warren.errors import BadInput, NoSuchHandle, StoreBusy, WarrenError


class Stand(NamedTuple):
    """The names of what a handle stands for, each empty if there is none: rights to them are asked for at each call.

    `id` is the name that a client gave a transaction or a producer.
    """

    topic: str = ""
    group: str = ""
    id: str = ""


NOTHING: Final = Stand()


class Held(ABC):
    """Something that a client has open."""

    @property
    def stand(self) -> Stand:
        """What it stands for."""
        return NOTHING

    def leave(self) -> bool:
        """The client wants no more of it; whether something of it is kept until the client is gone."""
        self.close()
        return False

    @abstractmethod
    def close(self) -> None:
        """The client is gone: nothing is kept."""

    def is_over(self) -> bool:
        """Whether nothing can come of it any more: then it is kept no longer, though nobody has let go of it."""
        return False


H = TypeVar("H", bound=Held)
INCARNATION_BITS: Final = 63
SWEPT_FROM: Final = 64
"""Of so many things that a client holds it is looked for those that are over."""


class Session:
    """One client, over however many connections. Any thread may use it.

    Invariant: what it holds is closed when it ended: OWN_SESSION_S after its last connection did, or with it where the
    client has said that it leaves. Nothing is held from then on.
    """

    def __init__(self, id: bytes, user: str, answers: Answers) -> None:
        self.id, self.user, self.answers = id, user, answers
        self.incarnation = secrets.randbits(INCARNATION_BITS)
        """Tells it from a session of the same client that began before, or at another broker."""
        self.is_leaving = False
        """Whether the client has said that it will not come back."""
        self.connections: set[int] = set()
        self.is_closed = False
        self._held: dict[int, Held] = {}
        self._left: list[Held] = []
        self._swept_at = SWEPT_FROM
        self._mutex = threading.Lock()

    def hold(self, handle: int, held: Held) -> None:
        """Keep `held` by a handle of the client's choice, in place of what it had by that handle before."""
        self._sweep()
        with self._mutex:
            old = self._held.pop(handle, None)
            is_full, is_refused = len(self._held) >= OWN_HANDLES_MAX, self.is_closed
            if not is_full and not is_refused:
                self._held[handle] = held
        if old is not None:
            _close(old)
        if is_full or is_refused:
            _close(held)
            raise NoSuchHandle(handle) if is_refused else StoreBusy(f"a client with {OWN_HANDLES_MAX} handles")

    def _sweep(self) -> None:
        """Where much has come together, keep no longer what is over: next when it is twice as much as is left."""
        if len(self._held) + len(self._left) < self._swept_at:
            return
        with self._mutex:
            held = [*self._left, *self._held.values()]
        over = {id(each): each for each in held if _is_over(each)}
        with self._mutex:
            self._held = {handle: each for handle, each in self._held.items() if id(each) not in over}
            self._left = [each for each in self._left if id(each) not in over]
            kept = len(self._held) + len(self._left)
            self._swept_at = max(SWEPT_FROM, min(2 * kept, OWN_HANDLES_MAX))
        for each in over.values():
            _close(each)

    def find(self, handle: int, kind: type[H]) -> H:
        """What is held by a handle; NoSuchHandle where nothing is."""
        held = self._held.get(handle)
        if held is None:
            raise NoSuchHandle(handle)
        if not isinstance(held, kind):
            raise BadInput(f"handle {handle} is no {kind.__name__}")
        return held

    def stand(self, handle: int) -> Stand:
        """What a handle stands for; NOTHING if nothing is held by it."""
        held = self._held.get(handle)
        return NOTHING if held is None else held.stand

    def let_go(self, handle: int) -> None:
        """The client wants no more of what is held by a handle, if anything is."""
        with self._mutex:
            held = self._held.pop(handle, None)
        if held is not None and held.leave():
            self._sweep()
            with self._mutex:
                self._left.append(held)
                kept_max = 0 if self.is_closed else OWN_HANDLES_MAX
                cut = max(0, len(self._left) - kept_max)
                over, self._left = self._left[:cut], self._left[cut:]
            for each in over:
                _close(each)

    def close(self) -> None:
        """Close everything."""
        with self._mutex:
            self.is_closed = True
            held, self._held = [*self._left, *self._held.values()], {}
            self._left = []
        for each in reversed(held):
            _close(each)


def _close(held: Held) -> None:
    # Whatever is wrong with one, the others are closed; and the client is not there to be told.
    with suppress(WarrenError, OSError):
        held.close()


def _is_over(held: Held) -> bool:
    # What cannot be asked now is asked next time.
    with suppress(WarrenError, OSError):
        return held.is_over()
    return False


class Sessions:
    """The sessions of a broker. For the event loop's thread alone."""

    def __init__(self, ended: Callable[[Session], None], budget: Budget) -> None:
        self._ended, self._budget = ended, budget
        self._sessions: dict[bytes, Session] = {}
        self._by_peer: dict[int, Session] = {}
        self._parked: dict[int, asyncio.Future[None]] = {}
        self._leaving: dict[bytes, asyncio.TimerHandle] = {}

    def join(self, peer: Peer, id: bytes) -> Session:
        """The connection of `peer` belongs to session `id`, which begins where there is none."""
        session = self._sessions.get(id)
        if session is None:
            session = self._sessions[id] = Session(id, peer.user, Answers(AnswerRoom(self._budget, peer.owner)))
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

    def of(self, peer: Peer) -> Session:
        """The session of a connection; BadInput where it has not begun one."""
        session = self._by_peer.get(_key(peer))
        if session is None:
            raise BadInput("this call takes a session: OpenSession comes first")
        return session

    def stand(self, peer: Peer, handle: int) -> Stand:
        """What a handle of the connection's session stands for; NOTHING without a session."""
        session = self._by_peer.get(_key(peer))
        return NOTHING if session is None else session.stand(handle)

    def has(self, peer: Peer) -> bool:
        """Whether the connection is still there, as part of a session."""
        return _key(peer) in self._by_peer

    def park(self, peer: Peer, woken: asyncio.Future[None]) -> None:
        """A request of this connection waits: it is woken when the connection ends."""
        self._parked[_key(peer)] = woken

    def leave(self, peer: Peer) -> None:
        """The connection ended. Where it was the last one of its session, that ends as well, now or in a while."""
        session = self._by_peer.pop(_key(peer), None)
        woken = self._parked.pop(_key(peer), None)
        if woken is not None and not woken.done():
            woken.set_result(None)
        if session is None:
            return
        session.connections.discard(_key(peer))
        if session.connections:
            return
        if session.is_leaving:
            self._end(session)
        else:
            loop = asyncio.get_running_loop()
            self._leaving[session.id] = loop.call_later(OWN_SESSION_S, self._end, session)

    def _end(self, session: Session) -> None:
        self._leaving.pop(session.id, None)
        self._sessions.pop(session.id, None)
        session.answers.close()
        self._ended(session)

    def close(self) -> None:
        """End all sessions."""
        for timer in self._leaving.values():
            timer.cancel()
        for session in list(self._sessions.values()):
            self._end(session)


def _key(peer: Peer) -> int:
    """Two connections may come from one place: it is the object that counts, which lives as long as its connection."""
    return id(peer)
