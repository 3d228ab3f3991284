"""Where the rows go: a topic, Parquet files, a table or the terminal, each by a sink that writes every batch once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # what every user of PySpark calls it
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from warren.spark.pipelines.definition import Definition
from warren.spark.pipelines.parsing import MESSAGE_PREFIX
from warren.spark.pipelines.steps import sentence

AS_THEY_ARE: Final = {
    "key": "binary",
    "tag": "string",
    "id": "string",
    "headers": "array<struct<key:string,value:binary>>",
}
"""What a message made of the column `value` keeps of the one that it comes from, where the row still has it."""
UNSUPPORTED_MODE: Final = "STREAMING_OUTPUT_MODE"
QUERY_ID: Final = "sql.streaming.queryId"
"""Where Spark says, to whoever writes a batch, which query it belongs to."""


def started(frame: DataFrame, definition: Definition, store: Mapping[str, str], checkpoint: str) -> StreamingQuery:
    """The query that writes the rows, running. BadPipeline where Spark refuses to run it."""
    sink = definition.sink
    rows = frame if sink.topic is None else to_messages(frame, definition)
    # What can change no more is written once; of an aggregate that never is done, each change is.
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
    kept = {name: F.col(column) for name in AS_THEY_ARE if (column := _own_column(frame, name)) is not None}
    value = F.col("value").cast("binary" if sink.format == "binary" else "string")
    return frame.select(value.alias("value"), *_aliased(kept | parts))


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
            reason = f"{mode} cannot be written to a topic over Spark Connect; add a watermark, and use append"
            raise definition.complaint("sink.mode", reason)
        # Spark lets sinks that are written in Python append, and nothing else; batches of any mode it gives away.
        return writer.foreachBatch(_batch_writer(store, sink.topic)).start()
    if sink.parquet is not None:
        return writer.format("parquet").start(definition.located(sink.parquet))
    if sink.table is not None:
        return writer.toTable(sink.table)
    return writer.format("console").option("truncate", "false").start()


def _batch_writer(store: Mapping[str, str], topic: str) -> Callable[[DataFrame, int], None]:
    """Writes a batch once, however often Spark runs it: it is known by the query, whose id is in the checkpoint."""

    def write(frame: DataFrame, batch: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        assert query, "Spark names the query in the thread of its batch"
        writer = frame.write.format("warren").options(**store, topic=topic, txnAppId=query, txnVersion=str(batch))
        writer.mode("append").save()

    return write


def _own_column(frame: DataFrame, name: str) -> str | None:
    """The column that has this part of the message; None where the row has lost it, or another has taken its name."""
    for column in (MESSAGE_PREFIX + name, name):
        if column in frame.columns and frame.schema[column].dataType.simpleString() == AS_THEY_ARE[name]:
            return column
    return None


def _aliased(columns: dict[str, Column]) -> list[Column]:
    return [column.alias(name) for name, column in columns.items()]


def _listed(frame: DataFrame) -> str:
    return ", ".join(frame.columns)
