"""`warren topic …`: make topics, look at them, change their settings, and delete them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from warren.cli.failure import FailureGroup, fail
from warren.cli.pointing import AnyTopic, Target, at_store
from warren.cli.quantities import duration_s, size_bytes, yes_or_no
from warren.cli.show import write_json
from warren.cli.store import AsJson, TopicArgument
from warren.cli.topic_facts import Described, described_or_damaged, show_topic, topics_table
from warren.errors import BadInput
from warren.queue.names import checked_name
from warren.queue.settings import TopicSettings

app = typer.Typer(cls=FailureGroup, help="Make, list, describe, change and delete topics.", no_args_is_help=True)

NONE: Final = "none"
CAN_BE_OFF: Final = ("retention_age_s", "retention_bytes")
PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "block_size": size_bytes,
    "message_size_max": size_bytes,
    "retention_age_s": duration_s,
    "retention_bytes": size_bytes,
    "retention_consumed": yes_or_no,
}

NewTopic = Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the new topic.", show_default=False)]
Partitions = Annotated[int | None, typer.Option(metavar="COUNT", min=1, help="How many; added, never removed.")]
DurabilityLevel = Annotated[
    str | None, typer.Option(metavar="LEVEL", help="When a put is done: commit, os, or e.g. interval:50ms.")
]
BlockSize = Annotated[str | None, typer.Option(metavar="SIZE", help="The size of a block, e.g. 64MiB.")]
CompressionName = Annotated[str | None, typer.Option(metavar="NAME", help="none, zstd or lz4.")]
MessageSizeMax = Annotated[str | None, typer.Option(metavar="SIZE", help="The largest body that is taken.")]
RetentionAge = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Keep messages for so long, e.g. 7d; none: for ever.")
]
RetentionBytes = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Keep so much of each partition, e.g. 10GiB; none: all.")
]
RetentionConsumed = Annotated[str | None, typer.Option(metavar="yes|no", help="Remove what every group has consumed.")]
DeadLetter = Annotated[str | None, typer.Option(metavar="TOPIC", help="Where dead letters go: TOPIC.dead by default.")]


@app.command()
@at_store
def create(
    target: Target,
    topic: NewTopic,
    partitions: Partitions = None,
    durability: DurabilityLevel = None,
    block_size: BlockSize = None,
    compression: CompressionName = None,
    message_size_max: MessageSizeMax = None,
    retention_age: RetentionAge = None,
    retention_bytes: RetentionBytes = None,
    retention_consumed: RetentionConsumed = None,
    dead_letter: DeadLetter = None,
    version: Annotated[
        int | None, typer.Option("--format-version", metavar="1|2", help="Of the files; 2, if nothing is said.")
    ] = None,
    is_needed: Annotated[
        bool, typer.Option("--if-missing", help="Leave a topic that is there, if its settings are these.")
    ] = False,
    is_json: AsJson = False,
) -> None:
    """Make a topic, and the store where it is missing."""
    settings = _settings(
        partitions=partitions,
        version=version,
        durability=durability,
        block_size=block_size,
        compression=compression,
        message_size_max=message_size_max,
        retention_age_s=retention_age,
        retention_bytes=retention_bytes,
        retention_consumed=retention_consumed,
        dead_letter=dead_letter,
    )
    checked_name("topic", topic)
    TopicSettings(**settings)
    with target.open(creates=True) as opened:
        if not is_needed and opened.has_topic(topic):
            fail(f"there is a topic {topic!r} already; `warren topic configure {topic}` changes its settings")
        _show(opened.topic(topic, **settings), is_json=is_json)


@app.command("list")
@at_store
def list_topics(target: Target, is_json: AsJson = False) -> None:
    """Show every topic."""
    with target.open_to_read() as opened:
        topics = [described_or_damaged(opened, name) for name in opened.topics()]
    if is_json:
        write_json([facts.to_json() for facts in topics])
    else:
        Console(highlight=False).print(topics_table(topics))


@app.command()
@at_store
def describe(target: Target, topic: TopicArgument, is_json: AsJson = False) -> None:
    """Show the settings, the partitions and the groups of a topic."""
    with target.open_to_read() as opened:
        _show(opened.existing_topic(topic), is_json=is_json)


@app.command()
@at_store
def configure(
    target: Target,
    topic: TopicArgument,
    partitions: Partitions = None,
    durability: DurabilityLevel = None,
    block_size: BlockSize = None,
    compression: CompressionName = None,
    message_size_max: MessageSizeMax = None,
    retention_age: RetentionAge = None,
    retention_bytes: RetentionBytes = None,
    retention_consumed: RetentionConsumed = None,
    dead_letter: DeadLetter = None,
    is_json: AsJson = False,
) -> None:
    """Change settings of a topic, and show those it has now."""
    changes = _settings(
        partitions=partitions,
        durability=durability,
        block_size=block_size,
        compression=compression,
        message_size_max=message_size_max,
        retention_age_s=retention_age,
        retention_bytes=retention_bytes,
        retention_consumed=retention_consumed,
        dead_letter=dead_letter,
    )
    if not changes:
        raise BadInput("nothing to change: name a setting; `warren topic configure --help` lists them")
    with target.open() as opened:
        found = opened.existing_topic(topic)
        found.configure(**changes)
        _show(found, is_json=is_json)


@app.command()
@at_store
def delete(
    target: Target,
    topic: TopicArgument,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    is_json: AsJson = False,
) -> None:
    """Delete a topic with its messages, its groups and what is scheduled for it."""
    with target.open() as opened:
        facts = opened.existing_topic(topic).describe()
        if not is_sure:
            if not sys.stdin.isatty():
                raise BadInput(f"nobody is there to ask: give --yes to delete the topic {topic!r}")
            typer.confirm(f"Delete {topic} with its {facts.messages:,} messages?", abort=True, err=True)
        opened.delete_topic(topic)
    if is_json:
        write_json({"deleted": topic, "messages": facts.messages})
    else:
        typer.echo(f"deleted {topic} with {facts.messages:,} messages")


def _show(topic: AnyTopic, *, is_json: bool) -> None:
    described = Described(topic.describe())
    if is_json:
        write_json(described.to_json())
    else:
        show_topic(Console(highlight=False), described.description)


def _settings(**given: Any) -> dict[str, Any]:
    """The settings that were given, each in the form that a topic takes. `none` switches a retention off."""
    settings = {name: value for name, value in given.items() if value is not None}
    for name, parse in PARSERS.items():
        if name in settings:
            is_off = settings[name] == NONE and name in CAN_BE_OFF
            settings[name] = None if is_off else parse(settings[name])
    return settings
