"""Dead letters of a pipeline: messages whose values do not parse, each written once, with the reason in headers.

A second query with its own checkpoint reads the same messages and writes them. So they are written exactly once for any
sink of the rows, even if the rows are aggregates and no longer messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # what every user of PySpark calls it
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from warren.queue.leases.dead_letters import HEADER_PREFIX, REASON_SIZE_MAX
from warren.spark.columns.columns import message_schema
from warren.spark.pipelines.definition import Definition
from warren.spark.pipelines.parse import REASON, unfit
from warren.spark.pipelines.sink import triggered
from warren.spark.pipelines.source import LETTERS_SUFFIX, letters_options
from warren.storage.format.limits import HEADERS_SIZE_MAX

READ: Final = frozenset({"topic", "partition", "offset", "key", "value", "id", "tag", "headers"})
REASON_CHARACTERS_MAX: Final = REASON_SIZE_MAX // 4
KEPT_SIZE_MAX: Final = HEADERS_SIZE_MAX - 4096
"""Above this size a message's own headers are dropped, because they leave no room for those of a dead letter."""
HEADER_COST: Final = 8


def started(spark: SparkSession, definition: Definition, store: Mapping[str, str], checkpoint: str) -> StreamingQuery:
    """Starts the query that writes dead letters, and returns it."""
    reader = spark.readStream.format("warren").options(**letters_options(definition, store))
    fields = [field for field in message_schema(include_headers=True) if field.name in READ]
    rows = letters(reader.schema(StructType(fields)).load(), definition)
    writer = triggered(rows.writeStream, definition.pipeline.trigger).queryName(definition.name + LETTERS_SUFFIX)
    writer = writer.option("checkpointLocation", checkpoint).outputMode("append")
    return writer.format("warren").options(**store, topic=str(definition.dead_letter)).start()


def letters(frame: DataFrame, definition: Definition) -> DataFrame:
    """Returns the messages that do not fit, as dead letters: unchanged, with the reason and origin in their headers."""
    return unfit(frame, definition).select("value", "key", "tag", "id", _headers(definition).alias("headers"))


def _headers(definition: Definition) -> Column:
    own = F.coalesce(F.col("headers"), F.expr("array()").cast("array<struct<key:string,value:binary>>"))
    own_headers = F.filter(own, lambda header: ~F.startswith(header["key"], F.lit(HEADER_PREFIX)))
    size = F.aggregate(own_headers, F.lit(0), lambda total, header: total + _size(header))
    added = {
        "reason": F.substring(F.col(REASON), 1, REASON_CHARACTERS_MAX),
        "attempts": F.lit("1"),
        "topic": F.col("topic"),
        "partition": F.col("partition").cast("string"),
        "number": F.col("offset").cast("string"),
        "group": F.lit(definition.group or definition.name),
    }
    ours = F.array(*(_header(HEADER_PREFIX + name, value) for name, value in added.items()))
    return F.when(size <= KEPT_SIZE_MAX, F.concat(own_headers, ours)).otherwise(ours)


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))


def _size(header: Column) -> Column:
    return F.octet_length(header["key"]) + F.coalesce(F.octet_length(header["value"]), F.lit(0)) + F.lit(HEADER_COST)
