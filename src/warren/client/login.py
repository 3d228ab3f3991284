"""Login: how a connection shows who it is: by SCRAM (RFC 5802, RFC 7677), or by the password itself."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from warren.config import SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, SCRAM_NONCE_SIZE
from warren.errors import BadInput, LoginFailed

PLAIN: Final = "PLAIN"
HASHES: Final[Mapping[str, str]] = MappingProxyType({"SCRAM-SHA-512": "sha512", "SCRAM-SHA-256": "sha256"})
"""The hash of each mechanism, the better one first."""
MECHANISMS: Final = (*HASHES, PLAIN)
HEADER: Final = "n,,"
"""No channel binding, and nobody else in whose name."""
Send = Callable[[bytes], bytes]
"""Sends a token to the broker; its answer."""


class Challenge(NamedTuple):
    """What the broker asks for."""

    nonce: str
    salt: bytes
    iterations: int


class Login:
    """A user and a password, for any number of connections. Any thread may use it.

    Without a mechanism it is the best one that the broker takes; PLAIN, which shows the password to whoever listens,
    only where nobody can listen.
    """

    def __init__(self, user: str, password: str, mechanism: str | None = None) -> None:
        if mechanism is not None and mechanism not in MECHANISMS:
            raise BadInput(f"mechanism {mechanism!r}: expected one of {', '.join(MECHANISMS)}")
        self.user, self._password, self._mechanism = user, password, mechanism
        self._salted: dict[tuple[str, bytes, int], bytes] = {}

    @property
    def first(self) -> str:
        """The mechanism to ask for first."""
        return self._mechanism or MECHANISMS[0]

    def next_best(self, address: str, offered: list[str], *, is_private: bool) -> str:
        """The mechanism to ask for where the broker does not take the first one; LoginFailed where there is none."""
        if self._mechanism is not None:
            raise LoginFailed(address, self.user, f"it does not take {self._mechanism}, but {', '.join(offered)}")
        for mechanism in MECHANISMS:
            if mechanism in offered and (mechanism != PLAIN or is_private):
                return mechanism
        if PLAIN in offered:
            reason = "it takes the password only as it is, for everybody to read: use tls, or say mechanism='PLAIN'"
        else:
            offers = f"it takes {', '.join(offered)}"
            reason = offers if offered else "it has no logins: connect without user and password"
        raise LoginFailed(address, self.user, reason)

    def show(self, mechanism: str, send: Send) -> str:
        """Show who is there; what is wrong with the broker's proof that it knows the user, empty for nothing."""
        if mechanism == PLAIN:
            send(f"\0{self.user}\0{self._password}".encode())
            return ""
        name = HASHES[mechanism]
        nonce = secrets.token_urlsafe(SCRAM_NONCE_SIZE)
        bare = f"n={self.user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        told = send(f"{HEADER}{bare}".encode())
        challenge = parse_challenge(told, nonce)
        if challenge is None:
            return "its challenge cannot be answered"
        salted = self._salted_password(name, challenge)
        without_proof = f"c={base64.b64encode(HEADER.encode()).decode()},r={challenge.nonce}"
        said = ",".join((bare, told.decode(), without_proof)).encode()
        client_key = hmac.digest(salted, b"Client Key", name)
        signature = hmac.digest(hashlib.new(name, client_key).digest(), said, name)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        final = send(f"{without_proof},p={base64.b64encode(proof).decode()}".encode())
        expected = hmac.digest(hmac.digest(salted, b"Server Key", name), said, name)
        is_proved = hmac.compare_digest(final, b"v=" + base64.b64encode(expected))
        return "" if is_proved else "it does not prove that it knows the user"

    def _salted_password(self, name: str, challenge: Challenge) -> bytes:
        """Kept, for it takes a while: the next connection is asked the same."""
        key = name, challenge.salt, challenge.iterations
        salted = self._salted.get(key)
        if salted is None:
            salted = hashlib.pbkdf2_hmac(name, self._password.encode(), challenge.salt, challenge.iterations)
            # Of one user there is one of each.
            self._salted = {key: salted}
        return salted


def parse_challenge(token: bytes, nonce: str) -> Challenge | None:
    """The broker's challenge to a client with this nonce; None where it is none, or wants too little or too much."""
    try:
        fields = dict(part.split("=", 1) for part in token.decode().split(","))
        salt = base64.b64decode(fields["s"], validate=True)
        found = Challenge(fields["r"], salt, int(fields["i"]))
    except (ValueError, KeyError, binascii.Error):
        return None
    is_ours = found.nonce.startswith(nonce) and len(found.nonce) > len(nonce)
    return found if is_ours and SCRAM_ITERATIONS_MIN <= found.iterations <= SCRAM_ITERATIONS_MAX else None
