"""The format "warren": a store as a table and as a stream of Spark, to read from and to write to."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from warren.errors import BadOption
from warren.spark.columns.columns import message_schema
from warren.spark.read.options import READ_OPTIONS, ReadOptions
from warren.spark.store_access.raw_options import RawOptions


class WarrenDataSource(DataSource):
    """The data source behind `spark.read.format("warren")`. It only creates the readers and writers.

    Spark finds it without registration, as `pyspark_warren.DefaultSource`. Registering it does no harm.
    """

    @classmethod
    def name(cls) -> str:
        return "warren"

    def schema(self) -> StructType:
        """Returns the columns of a query without a schema: those of the message."""
        raw = RawOptions.of(READ_OPTIONS, self.options)
        value_format = raw.value("valueFormat")
        if value_format in ("json", "csv"):
            raise BadOption("valueFormat", f"{value_format} needs a schema; pass one with .schema(...)")
        return message_schema(include_headers=raw.value("includeHeaders"), value_as_text=value_format == "text")

    def reader(self, schema: StructType) -> DataSourceReader:
        from warren.spark.read.batch_reader import BatchReader

        return BatchReader(schema, ReadOptions.parse(self.options, is_stream=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from warren.spark.read.stream_reader import StreamReader

        return StreamReader(schema, ReadOptions.parse(self.options, is_stream=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from warren.spark.write.sink import batch_writer

        return batch_writer(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from warren.spark.write.sink import stream_writer

        return stream_writer(schema, self.options, overwrite)
