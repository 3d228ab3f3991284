"""Runs a pipeline: starts its queries together, watches them, and stops them between two batches."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import PipelineBusy
from warren.queue.state import paths
from warren.spark.pipelines import dead_letters, parse, sink, source, steps
from warren.spark.pipelines.definition import Definition
from warren.spark.pipelines.failure import failed, is_passing
from warren.spark.pipelines.location import PipelineLocation, location_of
from warren.spark.pipelines.progress import Progress, offset_of
from warren.spark.pipelines.source import LETTERS_SUFFIX
from warren.spark.pipelines.watch import PIPELINE_LOOK_S
from warren.spark.read.group_progress import GroupProgress
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, Lock

PIPELINE_STOP_LOOK_S: Final = 0.02
PIPELINE_STOP_S_MAX: Final = 30.0
"""How long a pipeline may take to finish its batch when it has to stop."""
PIPELINE_RESTARTS_MAX: Final = 3
"""How often failed queries of a pipeline are started again without a finished batch in between."""

LOGGER: Final = logging.getLogger("warren.spark")
StartQuery = Callable[[], StreamingQuery]
ROWS: Final = "rows"
LETTERS: Final = "dead-letters"
"""The checkpoints of the two queries, below that of the pipeline."""


class Running:
    """A pipeline that was started. One thread may use it.

    Invariant: `queries` have been started, and no other process runs this pipeline on this store. The first query
    writes the rows; if there is a second, it writes the dead letters. A query that fails for a temporary reason of
    Spark is started again. Each batch is still written once.
    """

    def __init__(
        self, definition: Definition, location: PipelineLocation, starts: Sequence[StartQuery], lock: Lock, clock: Clock
    ) -> None:
        self.definition, self.queries = definition, _started(starts)
        self._location, self._lock, self._clock = location, lock, clock
        self._progress = Progress()
        self._starts, self._restarts = starts, 0

    @property
    def query(self) -> StreamingQuery:
        """Returns the query that writes the rows."""
        return self.queries[0]

    @property
    def is_active(self) -> bool:
        """Returns whether a query of the pipeline still runs."""
        return any(query.isActive for query in self.queries)

    def progress(self) -> Progress:
        """Returns the progress up to now."""
        self.news()
        return self._progress

    def news(self) -> list[Progress]:
        """Returns the progress after each batch since the last call."""
        news = []
        for report in self.query.recentProgress:
            if (report["batchId"], report["timestamp"]) > (self._progress.batch, self._progress.time):
                self._progress = self._progress.after(report)
                self._restarts = 0
                news.append(self._progress)
        return news

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is done. Returns False if it still runs after `timeout` seconds. Raises PipelineFailed."""
        deadline_s = None if timeout is None else self._clock.steady_s() + timeout
        while True:
            is_active = self.is_active
            if not self._check() and not is_active:
                self._end()
                return True
            if deadline_s is not None and self._clock.steady_s() >= deadline_s:
                return False
            self._clock.sleep(PIPELINE_LOOK_S)

    def stop(self, timeout: float = PIPELINE_STOP_S_MAX, is_hurried: Callable[[], bool] = lambda: False) -> None:
        """Stops after the running batch. After `timeout` seconds, or if `is_hurried()`, stops within the batch.

        The next run repeats a batch that was not finished.
        """
        deadline_s = self._clock.steady_s() + timeout
        try:
            for query in self.queries:
                batch = _batch(query)
                while _is_busy(query) and _batch(query) == batch and not is_hurried():
                    if self._clock.steady_s() >= deadline_s:
                        break
                    self._clock.sleep(PIPELINE_STOP_LOOK_S)
                query.stop()
        finally:
            self._end()

    def _check(self) -> bool:
        """Restarts failed queries, and returns whether there were any.

        If the failure is not temporary, stops all queries and raises PipelineFailed.
        """
        is_anew = False
        for number, query in enumerate(self.queries):
            error = query.exception()
            if error is None:
                continue
            failure = failed(self.definition.name, str(error))
            if self._restarts == PIPELINE_RESTARTS_MAX or not is_passing(str(error)):
                self.stop(timeout=0)
                raise failure
            LOGGER.warning("pipeline %s is started again: %s", self.definition.name, failure.reason)
            self._restarts += 1
            self.queries[number] = self._starts[number]()
            is_anew = True
        return is_anew

    def _end(self) -> None:
        try:
            if self.definition.group:
                self._show_last_batch()
        finally:
            self._lock.close()

    def _show_last_batch(self) -> None:
        """Stores the end of the last batch as the groups' positions. Spark reports that end only
        with the next batch.
        """
        groups = self.definition.group, self.definition.group + LETTERS_SUFFIX
        for query, group in zip(self.queries, groups, strict=False):
            report: Mapping[str, Any] = query.lastProgress or {}
            ends = [offset_of(each.get("endOffset")) for each in report.get("sources", ())]
            progress = GroupProgress(self._location.access(), group)
            for end in ends:
                if end is not None:
                    progress.commit(end)
            progress.close()

    def __repr__(self) -> str:
        return f"<Pipeline {self.definition.name}, {'running' if self.is_active else 'ended'}>"


def start(
    spark: SparkSession,
    definition: Definition | Mapping[str, Any] | str | os.PathLike[str],
    *,
    store: str | os.PathLike[str] | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Running:
    """Starts a pipeline and returns it.

    `definition` is a file, or the dict that TOML would make of one. Raises NotAStore, NoSuchTopic, BadPipeline or
    PipelineBusy if it cannot start; then nothing runs.
    """
    if isinstance(definition, Mapping):
        definition = Definition.of(definition)
    elif not isinstance(definition, Definition):
        definition = Definition.read(definition)
    location = location_of(definition, store)
    catalog = location.access().catalog()
    for topic in definition.source.topics:
        catalog.topic_id(topic)
    lock = _locked(definition, location)
    try:
        _make_topics(definition, location)
        return Running(definition, location, _starts(spark, definition, location), lock, clock)
    except BaseException:
        lock.close()
        raise


def _starts(spark: SparkSession, definition: Definition, location: PipelineLocation) -> list[StartQuery]:
    """Returns the functions that start the queries of the pipeline."""
    checkpoint = location.checkpoint(definition)

    def start_rows() -> StreamingQuery:
        rows = rows_of(spark, definition, location.options)
        return sink.started(rows, definition, location.options, os.path.join(checkpoint, ROWS))

    def start_letters() -> StreamingQuery:
        return dead_letters.started(spark, definition, location.options, os.path.join(checkpoint, LETTERS))

    return [start_rows, start_letters] if definition.dead_letter else [start_rows]


def _started(starts: Sequence[StartQuery]) -> list[StreamingQuery]:
    """Starts all queries. If one cannot be started, stops the others and raises its error."""
    queries: list[StreamingQuery] = []
    with ExitStack() as undo:
        for each in starts:
            query = each()
            undo.callback(query.stop)
            queries.append(query)
        undo.pop_all()
    return queries


def silence(spark: SparkSession) -> None:
    """Switches Spark's own log off, because Warren reports a failure in one sentence instead of with every stack."""
    logging.getLogger("SQLQueryContextLogger").disabled = True
    # A session of Spark Connect has no context; its server writes its own log.
    with suppress(AttributeError):
        spark.sparkContext.setLogLevel("OFF")


def rows_of(spark: SparkSession, definition: Definition, store: Mapping[str, str]) -> Any:
    """Returns the rows that the pipeline writes, as a DataFrame whose query has not been started."""
    messages = source.messages(spark, definition, store)
    if definition.source.format != "binary":
        messages = parse.with_columns(messages, definition)
    return steps.transformed(messages, definition)


def _locked(definition: Definition, location: PipelineLocation) -> Lock:
    """Takes the lock of the pipeline. Raises PipelineBusy if another process runs it."""
    SYSTEM_FILE_SYSTEM.make_directory(location.memory)
    lock = SYSTEM_FILE_SYSTEM.lock(paths.pipeline_lock(location.memory))
    if not lock.try_acquire():
        lock.close()
        raise PipelineBusy(definition.name, location.store_name)
    return lock


def _make_topics(definition: Definition, location: PipelineLocation) -> None:
    """Creates the topics that the pipeline writes to if they do not exist."""
    topics = {definition.sink.topic: definition.sink.partitions, definition.dead_letter: None}
    access = location.access()
    store = access.store(access.store_id())
    for name, partitions in topics.items():
        if name is not None and not store.has_topic(name):
            store.topic(name, partitions)
    # No store is kept open, because another process may serve or replace the store while the pipeline runs.
    access.drop()


def _batch(query: StreamingQuery) -> int:
    report = query.lastProgress
    return -1 if report is None else int(report["batchId"])


def _is_busy(query: StreamingQuery) -> bool:
    return query.isActive and bool(query.status["isTriggerActive"])
