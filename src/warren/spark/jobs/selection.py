"""The messages that a job works on: topics, times, a tag filter, and an archive to read together with the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from warren.clock import EPOCH
from warren.spark.runtime.tasks import failures_explained

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from warren.spark.read.splits import ReadTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Messages of the topics in `store`, from the time `since_us` up to `until_us`, that pass the tag filter.

    With an `archive`, messages that were archived and then retired from the log are included.
    """

    store: str
    topics: Sequence[str]
    since_us: int | None = None
    until_us: int | None = None
    tag: str | None = None
    archive: str | None = None

    def options(self) -> dict[str, str]:
        """Returns the options of format "warren" that read these messages."""
        options = {
            "path": self.store,
            "topics": ",".join(self.topics),
            "startingTimestamp": _iso(self.since_us),
            "endingTimestamp": _iso(self.until_us),
            "tag": self.tag,
            "archive": self.archive,
        }
        return {name: value for name, value in options.items() if value is not None}

    def frame(self, spark: SparkSession) -> DataFrame:
        """Returns the messages with all their columns."""
        reader = spark.read.format("warren").options(**self.options()).option("includeHeaders", "true")
        with failures_explained():
            return reader.load()

    def count(self) -> int:
        """Returns how many messages there are in the range, regardless of their tags."""
        return sum(map(len, self.tasks()))

    def tasks(self) -> list[ReadTask]:
        """Returns the tasks that read the messages, for jobs that decode them without Spark's rows."""
        from warren.spark.columns.columns import message_schema
        from warren.spark.read.batch_reader import BatchReader
        from warren.spark.read.options import ReadOptions
        from warren.spark.read.splits import ReadTask

        options = ReadOptions.parse(self.options(), is_stream=False)
        planned = BatchReader(message_schema(include_headers=False), options).partitions()
        return [task for task in planned if isinstance(task, ReadTask) and len(task)]


def _iso(time_us: int | None) -> str | None:
    return None if time_us is None else (EPOCH + timedelta(microseconds=time_us)).isoformat()
