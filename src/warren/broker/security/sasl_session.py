"""SaslSession: the states of the login of one connection, as a table."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from warren.broker.security.scram import Exchange, parse_first
from warren.broker.security.users import KeptPassword, Users
from warren.errors import AuthenticationFailed
from warren.protocol.api_keys import ApiKey
from warren.protocol.limits import SCRAM_NONCE_SIZE

AUTHENTICATION_TRIES_MAX: Final = 3
"""How often a connection may try to log in."""

PLAIN: Final = "PLAIN"
BEFORE: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""The requests that are answered before a login."""


class LoginState(Enum):
    """The state of a login."""

    NEW = auto()
    PLAIN = auto()
    SCRAM = auto()
    CHALLENGED = auto()
    KNOWN = auto()
    REFUSED = auto()


class LoginEvent(Enum):
    """An event of a login."""

    CHOSE_PLAIN = auto()
    CHOSE_SCRAM = auto()
    BEGAN = auto()
    PROVED = auto()
    FAILED = auto()
    FAILED_TOO_OFTEN = auto()


TRANSITIONS: Final[Mapping[tuple[LoginState, LoginEvent], LoginState]] = MappingProxyType(
    {
        (LoginState.NEW, LoginEvent.CHOSE_PLAIN): LoginState.PLAIN,
        (LoginState.NEW, LoginEvent.CHOSE_SCRAM): LoginState.SCRAM,
        # A user may log in again, for example before the session expires.
        (LoginState.KNOWN, LoginEvent.CHOSE_PLAIN): LoginState.PLAIN,
        (LoginState.KNOWN, LoginEvent.CHOSE_SCRAM): LoginState.SCRAM,
        (LoginState.PLAIN, LoginEvent.PROVED): LoginState.KNOWN,
        (LoginState.SCRAM, LoginEvent.BEGAN): LoginState.CHALLENGED,
        (LoginState.CHALLENGED, LoginEvent.PROVED): LoginState.KNOWN,
        **{
            (state, LoginEvent.FAILED): LoginState.NEW
            for state in (LoginState.PLAIN, LoginState.SCRAM, LoginState.CHALLENGED)
        },
        **{
            (state, LoginEvent.FAILED_TOO_OFTEN): LoginState.REFUSED
            for state in (LoginState.PLAIN, LoginState.SCRAM, LoginState.CHALLENGED)
        },
    }
)


class SaslSession:
    """The login of one connection. For the event loop's thread; one request at a time."""

    def __init__(self, users: Users) -> None:
        self.state, self._users = LoginState.NEW, users
        self._mechanism, self._failure_count = PLAIN, 0
        self.has_been_refused = False
        """Whether the connection, of Warren's own client, has got the error that it has to log in."""
        self._exchange: Exchange | None = None

    def may_ask(self, api_key: int) -> bool:
        """Returns whether a request of this key is answered in this state."""
        return self.state is LoginState.KNOWN or (api_key in BEFORE and self.state is not LoginState.REFUSED)

    def can(self, event: LoginEvent) -> bool:
        return (self.state, event) in TRANSITIONS

    def happened(self, event: LoginEvent) -> None:
        """Goes to the next state. An event that the state does not allow is a bug of the caller."""
        self.state = TRANSITIONS[self.state, event]

    def choose(self, mechanism: str) -> bool:
        """Begins a login by a mechanism. Returns False if the state does not allow it."""
        event = LoginEvent.CHOSE_PLAIN if mechanism == PLAIN else LoginEvent.CHOSE_SCRAM
        if not self.can(event):
            return False
        self._mechanism, self._exchange = mechanism, None
        self.happened(event)
        return True

    def failed(self) -> None:
        """Counts a login that failed. After AUTHENTICATION_TRIES_MAX of them the session is refused."""
        self._failure_count += 1
        is_last = self._failure_count >= AUTHENTICATION_TRIES_MAX
        self.happened(LoginEvent.FAILED_TOO_OFTEN if is_last else LoginEvent.FAILED)

    def claimed(self, token: bytes) -> str | None:
        """Returns the user whose password a token is meant to prove; None if it does not prove one yet."""
        if self.state is LoginState.PLAIN:
            return token.split(b"\0")[1].decode(errors="replace") if token.count(b"\0") > 1 else ""
        return self._exchange.user if self.state is LoginState.CHALLENGED and self._exchange is not None else None

    def step(self, token: bytes) -> tuple[bytes, KeptPassword | None, LoginEvent]:
        """Returns the answer to a token, the password that it proved, if it did, and the event.

        For a thread, because it is slow. Raises AuthenticationFailed if the token proves nothing.
        """
        if self.state is LoginState.PLAIN:
            return b"", self._proven(token), LoginEvent.PROVED
        if self.state is LoginState.SCRAM:
            first = parse_first(token)
            credential = self._users.scram_credential(first.user, self._mechanism)
            nonce = secrets.token_urlsafe(SCRAM_NONCE_SIZE)
            self._exchange = Exchange(self._mechanism, first, credential, nonce)
            return self._exchange.challenge, None, LoginEvent.BEGAN
        assert self._exchange is not None
        password = KeptPassword(self._exchange.user, self._mechanism, self._exchange.salt)
        return self._exchange.final(token), password, LoginEvent.PROVED

    def _proven(self, token: bytes) -> KeptPassword:
        try:
            authorization, user, password = token.decode().split("\0")
        except ValueError:
            raise AuthenticationFailed from None
        proven = self._users.proven(user, password)
        if proven is None or authorization not in ("", user):
            raise AuthenticationFailed
        return proven
