"""Login: how a connection proves its user, by SCRAM (RFC 5802, RFC 7677) or with the password itself."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Generator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from warren.errors import BadInput, LoginFailed
from warren.protocol.limits import SCRAM_NONCE_SIZE

SCRAM_ITERATIONS_MIN: Final = 4096
SCRAM_ITERATIONS_MAX: Final = 1_000_000
"""The largest iteration count that a client accepts in a challenge. It takes about a second."""

PLAIN: Final = "PLAIN"
HASHES: Final[Mapping[str, str]] = MappingProxyType({"SCRAM-SHA-512": "sha512", "SCRAM-SHA-256": "sha256"})
"""The hash of each mechanism, the stronger one first."""
MECHANISMS: Final = (*HASHES, PLAIN)
HEADER: Final = "n,,"
"""The GS2 header of SCRAM: no channel binding, and no other user on whose behalf the client acts."""
Send = Callable[[bytes], bytes]
"""Sends a token to the broker and returns its answer."""


class Challenge(NamedTuple):
    """The broker's SCRAM challenge."""

    nonce: str
    salt: bytes
    iterations: int


class Login:
    """A user and a password, for any number of connections. Any thread may use it.

    If no mechanism is named, the strongest one that the broker accepts is used. PLAIN sends the password itself, so it
    is chosen only if the connection uses TLS.
    """

    def __init__(self, user: str, password: str, mechanism: str | None = None) -> None:
        if mechanism is not None and mechanism not in MECHANISMS:
            raise BadInput(f"mechanism {mechanism!r}: expected one of {', '.join(MECHANISMS)}")
        self.user, self._password, self._mechanism = user, password, mechanism
        self._salted: dict[tuple[str, bytes, int], bytes] = {}

    @property
    def first(self) -> str:
        """Returns the mechanism to try first."""
        return self._mechanism or MECHANISMS[0]

    def next_best(self, address: str, offered: list[str], *, is_private: bool) -> str:
        """Returns the mechanism to try if the broker does not accept the first one.

        Raises LoginFailed if there is none.
        """
        if self._mechanism is not None:
            raise LoginFailed(address, self.user, f"it does not accept {self._mechanism}, but {', '.join(offered)}")
        for mechanism in MECHANISMS:
            if mechanism in offered and (mechanism != PLAIN or is_private):
                return mechanism
        if PLAIN in offered:
            reason = "it accepts only a plain-text password: use tls, or pass mechanism='PLAIN'"
        else:
            offers = f"it accepts {', '.join(offered)}"
            reason = offers if offered else "it has no logins: connect without user and password"
        raise LoginFailed(address, self.user, reason)

    def show(self, mechanism: str, send: Send) -> str:
        """Proves the user to the broker.

        Returns what is wrong with the broker's own proof; empty if the proof is right.
        """
        steps = self.steps(mechanism)
        token = next(steps)
        while True:
            try:
                token = steps.send(send(token))
            except StopIteration as proved:
                return str(proved.value)

    def steps(self, mechanism: str) -> Generator[bytes, bytes, str]:
        """Yields each token to send, and gets the broker's answer to it. Returns what `show` returns.

        The step after a challenge may take a tenth of a second of computing.
        """
        if mechanism == PLAIN:
            yield f"\0{self.user}\0{self._password}".encode()
            return ""
        name = HASHES[mechanism]
        nonce = secrets.token_urlsafe(SCRAM_NONCE_SIZE)
        bare = f"n={self.user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        answer = yield f"{HEADER}{bare}".encode()
        challenge = parse_challenge(answer, nonce)
        if challenge is None:
            return "its challenge is not valid"
        salted = self._salted_password(name, challenge)
        without_proof = f"c={base64.b64encode(HEADER.encode()).decode()},r={challenge.nonce}"
        transcript = ",".join((bare, answer.decode(), without_proof)).encode()
        client_key = hmac.digest(salted, b"Client Key", name)
        signature = hmac.digest(hashlib.new(name, client_key).digest(), transcript, name)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        final = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
        expected = hmac.digest(hmac.digest(salted, b"Server Key", name), transcript, name)
        is_proved = hmac.compare_digest(final, b"v=" + base64.b64encode(expected))
        return "" if is_proved else "it does not prove that it knows the user"

    def _salted_password(self, name: str, challenge: Challenge) -> bytes:
        """Returns the salted password.

        It is cached because computing it takes long and the next connection needs the same.
        """
        key = name, challenge.salt, challenge.iterations
        salted = self._salted.get(key)
        if salted is None:
            salted = hashlib.pbkdf2_hmac(name, self._password.encode(), challenge.salt, challenge.iterations)
            # One entry is enough: the broker has one salt per user and mechanism.
            self._salted = {key: salted}
        return salted


def parse_challenge(token: bytes, nonce: str) -> Challenge | None:
    """Returns the broker's challenge to a client with this nonce.

    Returns None if it cannot be parsed, has another nonce, or asks for too few or too many iterations.
    """
    try:
        fields = dict(part.split("=", 1) for part in token.decode().split(","))
        salt = base64.b64decode(fields["s"], validate=True)
        challenge = Challenge(fields["r"], salt, int(fields["i"]))
    except (ValueError, KeyError, binascii.Error):
        return None
    is_ours = challenge.nonce.startswith(nonce) and len(challenge.nonce) > len(nonce)
    return challenge if is_ours and SCRAM_ITERATIONS_MIN <= challenge.iterations <= SCRAM_ITERATIONS_MAX else None
