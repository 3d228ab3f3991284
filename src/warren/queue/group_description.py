"""Describes the progress of a group, without joining it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warren.errors import NoSuchGroup
from warren.limits import GROUP_NAME_SIZE_MAX
from warren.queue.leases.dead_letter_views import seen_leases
from warren.queue.leases.queue_group import QueueGroup
from warren.queue.leases.renewal import LeasingTopic
from warren.queue.state import paths
from warren.queue.state.group_settings import GroupSettings, read_settings
from warren.queue.state.settings import checked_name
from warren.queue.state.topic_view import TopicView
from warren.queue.stream.membership import Membership
from warren.queue.stream.positions import stored_position


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartition:
    """The progress of a group in one partition.

    `next` is the number after the last message that a stream group has committed; it is None for a queue group, which
    has no such position. `behind` counts the messages that are not done; `end` is the end of the partition.
    """

    partition: int
    next: int | None
    end: int
    behind: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """One group.

    `members` is None for a queue group; `leased`, the count of leased messages, is None for a stream group.
    """

    topic: str
    group: str
    settings: GroupSettings
    members: Sequence[str] | None
    leased: int | None
    partitions: Sequence[GroupPartition]

    @property
    def behind(self) -> int:
        return sum(part.behind for part in self.partitions)


def group_settings(topic: TopicView, group: str) -> GroupSettings:
    """Returns the settings of a group. Raises NoSuchGroup if it does not exist."""
    checked_name("group", group, GROUP_NAME_SIZE_MAX)
    settings = read_settings(topic.filesystem, topic.directory, group)
    if settings is None:
        raise NoSuchGroup(str(topic.name), group)
    return settings


def describe_group(topic: LeasingTopic, group: str) -> GroupDescription:
    """Returns the current description of a group, without joining it."""
    settings = group_settings(topic, group)
    members = leased = None
    if settings.mode == "stream":
        members = Membership(topic.store, paths.group_directory(topic.directory, group)).living()
        partitions = [_stream_partition(topic, group, number) for number in range(topic.partition_count)]
    else:
        leased, lag = _queue_standing(topic, group, settings)
        partitions = [
            GroupPartition(partition=number, next=None, end=topic.partition(number).end, behind=behind)
            for number, behind in sorted(lag.items())
        ]
    return GroupDescription(
        topic=str(topic.name), group=group, settings=settings, members=members, leased=leased, partitions=partitions
    )


def _queue_standing(topic: LeasingTopic, group: str, settings: GroupSettings) -> tuple[int, dict[int, int]]:
    """Returns how many messages of a queue group are leased, and by partition how many are not done."""
    if not topic.filesystem.is_read_only:
        # Opening the group also frees the leases of dead workers, and adds partitions that are new.
        with QueueGroup(topic, group, settings) as opened:
            return opened.in_flight(), opened.lag()
    leases = seen_leases(topic, group)
    lag = {
        partition: max(0, log.end - max(leases.next.get(partition, 0), log.first))
        + len(leases.outstanding.get(partition, ()))
        for partition, log in enumerate(topic.logs)
    }
    return sum(bool(lease.owner) for by_number in leases.outstanding.values() for lease in by_number.values()), lag


def _stream_partition(topic: TopicView, group: str, number: int) -> GroupPartition:
    log = topic.partition(number)
    # In a partition that was added after a member last read, the group begins with the first message.
    position = stored_position(log, group) if group in log.readers() else log.first
    end = log.end
    return GroupPartition(partition=number, next=position, end=end, behind=max(0, end - position))
