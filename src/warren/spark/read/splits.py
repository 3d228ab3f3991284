"""Splits a read into tasks of Spark: about as many messages in each, with small ranges packed together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, Protocol

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from warren.spark.columns.columns import Projection, RowOrigin
from warren.spark.columns.rebatch import regrouped
from warren.spark.read.log_range import LogRange

SPARK_TASK_ROWS_MIN: Final = 50_000
"""A task with fewer messages costs more to start than to run, so fewer tasks are made."""
SPARK_TASK_ROWS_MAX: Final = 10_000_000
"""How many messages, at most, a failed task has to read again."""

WHOLE_SHARE: Final = 0.25
"""A range of at most this part of a task's share is not cut, because opening a log twice costs more
than a cut gains.
"""

Rounded = Callable[[LogRange, int], int]
"""Returns the nearest number, not above the one passed, at which a record of the log starts."""


class ReadRange(Protocol):
    """Messages of one partition, in order: a range of a log, or a file of an archive. Planned on the driver.

    `read` runs in a worker. It yields record batches of any length, with the requested columns of a scan
    (`storage.arrow.SCHEMA`) and the messages that pass the filter.
    """

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    def __len__(self) -> int: ...
    def read(self, columns: Sequence[str], tag: str | None) -> Iterator[pa.RecordBatch]: ...


class ReadTask(InputPartition):
    """The ranges that one task reads, one after the other."""

    def __init__(self, ranges: Sequence[ReadRange]) -> None:
        super().__init__(tuple(ranges))
        self.ranges = tuple(ranges)

    def __len__(self) -> int:
        return sum(map(len, self.ranges))

    def read(self, projection: Projection, tag: str | None) -> Iterator[pa.RecordBatch]:
        """Yields the rows of all ranges, with the columns of the query."""
        for read_range in self.ranges:
            origin = RowOrigin(read_range.topic, read_range.partition)
            for rows in regrouped(read_range.read(projection.scanned, tag)):
                batch = projection.batch(origin, rows)
                if len(batch):
                    yield batch


def task_count(row_count: int, cores: int, tasks_min: int | None) -> int:
    """Returns how many tasks to make: one for each core, fewer for few rows, more for very many rows or for
    `tasks_min`.
    """
    most_rows = -(-row_count // SPARK_TASK_ROWS_MAX)
    if tasks_min is not None:
        return max(1, most_rows, min(tasks_min, row_count))
    if most_rows > cores:
        return -(-most_rows // cores) * cores
    return max(1, min(cores, -(-row_count // SPARK_TASK_ROWS_MIN)))


def planned(ranges: Sequence[ReadRange], count: int, rounded: Rounded) -> list[ReadTask]:
    """Returns about `count` tasks that read all ranges in order; none if there is nothing to read."""
    share = sum(map(len, ranges)) / count
    tasks: list[ReadTask] = []
    filling: list[ReadRange] = []
    row, goal = 0, share
    for read_range in ranges:
        for part in _parts(read_range, row, share, rounded) if len(read_range) else ():
            if filling and row + len(part) - goal > goal - row:
                # With this part the task would be further from an equal share than without it.
                tasks.append(ReadTask(filling))
                filling, goal = [], goal + share
            filling.append(part)
            row += len(part)
            is_cut = isinstance(part, LogRange) and isinstance(read_range, LogRange) and part.end < read_range.end
            if is_cut or row >= goal:
                tasks.append(ReadTask(filling))
                # A range that cannot be cut may already extend beyond the next goal.
                filling, goal = [], max(goal + share, (row // share + 1) * share)
    return [*tasks, ReadTask(filling)] if filling else tasks


def _parts(read_range: ReadRange, row: int, share: float, rounded: Rounded) -> Iterator[ReadRange]:
    """Yields a range that begins at `row` of all rows, cut at the ends of the shares."""
    if not isinstance(read_range, LogRange) or len(read_range) <= share * WHOLE_SHARE:
        yield read_range
        return
    start = read_range.start
    for task in range(int(row / share) + 1, math.ceil((row + len(read_range)) / share)):
        ideal = read_range.start + round(task * share) - row
        # Cuts between records, because two tasks that share a record would both unpack it.
        cut = rounded(read_range, ideal) if start < ideal < read_range.end else start
        if cut > start:
            yield replace(read_range, start=start, end=cut)
            start = cut
    yield replace(read_range, start=start)
