"""`warren put`: puts messages from arguments, from files, and from the lines of stdin as they arrive."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console

from warren.api.values import PutManyOptions
from warren.cli.options.store_option import AnyStore, AnyTopic, AsJson, StoreTarget, TopicArgument, at_store
from warren.cli.output.receipts import Receipts
from warren.cli.running.bar import PutBar
from warren.cli.running.bodies import Bodies
from warren.cli.running.quantities import duration_s, time_us
from warren.clock import SYSTEM_CLOCK
from warren.errors import BadInput, NoRight
from warren.queue.state.settings import checked_name
from warren.queue.topic import Topic
from warren.storage.append.durability import Durability

BodyArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="BODY", help="One message each; a single - reads the lines of stdin.", show_default=False),
]
FileOption = Annotated[
    list[str] | None,
    typer.Option("--file", metavar="PATH", help="A file that becomes one message; - for stdin. May be repeated."),
]
LinesOption = Annotated[
    bool,
    typer.Option("--lines", help="One message per line of the files or of stdin; the default without a body."),
]
NullOption = Annotated[
    bool, typer.Option("--null-separated", "-0", help="As --lines, but a zero byte ends each message.")
]
KeyOption = Annotated[
    str | None, typer.Option("--key", "-k", metavar="KEY", help="Messages with the same key keep their order.")
]
PutTagOption = Annotated[
    str, typer.Option("--tag", "-t", metavar="TAG", help="The tag that filters match, e.g. eu.de.")
]
HeaderOption = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header. May be repeated.")
]
DelayOption = Annotated[
    str | None, typer.Option("--delay", "-d", metavar="DURATION", help="Deliver after this time, e.g. 30s or 2h.")
]
AtOption = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="Deliver at this time, e.g. 2026-03-01T12:00 (UTC).")
]
ToPartitionOption = Annotated[
    int | None, typer.Option("--partition", "-p", metavar="NUMBER", min=0, help="Put into this partition.")
]
DurabilityOption = Annotated[
    str | None,
    typer.Option(metavar="LEVEL", help="The durability of these messages: commit, os, or e.g. interval:50ms."),
]


@at_store
def put(
    target: StoreTarget,
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
    """Put messages into a topic, and write their places.

    The messages are the BODY arguments, the files, or the lines of stdin, which are put as they arrive. Creates the
    topic and the store if they do not exist.
    """
    source = Bodies(bodies or [], files or [], b"\0" if is_by_null else b"\n" if is_by_line else None)
    shared = SharedFields(
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
        is_new, destination = _topic_to_put(opened, topic, durability)
        if is_new and not is_quiet:
            Console(stderr=True, highlight=False).print(f"created the topic {topic} in {target}", soft_wrap=True)
        bar = PutBar(source.size, SYSTEM_CLOCK, is_shown=not is_json or is_quiet or not sys.stdout.isatty())
        try:
            for batch in source.batches():
                shared.put(destination, batch, receipts)
                bar.advance(sum(map(len, batch)) + len(batch))
        finally:
            bar.finish()
            receipts.finish()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFields:
    """The fields that all messages of one command share. Without `delay_s` and `at_us` they are
    delivered immediately.
    """

    key: bytes | None
    tag: str
    headers: Mapping[str, bytes] | None
    partition: int | None
    delay_s: float | None
    at_us: int | None

    def __post_init__(self) -> None:
        if self.delay_s is not None and self.at_us is not None:
            raise BadInput("pass either --delay or --at")

    def put(self, topic: AnyTopic, bodies: Sequence[bytes], receipts: Receipts) -> None:
        """Puts the bodies together, and shows their places."""
        columns: PutManyOptions = {
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


def _topic_to_put(store: AnyStore, name: str, durability: str | None) -> tuple[bool, AnyTopic]:
    """Returns whether the topic is new, and the topic. Raises NoRight with all rights that the command needs."""
    try:
        is_new = not store.has_topic(name)
        topic = store.topic(name)
    except NoRight as error:
        # Otherwise the user would learn of one missing right after the other, and ask an admin for each.
        raise NoRight(error.user, "write", "topic", name, ["create"]) from error
    if durability is not None and isinstance(topic, Topic):
        # For this process only: puts of other processes are as durable as the topic says.
        topic.take_settings(dataclasses.replace(topic.settings, durability=durability))
    return is_new, topic


def _parsed_headers(texts: Sequence[str]) -> dict[str, bytes] | None:
    headers = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise BadInput(f"header {text!r}: expected NAME=VALUE")
        headers[name] = os.fsencode(value)
    return headers or None
