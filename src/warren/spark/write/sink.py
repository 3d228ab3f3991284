"""The sink of format "warren": tasks stage rows in prepared transactions, and the driver commits them all together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from warren import api
from warren.errors import BadOption, BadRow, NotWrittenYet, WarrenError
from warren.spark.write.options import WriteOptions
from warren.spark.write.sink_columns import SinkColumns
from warren.spark.write.staging import BatchName, WriteTask, stage
from warren.transaction.states import State


def batch_writer(schema: StructType, options: Mapping[str, str], overwrite: bool) -> BatchWriter:
    """Returns the writer of `df.write`. Raises BadOption or BadColumn if the query cannot be written."""
    if overwrite:
        raise BadOption("mode", "overwrite: the messages of a topic are never replaced; write with mode('append')")
    return BatchWriter(schema, WriteOptions.parse(options, is_stream=False))


def stream_writer(schema: StructType, options: Mapping[str, str], overwrite: bool) -> StreamWriter:
    """Returns the writer of one micro-batch of `df.writeStream`."""
    if overwrite:
        reason = "complete: the messages of a topic are never replaced; use append, or foreachBatch for update"
        raise BadOption("outputMode", reason)
    return StreamWriter(schema, WriteOptions.parse(options, is_stream=True))


@dataclass(frozen=True, slots=True)
class Staged(WriterCommitMessage):
    """The report of a task to the driver: the id under which its rows are staged (None without rows), and its query."""

    id: str | None
    query: str | None


class SinkWriter:
    """The common part of both writers. Created on the driver for one batch, and sent to its tasks.

    Invariant: no staged row of a task is in a topic before the driver commits all of them, by one decision.
    """

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        self._options = options
        self._columns = SinkColumns.of(schema, options)
        self._store_id = options.access.store_id()
        self._run = uuid4().hex[:16]

    def _store(self) -> api.Store:
        return self._options.access.store(self._store_id)

    def _stage(self, batches: Iterator[pa.RecordBatch], name: BatchName, task: WriteTask) -> Staged:
        # A task without rows does not open the store; most tasks of a small micro-batch have none.
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return Staged(None, task.query)
        id = name.id(task)
        try:
            stage(self._store(), id, self._columns, _chained(first, batches), self._options.partitions)
        except BadRow:
            raise
        except BaseException:
            self._options.access.drop()
            raise
        return Staged(id, task.query)

    def _commit(self, name: BatchName, ids: Sequence[str]) -> None:
        if not ids:
            return
        try:
            store = self._store()
            if name.application is None:
                state = store.commit_all(ids)
            else:
                state = store.commit_batch(name.application, name.version, ids)
            # Removes the rows that failed attempts and earlier runs left behind.
            store.abort_prepared(name.prefix, before=name.end)
        except BaseException:
            self._options.access.drop()
            raise
        if state is not State.DONE:
            self._options.access.drop()
            raise NotWrittenYet(str(self._options.access), store.last_failure)

    def _abort(self, name: BatchName) -> None:
        # Rows that cannot be aborted now are removed with the next batch, or when they expire.
        with suppress(WarrenError, OSError):
            self._store().abort_prepared(name.run_prefix)


def _chained(first: pa.RecordBatch, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from batches


def _ids(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    return [message.id for message in messages if isinstance(message, Staged) and message.id is not None]


class BatchWriter(SinkWriter, DataSourceArrowWriter):
    """Writes the rows of a batch query, all of them or none.

    With txnAppId and txnVersion a batch that was written is not written again, topic by topic. Without them, a query
    that is run again writes its rows again, in `foreachBatch` too, because two writes there may both be intended.
    """

    def _name(self) -> BatchName:
        options = self._options
        if options.application is None:
            return BatchName(application=None, version=0, run=self._run)
        application = f"spark txn {options.topic or '*'} {options.application}"
        return BatchName(application=application, version=options.version, run=self._run)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._stage(iterator, self._name(), WriteTask.current())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commit(self._name(), _ids(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._abort(self._name())


class StreamWriter(SinkWriter, DataSourceStreamArrowWriter):
    """Writes one micro-batch of a stream once, even if Spark runs it again or any process is killed."""

    def _name(self, query: str | None, batch: int | None) -> BatchName:
        if query is None or batch is None:
            raise BadOption("checkpointLocation", "Spark does not name the query and batch; use foreachBatch")
        return BatchName(application=f"spark query {query}", version=batch, run=self._run)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = WriteTask.current()
        return self._stage(iterator, self._name(task.query, task.batch), task)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        staged = [message for message in messages if isinstance(message, Staged) and message.id is not None]
        if staged:
            self._commit(self._name(staged[0].query, batchId), _ids(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        queries = [message.query for message in messages if isinstance(message, Staged)]
        if queries:
            self._abort(self._name(queries[0], batchId))
