"""How far the groups of a topic have come, and how much is parked in it, seen without joining or changing anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from warren.config import GROUP_NAME_SIZE_MAX
from warren.errors import NoSuchGroup
from warren.queue import store_paths
from warren.queue.group_settings import GroupSettings, read_settings
from warren.queue.membership import Membership
from warren.queue.names import checked_name
from warren.queue.positions import stored_position

if TYPE_CHECKING:
    from warren.queue.topic import Topic

PAGE_NUMBERS: Final = 1 << 20


class PartitionStanding(NamedTuple):
    """Where a group stands in one partition.

    `next` is the number that a stream group reads next, after what it has committed; None for a queue group, which has
    no such place. `behind` counts what is not done with.
    """

    partition: int
    next: int | None
    end: int
    behind: int


class GroupStanding(NamedTuple):
    """One group. `members` is None for a queue group; `leased`, what its members have now, for a stream group."""

    topic: str
    group: str
    settings: GroupSettings
    members: int | None
    leased: int | None
    partitions: Sequence[PartitionStanding]

    @property
    def behind(self) -> int:
        return sum(part.behind for part in self.partitions)


def group_standing(topic: Topic, group: str) -> GroupStanding:
    """How one group stands now; NoSuchGroup where there is none."""
    checked_name("group", group, GROUP_NAME_SIZE_MAX)
    settings = read_settings(topic.filesystem, topic.directory, group)
    if settings is None:
        raise NoSuchGroup(str(topic.name), group)
    if settings.mode == "stream":
        members = len(Membership(topic.store, store_paths.group_directory(topic.directory, group)).living())
        parts = [_stream_standing(topic, group, number) for number in range(topic.partition_count)]
        return GroupStanding(str(topic.name), group, settings, members, None, parts)
    with topic.group(group, mode="queue") as opened:
        leased, lag = opened.in_flight(), opened.lag()
    parts = [PartitionStanding(number, None, topic.partition(number).end, lag[number]) for number in sorted(lag)]
    return GroupStanding(str(topic.name), group, settings, None, leased, parts)


def _stream_standing(topic: Topic, group: str, number: int) -> PartitionStanding:
    log = topic.partition(number)
    # In a partition that was added since anybody read, the group begins with the first message.
    position = stored_position(log, group) if group in log.readers() else log.first
    end = log.end
    return PartitionStanding(number, position, end, max(0, end - position))


def parked_count(topic: Topic) -> int:
    """How many messages of the topic are parked."""
    count = 0
    for parking in topic.delay.parkings():
        first, end = parking.log.first, parking.log.end
        for start in range(first, end, PAGE_NUMBERS):
            numbers = np.arange(start, min(start + PAGE_NUMBERS, end), dtype=np.int64)
            count += len(numbers) - int(np.count_nonzero(parking.done.are_done(numbers)))
    return count
