"""Call: a request for a handler that uses all services of the Kafka rooms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from warren.broker.kafka.transactions.call import TransactionServices
from warren.broker.net.request import ServedCall

if TYPE_CHECKING:
    from warren.broker.kafka.producers.registry import Producers


class KafkaServices(TransactionServices, Protocol):
    """The services of handlers of transactions, and the producers that number their batches."""

    @property
    def producers(self) -> Producers: ...


Call = ServedCall[KafkaServices]
