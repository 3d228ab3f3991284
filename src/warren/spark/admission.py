"""How much of a backlog one micro-batch takes, when there is a limit: of every partition its share."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import TypeVar

from warren.storage import Log

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


def byte_offset(log: Log, number: int) -> int:
    """The offset of the record that holds message `number`; where the log ends for its end."""
    if number >= log.end:
        return log.block_of(number - 1).end_offset if number > log.first else 0
    return log.block_of(number).base_offset + log.standing(number).position


def number_within(log: Log, start: int, end: int, size_max: int) -> int:
    """The largest number up to which the records from `start` on take at most `size_max` bytes: one record at least."""
    limit = byte_offset(log, start) + size_max
    if byte_offset(log, end) <= limit:
        return end
    within = bisect_right(range(start, end), limit, key=lambda number: byte_offset(log, number)) - 1 + start
    if byte_offset(log, within) > byte_offset(log, start):
        return within
    # Not even the first record fits: it is taken all the same, and whole.
    return bisect_right(range(start, end), byte_offset(log, start), key=lambda number: byte_offset(log, number)) + start
