"""Tokens that stand for leases: whoever was handed a message can settle it, over whatever connection."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from typing import Final

from warren.errors import BadInput
from warren.message import NO_CORR_OFFSET, NO_HEADERS, Message

SECRET_SIZE: Final = 32
SEAL_SIZE: Final = 12


class Tokens:
    """Makes and reads tokens. Nobody else can make one, and none outlives the broker: nor does what it leases.

    A token names a message and the attempt at which it was handed out; the group knows whether that lease still holds.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(SECRET_SIZE)

    def make(self, group: str, message: Message) -> str:
        """The token of a message that was taken from `group`."""
        facts = f"{message.partition}.{message.number}.{message.attempt}"
        return base64.urlsafe_b64encode(self._seal(message.topic, group, facts) + facts.encode()).decode().rstrip("=")

    def read(self, topic: str, group: str, token: str) -> Message:
        """The message that a token names, as far as its group needs it; BadInput for what is no token of it."""
        try:
            data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            facts = data[SEAL_SIZE:].decode()
        except (binascii.Error, ValueError):
            raise BadInput(f"lease {token[:50]!r}: that is none") from None
        if not hmac.compare_digest(data[:SEAL_SIZE], self._seal(topic, group, facts)):
            raise BadInput(f"lease {token[:50]!r}: that is none of group {group!r} of topic {topic!r}")
        partition, number, attempt = map(int, facts.split("."))
        return Message(number, 0, partition, topic, 0, "", "", None, NO_HEADERS, NO_CORR_OFFSET, b"", attempt)

    def _seal(self, topic: str, group: str, facts: str) -> bytes:
        told = f"{topic}/{group}/{facts}".encode(errors="surrogateescape")
        return hmac.digest(self._secret, told, "sha256")[:SEAL_SIZE]
