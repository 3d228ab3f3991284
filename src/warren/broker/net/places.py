"""Places for connections: limits their number, in total and per address, and drops some to make room for others."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from warren.broker.security.peer import Peer

BROKER_BACKLOG: Final = 1024

T = TypeVar("T")


class Full(NamedTuple):
    """The reason why there is no place: `open_count` connections are open, in total or from `host`."""

    open_count: int
    host: str | None = None

    def __str__(self) -> str:
        return f"{self.open_count} are open" + ("" if self.host is None else f" from {self.host}")


class OpenConnection(Protocol):
    """A connection as handlers see it."""

    @property
    def peer(self) -> Peer: ...


class OpenConnections(Protocol):
    """The open connections as handlers see them."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[OpenConnection]: ...


class Reservation:
    """The place of a connection whose TLS handshake is in progress. `leave` frees it; a second call does nothing."""

    def __init__(self, close: Callable[[], None]) -> None:
        self.close = close
        self.leave: Callable[[], None] = lambda: None


class ConnectionPlaces(Generic[T]):
    """The connections that are open. For the event loop's thread alone.

    A connection is unsettled until `settle` is called: until it has logged in, or has sent a request. If there is no
    place for a new connection, an unsettled one is dropped: the oldest one of the same address if the address is at its
    limit, otherwise the oldest one of the address that has the most. So a client that has not logged in only takes
    places of clients that have not logged in.

    Invariant: there are never more than `count_max` connections, nor more than `unsettled_max` unsettled ones, nor more
    from one address than its limit. This machine itself has a limit only if `of_address` names it, because all clients
    behind a proxy on this machine come from one address. A reservation counts as an unsettled connection.
    """

    def __init__(
        self,
        count_max: int,
        drop: Callable[[T], None],
        *,
        unsettled_max: int | None = None,
        per_address_max: int | None = None,
        of_address: Mapping[str, int] | None = None,
    ) -> None:
        self._count_max, self._drop = count_max, drop
        self._unsettled_max = count_max if unsettled_max is None else unsettled_max
        self._per_address_max = per_address_max
        self._of_address = of_address or {}
        self._hosts: dict[T | Reservation, str] = {}
        self._counts: dict[str, int] = {}
        self._unsettled: dict[str, dict[T | Reservation, None]] = {}
        self._unsettled_count = 0

    def __len__(self) -> int:
        return len(self._hosts)

    def __iter__(self) -> Iterator[T]:
        return iter([each for each in self._hosts if not isinstance(each, Reservation)])

    def reserve(self, host: str, close: Callable[[], None]) -> Reservation | Full:
        """Keeps a place for a connection that is not ready yet, or returns the reason why there is none.

        The connection leaves the reservation before it is admitted. If another one needs the place before, calls
        `close`.
        """
        reservation = Reservation(close)
        full = self.admit(reservation, host)
        if full is not None:
            return full
        reservation.leave = lambda: self.leave(reservation)
        return reservation

    def admit(self, connection: T | Reservation, host: str) -> Full | None:
        """Gives the connection a place. Returns the reason if there is none and no other can be dropped for it."""
        limit = self._limit_of(host)
        if limit is not None and self._counts.get(host, 0) >= limit and not self._make_room(self._unsettled.get(host)):
            return Full(limit, host)
        while len(self._hosts) >= self._count_max or self._unsettled_count >= self._unsettled_max:
            if not self._make_room(max(self._unsettled.values(), key=len, default=None)):
                return Full(self._count_max)
        self._hosts[connection] = host
        self._counts[host] = self._counts.get(host, 0) + 1
        self.unsettle(connection)
        return None

    def settle(self, connection: T | Reservation) -> None:
        """Lets the connection keep its place until it leaves."""
        of_host = self._unsettled.get(self._hosts.get(connection, ""), {})
        if connection in of_host:
            del of_host[connection]
            self._unsettled_count -= 1
            if not of_host:
                del self._unsettled[self._hosts[connection]]

    def unsettle(self, connection: T | Reservation) -> None:
        """Allows the connection to be dropped for another one, after the older ones of its address."""
        host = self._hosts.get(connection)
        if host is not None and connection not in self._unsettled.setdefault(host, {}):
            self._unsettled[host][connection] = None
            self._unsettled_count += 1

    def leave(self, connection: T | Reservation) -> None:
        """Frees the place of a connection that is closed. A second call does nothing."""
        self.settle(connection)
        host = self._hosts.pop(connection, None)
        if host is not None:
            self._counts[host] -= 1
            if not self._counts[host]:
                del self._counts[host]

    def _make_room(self, of_host: Iterable[T | Reservation] | None) -> bool:
        oldest = next(iter(of_host or ()), None)
        if oldest is None:
            return False
        # Its place is free from now on. The event loop calls `leave` for it later, when the connection has ended.
        self.leave(oldest)
        if isinstance(oldest, Reservation):
            oldest.close()
        else:
            self._drop(oldest)
        return True

    def _limit_of(self, host: str) -> int | None:
        if host in self._of_address:
            return self._of_address[host]
        return None if self._per_address_max is None or is_loopback(host) else self._per_address_max


def is_any_address(host: str) -> bool:
    """Returns whether a server that listens on `host` is reached by every address of its machine."""
    try:
        return not host or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Returns whether only this machine reaches `host`."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
