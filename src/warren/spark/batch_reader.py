"""A batch read: what there is when it is planned, read once, by tasks of about the same size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from warren.spark.filters import Narrowing
from warren.spark.holdings import Holdings
from warren.spark.machine import cores
from warren.spark.offsets import Place, end_number, start_number
from warren.spark.options import ReadOptions
from warren.spark.projection import projection_for
from warren.spark.reach import Numbered, Topics
from warren.spark.splits import Piece, Task, planned, task_count


class OptionalPush:
    """`pushFilters` of one reader, made so that Spark also takes the reader where push-down is off.

    Spark refuses a reader that overrides the method then, and tells so by the function behind it.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, push: Callable[[list[Filter]], Iterable[Filter]]) -> None:
        self._push = push

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._push(filters)


class BatchReader(DataSourceReader):
    """Reads each message of the chosen range once. Planned on the driver; `read` runs in workers."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._options = options
        self._projection, self._from_message = projection_for(schema, options)
        self._narrowing = Narrowing(tag=options.tag)
        self.pushFilters = OptionalPush(self._push)  # type: ignore[method-assign]

    def _push(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._narrowing.push(filters, self._from_message)

    def partitions(self) -> list[InputPartition]:
        """What the tasks read; one that reads nothing where there is nothing."""
        options = self._options
        topics = options.reach.topics()
        with closing(Holdings(options, topics)) as holdings:
            pieces = [piece for chosen in self._places(topics) for piece in self._pieces(*chosen, holdings)]
            count = task_count(sum(map(len, pieces)), cores(), options.partitions_min)
            tasks = planned(pieces, count, holdings.logs.record_start)
        return list(tasks or [Task([])])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        assert isinstance(partition, Task)
        return partition.read(self._projection, self._narrowing.tag)

    def _places(self, topics: Topics) -> Iterator[tuple[Place, str]]:
        choice = self._options.choice
        for topic in choice.topics(topics):
            topic_id = topics.topic_id(topic)
            for partition in choice.partitions(topics, topic):
                if self._narrowing.has(topic, partition):
                    yield Place(topic, partition), topic_id

    def _pieces(self, place: Place, topic_id: str, holdings: Holdings) -> list[Piece]:
        options, held = self._options, holdings.numbered(place, topic_id)
        start = start_number(options.start, place, held, fail_on_data_loss=options.fail_on_data_loss)
        end = end_number(options.end, place, held, fail_on_data_loss=options.fail_on_data_loss)
        start, end = self._narrowed(held, start, end)
        return holdings.pieces(place, topic_id, start, end) if start < end else []

    def _narrowed(self, log: Numbered, start: int, end: int) -> tuple[int, int]:
        """What the filters leave of a range. Times never decrease in a log: a range of time is one of numbers."""
        left = self._narrowing
        start = max(start, left.start)
        end = end if left.end is None else min(end, left.end)
        if start < end and left.since_us:
            start = max(start, log.find_time(left.since_us))
        if start < end and left.until_us is not None:
            end = min(end, log.find_time(left.until_us))
        return start, end
