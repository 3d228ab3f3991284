"""Where the rows go: a topic, Parquet files, a table or the terminal, each by a sink that writes every batch once."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # what every user of PySpark calls it
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from warren.spark.pipelines.definition import Definition
from warren.spark.pipelines.steps import sentence

AS_IT_IS = ("key", "tag", "id", "headers")
"""Columns that a message made of the column `value` has, where the row has them."""
UNSUPPORTED_MODE = "STREAMING_OUTPUT_MODE"


def started(frame: DataFrame, definition: Definition, store: str, checkpoint: str) -> StreamingQuery:
    """The query that writes the rows, running. BadPipeline where Spark refuses to run it."""
    sink = definition.sink
    rows = frame if sink.topic is None else to_messages(frame, definition)
    # What can change no more is written once; of an aggregate that never is done, each change is.
    modes = [sink.mode] if sink.mode else ["append", "update"]
    for mode in modes:
        writer = triggered(rows.writeStream, definition.pipeline.trigger).queryName(definition.name)
        writer = writer.option("checkpointLocation", checkpoint).outputMode(mode)
        try:
            return _begun(writer, definition, store)
        except AnalysisException as error:
            is_last = mode == modes[-1] or not (error.getCondition() or "").startswith(UNSUPPORTED_MODE)
            if is_last:
                raise definition.complaint("sink", sentence(error)) from error
    raise AssertionError("there is always a mode")


def triggered(writer: DataStreamWriter, trigger: str) -> DataStreamWriter:
    """The writer, told when to look for messages."""
    if trigger == "available-now":
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime="0 seconds" if trigger == "continuous" else trigger)


def to_messages(frame: DataFrame, definition: Definition) -> DataFrame:
    """The rows as messages: the columns that format "warren" writes. BadPipeline where a column is missing."""
    sink = definition.sink
    named = {"key": sink.key, "tag": sink.tag, "id": sink.id}
    for name, column in named.items():
        if column is not None and column.partition(".")[0] not in frame.columns:
            raise definition.complaint(f"sink.{name}", f"there is no column {column!r}; there are {_listed(frame)}")
    parts: dict[str, Column] = {name: F.col(column).cast("string") for name, column in named.items() if column}
    if sink.format == "json":
        everything = F.struct(*(F.col(f"`{name}`") for name in frame.columns))
        return frame.select(F.to_json(everything, {"ignoreNullFields": "false"}).alias("value"), *_aliased(parts))
    if "value" not in frame.columns:
        raise definition.complaint(
            "sink.format",
            f'"{sink.format}" takes the column `value`, and there are {_listed(frame)}; name one so, or use "json"',
        )
    kept = {name: F.col(name) for name in AS_IT_IS if name in frame.columns}
    value = F.col("value").cast("binary" if sink.format == "binary" else "string")
    return frame.select(value.alias("value"), *_aliased(kept | parts))


def _begun(writer: DataStreamWriter, definition: Definition, store: str) -> StreamingQuery:
    sink = definition.sink
    if sink.partition_by is not None:
        writer = writer.partitionBy(*sink.partition_by)
    if sink.topic is not None:
        return writer.format("warren").options(path=store, topic=sink.topic).start()
    if sink.parquet is not None:
        return writer.format("parquet").start(definition.located(sink.parquet))
    if sink.table is not None:
        return writer.toTable(sink.table)
    return writer.format("console").option("truncate", "false").start()


def _aliased(columns: dict[str, Column]) -> list[Column]:
    return [column.alias(name) for name, column in columns.items()]


def _listed(frame: DataFrame) -> str:
    return ", ".join(frame.columns)
