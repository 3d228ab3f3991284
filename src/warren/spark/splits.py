"""What one task of Spark reads: pieces of partitions, about as much in each task, small ones packed together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, Protocol

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from warren.config import SPARK_TASK_ROWS_MAX, SPARK_TASK_ROWS_MIN
from warren.spark.batches import regrouped
from warren.spark.columns import Origin, Projection
from warren.spark.log_range import LogRange

WHOLE_SHARE: Final = 0.25
"""A piece of at most this part of a task's share is not cut: opening a log twice costs more than it evens out."""

Rounded = Callable[[LogRange, int], int]
"""The number, not above the one given, at which a record of the log starts."""


class Piece(Protocol):
    """Messages of one partition, in their order, wherever they lie. Made where a query is planned, read in a worker.

    `read` gives record batches with those columns of a scan (`storage.arrow.SCHEMA`) that are asked for, of any length,
    with the messages that pass the filter. A LogRange is one; an archive has its own.
    """

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    def __len__(self) -> int: ...
    def read(self, columns: Sequence[str], tag: str | None) -> Iterator[pa.RecordBatch]: ...


class Task(InputPartition):
    """The pieces that one task reads, one after the other."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(tuple(pieces))
        self.pieces = tuple(pieces)

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def read(self, projection: Projection, tag: str | None) -> Iterator[pa.RecordBatch]:
        """The rows of all pieces as the query wants them."""
        for piece in self.pieces:
            origin = Origin(piece.topic, piece.partition)
            for rows in regrouped(piece.read(projection.scanned, tag)):
                batch = projection.batch(origin, rows)
                if len(batch):
                    yield batch


def task_count(row_count: int, cores: int, tasks_min: int | None) -> int:
    """How many tasks are worth it: as many as cores, fewer for little, more for very much or where asked for."""
    most_rows = -(-row_count // SPARK_TASK_ROWS_MAX)
    if tasks_min is not None:
        return max(1, most_rows, min(tasks_min, row_count))
    if most_rows > cores:
        return -(-most_rows // cores) * cores
    return max(1, min(cores, -(-row_count // SPARK_TASK_ROWS_MIN)))


def planned(pieces: Sequence[Piece], count: int, rounded: Rounded) -> list[Task]:
    """`count` tasks, or about as many, that read all pieces in their order; none where there is nothing to read."""
    share = sum(map(len, pieces)) / count
    tasks: list[Task] = []
    filling: list[Piece] = []
    row, goal = 0, share
    for piece in pieces:
        for part in _parts(piece, row, share, rounded) if len(piece) else ():
            if filling and row + len(part) - goal > goal - row:
                # Further from an equal share with this part than without it.
                tasks.append(Task(filling))
                filling, goal = [], goal + share
            filling.append(part)
            row += len(part)
            is_cut = isinstance(part, LogRange) and isinstance(piece, LogRange) and part.end < piece.end
            if is_cut or row >= goal:
                tasks.append(Task(filling))
                # What cannot be cut may have gone beyond the next goal already.
                filling, goal = [], max(goal + share, (row // share + 1) * share)
    return [*tasks, Task(filling)] if filling else tasks


def _parts(piece: Piece, row: int, share: float, rounded: Rounded) -> Iterator[Piece]:
    """A piece that begins at `row` of all rows, cut where one share ends and the next begins."""
    if not isinstance(piece, LogRange) or len(piece) <= share * WHOLE_SHARE:
        yield piece
        return
    start = piece.start
    for task in range(int(row / share) + 1, math.ceil((row + len(piece)) / share)):
        wanted = piece.start + round(task * share) - row
        # Whole records, because a record that two tasks need is unpacked by both.
        cut = rounded(piece, wanted) if start < wanted < piece.end else start
        if cut > start:
            yield replace(piece, start=start, end=cut)
            start = cut
    yield replace(piece, start=start)
