"""A batch read: reads the messages that exist when it is planned once, in tasks of about the same size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from warren.spark.read.filters import Narrowing
from warren.spark.read.log_and_archive import LogAndArchive
from warren.spark.read.options import ReadOptions
from warren.spark.read.splits import ReadRange, ReadTask, planned, task_count
from warren.spark.read.start_and_end import end_number, start_number
from warren.spark.read.typed_values import projection_for
from warren.spark.runtime.machine import cores
from warren.spark.store_access.access import PartitionMessages, TopicCatalog, TopicPartition


class OptionalPush:
    """The `pushFilters` of one reader, in a form that Spark accepts even if push-down is switched off.

    If it is switched off, Spark refuses a reader that overrides the method, and compares `__func__` to detect that. So
    this object has the `__func__` of the method that is not overridden.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, push: Callable[[list[Filter]], Iterable[Filter]]) -> None:
        self._push = push

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._push(filters)


class BatchReader(DataSourceReader):
    """Reads each message of the chosen range once. The driver plans it; `read` runs in workers."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._options = options
        self._projection, self._from_message = projection_for(schema, options)
        self._narrowing = Narrowing(tag=options.tag)
        self.pushFilters = OptionalPush(self._push)  # type: ignore[method-assign]

    def _push(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._narrowing.push(filters, self._from_message)

    def partitions(self) -> list[InputPartition]:
        """Returns the tasks.

        If there are no messages, returns one that reads nothing, because Spark expects at least one.
        """
        options = self._options
        catalog = options.access.catalog()
        with closing(LogAndArchive(options, catalog)) as log_and_archive:
            ranges = [
                read_range for chosen in self._places(catalog) for read_range in self._ranges(*chosen, log_and_archive)
            ]
            count = task_count(sum(map(len, ranges)), cores(), options.partitions_min)
            tasks = planned(ranges, count, log_and_archive.logs.record_start)
        return list(tasks or [ReadTask([])])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task."""
        assert isinstance(partition, ReadTask)
        return partition.read(self._projection, self._narrowing.tag)

    def _places(self, catalog: TopicCatalog) -> Iterator[tuple[TopicPartition, str]]:
        choice = self._options.choice
        for topic in choice.topics(catalog):
            topic_id = catalog.topic_id(topic)
            for partition in choice.partitions(catalog, topic):
                if self._narrowing.has(topic, partition):
                    yield TopicPartition(topic, partition), topic_id

    def _ranges(self, place: TopicPartition, topic_id: str, log_and_archive: LogAndArchive) -> list[ReadRange]:
        options, messages = self._options, log_and_archive.messages_of(place, topic_id)
        start = start_number(options.start, place, messages, fail_on_data_loss=options.fail_on_data_loss)
        end = end_number(options.end, place, messages, fail_on_data_loss=options.fail_on_data_loss)
        start, end = self._narrowed(messages, start, end)
        return log_and_archive.ranges(place, topic_id, start, end) if start < end else []

    def _narrowed(self, log: PartitionMessages, start: int, end: int) -> tuple[int, int]:
        """Returns the part of a range that passes the filters.

        Times never decrease in a log, so a time maps to a number.
        """
        left = self._narrowing
        start = max(start, left.start)
        end = end if left.end is None else min(end, left.end)
        if start < end and left.since_us:
            start = max(start, log.find_time(left.since_us))
        if start < end and left.until_us is not None:
            end = min(end, log.find_time(left.until_us))
        return start, end
