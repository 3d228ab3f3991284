"""Compact: puts the latest message of each key into a new topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from warren.errors import BadInput, NotALog, StoreError
from warren.queue.state.settings import checked_name
from warren.spark.jobs.rewrite import WRITTEN, is_written, partitions_for, with_time, write_once
from warren.spark.jobs.selection import Selection
from warren.spark.runtime.tasks import ShowProgress
from warren.spark.store_access.files import FileCatalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDER = ("timestamp", "partition", "offset")
"""Decides which message is later. Within a partition this is the order of the numbers."""


class NotEmpty(StoreError):
    """The topic into which another is compacted has messages. It must be new, or empty."""

    code = "not_empty"

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic!r} already has messages: compact into a new topic")
        self.topic = topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """The result of a compaction.

    `was_done` is true if an earlier one had filled this topic, so that nothing was written.
    """

    topic: str
    messages: int
    was_done: bool


def compact(
    spark: SparkSession,
    selection: Selection,
    into: str,
    *,
    keeps_deleted: bool = False,
    keeps_times: bool = False,
    partitions: int | None = None,
    progress: ShowProgress | None = None,
) -> Compacted:
    """Puts the latest message of each key into the topic `into`, all or none, in the order of their times.

    A message with an empty value deletes its key, and is itself omitted, unless `keeps_deleted`. Messages without a key
    are all kept. Repeating a compaction does nothing. Raises NotEmpty if `into` has other messages.
    """
    if len(selection.topics) != 1:
        raise BadInput(f"{len(selection.topics)} topics: expected one topic to compact")
    (source,) = selection.topics
    if checked_name("topic", into) == source:
        raise BadInput(f"topic {source!r} cannot be compacted into itself: name a new topic")
    catalog = FileCatalog(selection.store)
    application = f"compact {source} {catalog.topic_id(source)}"
    if is_written(selection.store, into, application):
        return Compacted(topic=into, messages=0, was_done=True)
    _check_empty(catalog, into)
    frame = latest(selection.frame(spark), keeps_deleted=keeps_deleted)
    if keeps_times:
        frame = frame.withColumn("headers", with_time(frame["headers"], frame["timestamp"]))
    count = partitions if partitions is not None else partitions_for(selection.store, into, source)
    ordered = frame.orderBy(*ORDER).select(*WRITTEN)
    total = 0 if progress is None else selection.count()
    messages = write_once(ordered, selection.store, into, application, count, progress, total)
    return Compacted(topic=into, messages=messages, was_done=False)


def latest(frame: DataFrame, *, keeps_deleted: bool) -> DataFrame:
    """Returns the latest message of each key, and all messages without a key."""
    from pyspark.sql import functions as f

    columns = [*WRITTEN[1:], *ORDER]
    newest = f.max_by(f.struct(*columns), f.struct(*ORDER)).alias("newest")
    keyed = frame.where(f.col("key").isNotNull()).groupBy("key").agg(newest).select("key", "newest.*")
    if not keeps_deleted:
        keyed = keyed.where(f.length("value") > 0)
    return keyed.unionByName(frame.where(f.col("key").isNull()).select("key", *columns))


def _check_empty(catalog: FileCatalog, topic: str) -> None:
    if topic not in catalog.topics():
        return
    for partition in range(catalog.settings(topic).partitions):
        try:
            with catalog.log(topic, partition) as log:
                is_empty = not log.end
        except NotALog:
            is_empty = True
        if not is_empty:
            raise NotEmpty(topic)
