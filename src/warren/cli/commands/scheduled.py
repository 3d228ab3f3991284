"""`warren scheduled …`: parked (delayed) messages that are not due yet, and cancelling them."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Final, NamedTuple

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from warren.cli.options.store_option import AnyStore, AsJson, EveryTopicArgument, StoreTarget, TopicArgument, at_store
from warren.cli.output.message_lines import json_bytes, printable, printable_text
from warren.cli.output.tables import BODY_SHOWN_MAX, shortened, span_text, table, time_text, write_json
from warren.cli.running.errors import EXIT_FAILED, FailureGroup
from warren.clock import SYSTEM_CLOCK, microseconds
from warren.queue.delay.handles import Scheduled, parse_handle_id

app = typer.Typer(cls=FailureGroup, help="List and cancel parked (delayed) messages.", no_args_is_help=True)

LIMIT_DEFAULT: Final = 20


class ScheduledEntry(NamedTuple):
    """One parked message with its topic. Sorts by due time."""

    due_us: int
    topic: str
    scheduled: Scheduled


@app.command("list")
@at_store
def list_scheduled(
    target: StoreTarget,
    topic: EveryTopicArgument = None,
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", metavar="COUNT", min=1, help="Show at most this many, the earliest first."),
    ] = LIMIT_DEFAULT,
    is_json: AsJson = False,
) -> None:
    """Show the parked messages by due time."""
    with target.open_to_read() as opened:
        names = opened.topics() if topic is None else [opened.existing_topic(topic).name]
        merged = heapq.merge(*(_entries(opened, name, limit + 1) for name in names), key=lambda entry: entry.due_us)
        entries = list(islice(merged, limit + 1))
        now_us = SYSTEM_CLOCK.now_ns() // 1000
    visible, is_cut = entries[:limit], len(entries) > limit
    if is_json:
        for entry in visible:
            typer.echo(json.dumps(_fields(entry), ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.print(
        _table(visible, now_us, has_topic=topic is None) if visible else Text("nothing scheduled", style="dim")
    )
    if is_cut:
        console.print(Text(f"and more: --limit shows more than {limit}", style="dim"))


@app.command()
@at_store
def cancel(
    target: StoreTarget,
    topic: TopicArgument,
    ids: Annotated[
        list[str], typer.Argument(metavar="ID", help="An id that `warren scheduled list` shows.", show_default=False)
    ],
    is_json: AsJson = False,
) -> None:
    """Cancel messages before they are delivered. Exits with 1 if it was too late for one of them."""
    with target.open() as opened:
        source = opened.existing_topic(topic)
        for id in ids:
            parse_handle_id(id)
        cancelled = {id: source.cancel(id) for id in dict.fromkeys(ids)}
    if is_json:
        write_json([{"topic": topic, "id": id, "cancelled": was} for id, was in cancelled.items()])
    else:
        for id, was in cancelled.items():
            typer.echo(f"cancelled {id}" if was else f"too late for {id}: it was delivered or cancelled already")
    if not all(cancelled.values()):
        raise typer.Exit(EXIT_FAILED)


def _entries(store: AnyStore, topic: str, limit: int) -> Iterator[ScheduledEntry]:
    for scheduled in store.existing_topic(topic).scheduled(limit):
        yield ScheduledEntry(microseconds(scheduled.due), topic, scheduled)


def _fields(entry: ScheduledEntry) -> dict[str, object]:
    scheduled = entry.scheduled
    return {
        "topic": entry.topic,
        "id": scheduled.id,
        "due": entry.due_us,
        "partition": scheduled.partition,
        "message_id": scheduled.message_id,
        "tag": scheduled.tag,
        "key": None if scheduled.key is None else json_bytes(scheduled.key),
        "headers": {name: json_bytes(value) for name, value in scheduled.headers.items()},
        "corr_offset": scheduled.corr_offset,
        "body": json_bytes(scheduled.body),
    }


def _table(entries: list[ScheduledEntry], now_us: int, *, has_topic: bool) -> RenderableType:
    rows = table("Scheduled")
    if has_topic:
        rows.add_column("topic", no_wrap=True)
    rows.add_column("due (UTC)", no_wrap=True)
    rows.add_column("in", justify="right", no_wrap=True)
    # Never shortened, because `warren scheduled cancel` needs the whole id.
    rows.add_column("id", overflow="fold", no_wrap=True)
    rows.add_column("tag")
    rows.add_column("body")
    for due_us, topic, scheduled in entries:
        left = span_text(due_us - now_us) if due_us > now_us else "now"
        cells = (
            time_text(due_us),
            left,
            scheduled.id,
            shortened(printable_text(scheduled.tag)),
            shortened(printable(scheduled.body[:BODY_SHOWN_MAX])),
        )
        rows.add_row(*((Text(topic), *cells) if has_topic else cells))
    return rows
