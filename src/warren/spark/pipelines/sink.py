"""The sinks of a pipeline: a topic, Parquet files, a table or the terminal. Each writes every batch once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # what every user of PySpark calls it
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from warren.spark.pipelines.definition import Definition
from warren.spark.pipelines.parse import MESSAGE_PREFIX
from warren.spark.pipelines.steps import sentence

AS_THEY_ARE: Final = {
    "key": "binary",
    "tag": "string",
    "id": "string",
    "headers": "array<struct<key:string,value:binary>>",
}
"""Columns of the original message that a message made from the column `value` keeps, if the row still has them."""
UNSUPPORTED_MODE: Final = "STREAMING_OUTPUT_MODE"
QUERY_ID: Final = "sql.streaming.queryId"
"""The local property in which Spark names the query of the batch that is being written."""


def started(frame: DataFrame, definition: Definition, store: Mapping[str, str], checkpoint: str) -> StreamingQuery:
    """Starts the query that writes the rows, and returns it. Raises BadPipeline if Spark refuses to run it."""
    sink = definition.sink
    rows = frame if sink.topic is None else to_messages(frame, definition)
    # `append` writes rows that can no longer change. Spark refuses it for an aggregate without an end; then `update` is
    # used.
    modes = [sink.mode] if sink.mode else ["append", "update"]
    for mode in modes:
        writer = triggered(rows.writeStream, definition.pipeline.trigger).queryName(definition.name)
        writer = writer.option("checkpointLocation", checkpoint).outputMode(mode)
        try:
            return _begun(frame.sparkSession, writer, definition, store, mode)
        except AnalysisException as error:
            is_last = mode == modes[-1] or not (error.getCondition() or "").startswith(UNSUPPORTED_MODE)
            if is_last:
                raise definition.complaint("sink", sentence(error)) from error
    raise AssertionError("there is always a mode")


def triggered(writer: DataStreamWriter, trigger: str) -> DataStreamWriter:
    """Returns the writer with the trigger of the pipeline."""
    if trigger == "available-now":
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime="0 seconds" if trigger == "continuous" else trigger)


def to_messages(frame: DataFrame, definition: Definition) -> DataFrame:
    """Returns the rows with the columns that format "warren" writes. Raises BadPipeline if a column is missing."""
    sink = definition.sink
    named = {"key": sink.key, "tag": sink.tag, "id": sink.id}
    for name, column in named.items():
        if column is not None and column.partition(".")[0] not in frame.columns:
            raise definition.complaint(
                f"sink.{name}", f"there is no column {column!r}; the columns are {_listed(frame)}"
            )
    parts: dict[str, Column] = {name: F.col(column).cast("string") for name, column in named.items() if column}
    if sink.format == "json":
        everything = F.struct(*(F.col(f"`{name}`") for name in frame.columns))
        return frame.select(F.to_json(everything, {"ignoreNullFields": "false"}).alias("value"), *_aliased(parts))
    if "value" not in frame.columns:
        raise definition.complaint(
            "sink.format",
            f'"{sink.format}" needs a column `value`; the columns are {_listed(frame)}; rename one, or use "json"',
        )
    unchanged = {name: F.col(column) for name in AS_THEY_ARE if (column := _own_column(frame, name)) is not None}
    value = F.col("value").cast("binary" if sink.format == "binary" else "string")
    return frame.select(value.alias("value"), *_aliased(unchanged | parts))


def _begun(
    session: SparkSession, writer: DataStreamWriter, definition: Definition, store: Mapping[str, str], mode: str
) -> StreamingQuery:
    sink = definition.sink
    if sink.partition_by is not None:
        writer = writer.partitionBy(*sink.partition_by)
    if sink.topic is not None:
        if mode == "append":
            return writer.format("warren").options(**store, topic=sink.topic).start()
        if not hasattr(session, "sparkContext"):
            reason = f"{mode} cannot be written to a topic over Spark Connect; add a watermark and use append"
            raise definition.complaint("sink.mode", reason)
        # A sink that is written in Python can only append. `foreachBatch` receives the batches of every mode.
        return writer.foreachBatch(_batch_writer(store, sink.topic)).start()
    if sink.parquet is not None:
        return writer.format("parquet").start(definition.located(sink.parquet))
    if sink.table is not None:
        return writer.toTable(sink.table)
    return writer.format("console").option("truncate", "false").start()


def _batch_writer(store: Mapping[str, str], topic: str) -> Callable[[DataFrame, int], None]:
    """Returns a function that writes a batch once, even if Spark runs it again.

    The name of a batch contains the id of the query, which is in the checkpoint and does not change.
    """

    def write(frame: DataFrame, batch: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        assert query, "Spark names the query in the thread of its batch"
        writer = frame.write.format("warren").options(**store, topic=topic, txnAppId=query, txnVersion=str(batch))
        writer.mode("append").save()

    return write


def _own_column(frame: DataFrame, name: str) -> str | None:
    """Returns the column with this part of the message; None if the row has no such column, or one of another type."""
    for column in (MESSAGE_PREFIX + name, name):
        if column in frame.columns and frame.schema[column].dataType.simpleString() == AS_THEY_ARE[name]:
            return column
    return None


def _aliased(columns: dict[str, Column]) -> list[Column]:
    return [column.alias(name) for name, column in columns.items()]


def _listed(frame: DataFrame) -> str:
    return ", ".join(frame.columns)
