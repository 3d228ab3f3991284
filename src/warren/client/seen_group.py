"""A group of a topic of a broker as it is seen without joining it."""

from __future__ import annotations

from warren.protocol.kafka_codec import Fields
from warren.protocol.own_api import positions_of, settings_of
from warren.queue.group_description import GroupDescription, GroupPartition
from warren.queue.group_settings import GroupSettings


def group_description(topic: str, group: str, seen: Fields) -> GroupDescription:
    """What the broker's answer says of a group."""
    settings = GroupSettings(**settings_of(seen.settings))
    following, ends, lag = positions_of(seen.positions), positions_of(seen.ends), positions_of(seen.lag)
    is_stream = settings.mode == "stream"
    return GroupDescription(
        topic=topic,
        group=group,
        settings=settings,
        members=list(seen.members) if is_stream else None,
        leased=None if is_stream else seen.in_flight,
        partitions=[
            GroupPartition(partition=number, next=following.get(number), end=end, behind=lag[number])
            for number, end in ends.items()
        ],
    )
