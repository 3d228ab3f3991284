"""Asker: the part of a request, of any protocol, that concerns its user and rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.broker.security.rights import CLUSTER_NAME, Operation, ResourceKind
from warren.errors import NoRight

if TYPE_CHECKING:
    from warren.broker.security.broker_view import BrokerView
    from warren.broker.security.peer import Peer


HTTP_CLIENT: Final = "http"


class Asker:
    """A request with the broker that serves it and the peer that sent it. For the event loop."""

    __slots__ = ()
    broker: BrokerView
    peer: Peer

    @property
    def client_id(self) -> str:
        """Returns the client id of the request. It is the same for all requests over HTTP."""
        return HTTP_CLIENT

    def may(self, operation: Operation, kind: ResourceKind, name: str) -> bool:
        """Returns whether the user may do this. Without `security.rights` every user may do everything."""
        rights = self.broker.rights
        return rights is None or rights.may(self.peer, operation, kind, name)

    def may_create(self, topic: str) -> bool:
        """Returns whether the user may make this topic."""
        return self.may(Operation.CREATE, ResourceKind.TOPIC, topic) or self.may(
            Operation.CREATE, ResourceKind.CLUSTER, CLUSTER_NAME
        )

    def check_creates(self, topic: str) -> None:
        """Raises NoRight if the user may not make this topic."""
        if not self.may_create(topic):
            raise self.denied(Operation.CREATE, ResourceKind.TOPIC, topic)

    def denied(self, operation: Operation, kind: ResourceKind, name: str) -> NoRight:
        """Returns the error that names the missing right. The broker logs it."""
        error = NoRight(self.peer.user, operation.name.lower(), kind.name.lower(), name)
        self.broker.denials.tell("denied to %s: %s", self.peer, error)
        return error

    def client_message(self, error: BaseException | str) -> str:
        """Returns the message of an error as the client gets it, without paths of the server. The broker logs those."""
        return self.broker.client_message(self.peer, error)
