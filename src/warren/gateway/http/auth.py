"""Authentication over HTTP, with the users and passwords of the broker; and the check of Host and Origin."""

from __future__ import annotations

import asyncio
import base64
import binascii
import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from warren.broker.kafka.sasl import LoginServices, failed_login
from warren.broker.security.logins import AUTHENTICATION_ANSWER_S
from warren.broker.security.peer import Peer
from warren.broker.security.sasl_session import PLAIN
from warren.errors import AuthenticationFailed, WarrenError, WrongPlace
from warren.gateway.http.types import RequestHead

if TYPE_CHECKING:
    from warren.broker.security.logged_in import LoggedIn
    from warren.broker.settings import BrokerSettings


class AccessServices(LoginServices, Protocol):
    """The parts of the broker that authentication over HTTP uses."""

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def logged_in(self) -> LoggedIn: ...


class Access:
    """Authenticates the requests of one connection. Only the event loop's thread may use it.

    Invariant: if a connection keeps sending the same password, the password is checked once. The reply to a wrong one
    comes after a fixed time and does not say whether the user or the password is wrong. `is_local`: only this machine
    can reach the port. `is_secret`: the connection uses TLS.
    """

    def __init__(self, broker: AccessServices, close: Callable[[], None], *, is_local: bool, is_secret: bool) -> None:
        self._broker, self._is_local, self._is_secret = broker, is_local, is_secret
        self._cached_login: tuple[str, str] | None = None
        self._close = close

    def stranger(self, head: RequestHead) -> Peer:
        """Returns the peer of a request that needs no login."""
        return Peer(head.host, head.port)

    async def peer_of(self, head: RequestHead) -> Peer:
        """Returns the peer with its user. Raises AuthenticationFailed if the broker requires a login and it fails."""
        peer = self.stranger(head)
        if not self._broker.settings.sasl:
            return peer
        credentials = head.headers.get("authorization", "")
        if self._cached_login is None or self._cached_login[0] != credentials:
            self._cached_login = credentials, await self._login(credentials, peer)
        peer.user = self._cached_login[1]
        return peer

    async def _login(self, credentials: str, peer: Peer) -> str:
        """Returns the user that the credentials authenticate."""
        scheme, _, token = credentials.partition(" ")
        # If the broker refuses PLAIN, a password must not be sent over a network without TLS.
        is_allowed = self._is_secret or self._is_local or PLAIN in self._broker.settings.mechanisms
        if scheme.lower() != "basic" or not is_allowed:
            raise AuthenticationFailed
        loop, broker = asyncio.get_running_loop(), self._broker
        answer_at = loop.time() + AUTHENTICATION_ANSWER_S
        user = ""
        failure: WarrenError = AuthenticationFailed()
        try:
            user, _, password = base64.b64decode(token.strip(), validate=True).decode().partition(":")
            proven = await broker.logins.check(peer.host, user, lambda: broker.users.proven(user, password))
            if proven is not None:
                broker.logins.tries.succeeded(peer.host, user)
                broker.logged_in.add(self, proven, self._close)
                return user
        except (binascii.Error, ValueError):
            pass
        except WarrenError as error:
            failure = error
        refusal = failed_login(broker, peer, user, failure)
        await asyncio.sleep(max(0.0, answer_at - loop.time()))
        raise refusal

    def end(self) -> None:
        """Forgets the connection, which has ended."""
        self._broker.logged_in.discard(self)

    def check_place(self, head: RequestHead) -> None:
        """Raises WrongPlace for a request that a page of another site made a user's browser send.

        If there is no login and only this machine can connect, the Host must be an address or localhost. Any other name
        that resolves to this machine may belong to such a page (DNS rebinding).
        """
        host, origin = head.headers.get("host", ""), head.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            raise WrongPlace("Origin", origin)
        if self._is_local and not self._broker.settings.sasl and not _is_address(host):
            raise WrongPlace("Host", host)


def _is_address(host: str) -> bool:
    """Returns whether `host`, with or without a port, is an IP address, localhost, or empty."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name in ("", "localhost") or bool(ipaddress.ip_address(name))
    except ValueError:
        return False
