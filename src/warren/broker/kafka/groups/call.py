"""Call: a request for a handler that uses Kafka's groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from warren.broker.net.request import ServedCall, Services

if TYPE_CHECKING:
    from warren.broker.kafka.groups.coordinator import GroupCoordinator
    from warren.broker.kafka.groups.positions import PositionStore


class GroupServices(Services, Protocol):
    """The services of every handler, and those of groups."""

    @property
    def coordinator(self) -> GroupCoordinator: ...

    @property
    def positions(self) -> PositionStore: ...


Call = ServedCall[GroupServices]
