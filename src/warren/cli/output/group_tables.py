"""The lag of groups, read without joining them, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from warren.cli.options.store_option import AnyStore
from warren.cli.output.tables import shortened, table
from warren.queue.group_description import GroupDescription


def facts_of_groups(store: AnyStore, topic: str | None, group: str | None = None) -> Iterator[GroupDescription]:
    """Yields the descriptions of the groups of one topic or of all topics, or of the one group that is named."""
    for name in store.topics() if topic is None else [topic]:
        topic_view = store.existing_topic(name)
        for each in topic_view.groups() if group is None else [group]:
            yield topic_view.describe_group(each)


def to_json(facts: GroupDescription) -> dict[str, Any]:
    """Returns the group as one JSON object, without its partitions."""
    settings = {"mode": facts.settings.mode, "tag": facts.settings.tag}
    counts = {"members": _member_count(facts), "leased": facts.leased, "behind": facts.behind}
    return {"topic": facts.topic, "group": facts.group, **settings, **counts}


def _member_count(facts: GroupDescription) -> int | None:
    return None if facts.members is None else len(facts.members)


def groups_table(groups: Sequence[GroupDescription]) -> RenderableType:
    """Returns a table with one group in each row."""
    if not groups:
        return Text("no groups", style="dim")
    rows = table("Groups")
    rows.add_column("topic", overflow="fold")
    rows.add_column("group", overflow="fold")
    rows.add_column("mode")
    rows.add_column("filter")
    for name in ("members", "leased", "behind"):
        rows.add_column(name, justify="right")
    for facts in groups:
        tag = facts.settings.tag
        tag_text = shortened(tag) if tag is not None else Text("every message", style="dim")
        counts = (_count(_member_count(facts)), _count(facts.leased), _count(facts.behind))
        rows.add_row(Text(facts.topic), Text(facts.group), facts.settings.mode, tag_text, *counts)
    return rows


def lag_table(groups: Sequence[GroupDescription]) -> RenderableType:
    """Returns a table with one row for each partition of each group."""
    if not groups:
        return Text("no groups", style="dim")
    rows = table("Lag")
    rows.add_column("topic", overflow="fold")
    rows.add_column("group", overflow="fold")
    rows.add_column("mode")
    for name in ("partition", "next", "end", "behind"):
        rows.add_column(name, justify="right")
    for facts in groups:
        for part in facts.partitions:
            cells = (str(part.partition), _count(part.next), _count(part.end), _count(part.behind))
            rows.add_row(Text(facts.topic), Text(facts.group), facts.settings.mode, *cells)
    return rows


def lag_rows(groups: Sequence[GroupDescription]) -> list[dict[str, Any]]:
    """Returns the rows of `lag_table` as JSON objects."""
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
