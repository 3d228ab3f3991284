"""Assignors: assign the partitions of a consumer group to its members, and match patterns of topic names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import re2  # type: ignore[import-untyped]

from warren.errors import BadInput


class TopicSnapshot(NamedTuple):
    """A topic as it was at the group's last lookup."""

    id: bytes
    partition_count: int


class AssignedPartition(NamedTuple):
    """A partition that a member may own. A topic that is deleted and created again has the same name and another id."""

    topic: str
    topic_id: bytes
    number: int


Subscriptions = Mapping[str, Collection[str]]
"""The topics that each member subscribes to."""
Shares = Mapping[str, frozenset[AssignedPartition]]
"""The partitions that each member should own."""
Assign = Callable[[Subscriptions, Mapping[str, TopicSnapshot], Shares], dict[str, frozenset[AssignedPartition]]]
"""Assigns all partitions of the topics to the subscribed members; the last argument is the current assignment."""


def _subscribers(subscriptions: Subscriptions, topics: Mapping[str, TopicSnapshot]) -> dict[str, list[str]]:
    """Returns the subscribed members of each topic, sorted."""
    subscribers = defaultdict(list)
    for member in sorted(subscriptions):
        for name in subscriptions[member]:
            if name in topics:
                subscribers[name].append(member)
    return subscribers


def _partitions(names: Sequence[str], topics: Mapping[str, TopicSnapshot]) -> list[AssignedPartition]:
    return [
        AssignedPartition(name, topics[name].id, number)
        for name in sorted(names)
        for number in range(topics[name].partition_count)
    ]


def uniform(
    subscriptions: Subscriptions, topics: Mapping[str, TopicSnapshot], current: Shares
) -> dict[str, frozenset[AssignedPartition]]:
    """Assigns partitions evenly: topics with the same subscribers are balanced together, up to one partition.

    A member keeps what it has as far as possible: it gives up a partition only for balance.
    """
    heaps: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, members in _subscribers(subscriptions, topics).items():
        heaps[tuple(members)].append(name)
    shares: dict[str, set[AssignedPartition]] = {member: set() for member in subscriptions}
    for readers, names in sorted(heaps.items()):
        heap = _partitions(names, topics)
        free = set(heap)
        unmoved = {member: sorted(current.get(member, frozenset()) & free) for member in readers}
        # The members that own most get the larger shares, so that few partitions move.
        order = sorted(readers, key=lambda member: (-len(unmoved[member]), len(shares[member]), member))
        size, larger_count = divmod(len(heap), len(readers))
        room = {}
        for place, member in enumerate(order):
            mine = unmoved[member][: size + (place < larger_count)]
            room[member] = size + (place < larger_count) - len(mine)
            shares[member].update(mine)
            free.difference_update(mine)
        unassigned = sorted(free, reverse=True)
        for member in order:
            shares[member].update(unassigned.pop() for _ in range(room[member]))
    return {member: frozenset(share) for member, share in shares.items()}


def by_range(
    subscriptions: Subscriptions, topics: Mapping[str, TopicSnapshot], current: Shares
) -> dict[str, frozenset[AssignedPartition]]:
    """Assigns each member a range of neighbouring partitions, the same for topics of equal size and subscribers."""
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
    """Returns the names that the whole pattern matches. The time grows linearly with the size of the names.

    Raises BadInput if the pattern is not valid.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options=options)
    except re2.error as error:
        raise BadInput(f"pattern {pattern!r}: {error}") from error
    return frozenset(name for name in names if compiled.fullmatch(name))
