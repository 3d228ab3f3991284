"""Replay: puts messages of the log or of an archive into a topic again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from warren.errors import BadInput
from warren.queue.state.settings import checked_name
from warren.spark.jobs.rewrite import (
    WRITTEN,
    is_written,
    narrowed,
    partitions_for,
    with_time,
    without_death,
    write_once,
)
from warren.spark.jobs.selection import Selection
from warren.spark.runtime.tasks import ShowProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The result of a replay.

    `was_done` is true if a replay with this name was complete already, so that nothing was put.
    """

    topic: str
    messages: int
    was_done: bool


def replay(
    spark: SparkSession,
    selection: Selection,
    into: str,
    *,
    first: int | None = None,
    end: int | None = None,
    where: str | None = None,
    name: str | None = None,
    keeps_times: bool = False,
    keeps_partitions: bool = False,
    is_reviving: bool = False,
    progress: ShowProgress | None = None,
) -> Replayed:
    """Puts the messages of a selection into the topic `into`, all or none, with their keys, tags, ids and headers.

    Takes only those with numbers from `first` up to `end` for which the SQL condition `where` is true. A replay with a
    `name` happens once, even if it is called again. With `keeps_times` a message gets its old time in the header
    `warren.timestamp`; with `keeps_partitions` it goes to the partition that it came from. `is_reviving` omits the
    headers that say why a dead letter died.
    """
    checked_name("topic", into)
    if len(selection.topics) != 1:
        raise BadInput(f"{len(selection.topics)} topics: expected one topic to replay")
    application = None if name is None else f"replay {name}"
    if application is not None and is_written(selection.store, into, application):
        return Replayed(topic=into, messages=0, was_done=True)
    frame = narrowed(selection.frame(spark), where)
    if first is not None:
        frame = frame.where(frame["offset"] >= first)
    if end is not None:
        frame = frame.where(frame["offset"] < end)
    if is_reviving:
        frame = frame.withColumn("headers", without_death(frame["headers"]))
    if keeps_times:
        frame = frame.withColumn("headers", with_time(frame["headers"], frame["timestamp"]))
    columns = [*WRITTEN, "partition"] if keeps_partitions else WRITTEN
    partitions = partitions_for(selection.store, into, selection.topics[0])
    written = frame.select(*columns)
    total = 0 if progress is None else selection.count()
    messages = write_once(written, selection.store, into, application, partitions, progress, total)
    return Replayed(topic=into, messages=messages, was_done=False)
