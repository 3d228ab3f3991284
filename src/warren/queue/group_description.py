"""Where a group of a topic stands, seen without joining it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warren.config import GROUP_NAME_SIZE_MAX
from warren.errors import NoSuchGroup
from warren.queue import store_paths
from warren.queue.group_settings import GroupSettings, read_settings
from warren.queue.membership import Membership
from warren.queue.names import checked_name
from warren.queue.positions import stored_position
from warren.queue.put_back import seen_leases

if TYPE_CHECKING:
    from warren.queue.topic import Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartition:
    """Where a group stands in one partition.

    `next` is the number that a stream group reads next, after what it has committed; None for a queue group, which has
    no such place. `behind` counts what is not done with, `end` is where the partition ends.
    """

    partition: int
    next: int | None
    end: int
    behind: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """One group. `members` is None for a queue group; `leased`, what its members have now, for a stream group."""

    topic: str
    group: str
    settings: GroupSettings
    members: Sequence[str] | None
    leased: int | None
    partitions: Sequence[GroupPartition]

    @property
    def behind(self) -> int:
        return sum(part.behind for part in self.partitions)


def group_settings(topic: Topic, group: str) -> GroupSettings:
    """The settings of a group; NoSuchGroup where there is none."""
    checked_name("group", group, GROUP_NAME_SIZE_MAX)
    settings = read_settings(topic.filesystem, topic.directory, group)
    if settings is None:
        raise NoSuchGroup(str(topic.name), group)
    return settings


def describe_group(topic: Topic, group: str) -> GroupDescription:
    """What is known of one group now. Nobody joins it for this."""
    settings = group_settings(topic, group)
    members = leased = None
    if settings.mode == "stream":
        members = Membership(topic.store, store_paths.group_directory(topic.directory, group)).living()
        partitions = [_stream_partition(topic, group, number) for number in range(topic.partition_count)]
    else:
        leased, lag = _queue_standing(topic, group)
        partitions = [
            GroupPartition(partition=number, next=None, end=topic.partition(number).end, behind=behind)
            for number, behind in sorted(lag.items())
        ]
    return GroupDescription(
        topic=str(topic.name), group=group, settings=settings, members=members, leased=leased, partitions=partitions
    )


def _queue_standing(topic: Topic, group: str) -> tuple[int, dict[int, int]]:
    """How many messages of a queue group are leased, and by partition how many are not done with."""
    if not topic.filesystem.is_read_only:
        # Opening the group also frees what workers held that died, and begins in partitions that were added.
        with topic.group(group, mode="queue") as opened:
            return opened.in_flight(), opened.lag()
    leases = seen_leases(topic, group)
    lag = {
        partition: max(0, log.end - max(leases.next.get(partition, 0), log.first))
        + len(leases.outstanding.get(partition, ()))
        for partition, log in enumerate(topic.logs)
    }
    return sum(bool(lease.owner) for found in leases.outstanding.values() for lease in found.values()), lag


def _stream_partition(topic: Topic, group: str, number: int) -> GroupPartition:
    log = topic.partition(number)
    # In a partition that was added since anybody read, the group begins with the first message.
    position = stored_position(log, group) if group in log.readers() else log.first
    end = log.end
    return GroupPartition(partition=number, next=position, end=end, behind=max(0, end - position))
