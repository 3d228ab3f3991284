"""Describes a topic without reading a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warren.queue.state.settings import TopicSettings
from warren.storage import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One partition. `bytes` is the size of its blocks on disk; `updated` is the time of the last put, 0 for none."""

    partition: int
    first: int
    end: int
    bytes: int
    created: int
    updated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """One topic as it is now. Times are µs since the epoch."""

    topic: str
    settings: TopicSettings
    partitions: Sequence[PartitionDescription]
    groups: Sequence[str]

    @property
    def messages(self) -> int:
        """How many messages it has."""
        return sum(part.end - part.first for part in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.partitions)

    @property
    def updated(self) -> int:
        """The time of the last put; 0 for none."""
        return max((part.updated for part in self.partitions), default=0)


def describe_partition(number: int, log: Log) -> PartitionDescription:
    info = log.inspect()
    return PartitionDescription(
        partition=number,
        first=info.first,
        end=info.end,
        bytes=sum(block.file_size or 0 for block in info.blocks),
        created=info.blocks[0].created if info.blocks else 0,
        updated=info.blocks[-1].updated if info.end > info.first else 0,
    )
