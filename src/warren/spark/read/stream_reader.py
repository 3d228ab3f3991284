"""A stream of messages for Spark: every message once, from the checkpoint on, even after a crash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from warren.spark.read.group_progress import GroupProgress
from warren.spark.read.options import ReadOptions
from warren.spark.read.splits import ReadTask
from warren.spark.read.stream_offsets import NOT_BEGUN, StreamOffset
from warren.spark.read.stream_planner import BatchLimits, StreamPlanner
from warren.spark.read.typed_values import projection_for

Json = dict[str, Any]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver, and reads them in workers. It has no state except Spark's offsets.

    Where a query starts is decided once, when its first batch is planned, and stored with the end of that batch.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._options = options
        self._projection, _ = projection_for(schema, options)
        self._planner: StreamPlanner | None = None
        self._progress: GroupProgress | None = None
        self._target: StreamOffset | None = None

    def __getstate__(self) -> Json:
        # A worker needs only the projection: the planner's open logs and the group belong to the driver.
        return {**self.__dict__, "_planner": None, "_progress": None}

    def initialOffset(self) -> Json:  # noqa: N802
        return dict(NOT_BEGUN)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        options = self._options
        if options.offsets_per_trigger_max is not None:
            return ReadMaxRows(options.offsets_per_trigger_max)
        if options.bytes_per_trigger_max is not None:
            return ReadMaxBytes(options.bytes_per_trigger_max)
        return ReadAllAvailable()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        """Returns where the next batch ends; `start` itself if there is nothing new."""
        begun = StreamOffset.from_json(start)
        self._done(begun)
        end = self._planned().next(begun, self._limits(limit), self._target)
        return start if end is begun else end.to_json()

    def reportLatestOffset(self) -> Json:  # noqa: N802
        """Returns the ends of the logs.

        Spark shows them in the progress of a query, next to the position of the query.
        """
        return self._planned().ends().to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._planned().ends()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        begun, ended = StreamOffset.from_json(start), StreamOffset.from_json(end)
        self._done(begun)
        if ended is None or start == end:
            return []
        return self._planned().tasks(begun, ended)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task."""
        assert isinstance(partition, ReadTask)
        return partition.read(self._projection, self._options.tag)

    def commit(self, end: Json) -> None:
        self._done(StreamOffset.from_json(end))

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()
        if self._progress is not None:
            self._progress.close()

    def _planned(self) -> StreamPlanner:
        if self._planner is None:
            self._planner = StreamPlanner(self._options)
        return self._planner

    def _limits(self, limit: ReadLimit) -> BatchLimits:
        if isinstance(limit, ReadMaxRows):
            return BatchLimits(limit.max_rows, self._options.bytes_per_trigger_max)
        return BatchLimits(None, limit.max_bytes) if isinstance(limit, ReadMaxBytes) else BatchLimits()

    def _done(self, offset: StreamOffset | None) -> None:
        """Stores the positions of the group. Spark plans a batch when everything below its start is processed."""
        if self._options.group is None or offset is None:
            return
        if self._progress is None:
            self._progress = GroupProgress(self._options.access, self._options.group)
        self._progress.commit(offset)
