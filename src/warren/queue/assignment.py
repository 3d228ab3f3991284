"""Which partitions each member of a stream group should own: contiguous ranges over the sorted members, evenly."""

from __future__ import annotations

from collections.abc import Collection


def share(partition_count: int, members: Collection[str], member: str) -> range:
    """The partitions of `member`, which is one of `members`.

    Together the members have every partition once, and no two of them differ by more than one partition. Everybody who
    sees the same members comes to the same shares.
    """
    place = sorted(members).index(member)
    size, larger_count = divmod(partition_count, len(members))
    start = place * size + min(place, larger_count)
    return range(start, start + size + (place < larger_count))
