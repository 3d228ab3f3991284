"""The progress of a stream, as Spark stores it in the checkpoint: a number for each partition, and the topics' ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from warren.errors import BadInput
from warren.spark.store_access.access import TopicPartition

NOT_BEGUN: Final[Mapping[str, str]] = {"warren": "not begun"}
"""The offset of a stream before its first batch. It is a constant, because Spark requests it again after a crash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """The next number in each partition, by topic, and the ids of the topics.

    `begins` are the numbers at which the batch that ends here starts in partitions that are new to the stream. They are
    stored with its end, so that a repeated batch starts at the same numbers although the logs have grown.
    """

    numbers: Mapping[TopicPartition, int]
    ids: Mapping[str, str]
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"topics": _by_topic(self.numbers), "ids": dict(sorted(self.ids.items()))}
        return {**data, "begins": _by_topic(self.begins)} if self.begins else data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StreamOffset | None:
        """Returns None if the stream has not begun. Raises BadInput if this is not an offset of a Warren stream."""
        if data == NOT_BEGUN:
            return None
        try:
            return cls(
                numbers=dict(_by_place(data["topics"])),
                ids=dict(data["ids"]),
                begins=dict(_by_place(data.get("begins", {}))),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise BadInput(
                f"the checkpoint contains {data!r}, which is not an offset of a Warren stream; "
                "use a separate checkpoint for each query"
            ) from None


def _by_topic(numbers: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
    for place in sorted(numbers):
        topics.setdefault(place.topic, {})[str(place.partition)] = numbers[place]
    return topics


def _by_place(topics: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[TopicPartition, int]]:
    for topic, numbers in topics.items():
        for partition, number in numbers.items():
            yield TopicPartition(topic, int(partition)), int(number)
