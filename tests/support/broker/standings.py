"""A shard as a master and as an observer see it, and metrics in the format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

from warren.broker.cluster.slave_status import OBSERVER, LogStatus, SlaveStatus
from warren.broker.services.leadership import ShardStanding, SlaveStanding

SLAVES: Final = [SlaveStanding(0, True, False, 17, 1500), SlaveStanding(2, False, True, -1, -1)]
STANDING: Final = ShardStanding(0, 1, 4, 2, 2, SLAVES)
SLAVE_STATUS: Final = SlaveStatus(
    shard=0,
    replica=2,
    role=OBSERVER,
    epoch=4,
    master="a:9092",
    insync=2,
    min_insync=2,
    is_insync=False,
    is_following=True,
    unready="",
    logs={"topics/orders/0": LogStatus(7, 3), "topics/orders/1": LogStatus(0, None)},
)


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def exposition(families: Iterable[Metric]) -> str:
    """Returns the metrics as a broker gives them to Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    return generate_latest(registry).decode()
