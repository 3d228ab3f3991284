"""How large a part of a backlog one micro-batch takes if there is a limit: a share of every partition."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Final, TypeVar

from warren.spark.store_access.access import PartitionMessages, ReadableLog

ARCHIVED_SIZE_GUESS: Final = 256
"""The size assumed for an archived message if bytes are limited, because Parquet files know only compressed sizes."""

Key = TypeVar("Key")


def shares(sizes: Mapping[Key, int], limit: int) -> dict[Key, int]:
    """Returns shares in proportion to `sizes`, at most `limit` in total; `sizes` itself if its total is below that.

    Each key whose size is not 0 gets at least 1 if the limit allows it, so that a small partition is not starved.
    """
    total = sum(sizes.values())
    if total <= limit:
        return dict(sizes)
    waiting = sorted((key for key, size in sizes.items() if size), key=lambda key: -sizes[key])
    counts = dict.fromkeys(sizes, 0)
    for key in waiting[:limit]:
        counts[key] = 1
    left, over = limit - len(waiting[:limit]), total - len(waiting)
    for key in waiting:
        counts[key] += left * (sizes[key] - 1) // over if left > 0 else 0
    for key in waiting:
        # The remainder of rounding down goes to the largest.
        more = min(limit - sum(counts.values()), sizes[key] - counts[key]) if left > 0 else 0
        counts[key] += more
    return counts


def size_between(messages: PartitionMessages, start: int, end: int) -> int:
    """Returns how many bytes the records from `start` up to `end` take; for archived messages, a guess."""
    if start >= end:
        return 0
    if not isinstance(messages, ReadableLog):
        return (end - start) * ARCHIVED_SIZE_GUESS
    return messages.offset_of(end) - messages.offset_of(start)


def number_within(messages: PartitionMessages, start: int, end: int, size_max: int) -> int:
    """Returns the number to end at, so that the records from `start` on take at most `size_max` bytes; at least one
    record.
    """
    if not isinstance(messages, ReadableLog):
        return min(end, start + max(1, size_max // ARCHIVED_SIZE_GUESS))
    first = messages.offset_of(start)

    def after(offset: int) -> int:
        """Returns the first number whose record begins after `offset`."""
        return start + bisect_right(range(start, end), offset, key=lambda number: messages.offset_of(number))

    within = after(first + size_max)
    if within == end and messages.offset_of(end) <= first + size_max:
        return end
    # The last record that begins within the limit ends beyond it, so it is omitted unless it is the first.
    last = after(messages.offset_of(within - 1) - 1)
    return last if last > start else after(first)
