"""A Python data source that yields the same Arrow batch repeatedly: the best that Spark's API allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


class ConstantSource(DataSource):
    """Options: `rows` in total, in `tasks` tasks and batches of `batch`, each value of `size` bytes."""

    @classmethod
    def name(cls) -> str:
        return "constant"

    def schema(self) -> str:
        return "offset long, timestamp timestamp, value binary"

    def reader(self, schema: StructType) -> DataSourceReader:
        return ConstantReader(schema, self.options)


class ConstantReader(DataSourceReader):
    """Each task builds one batch of the requested schema, and yields it until its rows are complete."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        numbers = (int(options[name]) for name in ("rows", "tasks", "batch", "size"))
        self._rows, self._tasks, self._batch, self._size = numbers

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(task) for task in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        remaining = self._rows // self._tasks
        columns = [self._column(field.type) for field in self._schema]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        while remaining > 0:
            yield batch.slice(0, min(remaining, self._batch))
            remaining -= self._batch

    def _column(self, kind: Any) -> pa.Array:
        """As many bytes in a value as the messages have, and short texts as tags and keys are."""
        if pa.types.is_binary(kind):
            return pa.array([b"x" * self._size] * self._batch, kind)
        if pa.types.is_string(kind):
            return pa.array(["eu.de"] * self._batch, kind)
        return pa.array(range(self._batch), pa.int64()).cast(kind)
