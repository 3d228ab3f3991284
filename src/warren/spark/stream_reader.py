"""A stream of messages for Spark: every message once, from the checkpoint on, whatever crashes in between."""

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

from warren.spark.group_progress import GroupProgress
from warren.spark.options import ReadOptions
from warren.spark.projection import projection_for
from warren.spark.splits import Task
from warren.spark.stream_offsets import NOT_BEGUN, StreamOffset
from warren.spark.stream_planner import Limits, StreamPlanner

Json = dict[str, Any]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver, and reads them in workers. Spark's offsets are all that it remembers.

    Where a query starts is decided once, when its first batch is planned, and kept with that batch's end.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._options = options
        self._projection, _ = projection_for(schema, options)
        self._planner: StreamPlanner | None = None
        self._progress: GroupProgress | None = None
        self._target: StreamOffset | None = None

    def __getstate__(self) -> Json:
        # What a worker needs is the projection: logs that are open, and a group's, belong to the driver.
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
        """Where the next batch ends; `start` as it is where there is nothing new."""
        begun = StreamOffset.from_json(start)
        self._done(begun)
        found = self._planned().next(begun, self._limits(limit), self._target)
        return start if found is begun else found.to_json()

    def reportLatestOffset(self) -> Json:  # noqa: N802
        """Where the logs end, beside which the progress of a query shows how far it is."""
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
        """The rows of one task."""
        assert isinstance(partition, Task)
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

    def _limits(self, limit: ReadLimit) -> Limits:
        if isinstance(limit, ReadMaxRows):
            return Limits(limit.max_rows, self._options.bytes_per_trigger_max)
        return Limits(None, limit.max_bytes) if isinstance(limit, ReadMaxBytes) else Limits()

    def _done(self, offset: StreamOffset | None) -> None:
        """Everything below `offset` has been processed: whoever plans the batch behind it says so."""
        if self._options.group is None or offset is None:
            return
        if self._progress is None:
            self._progress = GroupProgress(self._options.reach, self._options.group)
        self._progress.commit(offset)
