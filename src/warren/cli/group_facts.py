"""How far the groups of a topic have come, seen without joining them, and how that looks as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from warren.cli.show import shortened, table
from warren.config import GROUP_NAME_SIZE_MAX
from warren.errors import NoSuchGroup
from warren.queue import store_paths
from warren.queue.group_settings import GroupSettings, group_names, read_settings
from warren.queue.membership import Membership
from warren.queue.names import checked_name
from warren.queue.positions import stored_position
from warren.queue.store import Store
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
class GroupFacts:
    """One group. `members` is None for a queue group; `leased`, what its members have now, for a stream group."""

    topic: str
    group: str
    settings: GroupSettings
    members: int | None
    leased: int | None
    partitions: Sequence[GroupPartition]

    @property
    def behind(self) -> int:
        return sum(part.behind for part in self.partitions)

    def to_json(self) -> dict[str, Any]:
        """The group as one JSON object, without its partitions."""
        settings = {"mode": self.settings.mode, "tag": self.settings.tag}
        counts = {"members": self.members, "leased": self.leased, "behind": self.behind}
        return {"topic": self.topic, "group": self.group, **settings, **counts}


def existing_settings(topic: Topic, group: str) -> GroupSettings:
    """The settings of a group; NoSuchGroup where there is none."""
    checked_name("group", group, GROUP_NAME_SIZE_MAX)
    settings = read_settings(topic.filesystem, topic.directory, group)
    if settings is None:
        raise NoSuchGroup(str(topic.name), group)
    return settings


def facts_of_groups(store: Store, topic: str | None, group: str | None = None) -> Iterator[GroupFacts]:
    """What is known of the groups of one topic, or of all; of one group where it is named."""
    for name in store.topics() if topic is None else [topic]:
        found = store.existing_topic(name)
        for each in group_names(found.filesystem, found.directory) if group is None else [group]:
            yield group_facts(found, each)


def group_facts(topic: Topic, group: str) -> GroupFacts:
    """What is known of one group now. Nobody joins it for this."""
    settings = existing_settings(topic, group)
    is_stream = settings.mode == "stream"
    members = leased = None
    if is_stream:
        members = len(living_members(topic, group))
        partitions = [_stream_partition(topic, group, number) for number in range(topic.partition_count)]
    else:
        with topic.group(group, mode="queue") as opened:
            leased, lag = opened.in_flight(), opened.lag()
        partitions = [
            GroupPartition(partition=number, next=None, end=topic.partition(number).end, behind=behind)
            for number, behind in sorted(lag.items())
        ]
    return GroupFacts(
        topic=str(topic.name), group=group, settings=settings, members=members, leased=leased, partitions=partitions
    )


def living_members(topic: Topic, group: str) -> list[str]:
    """The ids of the members of a stream group that live, in whatever process."""
    return Membership(topic.store, store_paths.group_directory(topic.directory, group)).living()


def _stream_partition(topic: Topic, group: str, number: int) -> GroupPartition:
    log = topic.partition(number)
    # In a partition that was added since anybody read, the group begins with the first message.
    position = stored_position(log, group) if group in log.readers() else log.first
    end = log.end
    return GroupPartition(partition=number, next=position, end=end, behind=max(0, end - position))


def groups_table(groups: Sequence[GroupFacts]) -> RenderableType:
    """The groups, one a row."""
    if not groups:
        return Text("no groups", style="dim")
    found = table("Groups")
    found.add_column("topic", overflow="fold")
    found.add_column("group", overflow="fold")
    found.add_column("mode")
    found.add_column("filter")
    for name in ("members", "leased", "behind"):
        found.add_column(name, justify="right")
    for facts in groups:
        tag = facts.settings.tag
        shown = shortened(tag) if tag is not None else Text("every message", style="dim")
        counts = (_count(facts.members), _count(facts.leased), _count(facts.behind))
        found.add_row(Text(facts.topic), Text(facts.group), facts.settings.mode, shown, *counts)
    return found


def lag_table(groups: Sequence[GroupFacts]) -> RenderableType:
    """The groups, each with a row for every partition."""
    if not groups:
        return Text("no groups", style="dim")
    found = table("Lag")
    found.add_column("topic", overflow="fold")
    found.add_column("group", overflow="fold")
    found.add_column("mode")
    for name in ("partition", "next", "end", "behind"):
        found.add_column(name, justify="right")
    for facts in groups:
        for part in facts.partitions:
            cells = (str(part.partition), _count(part.next), _count(part.end), _count(part.behind))
            found.add_row(Text(facts.topic), Text(facts.group), facts.settings.mode, *cells)
    return found


def lag_rows(groups: Sequence[GroupFacts]) -> list[dict[str, Any]]:
    """The same for JSON."""
    return [
        {
            "topic": facts.topic,
            "group": facts.group,
            "mode": facts.settings.mode,
            "partition": part.partition,
            "next": part.next,
            "end": part.end,
            "behind": part.behind,
        }
        for facts in groups
        for part in facts.partitions
    ]


def _count(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"
