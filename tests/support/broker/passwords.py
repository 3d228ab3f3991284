"""Passwords that are quick to check. With 100,000 iterations, a user of a test costs a tenth of a second."""

from __future__ import annotations

from typing import Self

from warren.broker.security.scram import Credential
from warren.protocol.login import SCRAM_ITERATIONS_MIN


class QuickCredential(Credential):
    """A credential with the fewest iterations that our client accepts."""

    __slots__ = ()

    @classmethod
    def of(cls, mechanism: str, password: str, salt: bytes, iterations: int = SCRAM_ITERATIONS_MIN) -> Self:
        return super().of(mechanism, password, salt, iterations)
