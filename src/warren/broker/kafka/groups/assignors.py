"""How the broker shares out the partitions of a consumer group: which topics match, and which member gets what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import re2  # type: ignore[import-untyped]

from warren.errors import BadInput


class SeenTopic(NamedTuple):
    """A topic as it was when the group last looked it up."""

    id: bytes
    partition_count: int


class AssignedPartition(NamedTuple):
    """A partition that a member may own. Topics that are made anew under an old name have another id."""

    topic: str
    topic_id: bytes
    number: int


Subscriptions = Mapping[str, Collection[str]]
"""By member, the topics that it wants."""
Shares = Mapping[str, frozenset[AssignedPartition]]
"""By member, what it should own."""
Assign = Callable[[Subscriptions, Mapping[str, SeenTopic], Shares], dict[str, frozenset[AssignedPartition]]]
"""Assigns all partitions of the topics to the subscribed members; the last argument is the current assignment."""


def _subscribers(subscriptions: Subscriptions, topics: Mapping[str, SeenTopic]) -> dict[str, list[str]]:
    """Returns the subscribed members of each topic, sorted."""
    subscribers = defaultdict(list)
    for member in sorted(subscriptions):
        for name in subscriptions[member]:
            if name in topics:
                subscribers[name].append(member)
    return subscribers


def _partitions(names: Sequence[str], topics: Mapping[str, SeenTopic]) -> list[AssignedPartition]:
    return [
        AssignedPartition(name, topics[name].id, number)
        for name in sorted(names)
        for number in range(topics[name].partition_count)
    ]


def uniform(
    subscriptions: Subscriptions, topics: Mapping[str, SeenTopic], current: Shares
) -> dict[str, frozenset[AssignedPartition]]:
    """Topics that the same members want are one heap, of which each has as much as any other, or one more.

    A member keeps what it has as far as possible: it gives up a partition only for balance.
    """
    heaps: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, members in _subscribers(subscriptions, topics).items():
        heaps[tuple(members)].append(name)
    shares: dict[str, set[AssignedPartition]] = {member: set() for member in subscriptions}
    for readers, names in sorted(heaps.items()):
        heap = _partitions(names, topics)
        free = set(heap)
        kept = {member: sorted(current.get(member, frozenset()) & free) for member in readers}
        # Who has most keeps the larger shares.
        order = sorted(readers, key=lambda member: (-len(kept[member]), len(shares[member]), member))
        size, larger_count = divmod(len(heap), len(readers))
        room = {}
        for place, member in enumerate(order):
            mine = kept[member][: size + (place < larger_count)]
            room[member] = size + (place < larger_count) - len(mine)
            shares[member].update(mine)
            free.difference_update(mine)
        left = sorted(free, reverse=True)
        for member in order:
            shares[member].update(left.pop() for _ in range(room[member]))
    return {member: frozenset(share) for member, share in shares.items()}


def by_range(
    subscriptions: Subscriptions, topics: Mapping[str, SeenTopic], current: Shares
) -> dict[str, frozenset[AssignedPartition]]:
    """Of each topic a member has neighbouring partitions, and of topics of the same size and readers the same ones."""
    shares: dict[str, set[AssignedPartition]] = {member: set() for member in subscriptions}
    for name, members in _subscribers(subscriptions, topics).items():
        partitions = _partitions([name], topics)
        size, larger_count = divmod(len(partitions), len(members))
        start = 0
        for place, member in enumerate(members):
            end = start + size + (place < larger_count)
            shares[member].update(partitions[start:end])
            start = end
    return {member: frozenset(share) for member, share in shares.items()}


UNIFORM: Final = "uniform"
ASSIGNORS: Final[Mapping[str, Assign]] = MappingProxyType({UNIFORM: uniform, "range": by_range})


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """Returns those of `names` that the whole pattern matches, in time that grows with the names alone.

    Raises BadInput if it is not a pattern.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options=options)
    except re2.error as error:
        raise BadInput(f"pattern {pattern!r}: {error}") from error
    return frozenset(name for name in names if compiled.fullmatch(name))
