"""Which messages a job works on: topics, times, a tag filter, and an archive to read together with the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from warren.clock import EPOCH
from warren.spark.tasks import failures_told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from warren.spark.splits import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Messages of the topics in `store`, from the time `since_us` up to `until_us`, that pass the tag filter.

    With an `archive` also what the log has retired since it was archived.
    """

    store: str
    topics: Sequence[str]
    since_us: int | None = None
    until_us: int | None = None
    tag: str | None = None
    archive: str | None = None

    def options(self) -> dict[str, str]:
        """The options of format "warren" that read just this."""
        told = {
            "path": self.store,
            "topics": ",".join(self.topics),
            "startingTimestamp": _iso(self.since_us),
            "endingTimestamp": _iso(self.until_us),
            "tag": self.tag,
            "archive": self.archive,
        }
        return {name: value for name, value in told.items() if value is not None}

    def frame(self, spark: SparkSession) -> DataFrame:
        """The messages with all their columns."""
        reader = spark.read.format("warren").options(**self.options()).option("includeHeaders", "true")
        with failures_told():
            return reader.load()

    def count(self) -> int:
        """How many messages there are in the range, whatever their tags."""
        return sum(map(len, self.tasks()))

    def tasks(self) -> list[Task]:
        """The messages cut for tasks that decode them themselves."""
        from warren.spark.batch_reader import BatchReader
        from warren.spark.columns import message_schema
        from warren.spark.options import ReadOptions
        from warren.spark.splits import Task

        options = ReadOptions.parse(self.options(), is_stream=False)
        planned = BatchReader(message_schema(include_headers=False), options).partitions()
        return [task for task in planned if isinstance(task, Task) and len(task)]


def _iso(time_us: int | None) -> str | None:
    return None if time_us is None else (EPOCH + timedelta(microseconds=time_us)).isoformat()
