"""The program `warren`: which commands there are."""

from __future__ import annotations

from typing import Annotated

import typer

from warren import __version__
from warren.cli import (
    acl,
    archive,
    compact,
    dead,
    demo,
    doctor,
    group,
    log,
    ping,
    pipeline,
    put,
    quota,
    read,
    replay,
    scheduled,
    serve,
    stats,
    store_repair,
    take,
    topic,
    user,
)
from warren.cli.failure import FailureGroup

app = typer.Typer(
    cls=FailureGroup,
    help="Warren, a durable message log.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("put")(put.put)
app.command("take")(take.take)
app.command("read")(read.read)
app.add_typer(topic.app, name="topic")
app.add_typer(group.app, name="group")
app.add_typer(dead.app, name="dead")
app.add_typer(scheduled.app, name="scheduled")
app.add_typer(log.app, name="log")
app.add_typer(store_repair.app, name="store")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(archive.app, name="archive")
app.command("serve")(serve.serve)
app.command("ping")(ping.ping)
app.add_typer(user.app, name="user")
app.add_typer(acl.app, name="acl")
app.add_typer(quota.app, name="quota")
app.command("stats")(stats.stats)
app.command("replay")(replay.replay)
app.command("compact")(compact.compact)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)


@app.callback(invoke_without_command=True)
def options(
    is_version_asked: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Warren, a durable message log."""
    if is_version_asked:
        typer.echo(f"warren {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the program with the arguments of the process."""
    app()
