"""`warren dead …`: dead letters, which are messages that failed too often in a queue group."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from warren.cli.options.store_option import (
    AnyTopic,
    AsJson,
    EveryGroupArgument,
    EveryTopicArgument,
    StoreTarget,
    TopicArgument,
    at_store,
)
from warren.cli.output.message_lines import json_fields, printable, printable_text
from warren.cli.output.tables import BODY_SHOWN_MAX, shortened, table, time_text, write_json
from warren.cli.running.errors import FailureGroup
from warren.cli.running.job import ConfOption, MasterOption, running
from warren.errors import BadInput
from warren.queue.leases.dead_letter_views import Letter
from warren.queue.leases.dead_letters import HEADER_PREFIX, dead_letter_topic

if TYPE_CHECKING:
    from warren.spark.jobs.dead_letters import Reason

app = typer.Typer(cls=FailureGroup, help="List and count dead letters, and put them back.", no_args_is_help=True)

LIMIT_DEFAULT: Final = 20


@app.command("list")
@at_store
def list_dead(
    target: StoreTarget,
    topic: EveryTopicArgument = None,
    group: EveryGroupArgument = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="COUNT", min=1, help="Show at most this many, oldest first.")
    ] = LIMIT_DEFAULT,
    is_json: AsJson = False,
) -> None:
    """Show the dead letters that were not put back: where they come from, and why they died."""
    with target.open_to_read() as opened:
        names = opened.topics() if topic is None else [topic]
        letters = chain.from_iterable(opened.existing_topic(name).dead_letters(group) for name in names)
        some = list(islice(letters, limit + 1))
    if is_json:
        for letter in some[:limit]:
            typer.echo(json.dumps(_letter_json(letter), ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.print(_table(some[:limit], has_topic=topic is None) if some else Text("no dead letters", style="dim"))
    if len(some) > limit:
        console.print(Text(f"and more: --limit shows more than {limit}", style="dim"))


@app.command()
@at_store
def redrive(
    target: StoreTarget,
    topic: TopicArgument,
    group: EveryGroupArgument = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", metavar="COUNT", min=1, help="At most this many of each group, oldest first."),
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Only letters for which this is true. Runs on Spark.")
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    is_json: AsJson = False,
) -> None:
    """Put dead letters back into their topic as new messages, each once.

    A condition may use `reason`, `attempts`, `group`, `partition`, `number`, `died`, `key`, `value`, `tag`, `id`, and
    `text`, which is the value as a string.

    ```
    warren dead redrive orders
    warren dead redrive orders --where "reason like 'timeout%' and died > now() - interval 1 day"
    ```
    """
    if where is not None and limit is not None:
        raise BadInput("pass either --where or --limit")
    with target.open() as opened:
        source = opened.existing_topic(topic)
        groups = _queue_groups(source, group)
        counts = {} if where is not None else {name: _redrive(source, name, limit) for name in groups}
    if where is not None:
        counts = _redrive_where(target.options(), topic, group, where, master, conf, is_quiet=is_json)
    if is_json:
        write_json([{"topic": topic, "group": name, "messages": count} for name, count in counts.items()])
    elif not counts:
        nothing = "no queue groups, and no dead letters" if where is None else "no dead letters match"
        Console(highlight=False).print(Text(nothing, style="dim"))
    else:
        for name, count in counts.items():
            typer.echo(f"{name}: {count:,} {'message' if count == 1 else 'messages'} put back into {topic}")


@app.command()
@at_store
def summary(
    target: StoreTarget,
    topic: EveryTopicArgument = None,
    letters: Annotated[
        list[str] | None,
        typer.Option("--in", metavar="TOPIC", help="A topic with dead letters, such as a pipeline's. May be repeated."),
    ] = None,
    where: Annotated[str | None, typer.Option(metavar="SQL", help="Only letters for which this is true.")] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    is_json: AsJson = False,
) -> None:
    """Count the dead letters that were not put back, by topic, group and reason. Runs on Spark.

    ```
    warren dead summary
    warren dead summary orders --where "died > now() - interval 1 day"
    warren dead summary orders --in broken-orders
    ```
    """
    store = target.options()
    from warren.spark.jobs.dead_letters import summary as job

    topics = None if topic is None else [topic]
    with running("dead letters", master, conf, is_quiet=is_json) as spark_job, spark_job.status("counting"):
        reasons = job(spark_job.spark, store, topics, letters or None, where=where)
    if is_json:
        write_json([reason.to_json() for reason in reasons])
        return
    console = Console(highlight=False)
    console.print(_reasons_table(reasons) if reasons else Text("no dead letters", style="dim"))


def _reasons_table(reasons: Sequence[Reason]) -> RenderableType:
    rows = table("Dead letters by reason")
    rows.add_column("letters", justify="right", no_wrap=True)
    rows.add_column("topic", no_wrap=True)
    rows.add_column("group", no_wrap=True)
    rows.add_column("last (UTC)", no_wrap=True)
    rows.add_column("reason", overflow="fold")
    for reason in reasons:
        rows.add_row(
            f"{reason.letters:,}",
            Text(reason.topic),
            Text(printable_text(reason.group or "–")),
            time_text(reason.last_us),
            Text(printable_text(reason.reason)),
        )
    return rows


def _redrive_where(
    store: Mapping[str, str],
    topic: str,
    group: str | None,
    where: str,
    master: str | None,
    conf: list[str] | None,
    *,
    is_quiet: bool,
) -> dict[str, int]:
    from warren.spark.jobs.dead_letters import redrive as job

    with running("redrive", master, conf, is_quiet=is_quiet) as spark_job, spark_job.status("searching dead letters"):
        return job(spark_job.spark, store, topic, where, group)


def _queue_groups(topic: AnyTopic, group: str | None) -> list[str]:
    if group is None:
        return [name for name in topic.groups() if topic.group_settings(name).mode == "queue"]
    if topic.group_settings(group).mode != "queue":
        raise BadInput(f"{group!r} is a stream group: only queue groups have dead letters")
    return [group]


def _redrive(topic: AnyTopic, group: str, limit: int | None) -> int:
    # Checked first, because opening a group creates the topic of its dead letters.
    if not topic.store.has_topic(dead_letter_topic(str(topic.name), topic.settings.dead_letter)):
        return 0
    with topic.group(group, mode="queue") as opened:
        return opened.redrive(limit)


def _table(letters: Sequence[Letter], *, has_topic: bool) -> RenderableType:
    rows = table("Dead letters")
    if has_topic:
        rows.add_column("topic", no_wrap=True)
    rows.add_column("from", justify="right", no_wrap=True)
    rows.add_column("group", no_wrap=True)
    rows.add_column("died (UTC)", no_wrap=True)
    rows.add_column("attempts", justify="right", no_wrap=True)
    rows.add_column("reason")
    rows.add_column("body")
    for letter in letters:
        cells = (
            f"{letter.partition}:{letter.number}",
            Text(printable_text(letter.group)),
            time_text(letter.message.timestamp),
            f"{letter.attempts:,}",
            shortened(printable_text(letter.reason)),
            shortened(printable(letter.message.body[:BODY_SHOWN_MAX])),
        )
        rows.add_row(*((Text(letter.topic), *cells) if has_topic else cells))
    return rows


def _letter_json(letter: Letter) -> dict[str, Any]:
    """Returns the message as it was, why it died, and where its dead letter is stored."""
    message = letter.message
    own = {name: value for name, value in message.headers.items() if not name.startswith(HEADER_PREFIX)}
    fields = json_fields(message._replace(headers=own))
    lies = {"topic": message.topic, "partition": message.partition}
    lies |= {name: fields.pop(name) for name in ("number", "offset", "timestamp")}
    return {
        "topic": letter.topic,
        "partition": letter.partition,
        "number": letter.number,
        "group": letter.group,
        "attempts": letter.attempts,
        "reason": letter.reason,
        **fields,
        "dead": lies,
    }
