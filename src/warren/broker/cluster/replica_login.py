"""The login of a replica at another one, by SCRAM, and the sentences of what a connection between them ends with."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final

from warren.errors import LoginFailed
from warren.protocol.kafka_messages import SaslAuthenticateRequest, SaslHandshakeRequest
from warren.protocol.login import Login
from warren.protocol.wire_struct import WireRequest

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 2
Ask = Callable[[WireRequest[Any], int], Awaitable[Any]]
"""Sends a request of a version over the connection, and returns its answer."""


async def log_in(login: Login, address: str, ask: Ask) -> None:
    """Logs in. Raises LoginFailed if the other replica refuses, or does not prove that it knows the secret."""
    mechanism = login.first
    handshake = await ask(SaslHandshakeRequest(mechanism=mechanism), HANDSHAKE_VERSION)
    if handshake.error_code:
        offers = f"it accepts {', '.join(handshake.mechanisms)}" if handshake.mechanisms else "it has no logins"
        raise LoginFailed(address, login.user, f"{offers}; [security] must be the same on all replicas")
    steps = login.steps(mechanism)
    token: bytes | None = next(steps)
    while token is not None:
        answer = await ask(SaslAuthenticateRequest(auth_bytes=token), AUTHENTICATE_VERSION)
        if answer.error_code:
            raise LoginFailed(address, login.user, f"{answer.error_message}; {SAME_SECRET}")
        # On a thread, because a salted password takes a tenth of a second.
        token, fault = await asyncio.to_thread(_next_token, steps, bytes(answer.auth_bytes))
        if fault:
            raise LoginFailed(address, login.user, f"{fault}; {SAME_SECRET}")


SAME_SECRET: Final = "the secret in cluster.secret_file must be the same on all replicas"


def _next_token(steps: Generator[bytes, bytes, str], answer: bytes) -> tuple[bytes | None, str]:
    """Returns the next token, or None at the end; and what is wrong with the other one's proof."""
    try:
        return steps.send(answer), ""
    except StopIteration as proved:
        return None, proved.value


def loss_of(address: str, error: BaseException | None) -> str:
    """Returns a sentence about a connection to another replica that `error` has ended."""
    if error is None:
        return f"{address}: the connection ended"
    if isinstance(error, LoginFailed):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"{address}: its certificate was not accepted: {error.verify_message}; "
            "tls.replica_ca names what has signed it, and it must have the host of this address"
        )
    if isinstance(error, ssl.SSLError) and "CERTIFICATE" in (error.reason or ""):
        alert = str(error.reason).rpartition("ALERT_")[2].replace("_", " ").lower()
        return f"{address}: it does not accept the certificate of this replica: {alert}"
    return f"{address}: {str(error) or type(error).__name__}"
