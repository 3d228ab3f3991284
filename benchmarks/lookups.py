"""One message by its number, at random: against a primary key of SQLite, and in a small log against a large one."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.measure import Caller, Row, at_least, at_most, latencies
from benchmarks.workspace import SEED, Contest, Workspace, count_text
from warren.storage import Log

MAPPED_BYTES: Final = 2 << 30


def by_number(workspace: Workspace) -> list[Row]:
    scale = workspace.scale
    many = random.Random(SEED).choices(range(scale.messages_many), k=scale.lookups)
    few = random.Random(SEED).choices(range(scale.messages_few), k=scale.lookups)
    ids = [number + 1 for number in many]
    table_path = workspace.table(scale.messages_many)
    default, mapped = _row_finder(table_path), _row_finder(table_path, mapped_bytes=MAPPED_BYTES)
    with (
        Log.open(workspace.single_log(scale.messages_many)) as single_many,
        Log.open(workspace.single_log(scale.messages_few)) as single_few,
        Log.open(workspace.columns_log(scale.messages_many)) as columns_many,
        Log.open(workspace.columns_log(scale.messages_few)) as columns_few,
    ):
        callers = [
            Caller("SQLite primary key", default, ids),
            Caller("SQLite, mapped 2 GiB", mapped, ids),
            Caller("at, single, many", single_many.at, many),
            Caller("at, single, few", single_few.at, few),
            Caller("at, columns, many", columns_many.at, many),
            Caller("at, columns, few", columns_few.at, few),
        ]
        sqlite, sqlite_mapped, *logs = latencies(callers, scale.rounds)
    size, small_size = count_text(scale.messages_many), count_text(scale.messages_few)
    what = f"at(number) at random, {size}"
    rows = []
    for kind, large, small in (("single", logs[0], logs[1]), ("columns", logs[2], logs[3])):
        is_promised = kind == "single"
        rows += [
            Row(
                name=f"lookups.number.{kind}.rate",
                what=f"{what} {kind} records",
                baseline=sqlite.rate,
                measured=large.rate,
                bar=at_least(1) if is_promised else None,
            ),
            Row(
                name=f"lookups.number.{kind}.median",
                what=f"{what} {kind} records, p50",
                baseline=sqlite.median,
                measured=large.median,
                bar=at_most(1) if is_promised else None,
            ),
            Row(
                name=f"lookups.number.{kind}.depth",
                what=f"at(number), {kind} records, p50 in {size} over {small_size}",
                baseline=small.median,
                measured=large.median,
                bar=at_most(2) if is_promised else None,
            ),
        ]
    rows.append(
        Row(
            name="lookups.number.single.mapped",
            what=f"{what} single records",
            baseline=sqlite_mapped.rate,
            measured=logs[0].rate,
        )
    )
    return rows


def _row_finder(path: Path, *, mapped_bytes: int = 0) -> Callable[[int], object]:
    """Returns a function that finds a row by its id."""
    connection = sqlite3.connect(path)
    connection.execute(f"pragma mmap_size={mapped_bytes}")
    execute = connection.execute
    return lambda number: execute("select * from t where id=?", (number,)).fetchone()


CONTESTS: Final[Sequence[Contest]] = (Contest("lookups.number", by_number),)
