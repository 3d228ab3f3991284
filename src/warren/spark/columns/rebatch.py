"""Record batches of a size that suits Spark: small batches are joined, large ones are cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

SPARK_BATCH_ROWS_MIN: Final = 10_000
SPARK_BATCH_ROWS_MAX: Final = 65_536
SPARK_BATCH_SIZE_TARGET: Final = 16 << 20
"""Small record batches are joined up to the least size, large ones cut at the most."""


def regrouped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the same rows in the same order. A batch of a suitable size is not copied."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        is_small = len(batch) < SPARK_BATCH_ROWS_MIN
        if waiting and not is_small:
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        if not is_small:
            yield from _cut(batch) if len(batch) > SPARK_BATCH_ROWS_MAX else (batch,)
            continue
        waiting.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
        if rows >= SPARK_BATCH_ROWS_MIN or size >= SPARK_BATCH_SIZE_TARGET:
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = zip(*(batch.columns for batch in batches), strict=True)
    return pa.RecordBatch.from_arrays([pa.concat_arrays(column) for column in columns], schema=batches[0].schema)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(batch), SPARK_BATCH_ROWS_MAX):
        yield batch.slice(start, SPARK_BATCH_ROWS_MAX)
