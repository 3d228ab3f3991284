"""Reading a log from start to end as Arrow record batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.bare import BareFile
from benchmarks.measure import Contestant, Row, at_least, rates
from benchmarks.workspace import Contest, Workspace
from warren.storage import Log

NARROW: Final = ("number", "timestamp", "body")


def arrow(workspace: Workspace) -> list[Row]:
    scale = workspace.scale
    bare_file = BareFile(workspace.fresh("bare-read"), scale.reads, workspace.bodies[0])
    paths = {"columns": workspace.columns_log(scale.reads), "single": workspace.single_log(scale.reads)}
    widths: dict[str, Sequence[str] | None] = {"narrow": NARROW, "every": None}
    bars = {("columns", "narrow"): 10, ("single", "narrow"): 2, ("columns", "every"): 1, ("single", "every"): 1}
    contestants = [Contestant("bare read", scale.reads, bare_file.read)]
    contestants += [
        Contestant(f"scan, {kind}", scale.reads, _scanning(paths[kind], widths[width], scale.reads))
        for kind, width in bars
    ]
    bare, *scanned = rates(contestants, scale.rounds)
    titles = {"narrow": "number + timestamp + body", "every": "every column"}
    return [
        Row(
            name=f"scans.arrow.{kind}.{width}",
            what=f"scan to Arrow, {kind} records, {titles[width]}",
            baseline=bare,
            measured=figure,
            bar=at_least(bar),
        )
        for ((kind, width), bar), figure in zip(bars.items(), scanned, strict=True)
    ]


def _scanning(path: Path, columns: Sequence[str] | None, count: int) -> Callable[[], float]:
    def run() -> float:
        with Log.open(path) as log:
            start = perf_counter()
            row_count = sum(batch.num_rows for batch in log.scan(0, count, columns=columns))
            seconds = perf_counter() - start
        assert row_count == count
        return seconds

    return run


CONTESTS: Final[Sequence[Contest]] = (Contest("scans.arrow", arrow),)
