"""`warren archive …`: write topics to Parquet files, verify them, and retire verified messages from the log."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from warren.cli.options.environment import STORE_DEFAULT
from warren.cli.options.store_option import AsJson, StoreOption, require_store
from warren.cli.output.archive_tables import (
    manifest_facts,
    manifest_table,
    show_run,
    verification_json,
    verification_tables,
)
from warren.cli.output.tables import write_json
from warren.cli.running.errors import EXIT_FAILED, FailureGroup
from warren.cli.running.job import ARCHIVE_DEFAULT, ArchiveOption, ConfOption, MasterOption, running
from warren.cli.running.quantities import duration_s, moment_us
from warren.clock import SYSTEM_CLOCK
from warren.errors import BadInput

app = typer.Typer(
    cls=FailureGroup, help="Archive topics as Parquet files, and verify and list archives.", no_args_is_help=True
)

TopicsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="TOPIC", help="The topics; without them every topic.", show_default=False),
]


@app.command()
def run(
    topics: TopicsArgument = None,
    archive: ArchiveOption = ARCHIVE_DEFAULT,
    until: Annotated[
        str | None,
        typer.Option(metavar="MOMENT", help="Archive only what was put before this time, such as 1d for a day ago."),
    ] = None,
    is_retiring: Annotated[
        bool, typer.Option("--then-retire", help="Then verify, and retire archived messages from the log.")
    ] = False,
    keep: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="With --then-retire: keep younger messages in the log, e.g. 7d."),
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    is_json: AsJson = False,
    store: StoreOption = STORE_DEFAULT,
) -> None:
    """Add the messages that an archive does not have yet, each exactly once.

    A run continues where the last one ended. A run that is stopped or killed adds nothing. With --then-retire, a block
    of the log is deleted once all its messages are archived, verified, and consumed by every group. From then on
    retention by age and size does not delete unarchived messages either.

    ```
    warren archive run orders
    warren archive run orders payments --archive /backup/shop
    warren archive run --until 1d --then-retire --keep 7d
    ```
    """
    if keep is not None and not is_retiring:
        raise BadInput("--keep can only be used with --then-retire")
    keep_s = 0.0 if keep is None else duration_s(keep)
    until_us = None if until is None else moment_us(until, SYSTEM_CLOCK.now_ns() // 1000)
    require_store(store)
    from warren.spark import archive as job

    with running("archive", master, conf, is_quiet=is_json) as spark_job:
        with spark_job.bar("archiving") as bar:
            archived = job.archive(spark_job.spark, store, archive, topics or None, until=until_us, progress=bar)
        checked = retired = None
        if is_retiring and archived.number:
            with spark_job.bar("verifying") as bar:
                checked = job.verify(spark_job.spark, archive, store, topics or None, progress=bar)
            retired = job.retire(store, checked, keep_s=keep_s)
    show_run(archived, checked, retired, archive, is_json=is_json)
    if checked is not None and not checked.is_good:
        raise typer.Exit(EXIT_FAILED)


@app.command()
def verify(
    topics: TopicsArgument = None,
    archive: ArchiveOption = ARCHIVE_DEFAULT,
    is_alone: Annotated[
        bool, typer.Option("--without-store", help="Check only the archive, without the store.")
    ] = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    is_json: AsJson = False,
    store: StoreOption = STORE_DEFAULT,
) -> None:
    """Compare an archive with its manifest, and with the log as far as the log still has the messages.

    Compares counts, numbers and checksums of every file and column. Exits with 1 if something differs.

    ```
    warren archive verify
    warren archive verify orders --archive /backup/shop --without-store
    ```
    """
    from warren.spark import archive as job
    from warren.spark.archive.manifest import require_manifest

    require_manifest(archive)
    if not is_alone:
        require_store(store)

    with running("archive verify", master, conf, is_quiet=is_json) as spark_job, spark_job.bar("verifying") as bar:
        place = None if is_alone else store
        checked = job.verify(spark_job.spark, archive, place, topics or None, progress=bar)
    if is_json:
        write_json(verification_json(checked))
    else:
        console = Console(highlight=False)
        for each in verification_tables(checked):
            console.print(each)
    if not checked.is_good:
        raise typer.Exit(EXIT_FAILED)


@app.command("list")
def list_archived(archive: ArchiveOption = ARCHIVE_DEFAULT, is_json: AsJson = False) -> None:
    """Show the content of an archive by topic and partition. Needs no Spark."""
    from warren.spark.archive.manifest import require_manifest

    manifest = require_manifest(archive)
    if is_json:
        write_json({"manifest": manifest.number, "partitions": manifest_facts(manifest)})
    else:
        Console(highlight=False).print(manifest_table(manifest, archive))
