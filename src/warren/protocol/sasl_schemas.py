"""The messages by which a connection shows who it is, so that a client needs nothing else to log in."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from warren.protocol.schemas import NEVER, Message, Versions, field

_FLEXIBLE: Final = Versions.parse("2+")

SASL_MESSAGES: Final[Mapping[str, Message]] = MappingProxyType(
    {
        message.name: message
        for message in (
            Message("SaslHandshakeRequest", NEVER, (field("mechanism", "string"),)),
            Message("SaslHandshakeResponse", NEVER, (field("error_code", "int16"), field("mechanisms", "[]string"))),
            Message("SaslAuthenticateRequest", _FLEXIBLE, (field("auth_bytes", "bytes"),)),
            Message(
                "SaslAuthenticateResponse",
                _FLEXIBLE,
                (
                    field("error_code", "int16"),
                    field("error_message", "string", nullable="0+"),
                    field("auth_bytes", "bytes"),
                    field("session_lifetime_ms", "int64", versions="1+"),
                ),
            ),
        )
    }
)
