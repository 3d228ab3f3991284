"""`warren log …`: the tools for one log in a directory."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer
from rich.console import Console

from warren.cli import bench, messages, repair, verify
from warren.cli.failure import FilesGroup
from warren.cli.show import show_log
from warren.cli.store import AsJson
from warren.cli.target import open_to_read, reader_infos

app = typer.Typer(cls=FilesGroup, help="Look into a log, check it, mend it, and measure.", no_args_is_help=True)

Path = Annotated[str, typer.Argument(metavar="PATH", help="The directory of the log.", show_default=False)]
TagOption = Annotated[
    str | None, typer.Option("--tag", metavar="FILTER", help="Only messages that match, e.g. 'eu.*;us.#'.")
]


@app.command()
def inspect(path: Path, is_json: AsJson = False) -> None:
    """Show the index, the blocks and the readers."""
    with open_to_read(path) as log:
        info, readers = log.inspect(), reader_infos(log)
    if is_json:
        found = dataclasses.asdict(info) | {"readers": [dataclasses.asdict(reader) for reader in readers]}
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        show_log(Console(highlight=False), info, readers)


@app.command("verify")
def verify_log(path: Path, is_json: AsJson = False) -> None:
    """Check every checksum; exit with 1 at the first damage, and say where it is."""
    verify.verify(path, is_json=is_json)


@app.command("repair")
def repair_log(path: Path, is_json: AsJson = False) -> None:
    """Cut the log at its first damage, make its index anew, and say what was cut."""
    repair.repair(path, is_json=is_json)


@app.command()
def dump(
    path: Path,
    start: Annotated[int | None, typer.Option("--from", metavar="NUMBER", min=0, help="The first to write.")] = None,
    end: Annotated[int | None, typer.Option("--to", metavar="NUMBER", min=0, help="Stop before this one.")] = None,
    tag: TagOption = None,
    is_json: AsJson = False,
) -> None:
    """Write messages, one a line."""
    messages.dump(path, start, end, tag, is_json=is_json)


@app.command()
def tail(
    path: Path,
    count: Annotated[int, typer.Option("-n", "--count", min=0, help="How many messages to start with.")] = 10,
    is_following: Annotated[bool, typer.Option("-f", "--follow", help="Go on with those that are appended.")] = False,
    tag: TagOption = None,
    is_json: AsJson = False,
) -> None:
    """Write the last messages, one a line."""
    messages.tail(path, count, tag, is_following=is_following, is_json=is_json)


@app.command("bench")
def bench_machine(
    count: Annotated[int, typer.Option("--messages", min=1_000, help="How many messages a stage handles.")] = 200_000,
    directory: Annotated[
        str | None, typer.Option(help="Where to make the temporary log.", show_default="the system's own")
    ] = None,
    is_json: AsJson = False,
) -> None:
    """Measure the rates of this machine on a temporary log."""
    bench.bench(count, directory, is_json=is_json)
