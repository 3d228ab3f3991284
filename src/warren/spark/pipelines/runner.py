"""Running a pipeline: its queries started together, watched together, and stopped between two batches."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from warren.clock import SYSTEM_CLOCK, Clock
from warren.config import PIPELINE_LOOK_S, PIPELINE_RESTARTS_MAX, PIPELINE_STOP_LOOK_S, PIPELINE_STOP_S_MAX
from warren.errors import PipelineBusy
from warren.queue import store_paths
from warren.spark.group_progress import GroupProgress
from warren.spark.pipelines import letters, parsing, sink, source, steps
from warren.spark.pipelines.definition import Definition
from warren.spark.pipelines.failure import failed, is_passing
from warren.spark.pipelines.place import PipelinePlace, place_of
from warren.spark.pipelines.progress import Progress, offset_of
from warren.spark.pipelines.source import LETTERS_SUFFIX
from warren.storage.filesystem import SYSTEM_FILE_SYSTEM, Lock

LOGGER: Final = logging.getLogger("warren.spark")
Start = Callable[[], StreamingQuery]
ROWS: Final = "rows"
LETTERS: Final = "dead-letters"
"""The checkpoints of the two queries, below that of the pipeline."""


class Running:
    """A pipeline that was started. One thread may use it.

    Invariant: `queries` have been started, and nobody else runs this pipeline on this store. The first of them writes
    the rows; a second one, where the pipeline has one, the dead letters. One that dies of what Spark ran into by chance
    is started again: each batch is written once all the same.
    """

    def __init__(
        self, definition: Definition, place: PipelinePlace, starts: Sequence[Start], lock: Lock, clock: Clock
    ) -> None:
        self.definition, self.queries = definition, _started(starts)
        self._place, self._lock, self._clock = place, lock, clock
        self._progress = Progress()
        self._starts, self._restarts = starts, 0

    @property
    def query(self) -> StreamingQuery:
        """The query that writes the rows."""
        return self.queries[0]

    @property
    def is_active(self) -> bool:
        """Whether any of it still runs."""
        return any(query.isActive for query in self.queries)

    def progress(self) -> Progress:
        """How far it came."""
        self.news()
        return self._progress

    def news(self) -> list[Progress]:
        """How far it came with each batch since this was asked last."""
        found = []
        for told in self.query.recentProgress:
            if (told["batchId"], told["timestamp"]) > (self._progress.batch, self._progress.time):
                self._progress = self._progress.after(told)
                self._restarts = 0
                found.append(self._progress)
        return found

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is done; False if it still runs after `timeout` seconds. PipelineFailed where it died."""
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
        """Stop when the running batch is done. After `timeout` seconds, or `is_hurried`, the next run does it again."""
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
        """Whether a query was started again. PipelineFailed, with nothing left running, where one died for good."""
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
        """What the last batches did is done for the groups, too: Spark would tell the source with the next one."""
        groups = self.definition.group, self.definition.group + LETTERS_SUFFIX
        for query, group in zip(self.queries, groups, strict=False):
            told: Mapping[str, Any] = query.lastProgress or {}
            ends = [offset_of(each.get("endOffset")) for each in told.get("sources", ())]
            shown = GroupProgress(self._place.reach(), group)
            for end in ends:
                if end is not None:
                    shown.commit(end)
            shown.close()

    def __repr__(self) -> str:
        return f"<Pipeline {self.definition.name}, {'running' if self.is_active else 'ended'}>"


def start(
    spark: SparkSession,
    definition: Definition | Mapping[str, Any] | str | os.PathLike[str],
    *,
    store: str | os.PathLike[str] | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Running:
    """Start a pipeline; what is given back says how far it came, waits for it and stops it.

    `definition` is a file, or what TOML would make of one. NotAStore, NoSuchTopic, BadPipeline or PipelineBusy where
    it cannot start: then nothing runs.
    """
    if isinstance(definition, Mapping):
        definition = Definition.of(definition)
    elif not isinstance(definition, Definition):
        definition = Definition.read(definition)
    place = place_of(definition, store)
    topics = place.reach().topics()
    for topic in definition.source.topics:
        topics.topic_id(topic)
    lock = _locked(definition, place)
    try:
        _make_topics(definition, place)
        return Running(definition, place, _starts(spark, definition, place), lock, clock)
    except BaseException:
        lock.close()
        raise


def _starts(spark: SparkSession, definition: Definition, place: PipelinePlace) -> list[Start]:
    """What starts each query of the pipeline."""
    checkpoint = place.checkpoint(definition)

    def start_rows() -> StreamingQuery:
        rows = rows_of(spark, definition, place.options)
        return sink.started(rows, definition, place.options, os.path.join(checkpoint, ROWS))

    def start_letters() -> StreamingQuery:
        return letters.started(spark, definition, place.options, os.path.join(checkpoint, LETTERS))

    return [start_rows, start_letters] if definition.dead_letter else [start_rows]


def _started(starts: Sequence[Start]) -> list[StreamingQuery]:
    """All of them, or none where one cannot be started."""
    queries: list[StreamingQuery] = []
    with ExitStack() as undo:
        for each in starts:
            query = each()
            undo.callback(query.stop)
            queries.append(query)
        undo.pop_all()
    return queries


def silence(spark: SparkSession) -> None:
    """Spark says nothing of its own: what it would say of a failure, with every stack, is told in one sentence."""
    logging.getLogger("SQLQueryContextLogger").disabled = True
    # A session of Spark Connect has no context; its server logs where it runs.
    with suppress(AttributeError):
        spark.sparkContext.setLogLevel("OFF")


def rows_of(spark: SparkSession, definition: Definition, store: Mapping[str, str]) -> Any:
    """The rows that the pipeline writes, as a DataFrame that nobody has started yet."""
    messages = source.messages(spark, definition, store)
    if definition.source.format != "binary":
        messages = parsing.with_columns(messages, definition)
    return steps.transformed(messages, definition)


def _locked(definition: Definition, place: PipelinePlace) -> Lock:
    """The lock of the pipeline, held. PipelineBusy where somebody runs it."""
    SYSTEM_FILE_SYSTEM.make_directory(place.memory)
    lock = SYSTEM_FILE_SYSTEM.lock(store_paths.pipeline_lock(place.memory))
    if not lock.try_acquire():
        lock.close()
        raise PipelineBusy(definition.name, place.told)
    return lock


def _make_topics(definition: Definition, place: PipelinePlace) -> None:
    """Make the topics that are written to, where they are missing."""
    wanted = {definition.sink.topic: definition.sink.partitions, definition.dead_letter: None}
    reach = place.reach()
    store = reach.store(reach.store_id())
    for name, partitions in wanted.items():
        if name is not None and not store.has_topic(name):
            store.topic(name, partitions)
    # Another process may serve or replace the store while the pipeline runs: nothing is kept here.
    reach.drop()


def _batch(query: StreamingQuery) -> int:
    told = query.lastProgress
    return -1 if told is None else int(told["batchId"])


def _is_busy(query: StreamingQuery) -> bool:
    return query.isActive and bool(query.status["isTriggerActive"])
