"""Queries that write, without Spark: the writers as plain objects, run as the driver and the tasks run them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
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
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

import warren
from warren.message import Message
from warren.spark.store_access.store_cache import process_stores
from warren.spark.write import staging
from warren.spark.write.sink import BatchWriter, StreamWriter, batch_writer, stream_writer
from warren.spark.write.staging import WriteTask

PAIR: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
KINDS: Final[Mapping[str, DataType]] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "long": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "date": DateType(),
    "decimal": DecimalType(10, 2),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
    "map<string,binary>": MapType(StringType(), BinaryType()),
    "map<string,string>": MapType(StringType(), StringType()),
    "map<int,string>": MapType(IntegerType(), StringType()),
    "headers": ArrayType(PAIR),
    "array<double>": ArrayType(DoubleType()),
    "array<string>": ArrayType(StringType()),
    "array<binary>": ArrayType(BinaryType()),
    "window": StructType([StructField("start", TimestampType()), StructField("end", TimestampType())]),
}


def schema_of(text: str) -> StructType:
    """A schema from its fields, such as "value string, key binary": Spark itself reads such a text only in its JVM."""
    pairs = [field.split(" ", 1) for field in text.split(", ")]
    return StructType([StructField(name, KINDS[kind]) for name, kind in pairs])


def rows_of(schema: StructType, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """Returns rows as Spark passes them to a task."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [[] for _ in schema.fields]
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, arrow, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)


class Query:
    """A query that writes to one store: each part of its rows belongs to one task."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, schema: str, /, **options: Any) -> None:
        self._monkeypatch, self.schema = monkeypatch, schema_of(schema)
        values = {"path": folder / "store", **options}
        self.options = {name.lower(): str(value) for name, value in values.items() if value is not None}
        self.attempts = 0

    def write(self, *tasks: Sequence[Sequence[Any]]) -> None:
        """A batch query, from its planning to its commit."""
        writer = self.batch_writer()
        writer.commit([self.run(writer, rows) for rows in tasks])

    def write_batch(self, batch: int, *tasks: Sequence[Sequence[Any]], query: str = "query-1") -> None:
        """A micro-batch of a stream."""
        writer = self.stream_writer()
        writer.commit([self.run(writer, rows, query, batch) for rows in tasks], batch)

    def batch_writer(self) -> BatchWriter:
        return batch_writer(self.schema, self.options, False)

    def stream_writer(self) -> StreamWriter:
        return stream_writer(self.schema, self.options, False)

    def run(
        self,
        writer: BatchWriter | StreamWriter,
        rows: Sequence[Sequence[Any]],
        query: str | None = None,
        batch: int | None = None,
    ) -> Any:
        """Runs one task on its copy of the writer. Returns its report to the driver."""
        self.attempts += 1
        task = WriteTask(query=query, batch=batch, name=f"0-{self.attempts}")
        self._monkeypatch.setattr(staging.WriteTask, "current", lambda: task)
        copy = pickle.loads(pickle.dumps(writer))
        return pickle.loads(pickle.dumps(copy.write(iter([rows_of(self.schema, rows)]))))


def stored_messages(path: Path, topic: str = "orders") -> list[Message]:
    """The messages of a topic, partition by partition."""
    with warren.open(path / "store", keeps=False) as store:
        if not store.has_topic(topic):
            return []
        return [message for log in store.topic(topic).logs for message in log.read(0, limit=1 << 20)]


def bodies(path: Path, topic: str = "orders") -> list[bytes]:
    return [message.body for message in stored_messages(path, topic)]


def waiting(path: Path) -> list[str]:
    """Returns the ids of staged transactions that are not decided."""
    with warren.open(path / "store", keeps=False) as store:
        return [prepared.id for prepared in store.recover()]


@contextmanager
def stores_closed_after() -> Iterator[None]:
    """Tests leave no store open, unlike a process of Spark."""
    try:
        yield
    finally:
        process_stores.cache_clear()
