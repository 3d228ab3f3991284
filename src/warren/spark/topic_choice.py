"""Which topics and partitions a query reads: some by name, all that match a pattern, or some partitions of some."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from warren.errors import NoSuchPartition
from warren.spark.reach import Topics


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChoice:
    """One of the three is given. Topics named must be there; those of a pattern may come and go."""

    names: Sequence[str] = ()
    pattern: str | None = None
    assigned: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def topics(self, found: Topics) -> list[str]:
        """The topics that are chosen now; one named that is not there is among them."""
        if self.pattern is not None:
            pattern = re.compile(self.pattern)
            return [name for name in found.topics() if pattern.fullmatch(name)]
        return list(self.names or self.assigned)

    def partitions(self, found: Topics, topic: str) -> Sequence[int]:
        """The partitions of `topic` that are chosen now. NoSuchTopic where it is not there."""
        count = found.partition_count(topic)
        chosen = self.assigned.get(topic)
        if chosen is None:
            return range(count)
        for partition in chosen:
            if partition >= count:
                raise NoSuchPartition(topic, partition, count)
        return chosen
