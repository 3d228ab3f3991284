"""Numbers of a topic's partitions as spans, which is how events name many messages in few bytes."""

from __future__ import annotations

from collections.abc import Iterable

Span = list[int]
"""A partition, a number in it to start with, and the number to end before: a list, as it comes back from JSON."""


def spans_of(places: Iterable[tuple[int, int]]) -> list[Span]:
    """As few spans as hold these places, which are pairs of a partition and a number, each given once; sorted."""
    spans: list[Span] = []
    partition = end = -1
    for place in sorted(places):
        if place[0] == partition and place[1] == end:
            end += 1
            spans[-1][2] = end
        else:
            partition, number = place
            end = number + 1
            spans.append([partition, number, end])
    return spans


def count_of(spans: Iterable[Span]) -> int:
    """How many messages the spans hold."""
    return sum(end - start for _, start, end in spans)
