"""SASL: the login of a connection, step by step, and the requests that it may send before."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from warren.broker.kafka.errors import Code
from warren.broker.net.request import Answer, Call
from warren.broker.quotas.entities import CONNECTIONS
from warren.broker.security.logins import AUTHENTICATION_ANSWER_S
from warren.broker.security.peer import ANONYMOUS, Peer
from warren.broker.security.sasl_session import PLAIN, LoginEvent, LoginState, SaslSession
from warren.broker.security.scram import HASHES
from warren.errors import AuthenticationFailed, LimitReached, NotAuthenticated, TooManyLogins, WarrenError
from warren.protocol import native_messages
from warren.protocol.api_keys import served
from warren.protocol.kafka_messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from warren.protocol.native.calls import wire_error
from warren.protocol.native_schemas import NativeKey
from warren.protocol.schema_codec import RESPONSE, message_buffers
from warren.protocol.wire_struct import NativeResponse

if TYPE_CHECKING:
    from warren.broker.security.logins import Logins
    from warren.broker.security.users import Users
    from warren.broker.services.limited_log import LimitedLog
    from warren.broker.services.metrics import Metrics

LOGGER: Final = logging.getLogger("warren.broker")
BARE_TOKENS_BELOW: Final = 1
"""After a handshake below this version the tokens come without requests around them."""


class LoginServices(Protocol):
    """The parts of the broker that a login uses, over every protocol."""

    @property
    def metrics(self) -> Metrics: ...

    @property
    def users(self) -> Users: ...

    @property
    def logins(self) -> Logins: ...

    @property
    def failed_logins(self) -> LimitedLog: ...


def refusal_to_stranger(call: Call) -> Answer:
    """Returns the refusal of a request that needs a login first; None if it may be answered now.

    Warren's own client gets one answer that says that it needs a user. Other requests have no field for that, and raise
    NotAuthenticated, which ends the connection.
    """
    session, key, version = _session(call), call.request.api_key, call.request.version
    if session.may_ask(key):
        return None
    error = NotAuthenticated(key)
    if key < NativeKey.OPEN_SESSION or session.state is not LoginState.NEW or session.has_been_refused:
        raise error
    served(key, version)
    session.has_been_refused = True
    call.broker.closings.tell("%s was not answered: %s", call.peer, error)
    kind: type[NativeResponse] = getattr(native_messages, f"{NativeKey(key).title}{RESPONSE}")
    return message_buffers(kind(error=wire_error(error)), version)


def is_known(peer: Peer) -> bool:
    """Returns whether its user has logged in."""
    return peer.sasl is not None and peer.sasl.state is LoginState.KNOWN


def _session(call: Call) -> SaslSession:
    if call.peer.sasl is None:
        call.peer.sasl = SaslSession(call.broker.users)
    return call.peer.sasl


def sasl_handshake(call: Call, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Chooses the mechanism of the login."""
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
    return SaslHandshakeResponse(error, mechanisms)


async def sasl_authenticate(call: Call, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Handles one token of the login. A failure is answered after a fixed time, and does not say what was wrong."""
    if not call.broker.settings.sasl or not _session(call).can(LoginEvent.FAILED):
        return SaslAuthenticateResponse(Code.ILLEGAL_SASL_STATE, "choose a mechanism first, with SaslHandshake")
    loop, session, logins = asyncio.get_running_loop(), _session(call), call.broker.logins
    answer_at = loop.time() + AUTHENTICATION_ANSWER_S
    sent = request.auth_bytes
    claimed = session.claimed(sent)
    try:
        token, password, event = await logins.check(call.peer.host, claimed, lambda: session.step(sent))
    except WarrenError as error:
        session.failed()
        answer = failed_login(call.broker, call.peer, claimed or "", error)
        await asyncio.sleep(max(0.0, answer_at - loop.time()))
        return SaslAuthenticateResponse(Code.SASL_AUTHENTICATION_FAILED, str(answer))
    if password is not None and (refusal := _too_many(call, password.user)) is not None:
        session.failed()
        return SaslAuthenticateResponse(Code.SASL_AUTHENTICATION_FAILED, str(refusal))
    session.happened(event)
    if password is not None:
        logins.tries.succeeded(call.peer.host, password.user)
        call.peer.user = password.user
        call.peer.welcome(password)
    return SaslAuthenticateResponse(auth_bytes=token)


def _too_many(call: Call, user: str) -> LimitReached | None:
    """Returns why the user gets no further connection; None if it may have one."""
    broker = call.broker
    most = broker.quotas.most(CONNECTIONS, user) if broker.quotas.is_set else None
    others = (each.peer for each in broker.connections if each.peer is not call.peer)
    if most is None or sum(peer.user == user for peer in others) < most:
        return None
    broker.quotas.refused(user)
    return LimitReached(f"user {user!r}", "connections", int(most), CONNECTIONS)


def failed_login(broker: LoginServices, peer: Peer, user: str, error: WarrenError) -> WarrenError:
    """Counts a login that failed, and returns the answer to its client."""
    if isinstance(error, TooManyLogins):
        broker.metrics.logins_refused += 1
        return error
    broker.metrics.logins_failed += 1
    broker.logins.tries.failed(peer.host, user)
    if not isinstance(error, AuthenticationFailed):
        LOGGER.error("users cannot be read: %s", error)
    # A name that is no user's is not logged, because people sometimes type passwords instead of names.
    tried = f"user {user!r}" if broker.users.is_known(user) else "an unknown user"
    broker.failed_logins.tell("authentication failed: %s from %s:%d", tried, peer.host, peer.port)
    return AuthenticationFailed()
