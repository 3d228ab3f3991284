"""The peer of a connection: its address and its user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from warren.protocol.kafka.produce_template import ProduceReader

if TYPE_CHECKING:
    from warren.broker.security.sasl_session import SaslSession
    from warren.broker.security.users import KeptPassword

ANONYMOUS: Final = "ANONYMOUS"


@dataclass(slots=True)
class Peer:
    """The other end of a connection. If clients have to log in, `user` is ANONYMOUS until this one has."""

    host: str
    port: int
    user: str = ANONYMOUS
    client_id: str = ""
    software: str = ""
    batch_count: int = 0
    """How many batches it has produced."""
    produces: ProduceReader = field(default_factory=ProduceReader)
    fetched_to: dict[int, int] = field(default_factory=dict)
    """The number behind the last messages of a log that it got by Fetch, by the identity of the log."""
    sasl: SaslSession | None = None
    welcome: Callable[[KeptPassword], None] = lambda password: None
    """Called when a user has logged in."""
    is_replica: bool = False
    """Whether it is a slave that follows this broker."""
    is_gone: bool = False
    """Whether the connection has ended."""
    answer_memory: list[Callable[[], None]] = field(default_factory=list)
    """Give back the memory of the answer that is being made. Called when the transport has the answer."""

    @property
    def owner(self) -> str:
        """Returns the owner of the memory that the broker holds for the peer: its user, otherwise its address."""
        return self.user if self.user != ANONYMOUS else self.host

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"


class Requester(Protocol):
    """The part of a request's sender that quotas use."""

    @property
    def peer(self) -> Peer: ...

    @property
    def client_id(self) -> str: ...
