"""How far a stream has come, as Spark keeps it in the checkpoint: a number for each partition, and whose they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from warren.errors import BadInput
from warren.spark.offsets import Place

NOT_BEGUN: Final[Mapping[str, str]] = {"warren": "not begun"}
"""Where a stream stands before its first batch: a constant, because Spark asks for it again after a crash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """The next number in each partition, by topic, and the ids of the topics.

    `begins` are the numbers at which partitions are begun by the batch that ends here. They are kept with its end,
    so that a batch that is run again starts where it did, wherever the logs end by then.
    """

    numbers: Mapping[Place, int]
    ids: Mapping[str, str]
    begins: Mapping[Place, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"topics": _by_topic(self.numbers), "ids": dict(sorted(self.ids.items()))}
        return {**data, "begins": _by_topic(self.begins)} if self.begins else data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StreamOffset | None:
        """None for where a stream stands that has not begun; BadInput for a checkpoint of something else."""
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
                f"the checkpoint holds {data!r}, which is no position of a Warren stream; "
                "use a checkpoint of its own for each query"
            ) from None


def _by_topic(numbers: Mapping[Place, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for place in sorted(numbers):
        found.setdefault(place.topic, {})[str(place.partition)] = numbers[place]
    return found


def _by_place(topics: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[Place, int]]:
    for topic, numbers in topics.items():
        for partition, number in numbers.items():
            yield Place(topic, int(partition)), int(number)
