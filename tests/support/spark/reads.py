"""Readers of the format "warren" without Spark: the test passes what Spark would pass."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import Filter
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from warren.queue.store import Store
from warren.spark.read.batch_reader import BatchReader
from warren.spark.read.splits import ReadTask
from warren.spark.read.stream_reader import StreamReader
from warren.spark.source import WarrenDataSource

ALL: Final = ReadAllAvailable()
NUMBERS: Final = "topic string, partition int, offset long"
KINDS: Final[Mapping[str, DataType]] = {
    "array<string>": ArrayType(StringType()),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "date": DateType(),
    "decimal": DecimalType(10, 2),
    "double": DoubleType(),
    "int": IntegerType(),
    "long": LongType(),
    "string": StringType(),
    "timestamp": TimestampType(),
}


def schema_of(text: str) -> StructType:
    """A schema written as in Spark; there is no JVM here to parse it."""
    fields = [field.split() for field in text.split(", ")]
    return StructType([StructField(name, KINDS[kind]) for name, kind in fields])


def source(store: Path | str | None, **options: object) -> WarrenDataSource:
    """The source that Spark makes of options: their names come in lower case. Without a store, they name its broker."""
    path = {} if store is None else {"path": str(store)}
    return WarrenDataSource({**path, **{name.lower(): str(value) for name, value in options.items()}})


def batch_reader(store: Path | str | None, schema: str | None = None, **options: object) -> BatchReader:
    made = source(store, **options)
    reader = made.reader(made.schema() if schema is None else schema_of(schema))
    assert isinstance(reader, BatchReader)
    return reader


def stream_reader(store: Path | str | None, schema: str | None = None, **options: object) -> StreamReader:
    made = source(store, **options)
    reader = made.streamReader(made.schema() if schema is None else schema_of(schema))
    assert isinstance(reader, StreamReader)
    return reader


def batches_of(reader: BatchReader, filters: list[Filter] | None = None) -> list[pa.RecordBatch]:
    """Yields the results of the tasks of a batch read, each read by a reader that was sent to a worker."""
    unhandled = list(reader.pushFilters(filters)) if filters is not None else []
    assert all(each in (filters or []) for each in unhandled)
    tasks = reader.partitions()
    return [batch for task in tasks for batch in sent(reader).read(sent(task))]


def rows_of(reader: BatchReader, filters: list[Filter] | None = None) -> list[dict[str, Any]]:
    return [row for batch in batches_of(reader, filters) for row in batch.to_pylist()]


def read_rows(store: Path | str | None, schema: str | None = None, **options: object) -> list[dict[str, Any]]:
    """The rows of a batch read."""
    return rows_of(batch_reader(store, schema, **options))


def stream_rows(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a micro-batch."""
    return list(_stream_rows(reader, start, end))


def _stream_rows(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for task in reader.partitions(start, end):
        assert isinstance(task, ReadTask)
        for batch in sent(reader).read(sent(task)):
            yield from batch.to_pylist()


def sent(value: Any) -> Any:
    """Returns the object as it arrives in a worker."""
    return pickle.loads(pickle.dumps(value))


class Query:
    """A query as Spark runs it: its offsets are text that is stored before a batch runs, and comes
    back after a crash.
    """

    def __init__(self, store: Store, **options: object) -> None:
        self._store, self._options = store, {"startingOffsets": "earliest", "topics": "orders"} | options
        self.log: list[str] = []
        self.committed = 0
        self.restart()

    def restart(self) -> None:
        options = {name: value for name, value in self._options.items() if value}
        self.reader: StreamReader = stream_reader(self._store.path, NUMBERS, **options)

    @property
    def start(self) -> dict[str, Any]:
        """Returns where the next batch begins; Spark may ask the reader before the first one is done."""
        if self.committed == 0:
            return self.reader.initialOffset()
        offsets: dict[str, Any] = json.loads(self.log[self.committed - 1])
        return offsets

    def plan(self, limit: ReadLimit = ALL) -> bool:
        """Decides about the next batch, unless one was decided before a crash. Returns whether there is one."""
        if len(self.log) == self.committed:
            start = self.start
            end = self.reader.latestOffset(start, limit)
            if json.dumps(end) == json.dumps(start):
                return False
            self.log.append(json.dumps(end))
        return True

    def run(self) -> list[tuple[str, int, int]]:
        """Returns the messages of the planned batch."""
        end: dict[str, Any] = json.loads(self.log[self.committed])
        rows = stream_rows(self.reader, self.start, end)
        return [(row["topic"], row["partition"], row["offset"]) for row in rows]

    def step(self, limit: ReadLimit = ALL) -> list[tuple[str, int, int]] | None:
        """Runs one batch; returns None if there is none."""
        if not self.plan(limit):
            return None
        rows = self.run()
        self.committed += 1
        return rows

    def all(self, limit: ReadLimit = ALL) -> list[tuple[str, int, int]]:
        rows = []
        while (batch := self.step(limit)) is not None:
            rows += batch
        return rows
