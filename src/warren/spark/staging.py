"""Staging: what a task writes waits in a prepared transaction, under a name that tells its batch, to be decided."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext

from warren.config import SPARK_STAGE_ROWS_MAX, SPARK_STAGE_SIZE_TARGET, SPARK_STAGING_TIMEOUT_S
from warren.errors import BadInput, BadRow, NoSuchPartition, WarrenError
from warren.spark.reach import AnyStore
from warren.spark.sink_columns import Rows, SinkColumns

if TYPE_CHECKING:
    from warren.client.transaction import RemoteTransaction
    from warren.transaction.transaction import Transaction

QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The task that runs here: its query and batch where it is one of a stream, and what tells it from all others."""

    query: str | None
    batch: int | None
    name: str

    @classmethod
    def current(cls) -> Task:
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
    """What is written together: the version that an application reaches with it, in one of its runs.

    An application of None is a write that nobody repeats. Ids sort by application, and then by version.
    """

    application: str | None
    version: int
    run: str

    @property
    def prefix(self) -> str:
        """How the ids of everything start that the application stages."""
        told = self.run if self.application is None else self.application
        return f"spark-{hashlib.sha256(told.encode()).hexdigest()[:16]}-"

    @property
    def run_prefix(self) -> str:
        """How the ids of this run start."""
        return f"{self.prefix}{self.version:020d}-{self.run}-"

    @property
    def end(self) -> str:
        """Before this the ids sort of everything up to this version."""
        return f"{self.prefix}{self.version + 1:020d}"

    def id(self, task: Task) -> str:
        return self.run_prefix + task.name


def stage(
    store: AnyStore, id: str, columns: SinkColumns, batches: Iterable[pa.RecordBatch], partitions: int | None
) -> int:
    """Stage rows under `id`: on disk when this returns, and to be seen by nobody. How many they were.

    BadRow, and nothing is staged, where one of them cannot be a message. A topic that is not there is made.
    """
    count, known = 0, set[str]()
    tx = store.transaction(SPARK_STAGING_TIMEOUT_S, id, SPARK_STAGING_TIMEOUT_S)
    try:
        for batch in joined(batches):
            for rows in columns.split(batch):
                with _told_of(rows.topic):
                    if rows.topic not in known:
                        _make_topic(store, rows.topic, partitions)
                        known.add(rows.topic)
                    _put(tx, rows)
            count += batch.num_rows
        tx.prepare()
    except BaseException:
        with suppress(WarrenError):
            tx.abort()
        raise
    return count


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of about the same size: small ones joined, large ones cut, and none that is empty."""
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
    """The rows in parts of about the size that is staged at once; none where there is none."""
    if batch.nbytes > SPARK_STAGE_SIZE_TARGET and batch.num_rows > 1:
        middle = batch.num_rows // 2
        yield from _cut(batch.slice(0, middle))
        yield from _cut(batch.slice(middle))
    elif batch.num_rows:
        yield batch


@contextmanager
def _told_of(topic: str) -> Iterator[None]:
    """What a topic refuses is told with its name."""
    try:
        yield
    except BadRow:
        raise
    except (BadInput, NoSuchPartition) as error:
        raise BadRow(topic, str(error)) from error


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _make_topic(store: AnyStore, topic: str, partitions: int | None) -> None:
    if store.has_topic(topic):
        # The store may be open for long, and the topic have other settings, or more partitions, by now.
        store.topic(topic).refresh()
    else:
        store.topic(topic, partitions=partitions)


def _put(tx: Transaction | RemoteTransaction, rows: Rows) -> None:
    if rows.due_us is None:
        tx.put_columns(rows.topic, rows.batch, partition=rows.partition)
        return
    from warren.storage.arrow_packing import rows_of

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
