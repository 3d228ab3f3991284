"""What clients of our own hold at the broker: groups, transactions, producers and queues, by handle."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Protocol, TypeVar

from warren.broker.peer import Peer
from warren.config import OWN_HANDLES_MAX
from warren.errors import BadInput, NoSuchHandle, StoreBusy, WarrenError


class Held(Protocol):
    """Something that a client has open."""

    def leave(self) -> bool:
        """The client wants no more of it; whether something of it is kept until the client is gone."""
        ...

    def close(self) -> None:
        """The client is gone: nothing is kept."""
        ...


H = TypeVar("H", bound=Held)


class Session:
    """One client, over however many connections. Any thread may use it.

    Invariant: what it holds is closed when its last connection ended, and nothing is held from then on.
    """

    def __init__(self, id: bytes, user: str) -> None:
        self.id, self.user = id, user
        self.connections: set[int] = set()
        self.is_closed = False
        self._held: dict[int, Held] = {}
        self._left: list[Held] = []
        self._mutex = threading.Lock()

    def hold(self, handle: int, held: Held) -> None:
        """Keep `held` by a handle of the client's choice, in place of what it had by that handle before."""
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

    def find(self, handle: int, kind: type[H]) -> H:
        """What is held by a handle; NoSuchHandle where nothing is."""
        held = self._held.get(handle)
        if held is None:
            raise NoSuchHandle(handle)
        if not isinstance(held, kind):
            raise BadInput(f"handle {handle} is no {kind.__name__}")
        return held

    def let_go(self, handle: int) -> None:
        """The client wants no more of what is held by a handle, if anything is."""
        with self._mutex:
            held = self._held.pop(handle, None)
        if held is not None and held.leave():
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


class Sessions:
    """The sessions of a broker. For the event loop's thread alone."""

    def __init__(self) -> None:
        self._sessions: dict[bytes, Session] = {}
        self._by_peer: dict[int, Session] = {}

    def join(self, peer: Peer, id: bytes) -> bool:
        """The connection of `peer` belongs to session `id`, which begins where there is none; whether it does."""
        session = self._sessions.get(id)
        is_new = session is None
        if session is None:
            session = self._sessions[id] = Session(id, peer.user)
        if session.user != peer.user:
            raise BadInput("the session belongs to another user")
        self.leave(peer)
        session.connections.add(_key(peer))
        self._by_peer[_key(peer)] = session
        return is_new

    def of(self, peer: Peer) -> Session:
        """The session of a connection; BadInput where it has not begun one."""
        session = self._by_peer.get(_key(peer))
        if session is None:
            raise BadInput("this call takes a session: OpenSession comes first")
        return session

    def has(self, peer: Peer) -> bool:
        """Whether the connection is still there, as part of a session."""
        return _key(peer) in self._by_peer

    def leave(self, peer: Peer) -> Session | None:
        """The connection ended; the session to be closed where it was the last one."""
        session = self._by_peer.pop(_key(peer), None)
        if session is None:
            return None
        session.connections.discard(_key(peer))
        if session.connections:
            return None
        self._sessions.pop(session.id, None)
        return session


def _key(peer: Peer) -> int:
    """Two connections may come from one place: it is the object that counts, which lives as long as its connection."""
    return id(peer)
