"""`warren group …`: the groups of a store, how far behind they are, and where they go on."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

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
from warren.cli.quantities import duration_s, moment_us, yes_or_no
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
    with target.open_to_read() as opened:
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
    with target.open_to_read() as opened:
        groups = list(facts_of_groups(opened, topic, group))
    if is_json:
        write_json(lag_rows(groups))
    else:
        Console(highlight=False).print(lag_table(groups))


@app.command()
@at_store
def configure(
    target: Target,
    topic: TopicArgument,
    group: GroupArgument,
    lease: Annotated[str | None, typer.Option(metavar="DURATION", help="How long a lease lasts, e.g. 30s.")] = None,
    attempts_max: Annotated[
        int | None, typer.Option(metavar="COUNT", min=0, help="Attempts before a dead letter; 0: no end.")
    ] = None,
    backoff: Annotated[
        str | None, typer.Option(metavar="DURATION", help="The wait after the first attempt, doubled after each.")
    ] = None,
    backoff_max: Annotated[str | None, typer.Option(metavar="DURATION", help="The longest wait.")] = None,
    tag: Annotated[
        str | None, typer.Option("--tag", "-t", metavar="FILTER", help="Take only messages that match; empty: all.")
    ] = None,
    renew_max: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Renew leases of messages in hand for so long; 0s: never.")
    ] = None,
    ordered_by_key: Annotated[
        str | None, typer.Option(metavar="yes|no", help="Lease messages of one key one after the other.")
    ] = None,
    is_json: AsJson = False,
) -> None:
    """Change settings of a group, and show those it has now. Workers see it when they open the group next."""
    durations = {"lease": lease, "backoff": backoff, "backoff_max": backoff_max, "renew_max": renew_max}
    changes: dict[str, Any] = {name: duration_s(given) for name, given in durations.items() if given is not None}
    if attempts_max is not None:
        changes["attempts_max"] = attempts_max
    if tag is not None:
        changes["tag"] = tag or None
    if ordered_by_key is not None:
        changes["ordered_by_key"] = yes_or_no(ordered_by_key)
    if not changes:
        raise BadInput("nothing to change: name a setting; `warren group configure --help` lists them")
    with target.open() as opened:
        settings = opened.existing_topic(topic).configure_group(group, **changes).to_json()
    if is_json:
        write_json({"topic": topic, "group": group, **settings})
    else:
        for name, value in settings.items():
            typer.echo(f"{name}  {'none' if value is None else value}")


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
