"""How far the groups of a topic have come, seen without joining them, and how that looks as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from warren.cli.pointing import AnyStore
from warren.cli.show import shortened, table
from warren.queue.group_description import GroupDescription


def facts_of_groups(store: AnyStore, topic: str | None, group: str | None = None) -> Iterator[GroupDescription]:
    """What is known of the groups of one topic, or of all; of one group where it is named."""
    for name in store.topics() if topic is None else [topic]:
        found = store.existing_topic(name)
        for each in found.groups() if group is None else [group]:
            yield found.describe_group(each)


def to_json(facts: GroupDescription) -> dict[str, Any]:
    """The group as one JSON object, without its partitions."""
    settings = {"mode": facts.settings.mode, "tag": facts.settings.tag}
    counts = {"members": _member_count(facts), "leased": facts.leased, "behind": facts.behind}
    return {"topic": facts.topic, "group": facts.group, **settings, **counts}


def _member_count(facts: GroupDescription) -> int | None:
    return None if facts.members is None else len(facts.members)


def groups_table(groups: Sequence[GroupDescription]) -> RenderableType:
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
        counts = (_count(_member_count(facts)), _count(facts.leased), _count(facts.behind))
        found.add_row(Text(facts.topic), Text(facts.group), facts.settings.mode, shown, *counts)
    return found


def lag_table(groups: Sequence[GroupDescription]) -> RenderableType:
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


def lag_rows(groups: Sequence[GroupDescription]) -> list[dict[str, Any]]:
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
