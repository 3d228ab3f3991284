"""How the broker shares partitions out among the members of a consumer group: evenly and steadily, or in ranges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple


class SeenTopic(NamedTuple):
    """A topic as it was when somebody looked."""

    id: bytes
    partition_count: int


class Partition(NamedTuple):
    """A partition that a member may own. Topics that are made anew under an old name have another id."""

    topic: str
    topic_id: bytes
    number: int


Subscriptions = Mapping[str, Collection[str]]
"""By member, the topics that it wants."""
Shares = Mapping[str, frozenset[Partition]]
"""By member, what it should own."""
Assign = Callable[[Subscriptions, Mapping[str, SeenTopic], Shares], dict[str, frozenset[Partition]]]
"""Shares all partitions of the topics out among those who want them, given what they should own so far."""


def _subscribers(wanted: Subscriptions, topics: Mapping[str, SeenTopic]) -> dict[str, list[str]]:
    """By topic, who wants it, sorted."""
    found = defaultdict(list)
    for member in sorted(wanted):
        for name in wanted[member]:
            if name in topics:
                found[name].append(member)
    return found


def _partitions(names: Sequence[str], topics: Mapping[str, SeenTopic]) -> list[Partition]:
    return [
        Partition(name, topics[name].id, number)
        for name in sorted(names)
        for number in range(topics[name].partition_count)
    ]


def uniform(wanted: Subscriptions, topics: Mapping[str, SeenTopic], current: Shares) -> dict[str, frozenset[Partition]]:
    """Topics that the same members want are one heap, of which each has as much as any other, or one more.

    What a member has it keeps, as far as that goes: nobody gives up a partition but for balance.
    """
    heaps: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, members in _subscribers(wanted, topics).items():
        heaps[tuple(members)].append(name)
    shares: dict[str, set[Partition]] = {member: set() for member in wanted}
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
    wanted: Subscriptions, topics: Mapping[str, SeenTopic], current: Shares
) -> dict[str, frozenset[Partition]]:
    """Of each topic a member has neighbouring partitions, and of topics of the same size and readers the same ones."""
    shares: dict[str, set[Partition]] = {member: set() for member in wanted}
    for name, members in _subscribers(wanted, topics).items():
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
