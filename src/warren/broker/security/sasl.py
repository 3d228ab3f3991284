"""SASL: how a connection shows who it is, step by step, and what it may ask for before it has."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from warren.broker.call import Answer, Call
from warren.broker.kafka_errors import Code
from warren.broker.peer import ANONYMOUS, Peer
from warren.broker.quotas.entities import CONNECTIONS
from warren.broker.security.scram import HASHES, Exchange, parse_first
from warren.broker.security.users import KeptPassword, Users
from warren.config import AUTHENTICATION_ANSWER_S, AUTHENTICATION_TRIES_MAX, SCRAM_NONCE_SIZE
from warren.errors import AuthenticationFailed, LimitReached, NotAuthenticated, TooManyLogins, WarrenError
from warren.protocol.api import ApiKey, served
from warren.protocol.kafka_codec import Fields, Values, encode_response
from warren.protocol.own_errors import error_values
from warren.protocol.own_schemas import OwnKey

if TYPE_CHECKING:
    from warren.broker.broker import Broker

LOGGER: Final = logging.getLogger("warren.broker")
PLAIN: Final = "PLAIN"
BARE_TOKENS_BELOW: Final = 1
"""After a handshake of version 0 tokens come outside of requests."""
BEFORE: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""What is answered to a connection that has not shown who it is."""


class State(Enum):
    """How far a connection has come."""

    NEW = auto()
    PLAIN = auto()
    SCRAM = auto()
    CHALLENGED = auto()
    KNOWN = auto()
    REFUSED = auto()


class Event(Enum):
    """What happens to it."""

    CHOSE_PLAIN = auto()
    CHOSE_SCRAM = auto()
    BEGAN = auto()
    PROVED = auto()
    FAILED = auto()
    FAILED_TOO_OFTEN = auto()


TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = MappingProxyType(
    {
        (State.NEW, Event.CHOSE_PLAIN): State.PLAIN,
        (State.NEW, Event.CHOSE_SCRAM): State.SCRAM,
        # Who was known may show it again, when a session has become old.
        (State.KNOWN, Event.CHOSE_PLAIN): State.PLAIN,
        (State.KNOWN, Event.CHOSE_SCRAM): State.SCRAM,
        (State.PLAIN, Event.PROVED): State.KNOWN,
        (State.SCRAM, Event.BEGAN): State.CHALLENGED,
        (State.CHALLENGED, Event.PROVED): State.KNOWN,
        **{(state, Event.FAILED): State.NEW for state in (State.PLAIN, State.SCRAM, State.CHALLENGED)},
        **{(state, Event.FAILED_TOO_OFTEN): State.REFUSED for state in (State.PLAIN, State.SCRAM, State.CHALLENGED)},
    }
)


class SaslSession:
    """One connection on its way to being known. For the event loop's thread; one request at a time."""

    def __init__(self, users: Users) -> None:
        self.state, self._users = State.NEW, users
        self._mechanism, self._failure_count = PLAIN, 0
        self.is_told = False
        """Whether one of our own clients was told that it needs a user."""
        self._exchange: Exchange | None = None

    def may_ask(self, api_key: int) -> bool:
        """Whether a request of this key is answered now."""
        return self.state is State.KNOWN or (api_key in BEFORE and self.state is not State.REFUSED)

    def can(self, event: Event) -> bool:
        return (self.state, event) in TRANSITIONS

    def happened(self, event: Event) -> None:
        """Go on to the next state; a bug where there is none."""
        self.state = TRANSITIONS[self.state, event]

    def choose(self, mechanism: str) -> bool:
        """Begin with a mechanism; False where this is not the time."""
        event = Event.CHOSE_PLAIN if mechanism == PLAIN else Event.CHOSE_SCRAM
        if not self.can(event):
            return False
        self._mechanism, self._exchange = mechanism, None
        self.happened(event)
        return True

    def failed(self) -> None:
        """A try was in vain."""
        self._failure_count += 1
        is_last = self._failure_count >= AUTHENTICATION_TRIES_MAX
        self.happened(Event.FAILED_TOO_OFTEN if is_last else Event.FAILED)

    def claimed(self, token: bytes) -> str | None:
        """Returns the user whose password a token is meant to prove; None if it does not prove one yet."""
        if self.state is State.PLAIN:
            return token.split(b"\0")[1].decode(errors="replace") if token.count(b"\0") > 1 else ""
        return self._exchange.user if self.state is State.CHALLENGED and self._exchange is not None else None

    def step(self, token: bytes) -> tuple[bytes, KeptPassword | None, Event]:
        """The answer to a token, the password that it proved if it did, and what happened. On a thread: it is slow."""
        if self.state is State.PLAIN:
            return b"", self._proven(token), Event.PROVED
        if self.state is State.SCRAM:
            first = parse_first(token)
            credential = self._users.credential(first.user, self._mechanism)
            nonce = secrets.token_urlsafe(SCRAM_NONCE_SIZE)
            self._exchange = Exchange(self._mechanism, first, credential, nonce)
            return self._exchange.challenge, None, Event.BEGAN
        assert self._exchange is not None
        password = KeptPassword(self._exchange.user, self._mechanism, self._exchange.salt)
        return self._exchange.final(token), password, Event.PROVED

    def _proven(self, token: bytes) -> KeptPassword:
        try:
            authorization, user, password = token.decode().split("\0")
        except ValueError:
            raise AuthenticationFailed from None
        proven = self._users.proven(user, password)
        if proven is None or authorization not in ("", user):
            raise AuthenticationFailed
        return proven


def refusal_to_stranger(call: Call) -> Answer:
    """The answer to a request that is answered only after a login; None if this one may be answered now.

    Our own client is told once that it needs a user. Other requests, which have no place for saying so, raise
    NotAuthenticated, which ends the connection.
    """
    session, key, version = _session(call), call.request.api_key, call.request.version
    if session.may_ask(key):
        return None
    error = NotAuthenticated(key)
    if key < OwnKey.OPEN_SESSION or session.state is not State.NEW or session.is_told:
        raise error
    served(key, version)
    session.is_told = True
    call.broker.closings.tell("%s was not answered: %s", call.peer, error)
    return encode_response(key, version, {"error": error_values(error)})


def is_known(peer: Peer) -> bool:
    """Whether it has shown who it is."""
    return peer.sasl is not None and peer.sasl.state is State.KNOWN


def _session(call: Call) -> SaslSession:
    if call.peer.sasl is None:
        call.peer.sasl = SaslSession(call.broker.users)
    return call.peer.sasl


def sasl_handshake(call: Call, request: Fields) -> Values:
    """Choose how to show who one is."""
    settings = call.broker.settings
    mechanisms = list(settings.mechanisms) if settings.sasl else []
    if call.version < BARE_TOKENS_BELOW:
        error = Code.UNSUPPORTED_VERSION
    elif not settings.sasl:
        error = Code.ILLEGAL_SASL_STATE
    elif request.mechanism not in mechanisms or request.mechanism not in (PLAIN, *HASHES):
        error = Code.UNSUPPORTED_SASL_MECHANISM
    else:
        error = Code.NONE if _session(call).choose(request.mechanism) else Code.ILLEGAL_SASL_STATE
        call.peer.user = ANONYMOUS
    return {"error_code": error, "mechanisms": mechanisms}


async def sasl_authenticate(call: Call, request: Fields) -> Values:
    """One token more. A failure is answered late, always as late, and says nothing of what was wrong."""
    if not call.broker.settings.sasl or not _session(call).can(Event.FAILED):
        return _answer(Code.ILLEGAL_SASL_STATE, "choose a mechanism first, with SaslHandshake")
    loop, session, logins = asyncio.get_running_loop(), _session(call), call.broker.logins
    answer_at = loop.time() + AUTHENTICATION_ANSWER_S
    given = bytes(request.auth_bytes)
    claimed = session.claimed(given)
    try:
        token, password, event = await logins.check(call.peer.host, claimed, lambda: session.step(given))
    except WarrenError as error:
        session.failed()
        told = failed_login(call.broker, call.peer, claimed or "", error)
        await asyncio.sleep(max(0.0, answer_at - loop.time()))
        return _answer(Code.SASL_AUTHENTICATION_FAILED, str(told))
    if password is not None and (refusal := _too_many(call, password.user)) is not None:
        session.failed()
        return _answer(Code.SASL_AUTHENTICATION_FAILED, str(refusal))
    session.happened(event)
    if password is not None:
        logins.tries.succeeded(call.peer.host, password.user)
        call.peer.user = password.user
        call.peer.welcome(password)
    return {"error_code": Code.NONE, "auth_bytes": token}


def _too_many(call: Call, user: str) -> LimitReached | None:
    """Returns why the user gets no further connection; None if it may have one."""
    broker = call.broker
    most = broker.quotas.most(CONNECTIONS, user) if broker.quotas.is_set else None
    others = (each.peer for each in broker.connections if each.peer is not call.peer)
    if most is None or sum(peer.user == user for peer in others) < most:
        return None
    broker.quotas.refused(user)
    return LimitReached(f"user {user!r}", "connections", int(most), CONNECTIONS)


def failed_login(broker: Broker, peer: Peer, user: str, error: WarrenError) -> WarrenError:
    """Counts a login that failed, and returns what its client is told."""
    if isinstance(error, TooManyLogins):
        broker.metrics.logins_refused += 1
        return error
    broker.metrics.logins_failed += 1
    broker.logins.tries.failed(peer.host, user)
    if not isinstance(error, AuthenticationFailed):
        LOGGER.error("users cannot be read: %s", error)
    # A name that is no user's is not shown, because people type passwords in the place of names.
    tried = f"user {user!r}" if broker.users.is_known(user) else "an unknown user"
    broker.failed_logins.tell("authentication failed: %s from %s:%d", tried, peer.host, peer.port)
    return AuthenticationFailed()


def _answer(code: Code, message: str) -> dict[str, Any]:
    return {"error_code": code, "error_message": message, "auth_bytes": b""}
