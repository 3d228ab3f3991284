"""Who sends a request, whichever door it came through, and what that user may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.broker.security.rights import CLUSTER_NAME, Kind, Operation
from warren.errors import NoRight

if TYPE_CHECKING:
    from warren.broker.broker import Broker
    from warren.broker.peer import Peer


HTTP_CLIENT: Final = "http"


class Asker:
    """A request as far as rights are concerned: the broker that serves it, and who sent it. For the event loop."""

    __slots__ = ()
    broker: Broker
    peer: Peer

    @property
    def client_id(self) -> str:
        """What the client calls itself; the same for all requests over HTTP."""
        return HTTP_CLIENT

    def may(self, operation: Operation, kind: Kind, name: str) -> bool:
        """Whether the user may do this. Without `security.rights` every user may do everything."""
        rights = self.broker.rights
        return rights is None or rights.may(self.peer, operation, kind, name)

    def may_create(self, topic: str) -> bool:
        """Whether the user may make this topic."""
        return self.may(Operation.CREATE, Kind.TOPIC, topic) or self.may(Operation.CREATE, Kind.CLUSTER, CLUSTER_NAME)

    def check_creates(self, topic: str) -> None:
        """Raises NoRight if the user may not make this topic."""
        if not self.may_create(topic):
            raise self.denied(Operation.CREATE, Kind.TOPIC, topic)

    def denied(self, operation: Operation, kind: Kind, name: str) -> NoRight:
        """The error that tells the user what is missing. The broker logs it."""
        error = NoRight(self.peer.user, operation.name.lower(), kind.name.lower(), name)
        self.broker.denials.tell("denied to %s: %s", self.peer, error)
        return error

    def told(self, error: BaseException | str) -> str:
        """What a client is told of an error, without paths of the server. The broker logs those."""
        return self.broker.told(self.peer, error)
