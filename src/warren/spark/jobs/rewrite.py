"""Writes messages of a job to a topic: all or none, once for each name, optionally with their old times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.errors import BadInput
from warren.queue.leases.dead_letters import HEADER_PREFIX
from warren.spark.runtime.tasks import ShowProgress, counted, failures_explained
from warren.spark.store_access.files import FileCatalog
from warren.transaction.store import Store

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TIME_HEADER: Final = "warren.timestamp"
"""The header with the time of the original message, in µs since the epoch, because the log assigns a new time."""
VERSION: Final = 0
"""The only version of a name, because each name is written once."""
WRITTEN: Final = ("key", "value", "tag", "id", "headers")


def is_written(store: str, topic: str, name: str) -> bool:
    """Returns whether a write with this name to the topic was committed."""
    with Store(store, keeps=False) as opened:
        return opened.last_version(f"spark txn {topic} {name}") is not None


def write_once(
    frame: DataFrame,
    store: str,
    topic: str,
    name: str | None,
    partitions: int,
    progress: ShowProgress | None = None,
    total: int = 0,
) -> int:
    """Writes messages in the order of the frame's tasks, all or none, and returns their number.

    Creates the topic if it does not exist. A second write with the same name writes nothing. `total` is the number of
    messages that are read for it; `progress` shows it.
    """
    from pyspark.sql import Observation, functions

    observed = Observation()
    writer = (
        frame.observe(observed, functions.count(functions.lit(1)).alias("messages"))
        .write.format("warren")
        .mode("append")
        .option("path", FileCatalog(store).path)
        .option("topic", topic)
        .option("partitions", partitions)
    )
    if name is not None:
        writer = writer.option("txnAppId", name).option("txnVersion", VERSION)
    with failures_explained(), counted(frame.sparkSession, total, progress):
        writer.save()
        return int(observed.get["messages"])


def partitions_for(store: str, target: str, source: str) -> int:
    """Returns the number of partitions of the target; if it does not exist, that of the source."""
    catalog = FileCatalog(store)
    return catalog.settings(target if target in catalog.topics() else source).partitions


def with_time(headers: Column, timestamp: Column) -> Column:
    """Returns the headers with the time of the message added, unless they have one from an earlier replay."""
    from pyspark.sql import functions as f

    time = f.struct(
        f.lit(TIME_HEADER).alias("key"), f.unix_micros(timestamp).cast("string").cast("binary").alias("value")
    )
    own_headers = f.coalesce(headers, f.array().cast("array<struct<key:string,value:binary>>"))
    is_there = f.exists(own_headers, lambda header: header["key"] == TIME_HEADER)
    return f.when(is_there, own_headers).otherwise(f.concat(own_headers, f.array(time)))


def without_death(headers: Column) -> Column:
    """Returns the headers without those that make a message a dead letter."""
    from pyspark.sql import functions as f

    return f.filter(headers, lambda header: ~f.startswith(header["key"], f.lit(HEADER_PREFIX)))


def narrowed(frame: DataFrame, condition: str | None) -> DataFrame:
    """Returns the messages for which an SQL condition is true. It may use their columns and `text`, the value as text.

    Raises BadInput if Spark cannot parse the condition.
    """
    if condition is None:
        return frame
    from pyspark.errors import AnalysisException, ParseException

    try:
        return frame.withColumn("text", frame["value"].cast("string")).where(condition).drop("text")
    except (AnalysisException, ParseException) as error:
        reason = str(error).strip().splitlines()[0]
        raise BadInput(f"the condition {condition!r} cannot be used: {reason}") from error
