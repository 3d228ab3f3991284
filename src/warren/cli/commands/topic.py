"""`warren topic …`: creates, lists, describes, configures and deletes topics."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from warren.cli.options.setting_options import with_settings
from warren.cli.options.store_option import AnyTopic, AsJson, StoreTarget, TopicArgument, at_store
from warren.cli.output.tables import write_json
from warren.cli.output.topic_tables import DescribedTopic, described_or_damaged, show_topic, topics_table
from warren.cli.running.errors import FailureGroup, fail
from warren.errors import BadInput
from warren.queue.state.settings import FIXED, TOPIC_SETTINGS, TopicSettings, checked_name

app = typer.Typer(cls=FailureGroup, help="Create, list, describe, configure and delete topics.", no_args_is_help=True)

NewTopic = Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the new topic.", show_default=False)]
SETTINGS: Final = TOPIC_SETTINGS.without(*FIXED)


@app.command()
@at_store
@with_settings(SETTINGS)
def create(
    target: StoreTarget,
    topic: NewTopic,
    settings: dict[str, Any],
    version: Annotated[
        int | None, typer.Option("--format-version", metavar="1|2", help="The format of the files; 2 by default.")
    ] = None,
    is_needed: Annotated[
        bool, typer.Option("--if-missing", help="Do nothing if the topic exists with these settings.")
    ] = False,
    is_json: AsJson = False,
) -> None:
    """Create a topic, and the store if it does not exist."""
    if version is not None:
        settings["version"] = version
    checked_name("topic", topic)
    TopicSettings(**settings)
    with target.open(creates=True) as opened:
        if not is_needed and opened.has_topic(topic):
            fail(f"the topic {topic!r} exists already; `warren topic configure {topic}` changes its settings")
        _show(opened.topic(topic, **settings), is_json=is_json)


@app.command("list")
@at_store
def list_topics(target: StoreTarget, is_json: AsJson = False) -> None:
    """Show all topics."""
    with target.open_to_read() as opened:
        topics = [described_or_damaged(opened, name) for name in opened.topics()]
    if is_json:
        write_json([facts.to_json() for facts in topics])
    else:
        Console(highlight=False).print(topics_table(topics))


@app.command()
@at_store
def describe(target: StoreTarget, topic: TopicArgument, is_json: AsJson = False) -> None:
    """Show the settings, the partitions and the groups of a topic."""
    with target.open_to_read() as opened:
        _show(opened.existing_topic(topic), is_json=is_json)


@app.command()
@at_store
@with_settings(SETTINGS)
def configure(
    target: StoreTarget,
    topic: TopicArgument,
    settings: dict[str, Any],
    is_json: AsJson = False,
) -> None:
    """Change settings of a topic, and show all of them."""
    if not settings:
        raise BadInput("nothing to change: name a setting; `warren topic configure --help` lists them")
    with target.open() as opened:
        configured = opened.existing_topic(topic)
        configured.configure(**settings)
        _show(configured, is_json=is_json)


@app.command()
@at_store
def delete(
    target: StoreTarget,
    topic: TopicArgument,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    is_json: AsJson = False,
) -> None:
    """Delete a topic with its messages, groups and parked messages."""
    with target.open() as opened:
        facts = opened.existing_topic(topic).describe()
        if not is_sure:
            if not sys.stdin.isatty():
                raise BadInput(f"not a terminal: pass --yes to delete the topic {topic!r}")
            typer.confirm(f"Delete {topic} with its {facts.messages:,} messages?", abort=True, err=True)
        opened.delete_topic(topic)
    if is_json:
        write_json({"deleted": topic, "messages": facts.messages})
    else:
        typer.echo(f"deleted {topic} with {facts.messages:,} messages")


def _show(topic: AnyTopic, *, is_json: bool) -> None:
    described = DescribedTopic(topic.describe())
    if is_json:
        write_json(described.to_json())
    else:
        show_topic(Console(highlight=False), described.description)
