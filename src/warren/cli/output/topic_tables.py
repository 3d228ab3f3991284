"""The description of a topic, as tables and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from warren.cli.options.store_option import AnyStore
from warren.cli.output.tables import duration_text, size_text, table, time_text
from warren.errors import WarrenError
from warren.queue.state.description import PartitionDescription, TopicDescription
from warren.queue.state.settings import TopicSettings
from warren.storage.format.limits import BODY_SIZE_MAX


class Damaged(NamedTuple):
    """A topic that cannot be opened, and the reason."""

    topic: str
    damage: str

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


class DescribedTopic(NamedTuple):
    """A topic with its description."""

    description: TopicDescription

    def to_json(self) -> dict[str, Any]:
        """Returns one JSON object."""
        topic = self.description
        totals = {"messages": topic.messages, "bytes": topic.bytes, "updated": topic.updated}
        return {"topic": topic.topic, **totals, **dataclasses.asdict(topic)}


def described_or_damaged(store: AnyStore, name: str) -> DescribedTopic | Damaged:
    """Returns the topic `name`, or what is damaged in it, so that a list can continue with the next topic."""
    try:
        return DescribedTopic(store.describe(name))
    except WarrenError as error:
        return Damaged(name, str(error))


def topics_table(topics: Sequence[DescribedTopic | Damaged]) -> RenderableType:
    """Returns a table with one topic in each row."""
    if not topics:
        return Text("no topics", style="dim")
    rows = table("Topics")
    rows.add_column("topic", overflow="fold")
    for name in ("partitions", "messages", "size", "groups"):
        rows.add_column(name, justify="right")
    rows.add_column("last put (UTC)", no_wrap=True)
    for each in topics:
        if isinstance(each, Damaged):
            rows.add_row(Text(each.topic), *"––––", Text("damaged: see topic describe", style="red"))
            continue
        topic = each.description
        counts = (str(len(topic.partitions)), f"{topic.messages:,}", size_text(topic.bytes), str(len(topic.groups)))
        rows.add_row(Text(topic.topic), *counts, time_text(topic.updated))
    return rows


def show_topic(console: Console, facts: TopicDescription) -> None:
    """Shows the settings and the partitions of one topic."""
    console.print(settings_table(facts.topic, facts.settings), "", _partitions_table(facts.partitions), sep="\n")
    groups = Text(", ".join(facts.groups)) if facts.groups else Text("none", style="dim")
    console.print("", Text("groups: ").append(groups), sep="\n")


def settings_table(topic: str, settings: TopicSettings) -> Table:
    """Returns the settings of a topic in words."""
    rows = table(f"Topic {topic}")
    rows.show_header = False
    rows.add_column(style="dim")
    rows.add_column(overflow="fold")
    for name, value in _settings_texts(topic, settings).items():
        rows.add_row(name, Text(value))
    return rows


def _settings_texts(topic: str, settings: TopicSettings) -> Mapping[str, str]:
    age, size = settings.retention_age_s, settings.retention_bytes
    limits = [
        f"for {duration_text(age)}" if age is not None else "",
        f"up to {size_text(size)} per partition" if size is not None else "",
        "until every group has consumed them" if settings.retention_consumed else "",
    ]
    limit = settings.message_size_max
    return {
        "partitions": str(settings.partitions),
        "format version": str(settings.version),
        "durability": settings.durability,
        "block size": size_text(settings.block_size),
        "compression": settings.compression,
        "messages kept": ", or ".join(filter(None, limits)) or "without a limit",
        "message size": f"at most {size_text(limit)}" + (", the limit of Warren" if limit == BODY_SIZE_MAX else ""),
        "dead letters": f"to {settings.dead_letter or f'{topic}.dead'}",
        "warren.deliver-at": settings.deliver_at or "as the broker is configured",
    }


def _partitions_table(partitions: Sequence[PartitionDescription]) -> Table:
    rows = table("Partitions")
    for name in ("partition", "messages", "first", "next", "size"):
        rows.add_column(name, justify="right")
    rows.add_column("last put (UTC)", no_wrap=True)
    for part in partitions:
        cells = (part.end - part.first, part.first, part.end)
        rows.add_row(
            str(part.partition), *(f"{cell:,}" for cell in cells), size_text(part.bytes), time_text(part.updated)
        )
    return rows
