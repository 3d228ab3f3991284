"""SCRAM (RFC 5802, RFC 7677) on the broker's side: the stored credential of a password, and the exchange."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from warren.errors import AuthenticationFailed

SCRAM_ITERATIONS: Final = 100_000
"""The iterations of a new password. The number is stored with each password, and older ones keep theirs."""
SCRAM_SALT_SIZE: Final = 16

HASHES: Final[Mapping[str, str]] = MappingProxyType({"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"})
"""The hash of each mechanism."""
CLIENT_KEY: Final = b"Client Key"
SERVER_KEY: Final = b"Server Key"
DRAW_SIZE: Final = 6
DRAWN_MAX: Final = 1 << (8 * DRAW_SIZE)


class Credential(NamedTuple):
    """The stored proof of a password. The password cannot be computed from it."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(cls, mechanism: str, password: str, salt: bytes, iterations: int = SCRAM_ITERATIONS) -> Self:
        """Returns the credential of a password. The time that it takes grows with `iterations`."""
        name = HASHES[mechanism]
        salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
        client_key = hmac.digest(salted, CLIENT_KEY, name)
        stored_key = hashlib.new(name, client_key).digest()
        return cls(salt, iterations, stored_key, hmac.digest(salted, SERVER_KEY, name))

    def to_json(self) -> dict[str, Any]:
        return {
            "salt": _text(self.salt),
            "iterations": self.iterations,
            "stored_key": _text(self.stored_key),
            "server_key": _text(self.server_key),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Returns the credential of what `to_json` returned. Raises KeyError, TypeError or ValueError otherwise."""
        keys = (base64.b64decode(data[name], validate=True) for name in ("salt", "stored_key", "server_key"))
        salt, stored_key, server_key = keys
        return cls(salt, int(data["iterations"]), stored_key, server_key)


def unknown_user(mechanism: str, secret: bytes, user: str, counts: Mapping[int, int]) -> Credential:
    """Returns a credential for a user who does not exist. It is always the same for a name, and no password fits it.

    `counts` says how many users have how many iterations. Missing users get each number with the same frequency,
    because a client sees the number, and could otherwise find out which users exist.
    """
    name = HASHES[mechanism]
    salt = hmac.digest(secret, user.encode(), name)[:SCRAM_SALT_SIZE]
    size = hashlib.new(name).digest_size

    def rank(iterations: int) -> float:
        # Weighted rendezvous hashing: when users are added or removed, few others get another number.
        drawn = int.from_bytes(hmac.digest(secret, f"{iterations} {user}".encode(), name)[:DRAW_SIZE])
        return -counts[iterations] / math.log((drawn + 1) / (DRAWN_MAX + 1))

    iterations = max(counts, key=rank, default=SCRAM_ITERATIONS)
    return Credential(salt, iterations, bytes(size), bytes(size))


class ClientFirst(NamedTuple):
    """The first message of a client."""

    header: str
    bare: str
    user: str
    nonce: str


def parse_first(token: bytes) -> ClientFirst:
    """Returns the client's first message. Raises AuthenticationFailed if it is not one that can be answered."""
    text = _decoded(token)
    binding, _, rest = text.partition(",")
    authorization, _, bare = rest.partition(",")
    fields = _fields(bare)
    user = fields.get("n", "").replace("=2C", ",").replace("=3D", "=")
    if binding not in ("n", "y") or not user or not fields.get("r") or "m" in fields or "tokenauth" in fields:
        raise AuthenticationFailed
    if authorization and authorization != f"a={fields['n']}":
        raise AuthenticationFailed
    return ClientFirst(f"{binding},{authorization},", bare, user, fields["r"])


class Exchange:
    """One login, from the client's first message on. `user` is proved when `final` has returned."""

    def __init__(self, mechanism: str, first: ClientFirst, credential: Credential, server_nonce: str) -> None:
        self._hash, self._first, self._credential = HASHES[mechanism], first, credential
        self._nonce = first.nonce + server_nonce
        self.user, self.salt = first.user, credential.salt

    @property
    def challenge(self) -> bytes:
        """Returns the broker's first message."""
        return f"r={self._nonce},s={_text(self._credential.salt)},i={self._credential.iterations}".encode()

    def final(self, token: bytes) -> bytes:
        """Returns the broker's last message, which proves that the broker knows the user.

        Raises AuthenticationFailed if the client's proof is wrong.
        """
        text = _decoded(token)
        without_proof, _, _ = text.rpartition(",p=")
        fields = _fields(text)
        binding = _text(self._first.header.encode())
        auth_message = ",".join((self._first.bare, self.challenge.decode(), without_proof)).encode()
        is_proved = self._is_proved(fields.get("p", ""), auth_message)
        if not is_proved or fields.get("r") != self._nonce or fields.get("c") != binding:
            raise AuthenticationFailed
        return b"v=" + _text(hmac.digest(self._credential.server_key, auth_message, self._hash)).encode()

    def _is_proved(self, proof: str, auth_message: bytes) -> bool:
        signature = hmac.digest(self._credential.stored_key, auth_message, self._hash)
        try:
            decoded = base64.b64decode(proof, validate=True)
        except (binascii.Error, ValueError):
            decoded = b""
        client_key = bytes(a ^ b for a, b in zip(decoded.ljust(len(signature), b"\0"), signature, strict=False))
        stored_key = hashlib.new(self._hash, client_key).digest()
        return hmac.compare_digest(stored_key, self._credential.stored_key) and len(decoded) == len(signature)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed from None


def _fields(text: str) -> dict[str, str]:
    return {name: value for name, equals, value in (part.partition("=") for part in text.split(",")) if equals}
