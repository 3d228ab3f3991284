"""The user as which the replicas of a cluster log in to each other. It is in no file: the secret proves it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Final

from warren.broker.security.scram import HASHES, SCRAM_SALT_SIZE, Credential
from warren.protocol.login import Login

REPLICA_USER: Final = "warren:replica"
"""Users of a store have no colon in their names, so no other user has this one. HTTP cannot send it either."""
LOGIN_PAUSE_S: Final = 2.0
"""How long a replica waits after a login that was refused or not answered."""


class ReplicaUser:
    """The secret of a cluster, as both ends of a login need it: its credentials by mechanism, and the login itself.

    The salt is the same on all replicas, so that a slave computes its salted password once and not at each fail-over.
    """

    def __init__(self, secret: str, cluster: str, mechanisms: Collection[str]) -> None:
        salt = hashlib.sha256(f"{REPLICA_USER} {cluster}".encode()).digest()[:SCRAM_SALT_SIZE]
        self.credentials = {each: Credential.of(each, secret, salt) for each in HASHES if each in mechanisms}
        self.login = Login(REPLICA_USER, secret, max(self.credentials))
        self._next_s = 0.0

    def failed(self, now_s: float) -> None:
        """Notes that a login was refused or not answered, so that the next one waits.

        The master slows down logins after failed ones, also those of other replicas at the same address.
        """
        self._next_s = now_s + LOGIN_PAUSE_S

    def pause_s(self, now_s: float) -> float:
        """Returns how long the next login has to wait."""
        return max(0.0, self._next_s - now_s)
