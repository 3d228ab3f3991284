"""`warren log bench`: the rates of this machine, measured in seconds on a temporary log."""

from __future__ import annotations

import random
import tempfile
from typing import Final

from rich.console import Console

from warren.cli.rates import Stopwatch, progress_bars, rates_json, rates_table
from warren.cli.show import write_json
from warren.clock import SYSTEM_CLOCK
from warren.storage import Log

BODY: Final = b"x" * 100
BATCH: Final = 1_000
SYNCED_S: Final = 1.0
SYNCED_A_STEP: Final = 10
LOOKUPS_MAX: Final = 20_000
TAGS: Final = ("eu.de", "us.ny")
SEED: Final = 1


def bench(count: int, directory: str | None, *, is_json: bool) -> None:
    """Append, read and look up `count` messages in a log made below `directory`, and show how fast that was."""
    console = Console(highlight=False, stderr=is_json)
    with tempfile.TemporaryDirectory(prefix="warren-bench-", dir=directory) as path:
        with progress_bars(console) as progress:
            stopwatch = Stopwatch(progress, SYSTEM_CLOCK)
            with Log.open(path, durability="os") as log:
                append(stopwatch, log, count)
                read(stopwatch, log)
                look_up(stopwatch, log, min(count, LOOKUPS_MAX))
            with Log.open(path) as log:
                append_synced(stopwatch, log)
        if is_json:
            write_json(rates_json(stopwatch.rates))
        else:
            console.print(rates_table(f"Bodies of {len(BODY)} bytes, in {path}", stopwatch.rates))


def append(stopwatch: Stopwatch, log: Log, count: int) -> None:
    """Append one by one, and in batches without and with a tag for each message."""
    with stopwatch.stage("append", count) as stage:
        for start in range(0, count, BATCH):
            size = min(BATCH, count - start)
            for _ in range(size):
                log.append(BODY)
            stage.advance(size)
    for what, tags in ((f"append_many by {BATCH:,}", None), (f"append_many by {BATCH:,}, tagged", TAGS)):
        with stopwatch.stage(what, count) as stage:
            for start in range(0, count, BATCH):
                size = min(BATCH, count - start)
                log.append_many([BODY] * size, tags=(list(tags) * size)[:size] if tags else None)
                stage.advance(size)


def append_synced(stopwatch: Stopwatch, log: Log) -> None:
    """Append one by one for a second, each message synced before the next."""
    deadline = SYSTEM_CLOCK.steady_s() + SYNCED_S
    with stopwatch.stage("append, each synced", 0) as stage:
        while SYSTEM_CLOCK.steady_s() < deadline:
            for _ in range(SYNCED_A_STEP):
                log.append(BODY)
            stage.advance(SYNCED_A_STEP)


def read(stopwatch: Stopwatch, log: Log) -> None:
    """Read everything, and once more through a filter that half of the tagged messages pass."""
    for what, tag in (("read", None), (f"read with filter {TAGS[0]}", TAGS[0])):
        reader = log.reader("bench", tag=tag)
        reader.seek(log.first)
        with stopwatch.stage(what, log.end) as stage:
            while reader.read(limit=10 * BATCH):
                stage.advance(reader.position - stage.count)
            stage.advance(reader.position - stage.count)


def look_up(stopwatch: Stopwatch, log: Log, count: int) -> None:
    """Fetch messages by numbers drawn at random."""
    draw = random.Random(SEED)
    numbers = [draw.randrange(log.first, log.end) for _ in range(count)]
    with stopwatch.stage("at(number), at random", count) as stage:
        for number in numbers:
            log.at(number)
        stage.advance(count)
