"""`warren doctor`: what of this machine is fit for Warren and Spark, what is not, and what to do."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from warren.cli.failure import EXIT_FAILED
from warren.cli.show import table, write_json
from warren.cli.store import STORE_DEFAULT, AsJson, StoreOption

if TYPE_CHECKING:
    from warren.spark.doctor import Finding

STYLES: Final[Mapping[str, str]] = {"ok": "green", "warning": "yellow", "failed": "red"}
JOB_CONF: Final[Mapping[str, str]] = {"spark.driver.memory": "1g"}


def doctor(
    is_spark_started: Annotated[
        bool, typer.Option("--spark", help="Also start Spark, and run a job on it; what Spark needs must be there.")
    ] = False,
    master: Annotated[
        str | None, typer.Option(metavar="MASTER", help="Where the job runs; on this machine, if nothing is said.")
    ] = None,
    is_java_home_asked: Annotated[
        bool, typer.Option("--java-home", help="Write only a JAVA_HOME from which Spark's own programs start.")
    ] = False,
    is_json: AsJson = False,
    store: StoreOption = STORE_DEFAULT,
) -> None:
    """Check Python, Java, Spark, the disk and the limits, and say what to do."""
    if is_java_home_asked:
        from warren.spark import use_java

        typer.echo(use_java())
        return
    findings = list(_findings(store, is_spark_started=is_spark_started, master=master))
    if is_json:
        write_json([dataclasses.asdict(finding) for finding in findings])
    else:
        Console(highlight=False).print(findings_table(findings))
    if any(finding.state == "failed" for finding in findings):
        raise typer.Exit(EXIT_FAILED)


def findings_table(findings: Sequence[Finding]) -> Table:
    """The findings, one a row, each with what to do below it."""
    found = table("Doctor")
    found.add_column("check", no_wrap=True)
    found.add_column("state", no_wrap=True)
    found.add_column("found", overflow="fold")
    for finding in findings:
        told = Text(finding.found)
        if finding.advice:
            told.append(f"\n{finding.advice}", style="dim")
        found.add_row(Text(finding.check), Text(finding.state, style=STYLES[finding.state]), told)
    return found


def _findings(store: str, *, is_spark_started: bool, master: str | None) -> Iterator[Finding]:
    # Every command would pay for these imports, and only this one needs them.
    from warren.cli import health
    from warren.spark.doctor import check_job, check_spark

    yield health.check_python()
    yield from health.check_packages()
    yield from health.check_disk(store)
    yield from health.check_limits()
    yield health.check_waking()
    spark = list(check_spark(os.environ, is_needed=is_spark_started))
    yield from spark
    if is_spark_started and all(finding.state != "failed" for finding in spark):
        yield check_job(master, JOB_CONF)
