"""`warren log …`: tools for one log in a directory: inspect, verify, repair, dump, tail and bench."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import tempfile
from contextlib import suppress
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.console import Console

from warren.cli.options.log_option import open_to_read, reader_infos, require_log
from warren.cli.options.store_option import AsJson
from warren.cli.output.message_lines import (
    FOLLOW_WAIT_S,
    PAGE,
    LineMaker,
    last_messages,
    line_maker,
    pages,
    write_lines,
)
from warren.cli.output.rates import Stopwatch, rates_json, rates_table
from warren.cli.output.tables import show_log, size_text, write_json
from warren.cli.running.bar import progress_bars
from warren.cli.running.errors import EXIT_FAILED, FilesGroup, fail
from warren.clock import SYSTEM_CLOCK
from warren.errors import CorruptRecord, NumberRetired, StorageError
from warren.storage import Log
from warren.storage.append.recovery import Recovery
from warren.storage.format.tags import TagFilter

app = typer.Typer(cls=FilesGroup, help="Inspect, verify, repair and measure one log.", no_args_is_help=True)

BENCH_BODY: Final = b"x" * 100
BENCH_BATCH: Final = 1_000
BENCH_SYNCED_S: Final = 1.0
BENCH_SYNCED_A_STEP: Final = 10
BENCH_LOOKUPS_MAX: Final = 20_000
BENCH_TAGS: Final = ("eu.de", "us.ny")
BENCH_SEED: Final = 1

Path = Annotated[str, typer.Argument(metavar="PATH", help="The directory of the log.", show_default=False)]
TagOption = Annotated[
    str | None, typer.Option("--tag", metavar="FILTER", help="Only messages whose tag matches, e.g. 'eu.*;us.#'.")
]


@app.command()
def inspect(path: Path, is_json: AsJson = False) -> None:
    """Show the index, the blocks and the readers."""
    with open_to_read(path) as log:
        info, readers = log.inspect(), reader_infos(log)
    if is_json:
        facts = dataclasses.asdict(info) | {"readers": [dataclasses.asdict(reader) for reader in readers]}
        typer.echo(json.dumps(facts, indent=2, ensure_ascii=False))
    else:
        show_log(Console(highlight=False), info, readers)


@app.command()
def verify(path: Path, is_json: AsJson = False) -> None:
    """Check every checksum. Exit with 1 at the first damage, and show where it is."""
    console = Console(highlight=False, stderr=is_json)
    with open_to_read(path) as log:
        first = log.first
        checked = first
        with progress_bars(console) as progress:
            task = progress.add_task("checking", total=log.end - first)

            def show(number: int) -> None:
                nonlocal checked
                checked = number
                progress.update(task, completed=max(number - first, 0))

            try:
                verification = log.verify(show)
            except CorruptRecord as damage:
                progress.stop()
                _fail_at(path, damage, checked - first, is_json=is_json)
        if is_json:
            write_json({"path": path, "is_whole": True, **dataclasses.asdict(verification)})
            return
        blocks = "1 block" if verification.blocks == 1 else f"{verification.blocks:,} blocks"
        console.print(
            f"[green]undamaged[/]: {verification.messages:,} messages in {verification.records:,} records and "
            f"{blocks}, {size_text(verification.bytes)}"
        )
        unreadable_count = verification.unreadable_count
        if unreadable_count:
            count = "1 batch" if unreadable_count == 1 else f"{unreadable_count:,} batches"
            console.print(f"[yellow]unreadable records put by a client[/]: {count}, which readers skip")
        for batch in verification.unreadable:
            last = batch.number + batch.message_count - 1
            place = f"messages {batch.number:,} to {last:,}, at byte {batch.position} of {batch.path}"
            console.print(f"  {place}: {batch.reason}", markup=False)


def _fail_at(path: str, damage: CorruptRecord, whole_count: int, *, is_json: bool) -> NoReturn:
    """Ends the program with the place of the damage and the number of undamaged messages before it."""
    if is_json:
        facts = {"file": damage.path, "position": damage.position, "reason": damage.reason}
        write_json({"path": path, "is_whole": False, "damage": facts, "messages_before": whole_count})
        raise typer.Exit(EXIT_FAILED)
    place = f"{damage.path} is damaged at byte {damage.position}: {damage.reason}"
    advice = f"`warren log repair {path}` cuts the log there"
    fail(f"{place}; at least {whole_count:,} messages before it are undamaged; {advice}")


@app.command()
def repair(path: Path, is_json: AsJson = False) -> None:
    """Cut the log at its first damage, rebuild its index, and report what was cut.

    An undamaged log keeps every message.
    """
    require_log(path, needs_index=False)
    end_before = _published_end(path)
    with Log.open(path, repair=True) as log:
        first, end, recovery = log.first, log.end, log.recovery
    lost = max(0, (end_before or 0) - end) if recovery is not None else 0
    if is_json:
        cut = None if recovery is None else _cut_json(recovery)
        write_json({"path": path, "first": first, "end": end, "messages_lost": lost, "cut": cut})
        return
    console = Console(highlight=False, soft_wrap=True)
    if recovery is not None:
        for line in _cut_lines(recovery):
            console.print(line, style="yellow")
        if lost:
            console.print(f"lost {lost:,} messages: the log ended at {end_before:,}", style="yellow")
    console.print(f"[green]undamaged[/]: {end - first:,} messages, from {first:,} up to {end:,}")


def _published_end(path: str) -> int | None:
    """Returns the end that the index gives, or None if there is no readable index."""
    try:
        with open_to_read(path) as log:
            return log.end
    except StorageError:
        return None


def _cut_json(recovery: Recovery) -> dict[str, Any]:
    return {
        "removed": list(recovery.removed_paths),
        "file": recovery.cut_path if recovery.cut_bytes else None,
        "position": recovery.cut_position if recovery.cut_bytes else None,
        "bytes": recovery.cut_bytes,
    }


def _cut_lines(recovery: Recovery) -> list[str]:
    lines = [f"removed {removed}" for removed in recovery.removed_paths]
    if recovery.cut_bytes:
        place = f"{os.path.basename(recovery.cut_path)} at byte {recovery.cut_position:,}"
        lines.append(f"cut {size_text(recovery.cut_bytes)} from {place}")
    return lines or ["nothing was cut; the index was rebuilt"]


@app.command()
def dump(
    path: Path,
    start: Annotated[
        int | None, typer.Option("--from", metavar="NUMBER", min=0, help="The first message to write.")
    ] = None,
    end: Annotated[int | None, typer.Option("--to", metavar="NUMBER", min=0, help="Stop before this message.")] = None,
    tag: TagOption = None,
    is_json: AsJson = False,
) -> None:
    """Write messages, one per line."""
    tag_filter = TagFilter.parse(tag) if tag is not None else None
    with open_to_read(path) as log:
        first = log.first if start is None else start
        last_end = log.end if end is None else min(end, log.end)
        for page in pages(log, first, last_end, tag_filter):
            write_lines(page, line_maker(is_json=is_json))


@app.command()
def tail(
    path: Path,
    count: Annotated[int, typer.Option("-n", "--count", min=0, help="How many messages to start with.")] = 10,
    is_following: Annotated[
        bool, typer.Option("-f", "--follow", help="Keep writing messages as they are appended.")
    ] = False,
    tag: TagOption = None,
    is_json: AsJson = False,
) -> None:
    """Write the last messages, one per line."""
    tag_filter = TagFilter.parse(tag) if tag is not None else None
    line = line_maker(is_json=is_json)
    with open_to_read(path) as log:
        number = log.end
        write_lines(last_messages(log, number, count, tag_filter), line)
        if is_following:
            # Ctrl-C is the usual way to stop following, not a failure.
            with suppress(KeyboardInterrupt):
                _follow(log, number, tag_filter, line)


def _follow(log: Log, number: int, tag: TagFilter | None, line: LineMaker) -> None:
    """Writes messages from `number` on as they are appended. Skips messages that are retired before they are read."""
    while True:
        try:
            page = log.read_page(number, limit=PAGE, tag=tag, wait=FOLLOW_WAIT_S)
        except NumberRetired as error:
            number = error.first
            continue
        write_lines(page.messages, line)
        number = page.next_number


@app.command()
def bench(
    count: Annotated[int, typer.Option("--messages", min=1_000, help="How many messages a stage handles.")] = 200_000,
    directory: Annotated[
        str | None,
        typer.Option(help="Where to make the temporary log.", show_default="the system's temporary directory"),
    ] = None,
    is_json: AsJson = False,
) -> None:
    """Measure the rates of this machine on a temporary log."""
    console = Console(highlight=False, stderr=is_json)
    with tempfile.TemporaryDirectory(prefix="warren-bench-", dir=directory) as path:
        with progress_bars(console) as progress:
            stopwatch = Stopwatch(progress, SYSTEM_CLOCK)
            with Log.open(path, durability="os") as log:
                _bench_append(stopwatch, log, count)
                _bench_read(stopwatch, log)
                _bench_lookup(stopwatch, log, min(count, BENCH_LOOKUPS_MAX))
            with Log.open(path) as log:
                _bench_synced_append(stopwatch, log)
        if is_json:
            write_json(rates_json(stopwatch.rates))
        else:
            console.print(rates_table(f"Bodies of {len(BENCH_BODY)} bytes, in {path}", stopwatch.rates))


def _bench_append(stopwatch: Stopwatch, log: Log, count: int) -> None:
    """Appends one by one, and in batches without and with a tag for each message."""
    with stopwatch.stage("append", count) as stage:
        for start in range(0, count, BENCH_BATCH):
            size = min(BENCH_BATCH, count - start)
            for _ in range(size):
                log.append(BENCH_BODY)
            stage.advance(size)
    batches = f"append_many by {BENCH_BATCH:,}"
    for what, tags in ((batches, None), (f"{batches}, tagged", BENCH_TAGS)):
        with stopwatch.stage(what, count) as stage:
            for start in range(0, count, BENCH_BATCH):
                size = min(BENCH_BATCH, count - start)
                log.append_many([BENCH_BODY] * size, tags=(list(tags) * size)[:size] if tags else None)
                stage.advance(size)


def _bench_synced_append(stopwatch: Stopwatch, log: Log) -> None:
    """Appends one by one for a second, each message synced before the next."""
    deadline = SYSTEM_CLOCK.steady_s() + BENCH_SYNCED_S
    with stopwatch.stage("append, each synced", 0) as stage:
        while SYSTEM_CLOCK.steady_s() < deadline:
            for _ in range(BENCH_SYNCED_A_STEP):
                log.append(BENCH_BODY)
            stage.advance(BENCH_SYNCED_A_STEP)


def _bench_read(stopwatch: Stopwatch, log: Log) -> None:
    """Reads everything, then once more through a filter that half of the tagged messages pass."""
    for what, tag in (("read", None), (f"read with filter {BENCH_TAGS[0]}", BENCH_TAGS[0])):
        reader = log.reader("bench", tag=tag)
        reader.seek(log.first)
        with stopwatch.stage(what, log.end) as stage:
            while reader.read(limit=10 * BENCH_BATCH):
                stage.advance(reader.position - stage.count)
            stage.advance(reader.position - stage.count)


def _bench_lookup(stopwatch: Stopwatch, log: Log, count: int) -> None:
    """Fetches messages by numbers drawn at random."""
    draw = random.Random(BENCH_SEED)
    numbers = [draw.randrange(log.first, log.end) for _ in range(count)]
    with stopwatch.stage("at(number), at random", count) as stage:
        for number in numbers:
            log.at(number)
        stage.advance(count)
