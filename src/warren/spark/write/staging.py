"""Staging: the rows of a task wait in a prepared transaction until the driver decides.

The id of the transaction names the batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext

from warren import api
from warren.errors import BadInput, BadRow, NoSuchPartition, WarrenError
from warren.spark.write.sink_columns import SinkColumns, SinkRows

SPARK_STAGING_TIMEOUT_S: Final = 86_400.0
"""How long a task of the Spark sink may take, and how long its staged rows wait for the query to commit them."""
SPARK_STAGE_SIZE_TARGET: Final = 4 << 20
SPARK_STAGE_ROWS_MAX: Final = 65_536
"""Small Arrow batches of Spark are joined up to this many bytes or rows before they are staged."""

QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """The task that runs in this process: its query and batch if it belongs to a stream, and a name that no other task
    has.
    """

    query: str | None
    batch: int | None
    name: str

    @classmethod
    def current(cls) -> WriteTask:
        context = TaskContext.get()
        if context is None:
            return cls(query=None, batch=None, name=uuid4().hex)
        batch = context.getLocalProperty(BATCH_PROPERTY)
        return cls(
            query=context.getLocalProperty(QUERY_PROPERTY),
            batch=None if batch is None else int(batch),
            name=f"{context.partitionId()}-{context.taskAttemptId()}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchName:
    """The name of a batch that is written as a whole: the application, its version after the batch, and the run.

    If the application is None, the write is never repeated. Ids sort by application, and then by version.
    """

    application: str | None
    version: int
    run: str

    @property
    def prefix(self) -> str:
        """Returns the prefix of all ids that the application stages."""
        name = self.run if self.application is None else self.application
        return f"spark-{hashlib.sha256(name.encode()).hexdigest()[:16]}-"

    @property
    def run_prefix(self) -> str:
        """Returns the prefix of the ids of this run."""
        return f"{self.prefix}{self.version:020d}-{self.run}-"

    @property
    def end(self) -> str:
        """Returns a text that sorts after every id up to this version."""
        return f"{self.prefix}{self.version + 1:020d}"

    def id(self, task: WriteTask) -> str:
        return self.run_prefix + task.name


def stage(
    store: api.Store, id: str, columns: SinkColumns, batches: Iterable[pa.RecordBatch], partitions: int | None
) -> int:
    """Stages rows under `id` and returns their number. They are then on disk, and no reader sees them.

    Raises BadRow, and stages nothing, if a row cannot be a message. Creates a topic that does not exist.
    """
    count, topic_names = 0, set[str]()
    tx = store.transaction(SPARK_STAGING_TIMEOUT_S, id, SPARK_STAGING_TIMEOUT_S)
    try:
        for batch in joined(batches):
            for rows in columns.split(batch):
                with _naming_topic(rows.topic):
                    if rows.topic not in topic_names:
                        _make_topic(store, rows.topic, partitions)
                        topic_names.add(rows.topic)
                    _put(tx, rows)
            count += batch.num_rows
        tx.prepare()
    except BaseException:
        with suppress(WarrenError):
            tx.abort()
        raise
    return count


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the same rows in batches of about the same size: small ones joined, large ones cut, none empty."""
    waiting: list[pa.RecordBatch] = []
    size = count = 0
    for batch in (part for whole in batches for part in _cut(whole)):
        if waiting and (size + batch.nbytes > SPARK_STAGE_SIZE_TARGET or count + batch.num_rows > SPARK_STAGE_ROWS_MAX):
            yield _one(waiting)
            waiting, size, count = [], 0, 0
        waiting.append(batch)
        size, count = size + batch.nbytes, count + batch.num_rows
    if waiting:
        yield _one(waiting)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yields the rows in parts of about the size that is staged in one step."""
    if batch.nbytes > SPARK_STAGE_SIZE_TARGET and batch.num_rows > 1:
        middle = batch.num_rows // 2
        yield from _cut(batch.slice(0, middle))
        yield from _cut(batch.slice(middle))
    elif batch.num_rows:
        yield batch


@contextmanager
def _naming_topic(topic: str) -> Iterator[None]:
    """Adds the name of the topic to its errors."""
    try:
        yield
    except BadRow:
        raise
    except (BadInput, NoSuchPartition) as error:
        raise BadRow(topic, str(error)) from error


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _make_topic(store: api.Store, topic: str, partitions: int | None) -> None:
    if store.has_topic(topic):
        # The store may have been open for a long time, and the settings or partitions of the topic may have changed.
        store.topic(topic).refresh()
    else:
        store.topic(topic, partitions=partitions)


def _put(tx: api.Transaction, rows: SinkRows) -> None:
    if rows.due_us is None:
        tx.put_columns(rows.topic, rows.batch, partition=rows.partition)
        return
    from warren.storage.arrow.arrow_packing import rows_of

    bodies, tags, keys, ids, headers, _ = rows_of(rows.batch)
    for row, due_us in enumerate(rows.due_us):
        tx.put(
            rows.topic,
            bodies[row],
            tag=tags[row] if tags else "",
            key=keys[row] if keys else None,
            id=ids[row] if ids else "",
            headers=headers[row] if headers else None,
            partition=rows.partition,
            deliver_at=due_us,
        )
