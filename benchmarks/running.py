"""The common parts of the programs of this package: options, progress, one table, JSON, and the
results in the README.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.machine import machine_facts
from benchmarks.measure import NotMeasured
from benchmarks.report import README, Report
from benchmarks.workspace import FULL, QUICK, Contest, Workspace

RESULTS: Final = Path(__file__).parent / "results"
WIDTH_PIPED: Final = 140
BUSY_LOAD: Final = 0.5
Facts = Callable[[Path], Mapping[str, str]]


class Document(NamedTuple):
    """The place of the table of a program, and the option that puts it there."""

    path: Path
    option: str


IN_README: Final = Document(README, "--write-readme")


def parse_arguments(program: str, results: str, document: Document, *, has_runs: bool = False) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description="Measure Warren and print one table.")
    parser.add_argument("--quick", action="store_true", help="small counts: a minute, and figures to look at only")
    parser.add_argument("--only", default="", metavar="NAME", help="only what starts with NAME, as in 'appends.single'")
    parser.add_argument("--json", type=Path, default=RESULTS / results, metavar="PATH", help="where every figure goes")
    parser.add_argument("--dir", type=Path, default=None, metavar="PATH", help="where the data lie during the run")
    name = document.path.relative_to(RESULTS.parent.parent)
    parser.add_argument(document.option, dest="writes", action="store_true", help=f"put the table into {name}")
    parser.add_argument("--list", action="store_true", help="print the names, and measure nothing")
    if has_runs:
        parser.add_argument("--runs", type=_count, metavar="N", help="how often each thing is repeated")
    arguments = parser.parse_args()
    if arguments.writes and arguments.only:
        parser.error(f"{document.option} replaces the whole table, and goes with a whole run")
    return arguments


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise ValueError(text)
    return count


def run(
    contests: Sequence[Contest],
    directory: Path,
    console: Console,
    *,
    is_quick: bool,
    runs: int | None = None,
    facts: Facts = machine_facts,
) -> Report:
    """Measures `contests` one after the other."""
    report = Report(machine=facts(directory), is_quick=is_quick)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    start = perf_counter()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=len(contests))
        for contest in contests:

            def step(text: str, name: str = contest.name) -> None:
                progress.update(task, description=f"{name}: {text}")

            step("measuring")
            try:
                report.rows += contest.run(Workspace(directory, QUICK if is_quick else FULL, step, runs))
            except NotMeasured as reason:
                report.not_measured[contest.name] = str(reason)
            progress.advance(task)
    report.seconds = perf_counter() - start
    return report


def main(
    program: str,
    every: Sequence[Contest],
    results: str,
    *,
    document: Document = IN_README,
    facts: Facts = machine_facts,
    has_runs: bool = False,
    fails_below_bars: bool = False,
) -> int:
    """Runs the contests that the command line names, and returns the exit code; `results` is the file for the figures.

    `facts` returns the conditions of the figures, given the directory of the run. `has_runs`: there is an option
    `--runs`. `fails_below_bars`: the exit code is 1 if a row is on the wrong side of its bar or was not measured.
    """
    arguments = parse_arguments(program, results, document, has_runs=has_runs)
    contests = [contest for contest in every if contest.name.startswith(arguments.only)]
    if not contests:
        print(f"no benchmark starts with {arguments.only!r}; --list shows the names", file=sys.stderr)
        return 2
    if arguments.list:
        print("\n".join(contest.name for contest in contests))
        return 0
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH_PIPED)
    if os.getloadavg()[0] > BUSY_LOAD:
        console.print(f"[yellow]The machine is busy (load {os.getloadavg()[0]:.1f}): the ratios will be rough.[/]")
    with tempfile.TemporaryDirectory(prefix="warren-bench-", dir=arguments.dir) as directory:
        runs = arguments.runs if has_runs else None
        report = run(contests, Path(directory), console, is_quick=arguments.quick, runs=runs, facts=facts)
    console.print(report.table())
    console.print(f"{report.seconds:.0f} s; every figure is in {arguments.json}", soft_wrap=True)
    report.write_json(arguments.json)
    if arguments.writes:
        report.write_into(document.path, program, document.option)
    return int(fails_below_bars and not report.is_reached)
