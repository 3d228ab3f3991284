"""Who is at the other end of a connection: where it comes from, and as whom it is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from warren.broker.security.sasl import SaslSession
    from warren.broker.security.users import KeptPassword

ANONYMOUS: Final = "ANONYMOUS"


@dataclass(slots=True)
class Peer:
    """One connection's other end. `user` is ANONYMOUS until it has shown who it is, where that is asked for."""

    host: str
    port: int
    user: str = ANONYMOUS
    client_id: str = ""
    software: str = ""
    batch_count: int = 0
    """How many batches it has produced."""
    sasl: SaslSession | None = None
    welcome: Callable[[KeptPassword], None] = lambda password: None
    """Called when a user has logged in."""

    @property
    def owner(self) -> str:
        """Whose the memory is that it makes the broker hold: its user's, or that of all who come from its address."""
        return self.user if self.user != ANONYMOUS else self.host

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"
