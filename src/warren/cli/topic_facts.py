"""What there is to know of a topic, gathered once, and how it looks as tables and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from warren.cli.pointing import AnyStore
from warren.cli.show import duration_text, size_text, table, time_text
from warren.config import BODY_SIZE_MAX
from warren.errors import WarrenError
from warren.queue.description import PartitionDescription, TopicDescription
from warren.queue.settings import TopicSettings


class Damaged(NamedTuple):
    """A topic of which nothing is known, and why."""

    topic: str
    damage: str

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


class Described(NamedTuple):
    """A topic of which all is known."""

    description: TopicDescription

    def to_json(self) -> dict[str, Any]:
        """As one JSON object."""
        found = self.description
        totals = {"messages": found.messages, "bytes": found.bytes, "updated": found.updated}
        return {"topic": found.topic, **totals, **dataclasses.asdict(found)}


def described_or_damaged(store: AnyStore, name: str) -> Described | Damaged:
    """What is known of the topic `name`, or what is wrong with it: a list goes on to the next one."""
    try:
        return Described(store.describe(name))
    except WarrenError as error:
        return Damaged(name, str(error))


def topics_table(topics: Sequence[Described | Damaged]) -> RenderableType:
    """The topics, one a row."""
    if not topics:
        return Text("no topics", style="dim")
    found = table("Topics")
    found.add_column("topic", overflow="fold")
    for name in ("partitions", "messages", "size", "groups"):
        found.add_column(name, justify="right")
    found.add_column("last put (UTC)", no_wrap=True)
    for each in topics:
        if isinstance(each, Damaged):
            found.add_row(Text(each.topic), *"––––", Text("damaged: see topic describe", style="red"))
            continue
        topic = each.description
        counts = (str(len(topic.partitions)), f"{topic.messages:,}", size_text(topic.bytes), str(len(topic.groups)))
        found.add_row(Text(topic.topic), *counts, time_text(topic.updated))
    return found


def show_topic(console: Console, facts: TopicDescription) -> None:
    """The settings and the partitions of one topic."""
    console.print(settings_table(facts.topic, facts.settings), "", _partitions_table(facts.partitions), sep="\n")
    groups = Text(", ".join(facts.groups)) if facts.groups else Text("none", style="dim")
    console.print("", Text("groups: ").append(groups), sep="\n")


def settings_table(topic: str, settings: TopicSettings) -> Table:
    """The settings of a topic, in words."""
    found = table(f"Topic {topic}")
    found.show_header = False
    found.add_column(style="dim")
    found.add_column(overflow="fold")
    for name, value in _settings_texts(topic, settings).items():
        found.add_row(name, Text(value))
    return found


def _settings_texts(topic: str, settings: TopicSettings) -> Mapping[str, str]:
    age, size = settings.retention_age_s, settings.retention_bytes
    kept = [
        f"for {duration_text(age)}" if age is not None else "",
        f"up to {size_text(size)} a partition" if size is not None else "",
        "until every group has consumed them" if settings.retention_consumed else "",
    ]
    limit = settings.message_size_max
    return {
        "partitions": str(settings.partitions),
        "format version": str(settings.version),
        "durability": settings.durability,
        "block size": size_text(settings.block_size),
        "compression": settings.compression,
        "messages kept": ", or ".join(filter(None, kept)) or "for ever",
        "message size": f"at most {size_text(limit)}" + (", the limit of Warren" if limit == BODY_SIZE_MAX else ""),
        "dead letters": f"to {settings.dead_letter or f'{topic}.dead'}",
    }


def _partitions_table(partitions: Sequence[PartitionDescription]) -> Table:
    found = table("Partitions")
    for name in ("partition", "messages", "first", "next", "size"):
        found.add_column(name, justify="right")
    found.add_column("last put (UTC)", no_wrap=True)
    for part in partitions:
        cells = (part.end - part.first, part.first, part.end)
        found.add_row(
            str(part.partition), *(f"{cell:,}" for cell in cells), size_text(part.bytes), time_text(part.updated)
        )
    return found
