"""Messages written to a topic once more, as jobs do it: all or none, once for each name, their time kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.errors import BadInput
from warren.queue.dead_letter import HEADER_PREFIX
from warren.spark.catalog import Catalog
from warren.spark.tasks import ShowProgress, counted, failures_told
from warren.transaction.store import Store

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TIME_HEADER: Final = "warren.timestamp"
"""The time of the message that this one was made of, in µs since the epoch: the log gives each message its own."""
VERSION: Final = 0
"""Each name is written once: there is one version of it."""
WRITTEN: Final = ("key", "value", "tag", "id", "headers")


def is_written(store: str, topic: str, name: str) -> bool:
    """Whether something was written to the topic under this name."""
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
    """Write messages, in the order of the frame's tasks, to a topic that is made where it is missing; how many.

    All of them or none. Under a name only once: whoever writes again under it writes nothing. `total` is of how many
    messages they are made, for `progress`.
    """
    from pyspark.sql import Observation, functions

    observed = Observation()
    writer = (
        frame.observe(observed, functions.count(functions.lit(1)).alias("messages"))
        .write.format("warren")
        .mode("append")
        .option("path", Catalog(store).path)
        .option("topic", topic)
        .option("partitions", partitions)
    )
    if name is not None:
        writer = writer.option("txnAppId", name).option("txnVersion", VERSION)
    with failures_told(), counted(frame.sparkSession, total, progress):
        writer.save()
        return int(observed.get["messages"])


def partitions_for(store: str, target: str, source: str) -> int:
    """How many partitions the target has, or gets where it has to be made: as many as the source."""
    catalog = Catalog(store)
    return catalog.settings(target if target in catalog.topics() else source).partitions


def with_time(headers: Column, timestamp: Column) -> Column:
    """The headers with the time of the message; one that has it from an earlier time keeps that."""
    from pyspark.sql import functions as f

    time = f.struct(
        f.lit(TIME_HEADER).alias("key"), f.unix_micros(timestamp).cast("string").cast("binary").alias("value")
    )
    kept = f.coalesce(headers, f.array().cast("array<struct<key:string,value:binary>>"))
    is_there = f.exists(kept, lambda header: header["key"] == TIME_HEADER)
    return f.when(is_there, kept).otherwise(f.concat(kept, f.array(time)))


def without_death(headers: Column) -> Column:
    """The headers without those that a dead letter was given."""
    from pyspark.sql import functions as f

    return f.filter(headers, lambda header: ~f.startswith(header["key"], f.lit(HEADER_PREFIX)))


def narrowed(frame: DataFrame, condition: str | None) -> DataFrame:
    """The messages for which an SQL condition is true. Beside their columns it may use `text`, the value as one."""
    if condition is None:
        return frame
    from pyspark.errors import AnalysisException, ParseException

    try:
        return frame.withColumn("text", frame["value"].cast("string")).where(condition).drop("text")
    except (AnalysisException, ParseException) as error:
        reason = str(error).strip().splitlines()[0]
        raise BadInput(f"the condition {condition!r} cannot be used: {reason}") from error
