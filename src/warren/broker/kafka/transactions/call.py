"""Call: a request for a handler that uses Kafka's transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from warren.broker.kafka.groups.call import GroupServices
from warren.broker.net.request import ServedCall

if TYPE_CHECKING:
    from warren.broker.kafka.transactions.registry import TransactionalProducers


class TransactionServices(GroupServices, Protocol):
    """The services of handlers of groups, and the transactional producers."""

    @property
    def transactions(self) -> TransactionalProducers: ...


Call = ServedCall[TransactionServices]
