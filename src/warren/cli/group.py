"""`warren group …`: the groups of a store, how far behind they are, and where they go on."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer
from rich.console import Console

from warren.cli.failure import FailureGroup, fail
from warren.cli.group_facts import (
    facts_of_groups,
    groups_table,
    lag_rows,
    lag_table,
    to_json,
)
from warren.cli.pointing import AnyTopic, Target, at_store
from warren.cli.quantities import moment_us
from warren.cli.read import PartitionOption
from warren.cli.show import write_json
from warren.cli.store import (
    AsJson,
    EveryGroupArgument,
    EveryTopicArgument,
    GroupArgument,
    TopicArgument,
)
from warren.clock import EPOCH, SYSTEM_CLOCK
from warren.errors import BadInput, NotOwner
from warren.queue.positions import Where
from warren.storage import END, START

app = typer.Typer(
    cls=FailureGroup, help="List groups, see how far behind they are, and move them.", no_args_is_help=True
)


@app.command("list")
@at_store
def list_groups(target: Target, topic: EveryTopicArgument = None, is_json: AsJson = False) -> None:
    """Show the groups, their mode, and how many messages they have not done with."""
    with target.open() as opened:
        groups = list(facts_of_groups(opened, topic))
    if is_json:
        write_json([to_json(facts) for facts in groups])
    else:
        Console(highlight=False).print(groups_table(groups))


@app.command()
@at_store
def lag(
    target: Target,
    topic: EveryTopicArgument = None,
    group: EveryGroupArgument = None,
    is_json: AsJson = False,
) -> None:
    """Show how far behind the groups are in each partition: what was put, and is not done with."""
    with target.open() as opened:
        groups = list(facts_of_groups(opened, topic, group))
    if is_json:
        write_json(lag_rows(groups))
    else:
        Console(highlight=False).print(lag_table(groups))


@app.command()
@at_store
def seek(
    target: Target,
    topic: TopicArgument,
    group: GroupArgument,
    to: Annotated[
        str, typer.Option("--to", metavar="start|end|NUMBER|TIME|AGO", help="Where it goes on.", show_default=False)
    ],
    partition: PartitionOption = None,
    is_json: AsJson = False,
) -> None:
    """Move a stream group that nobody is reading with: to the start, the end, a number, or a time."""
    with target.open() as opened:
        found = opened.existing_topic(topic)
        described = found.describe_group(group)
        if described.settings.mode != "stream":
            raise BadInput(f"{group!r} is a queue group, which has no place to move: only stream groups have")
        where = _where(found, to, partition)
        if members := described.members:
            count = "1 member" if len(members) == 1 else f"{len(members)} members"
            fail(f"the group {group!r} has {count} at work; stop them first, or let them seek")
        with found.group(group) as member:
            others = sorted({*range(found.partition_count)} - {*member.partitions})
            if others and partition is None:
                raise NotOwner(topic, group, others)
            moved = member.seek(where, partition)
    if is_json:
        write_json([{"topic": topic, "group": group, "partition": each, "next": moved[each]} for each in sorted(moved)])
    else:
        for each in sorted(moved):
            typer.echo(f"partition {each}, next is number {moved[each]}")


def _where(topic: AnyTopic, text: str, partition: int | None) -> Where:
    """What `--to` means. A number is one of one partition."""
    if text in ("start", "end"):
        return START if text == "start" else END
    if not text.isdecimal():
        return EPOCH + timedelta(microseconds=moment_us(text, SYSTEM_CLOCK.now_ns() // 1000))
    if partition is None and topic.partition_count > 1:
        raise BadInput(f"--to {text}: the topic has {topic.partition_count} partitions; name one with --partition")
    return int(text)
