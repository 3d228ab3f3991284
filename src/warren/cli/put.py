"""`warren put`: messages from arguments, from files, and from the lines of stdin as they arrive."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console

from warren.cli.bar import Bar
from warren.cli.bodies import Bodies
from warren.cli.pointing import AnyStore, AnyTopic, Target, at_store
from warren.cli.quantities import duration_s, time_us
from warren.cli.receipts import Receipts
from warren.cli.store import AsJson, TopicArgument
from warren.clock import SYSTEM_CLOCK
from warren.config import Durability
from warren.errors import BadInput
from warren.queue.message_fields import Columns
from warren.queue.names import checked_name
from warren.queue.topic import Topic

BodyArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="BODY", help="One message each; - alone for the lines of stdin.", show_default=False),
]
FileOption = Annotated[
    list[str] | None,
    typer.Option("--file", metavar="PATH", help="A file that is one message; again for more, - for stdin."),
]
LinesOption = Annotated[
    bool,
    typer.Option("--lines", help="One message a line, of the files or of stdin; the default where no body is given."),
]
NullOption = Annotated[
    bool, typer.Option("--null-separated", "-0", help="As --lines, with messages that end in a zero byte.")
]
KeyOption = Annotated[
    str | None, typer.Option("--key", "-k", metavar="KEY", help="Messages of one key keep their order.")
]
PutTagOption = Annotated[str, typer.Option("--tag", "-t", metavar="TAG", help="What filters match, e.g. eu.de.")]
HeaderOption = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header; again for more.")
]
DelayOption = Annotated[
    str | None, typer.Option("--delay", "-d", metavar="DURATION", help="Deliver after so long, e.g. 30s or 2h.")
]
AtOption = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="Deliver then, e.g. 2026-03-01T12:00 (UTC).")
]
ToPartitionOption = Annotated[
    int | None, typer.Option("--partition", "-p", metavar="NUMBER", min=0, help="To this partition.")
]
DurabilityOption = Annotated[
    str | None, typer.Option(metavar="LEVEL", help="For these: commit, os, or e.g. interval:50ms.")
]


@at_store
def put(
    target: Target,
    topic: TopicArgument,
    bodies: BodyArguments = None,
    files: FileOption = None,
    is_by_line: LinesOption = False,
    is_by_null: NullOption = False,
    key: KeyOption = None,
    tag: PutTagOption = "",
    headers: HeaderOption = None,
    delay: DelayOption = None,
    at: AtOption = None,
    partition: ToPartitionOption = None,
    durability: DurabilityOption = None,
    is_quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write no receipts.")] = False,
    is_json: AsJson = False,
) -> None:
    """Put messages into a topic, and write where they went.

    The messages are the BODY arguments, the files, or else the lines of stdin, which are put as they arrive. A topic
    that is missing is made, and so is the store.
    """
    source = Bodies(bodies or [], files or [], b"\0" if is_by_null else b"\n" if is_by_line else None)
    shared = Shared(
        key=None if key is None else os.fsencode(key),
        tag=tag,
        headers=_parsed_headers(headers or []),
        partition=partition,
        delay_s=None if delay is None else duration_s(delay),
        at_us=None if at is None else time_us(at),
    )
    checked_name("topic", topic)
    if durability is not None:
        Durability.parse(durability)
        target.files("--durability")
    receipts = Receipts(topic, is_json=is_json, is_quiet=is_quiet)
    with target.open(creates=True, keeps=True) as opened:
        if not is_quiet and not opened.has_topic(topic):
            Console(stderr=True, highlight=False).print(f"made the topic {topic} in {target}", soft_wrap=True)
        found = _topic_to_put(opened, topic, durability)
        bar = Bar(source.size, SYSTEM_CLOCK, is_shown=not is_json or is_quiet or not sys.stdout.isatty())
        try:
            for batch in source.batches():
                shared.put(found, batch, receipts)
                bar.advance(sum(map(len, batch)) + len(batch))
        finally:
            bar.finish()
            receipts.finish()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What all messages of one command have in common. They are put at once, unless `delay_s` or `at_us` is given."""

    key: bytes | None
    tag: str
    headers: Mapping[str, bytes] | None
    partition: int | None
    delay_s: float | None
    at_us: int | None

    def __post_init__(self) -> None:
        if self.delay_s is not None and self.at_us is not None:
            raise BadInput("give either --delay or --at")

    def put(self, topic: AnyTopic, bodies: Sequence[bytes], receipts: Receipts) -> None:
        """Put the bodies together, and show where they went."""
        columns: Columns = {
            "tag": self.tag,
            "keys": None if self.key is None else [self.key] * len(bodies),
            "headers": None if self.headers is None else [self.headers] * len(bodies),
            "partition": self.partition,
        }
        if self.delay_s is not None:
            receipts.add_delayed(topic.put_many(bodies, delay=self.delay_s, **columns))
        elif self.at_us is not None:
            receipts.add_delayed(topic.put_many(bodies, deliver_at=self.at_us, **columns))
        else:
            receipts.add(topic.put_many(bodies, **columns))


def _topic_to_put(store: AnyStore, name: str, durability: str | None) -> AnyTopic:
    topic = store.topic(name)
    if durability is not None and isinstance(topic, Topic):
        # For this process alone: what others put is as durable as the topic says.
        topic.take_settings(dataclasses.replace(topic.settings, durability=durability))
    return topic


def _parsed_headers(texts: Sequence[str]) -> dict[str, bytes] | None:
    headers = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise BadInput(f"header {text!r}: expected NAME=VALUE")
        headers[name] = os.fsencode(value)
    return headers or None
