"""Which topics and partitions a query reads: named topics, topics that match a pattern, or named partitions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from warren.errors import NoSuchPartition
from warren.spark.store_access.access import TopicCatalog


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChoice:
    """Exactly one of the three is set. Named topics must exist; topics that match a pattern may come and go."""

    names: Sequence[str] = ()
    pattern: str | None = None
    assigned: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def topics(self, catalog: TopicCatalog) -> list[str]:
        """Returns the topics to read now. A named topic is included even if it does not exist."""
        if self.pattern is not None:
            pattern = re.compile(self.pattern)
            return [name for name in catalog.topics() if pattern.fullmatch(name)]
        return list(self.names or self.assigned)

    def partitions(self, catalog: TopicCatalog, topic: str) -> Sequence[int]:
        """Returns the partitions of `topic` to read now. Raises NoSuchTopic or NoSuchPartition."""
        count = catalog.partition_count(topic)
        chosen = self.assigned.get(topic)
        if chosen is None:
            return range(count)
        for partition in chosen:
            if partition >= count:
                raise NoSuchPartition(topic, partition, count)
        return chosen
