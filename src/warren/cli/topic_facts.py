"""What there is to know of a topic, gathered once, and how it looks as tables and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from warren.cli.show import duration_text, size_text, table, time_text
from warren.config import BODY_SIZE_MAX
from warren.errors import WarrenError
from warren.queue.group_settings import group_names
from warren.queue.settings import TopicSettings
from warren.queue.store import Store
from warren.queue.topic import Topic
from warren.storage import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """One partition. `bytes` is what its blocks take on disk; `updated` is the time of the last put, 0 for none."""

    partition: int
    first: int
    end: int
    bytes: int
    created: int
    updated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """One topic. `damage` says why nothing else is known of it; None where all is well."""

    topic: str
    settings: TopicSettings = dataclasses.field(default_factory=TopicSettings)
    partitions: Sequence[PartitionFacts] = ()
    groups: Sequence[str] = ()
    damage: str | None = None

    @property
    def messages(self) -> int:
        return sum(part.end - part.first for part in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.partitions)

    @property
    def updated(self) -> int:
        return max((part.updated for part in self.partitions), default=0)

    def to_json(self) -> dict[str, Any]:
        """As one JSON object."""
        if self.damage is not None:
            return {"topic": self.topic, "damage": self.damage}
        totals = {"messages": self.messages, "bytes": self.bytes, "updated": self.updated}
        return {"topic": self.topic, **totals, **dataclasses.asdict(self)}


def facts_of(topic: Topic) -> TopicFacts:
    """What is known of `topic` now. No message is read."""
    return TopicFacts(
        topic=str(topic.name),
        settings=topic.settings,
        partitions=[_partition_facts(number, log) for number, log in enumerate(topic.logs)],
        groups=group_names(topic.filesystem, topic.directory),
    )


def facts_or_damage(store: Store, name: str) -> TopicFacts:
    """What is known of the topic `name`, or what is wrong with it: a list goes on to the next one."""
    try:
        return facts_of(store.existing_topic(name))
    except WarrenError as error:
        return TopicFacts(topic=name, damage=str(error))


def _partition_facts(number: int, log: Log) -> PartitionFacts:
    info = log.inspect()
    return PartitionFacts(
        partition=number,
        first=info.first,
        end=info.end,
        bytes=sum(block.file_size or 0 for block in info.blocks),
        created=info.blocks[0].created if info.blocks else 0,
        updated=info.blocks[-1].updated if info.end > info.first else 0,
    )


def topics_table(topics: Sequence[TopicFacts]) -> RenderableType:
    """The topics, one a row."""
    if not topics:
        return Text("no topics", style="dim")
    found = table("Topics")
    found.add_column("topic", overflow="fold")
    for name in ("partitions", "messages", "size", "groups"):
        found.add_column(name, justify="right")
    found.add_column("last put (UTC)", no_wrap=True)
    for facts in topics:
        if facts.damage is not None:
            found.add_row(Text(facts.topic), *"––––", Text("damaged: see topic describe", style="red"))
            continue
        counts = (str(len(facts.partitions)), f"{facts.messages:,}", size_text(facts.bytes), str(len(facts.groups)))
        found.add_row(Text(facts.topic), *counts, time_text(facts.updated))
    return found


def show_topic(console: Console, facts: TopicFacts) -> None:
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


def _partitions_table(partitions: Sequence[PartitionFacts]) -> Table:
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
