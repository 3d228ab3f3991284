"""`warren put`: messages from arguments, from files, and from the lines of stdin as they arrive."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from warren.cli.bodies import STDIN, argument_bytes, check_file, lines, opened, total_size, whole
from warren.cli.receipts import Receipts
from warren.cli.store import STORE_DEFAULT, AsJson, StoreOption, TopicArgument, open_store
from warren.clock import Clock
from warren.config import Durability
from warren.errors import BadInput
from warren.message import Place
from warren.queue.names import checked_name
from warren.queue.store import Store
from warren.queue.topic import Topic

PROGRESS_AFTER_S: Final = 1.0
"""What is done sooner needs no bar."""

Bodies = Annotated[list[str] | None, typer.Argument(metavar="BODY", help="One message each.", show_default=False)]
Files = Annotated[
    list[str] | None,
    typer.Option("--file", metavar="PATH", help="A file that is one message; again for more, - for stdin."),
]
Headers = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header; again for more.")
]
LinesOption = Annotated[
    bool,
    typer.Option("--lines", help="One message a line, of the files or of stdin; the default where no body is given."),
]
NullOption = Annotated[
    bool, typer.Option("--null-separated", "-0", help="As --lines, with messages that end in a zero byte.")
]


def put(
    topic: TopicArgument,
    bodies: Bodies = None,
    files: Files = None,
    is_by_line: LinesOption = False,
    is_by_null: NullOption = False,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Messages of one key keep their order.")] = None,
    tag: Annotated[str, typer.Option("--tag", "-t", help="What filters match, e.g. eu.de.")] = "",
    headers: Headers = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", metavar="NUMBER", min=0, help="To this partition.")
    ] = None,
    durability: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="For these: commit, os, or e.g. interval:50ms.")
    ] = None,
    is_quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write no receipts.")] = False,
    is_json: AsJson = False,
    store: StoreOption = STORE_DEFAULT,
) -> None:
    """Put messages into a topic, which is made where it is missing, and write where they went.

    The messages are the BODY arguments, the files, or else the lines of stdin, which are put as they arrive.
    """
    source = Source(bodies or [], files or [], _separator(is_by_line=is_by_line, is_by_null=is_by_null))
    columns = Columns(None if key is None else argument_bytes(key), tag, _parsed_headers(headers or []), partition)
    checked_name("topic", topic)
    if durability is not None:
        Durability.parse(durability)
    receipts = Receipts(topic, is_json=is_json, is_quiet=is_quiet)
    with open_store(store, creates=True, keeps=True) as opened_store:
        target = _topic_to_put(opened_store, topic, durability, is_quiet=is_quiet)
        bar = Bar(source.size, opened_store.clock, is_shown=not is_json or is_quiet or not sys.stdout.isatty())
        try:
            for batch in source.batches():
                receipts.add(columns.put(target, batch))
                bar.advance(sum(map(len, batch)) + len(batch))
        finally:
            bar.finish()
            receipts.finish()


class Source:
    """The bodies to put, in batches. BadInput where there are none to find, and where they come from two places."""

    def __init__(self, arguments: Sequence[str], files: Sequence[str], separator: bytes | None) -> None:
        if arguments and (files or separator):
            raise BadInput("give the bodies as arguments, or in files and lines, not both")
        if not arguments and not files:
            if separator is None and sys.stdin.isatty():
                raise BadInput("nothing to put: give a BODY, --file, or lines on stdin")
            files, separator = [STDIN], separator or b"\n"
        for path in files:
            check_file(path)
        self._arguments, self._files, self._separator = arguments, files, separator
        self.size = total_size(files, sys.stdin.buffer)

    def batches(self) -> Iterator[Sequence[bytes]]:
        """What is put together: all arguments, each whole file, and the lines that arrived at once."""
        if self._arguments:
            yield list(map(argument_bytes, self._arguments))
        for path in self._files:
            with opened(path, sys.stdin.buffer) as stream:
                if self._separator is None:
                    yield [whole(stream)]
                else:
                    yield from lines(stream, self._separator)


@dataclass(frozen=True, slots=True)
class Columns:
    """What all messages of one command share."""

    key: bytes | None
    tag: str
    headers: Mapping[str, bytes] | None
    partition: int | None

    def put(self, topic: Topic, bodies: Sequence[bytes]) -> Sequence[Place]:
        """Put the bodies together."""
        keys = None if self.key is None else [self.key] * len(bodies)
        headers = None if self.headers is None else [self.headers] * len(bodies)
        return topic.put_many(bodies, tag=self.tag, keys=keys, headers=headers, partition=self.partition)


class Bar:
    """How far reading has come, on a terminal, once it takes longer than a moment."""

    def __init__(self, size: int | None, clock: Clock, *, is_shown: bool) -> None:
        console = Console(stderr=True, highlight=False)
        self._is_shown = is_shown and console.is_terminal
        self._clock, self._start_s = clock, clock.steady_s()
        columns = (
            TextColumn("putting"),
            BarColumn(bar_width=24),
            DownloadColumn(binary_units=True),
            TimeElapsedColumn(),
        )
        self._progress = Progress(
            *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._task = self._progress.add_task("", total=size)

    def advance(self, size: int) -> None:
        """Another `size` bytes were put."""
        self._progress.advance(self._task, size)
        if self._is_shown and self._clock.steady_s() - self._start_s > PROGRESS_AFTER_S:
            self._progress.start()

    def finish(self) -> None:
        """Take the bar off the screen, if it was on it."""
        if self._progress.live.is_started:
            self._progress.stop()


def _topic_to_put(store: Store, name: str, durability: str | None, *, is_quiet: bool) -> Topic:
    if not store.has_topic(name) and not is_quiet:
        Console(stderr=True, highlight=False).print(f"made the topic {name} in {store.path}", soft_wrap=True)
    topic = store.topic(name)
    if durability is not None:
        # For this process alone: what others put is as durable as the topic says.
        topic.take_settings(dataclasses.replace(topic.settings, durability=durability))
    return topic


def _separator(*, is_by_line: bool, is_by_null: bool) -> bytes | None:
    if is_by_null:
        return b"\0"
    return b"\n" if is_by_line else None


def _parsed_headers(texts: Sequence[str]) -> dict[str, bytes] | None:
    headers = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise BadInput(f"header {text!r}: expected NAME=VALUE")
        headers[name] = argument_bytes(value)
    return headers or None
