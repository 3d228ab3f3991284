"""A million messages through a fresh log: written, read back through a filter and looked up, with the rates."""

from __future__ import annotations

import random
import tempfile
from typing import Annotated, Final

import typer
from rich.console import Console

from warren.cli.rates import Stopwatch, progress_bars, rates_table
from warren.cli.show import size_text, table, time_text
from warren.clock import SYSTEM_CLOCK
from warren.message import Message
from warren.storage import Log

MESSAGES_DEFAULT: Final = 1_000_000
BATCH: Final = 1_000
BODY_SIZE: Final = 100
TAGS: Final = ("eu.de", "eu.fr", "us.ny", "us.ca", "asia.jp")
FILTER: Final = "eu.*"
LOOKUPS: Final = 10_000
LOOKUPS_A_STEP: Final = 100
LOOKUPS_SHOWN: Final = 4
SEED: Final = 1


def demo(
    messages: Annotated[int, typer.Option(min=1, help="How many messages to write.")] = MESSAGES_DEFAULT,
) -> None:
    """Write messages to a fresh log, read them back through a tag filter, look some up, and show the rates."""
    console = Console(highlight=False)
    console.print(f"[bold]Warren[/]: {messages:,} messages of {BODY_SIZE} bytes, to a fresh log and back")
    with tempfile.TemporaryDirectory(prefix="warren-demo-") as directory, Log.open(directory) as log:
        with progress_bars(console) as progress:
            stopwatch = Stopwatch(progress, SYSTEM_CLOCK)
            write(stopwatch, log, messages)
            read_filtered(stopwatch, log)
            found = look_up(stopwatch, log)
        console.print("", rates_table("Rates", stopwatch.rates), "", sep="\n")
        show_found(console, found)
        size = size_text(sum(block.file_size or 0 for block in log.inspect().blocks))
        console.print(f"{size} on disk; every batch was synced before its append returned.")


def body(number: int) -> bytes:
    """The body of message `number`: always the same, so that a message can be recognised."""
    return b"order %d" % number + b"." * (BODY_SIZE - len(f"order {number}"))


def tag(number: int) -> str:
    """The tag of message `number`."""
    return TAGS[number % len(TAGS)]


def write(stopwatch: Stopwatch, log: Log, count: int) -> None:
    """Append `count` messages by the thousand, each thousand with one commit."""
    with stopwatch.stage(f"append_many by {BATCH:,}, each synced", count) as stage:
        for start in range(0, count, BATCH):
            numbers = range(start, min(start + BATCH, count))
            log.append_many(list(map(body, numbers)), tags=list(map(tag, numbers)))
            stage.advance(len(numbers))


def read_filtered(stopwatch: Stopwatch, log: Log) -> None:
    """Read every message that passes the filter, through a reader that keeps its place."""
    reader = log.reader("demo", tag=FILTER)
    with stopwatch.stage(f"reader with filter {FILTER}", log.end) as stage:
        while messages := reader.read(limit=10 * BATCH):
            assert all(message.tag.startswith("eu.") for message in messages), "the filter let another tag through"
            stage.advance(reader.position - stage.count)
        stage.advance(reader.position - stage.count)
        reader.commit()


def look_up(stopwatch: Stopwatch, log: Log) -> list[Message]:
    """Fetch messages by number and find them by time, at random; some of those that were found."""
    draw = random.Random(SEED)
    found: list[Message] = []
    with stopwatch.stage("at(number), at random", LOOKUPS) as stage:
        while stage.count < LOOKUPS:
            numbers = [draw.randrange(log.end) for _ in range(LOOKUPS_A_STEP)]
            messages = [message for message in map(log.at, numbers) if message is not None]
            assert [message.body for message in messages] == list(map(body, numbers)), "another message came back"
            found += messages
            stage.advance(LOOKUPS_A_STEP)
    with stopwatch.stage("find_time(when), at random", LOOKUPS) as stage:
        for start in range(0, LOOKUPS, LOOKUPS_A_STEP):
            messages = found[start : start + LOOKUPS_A_STEP]
            firsts = [log.find_time(message.timestamp) for message in messages]
            # Messages of one batch share their time, and the first of them is found.
            assert all(0 <= message.number - first < BATCH for message, first in zip(messages, firsts, strict=True))
            stage.advance(LOOKUPS_A_STEP)
    return found[:LOOKUPS_SHOWN]


def show_found(console: Console, messages: list[Message]) -> None:
    """A few of the messages that were looked up."""
    found = table("Some of the messages looked up")
    found.add_column("number", justify="right")
    found.add_column("time (UTC)")
    found.add_column("tag")
    found.add_column("body")
    for message in messages:
        text = message.body.rstrip(b".").decode()
        found.add_row(f"{message.number:,}", time_text(message.timestamp), message.tag, text)
    console.print(found, "")
