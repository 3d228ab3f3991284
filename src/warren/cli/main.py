"""The program `warren`: the list of its commands."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from warren import __version__
from warren.cli.commands import (
    acl,
    archive,
    cluster,
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
    zookeeper,
)
from warren.cli.running.errors import FailureGroup

MESSAGES: Final = "Messages"
STORE: Final = "Topics and files"
BROKER: Final = "Broker"
SPARK: Final = "Jobs on Spark"
FIRST_STEPS: Final = "First steps"

app = typer.Typer(
    cls=FailureGroup,
    help="Warren, a durable message log.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("put", rich_help_panel=MESSAGES)(put.put)
app.command("take", rich_help_panel=MESSAGES)(take.take)
app.command("read", rich_help_panel=MESSAGES)(read.read)
app.add_typer(topic.app, name="topic", rich_help_panel=STORE)
app.add_typer(group.app, name="group", rich_help_panel=STORE)
app.add_typer(dead.app, name="dead", rich_help_panel=MESSAGES)
app.add_typer(scheduled.app, name="scheduled", rich_help_panel=MESSAGES)
app.add_typer(log.app, name="log", rich_help_panel=STORE)
app.add_typer(store_repair.app, name="store", rich_help_panel=STORE)
app.add_typer(pipeline.app, name="pipeline", rich_help_panel=SPARK)
app.add_typer(archive.app, name="archive", rich_help_panel=SPARK)
app.command("serve", rich_help_panel=BROKER)(serve.serve)
app.command("ping", rich_help_panel=BROKER)(ping.ping)
app.add_typer(user.app, name="user", rich_help_panel=BROKER)
app.add_typer(acl.app, name="acl", rich_help_panel=BROKER)
app.add_typer(quota.app, name="quota", rich_help_panel=BROKER)
app.add_typer(cluster.app, name="cluster", rich_help_panel=BROKER)
app.command("zookeeper", rich_help_panel=BROKER)(zookeeper.zookeeper)
app.command("stats", rich_help_panel=SPARK)(stats.stats)
app.command("replay", rich_help_panel=SPARK)(replay.replay)
app.command("compact", rich_help_panel=SPARK)(replay.compact)
app.command("demo", rich_help_panel=FIRST_STEPS)(demo.demo)
app.command("doctor", rich_help_panel=FIRST_STEPS)(doctor.doctor)


@app.callback(invoke_without_command=True)
def options(
    is_version_asked: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Warren, a durable message log."""
    if is_version_asked:
        typer.echo(f"warren {__version__}")
        raise typer.Exit


def main() -> None:
    """Runs the program with the arguments of the process."""
    app()
