"""How much of a backlog one micro-batch takes, when there is a limit: of every partition its share."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Final, TypeVar

from warren.spark.reach import HeldLog, Numbered

ARCHIVED_SIZE_GUESS: Final = 256
"""What a message of an archive counts for where bytes are limited: files tell their sizes compressed."""

Key = TypeVar("Key")


def shares(sizes: Mapping[Key, int], limit: int) -> dict[Key, int]:
    """Parts of `sizes` in proportion to them, `limit` in all at most, and all where they are less than that.

    No one that waits is left out as long as the limit allows one for each: a small partition is not starved.
    """
    total = sum(sizes.values())
    if total <= limit:
        return dict(sizes)
    waiting = sorted((key for key, size in sizes.items() if size), key=lambda key: -sizes[key])
    taken = dict.fromkeys(sizes, 0)
    for key in waiting[:limit]:
        taken[key] = 1
    left, over = limit - len(waiting[:limit]), total - len(waiting)
    for key in waiting:
        taken[key] += left * (sizes[key] - 1) // over if left > 0 else 0
    for key in waiting:
        # What rounding down left over goes to the largest.
        more = min(limit - sum(taken.values()), sizes[key] - taken[key]) if left > 0 else 0
        taken[key] += more
    return taken


def size_between(held: Numbered, start: int, end: int) -> int:
    """How many bytes the records of a log take from `start` up to `end`; for what an archive holds, a guess."""
    if start >= end:
        return 0
    if not isinstance(held, HeldLog):
        return (end - start) * ARCHIVED_SIZE_GUESS
    return held.offset_of(end) - held.offset_of(start)


def number_within(held: Numbered, start: int, end: int, size_max: int) -> int:
    """The largest number up to which the records from `start` on take at most `size_max` bytes: one record at least."""
    if not isinstance(held, HeldLog):
        return min(end, start + max(1, size_max // ARCHIVED_SIZE_GUESS))
    first = held.offset_of(start)

    def after(offset: int) -> int:
        """The first number whose record begins behind `offset`."""
        return start + bisect_right(range(start, end), offset, key=lambda number: held.offset_of(number))

    within = after(first + size_max)
    if within == end and held.offset_of(end) <= first + size_max:
        return end
    # The record that holds the last number that begins within the limit goes beyond it, unless it is the first.
    last = after(held.offset_of(within - 1) - 1)
    return last if last > start else after(first)
