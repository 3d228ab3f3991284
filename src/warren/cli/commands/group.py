"""`warren group …`: groups (consumer groups), their lag, their settings, and moving them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import typer
from rich.console import Console

from warren.api.values import Where
from warren.cli.commands.read import PartitionOption
from warren.cli.options.setting_options import with_settings
from warren.cli.options.store_option import (
    AnyTopic,
    AsJson,
    EveryGroupArgument,
    EveryTopicArgument,
    GroupArgument,
    StoreTarget,
    TopicArgument,
    at_store,
)
from warren.cli.output.group_tables import facts_of_groups, groups_table, lag_rows, lag_table, to_json
from warren.cli.output.tables import write_json
from warren.cli.running.errors import FailureGroup, fail
from warren.cli.running.quantities import moment_us
from warren.clock import EPOCH, SYSTEM_CLOCK
from warren.errors import BadInput, NotOwner
from warren.queue.state.group_settings import GROUP_OPTIONS
from warren.storage import END, START

app = typer.Typer(
    cls=FailureGroup, help="List and configure groups, show their lag, and move them.", no_args_is_help=True
)


@app.command("list")
@at_store
def list_groups(target: StoreTarget, topic: EveryTopicArgument = None, is_json: AsJson = False) -> None:
    """Show the groups, their mode, and how many messages they have not consumed."""
    with target.open_to_read() as opened:
        groups = list(facts_of_groups(opened, topic))
    if is_json:
        write_json([to_json(facts) for facts in groups])
    else:
        Console(highlight=False).print(groups_table(groups))


@app.command()
@at_store
def lag(
    target: StoreTarget,
    topic: EveryTopicArgument = None,
    group: EveryGroupArgument = None,
    is_json: AsJson = False,
) -> None:
    """Show the lag of groups in each partition: the messages that are not consumed."""
    with target.open_to_read() as opened:
        groups = list(facts_of_groups(opened, topic, group))
    if is_json:
        write_json(lag_rows(groups))
    else:
        Console(highlight=False).print(lag_table(groups))


@app.command()
@at_store
@with_settings(GROUP_OPTIONS.without("start"))
def configure(
    target: StoreTarget,
    topic: TopicArgument,
    group: GroupArgument,
    settings: dict[str, Any],
    is_json: AsJson = False,
) -> None:
    """Change settings of a group, and show all of them. Workers use them when they next open the group."""
    if not settings:
        raise BadInput("nothing to change: name a setting; `warren group configure --help` lists them")
    with target.open() as opened:
        changed = opened.existing_topic(topic).configure_group(group, **settings).to_json()
    if is_json:
        write_json({"topic": topic, "group": group, **changed})
    else:
        for name, value in changed.items():
            typer.echo(f"{name}  {'none' if value is None else value}")


@app.command()
@at_store
def seek(
    target: StoreTarget,
    topic: TopicArgument,
    group: GroupArgument,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="start|end|NUMBER|TIME|AGO", help="Where the group continues.", show_default=False
        ),
    ],
    partition: PartitionOption = None,
    is_json: AsJson = False,
) -> None:
    """Move a stream group without members: to the start, the end, a number, or a time."""
    with target.open() as opened:
        source = opened.existing_topic(topic)
        described = source.describe_group(group)
        if described.settings.mode != "stream":
            raise BadInput(f"{group!r} is a queue group: only stream groups can be moved")
        where = _where(source, to, partition)
        if members := described.members:
            count = "1 member" if len(members) == 1 else f"{len(members)} members"
            fail(f"the group {group!r} has {count}: stop all members first, or let them seek")
        with source.group(group) as member:
            others = sorted({*range(source.partition_count)} - {*member.partitions})
            if others and partition is None:
                raise NotOwner(topic, group, others)
            moved = member.seek(where, partition)
    if is_json:
        write_json([{"topic": topic, "group": group, "partition": each, "next": moved[each]} for each in sorted(moved)])
    else:
        for each in sorted(moved):
            typer.echo(f"partition {each}, next is number {moved[each]}")


def _where(topic: AnyTopic, text: str, partition: int | None) -> Where:
    """Returns the place that `--to` names. A number needs a partition."""
    if text in ("start", "end"):
        return START if text == "start" else END
    if not text.isdecimal():
        return EPOCH + timedelta(microseconds=moment_us(text, SYSTEM_CLOCK.now_ns() // 1000))
    if partition is None and topic.partition_count > 1:
        raise BadInput(f"--to {text}: the topic has {topic.partition_count} partitions; name one with --partition")
    return int(text)
