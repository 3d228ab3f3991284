"""The partitions that a Produce or a Fetch names: removes duplicates, and cuts long lists into pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol, Self, TypeVar

from warren.broker.services.turns import LOOP_ROWS_AT_ONCE

TWICE: Final = "the partition is named more than once in the request"


class NamedPartitions(Protocol):
    """A topic of a request: its name or its id, and its partitions."""

    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> bytes: ...
    @property
    def partitions(self) -> Sequence[Any]: ...
    def _replace(self, *, partitions: list[Any]) -> Self: ...


Topic = TypeVar("Topic", bound=NamedPartitions)


def once_each(topics: Sequence[Topic]) -> tuple[list[Topic], dict[int, list[int]]]:
    """Returns each topic once, without the partitions that the request names more than once.

    The second value holds the numbers of those partitions, by the index of their topic in the first.
    """
    firsts: dict[tuple[str, bytes], Topic] = {}
    parts: dict[tuple[str, bytes], dict[int, Any]] = {}
    repeated: dict[tuple[str, bytes], dict[int, None]] = {}
    for topic in topics:
        key = topic.name, topic.topic_id
        firsts.setdefault(key, topic)
        rows = parts.setdefault(key, {})
        for part in topic.partitions:
            if part.partition in rows:
                repeated.setdefault(key, {})[part.partition] = None
            rows[part.partition] = part
    tidy, twice = [], {}
    for place, (key, topic) in enumerate(firsts.items()):
        left_out = repeated.get(key, {})
        tidy.append(topic._replace(partitions=[each for number, each in parts[key].items() if number not in left_out]))
        if left_out:
            twice[place] = list(left_out)
    return tidy, twice


def last_of_each(topics: Sequence[Topic]) -> list[Topic]:
    """Returns each topic once, with each of its partitions once. The last row counts, as in Kafka."""
    firsts: dict[tuple[str, bytes], Topic] = {}
    parts: dict[tuple[str, bytes], dict[int, Any]] = {}
    for topic in topics:
        key = topic.name, topic.topic_id
        firsts.setdefault(key, topic)
        parts.setdefault(key, {}).update((part.partition, part) for part in topic.partitions)
    return [topic._replace(partitions=list(parts[key].values())) for key, topic in firsts.items()]


def pieces_of(topics: Sequence[Topic]) -> Iterator[tuple[int, Topic]]:
    """Yields each topic with at most LOOP_ROWS_AT_ONCE of its partitions at a time, and its index among the topics."""
    for place, topic in enumerate(topics):
        for start in range(0, len(topic.partitions), LOOP_ROWS_AT_ONCE):
            yield place, topic._replace(partitions=list(topic.partitions[start : start + LOOP_ROWS_AT_ONCE]))
