"""Who asks over HTTP: the users and passwords of the broker."""

from __future__ import annotations

import asyncio
import base64
import binascii
import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from warren.broker.peer import Peer
from warren.broker.security.sasl import PLAIN, failed_login
from warren.config import AUTHENTICATION_ANSWER_S
from warren.errors import AuthenticationFailed, WarrenError, WrongPlace
from warren.gateway.exchange import Head

if TYPE_CHECKING:
    from warren.broker.broker import Broker


class Access:
    """Knows who asks over one connection. For the event loop's thread alone.

    Invariant: a password is checked once for a connection that goes on to send it; a wrong one is answered late,
    always as late, and what was wrong is not said. `is_local`: only this machine asks; `is_secret`: nobody else sees
    what it sends.
    """

    def __init__(self, broker: Broker, close: Callable[[], None], *, is_local: bool, is_secret: bool) -> None:
        self._broker, self._is_local, self._is_secret = broker, is_local, is_secret
        self._known: tuple[str, str] | None = None
        self._close = close

    def stranger(self, head: Head) -> Peer:
        """Who asks for what everybody may."""
        return Peer(head.host, head.port)

    async def peer_of(self, head: Head) -> Peer:
        """Who asks; AuthenticationFailed where they have not shown it and must."""
        peer = self.stranger(head)
        if not self._broker.settings.sasl:
            return peer
        given = head.headers.get("authorization", "")
        if self._known is None or self._known[0] != given:
            self._known = given, await self._shown(given, peer)
        peer.user = self._known[1]
        return peer

    async def _shown(self, given: str, peer: Peer) -> str:
        scheme, _, token = given.partition(" ")
        # Where PLAIN is not taken a password must not travel for all to see.
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
        told = failed_login(broker, peer, user, failure)
        await asyncio.sleep(max(0.0, answer_at - loop.time()))
        raise told

    def end(self) -> None:
        """The connection ended."""
        self._broker.logged_in.discard(self)

    def check_place(self, head: Head) -> None:
        """WrongPlace for a request that a page of another site makes somebody's browser send.

        Where nobody has to show who they are and only this machine can ask, it must do so by an address or as
        localhost: another name that leads here is one that a page has made to.
        """
        host, origin = head.headers.get("host", ""), head.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            raise WrongPlace("Origin", origin)
        if self._is_local and not self._broker.settings.sasl and not _is_address(host):
            raise WrongPlace("Host", host)


def _is_address(host: str) -> bool:
    """Whether `host`, with a port or without, is an address, or this machine by its own name; or nothing at all."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name in ("", "localhost") or bool(ipaddress.ip_address(name))
    except ValueError:
        return False
