"""Reading a log from start to end into Messages, 1,000 at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.bare import BareFile
from benchmarks.measure import Contestant, Row, at_least, rates
from benchmarks.workspace import Contest, Workspace
from warren.storage import Log


def messages(workspace: Workspace) -> list[Row]:
    scale = workspace.scale
    bare_file = BareFile(workspace.fresh("bare-read"), scale.reads, workspace.bodies[0])
    columns_path, single_path = workspace.columns_log(scale.reads), workspace.single_log(scale.reads)
    contestants = [
        Contestant("bare read", scale.reads, bare_file.read),
        Contestant("read, columns", scale.reads, lambda: read_all(columns_path, scale.reads)),
        Contestant("read, single", scale.reads, lambda: read_all(single_path, scale.reads)),
    ]
    bare, columns, single = rates(contestants, scale.rounds)
    return [
        Row(
            name="reads.messages.columns",
            what="read into Messages, columns records",
            baseline=bare,
            measured=columns,
            bar=at_least(0.5),
        ),
        Row(
            name="reads.messages.single",
            what="read into Messages, single records",
            baseline=bare,
            measured=single,
            bar=at_least(0.2),
        ),
    ]


def read_all(path: Path, count: int) -> float:
    """Returns the seconds to read every message of a log, which has `count`."""
    with Log.open(path) as log:
        read, number = log.read, 0
        start = perf_counter()
        while page := read(number):
            number += len(page)
        seconds = perf_counter() - start
    assert number == count
    return seconds


CONTESTS: Final[Sequence[Contest]] = (Contest("reads.messages", messages),)
