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
from warren.spark.columns import message_schema
from warren.spark.given import Given
from warren.spark.options import VALUE_FORMATS, ReadOptions


class WarrenDataSource(DataSource):
    """What `spark.read.format("warren")` and its like find. It only hands over; readers and writers do the work.

    Spark finds it by itself, as `pyspark_warren.DefaultSource`; registering it does no harm.
    """

    @classmethod
    def name(cls) -> str:
        return "warren"

    def schema(self) -> StructType:
        """The columns of a query that gives no schema: those of the message."""
        given = Given({key.lower(): value for key, value in self.options.items()}, 0)
        value_format = given.one_of("valueFormat", VALUE_FORMATS)
        if value_format in ("json", "csv"):
            raise BadOption("valueFormat", f"{value_format} needs a schema; give one with .schema(...)")
        includes_headers = given.truth("includeHeaders", default=False)
        return message_schema(include_headers=includes_headers, value_as_text=value_format == "text")

    def reader(self, schema: StructType) -> DataSourceReader:
        from warren.spark.batch_reader import BatchReader

        return BatchReader(schema, ReadOptions.parse(self.options, is_stream=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from warren.spark.stream_reader import StreamReader

        return StreamReader(schema, ReadOptions.parse(self.options, is_stream=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from warren.spark.sink import batch_writer

        return batch_writer(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from warren.spark.sink import stream_writer

        return stream_writer(schema, self.options, overwrite)
