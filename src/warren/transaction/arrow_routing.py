"""Splits the rows of an Arrow batch by partition, with the hash of `routing`, for all rows together."""

from __future__ import annotations

from typing import Final
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warren.storage.arrow.arrow_packing import ArrowColumns, BytePieces

KEY_SIZE_STEPPED: Final = 64
"""Keys up to this size are hashed together, byte by byte; longer ones one by one."""
POLYNOMIAL: Final = 0xEDB88320
ALL_ONES: Final = 0xFFFFFFFF


def batches_by_partition(batch: pa.RecordBatch, partition_count: int, keyless: int) -> dict[int, pa.RecordBatch]:
    """Returns the rows for each partition, in their order. With one partition, or without keys, all go to `keyless`."""
    columns = ArrowColumns(batch)
    if not batch.num_rows:
        return {}
    if partition_count == 1 or columns.keys is None:
        return {keyless: batch}
    partitions = np.where(columns.has_key, key_hashes(columns.keys) % np.uint32(partition_count), keyless)
    order = np.argsort(partitions, kind="stable")
    sorted_batch = batch.take(pa.array(order))
    numbers, starts = np.unique(partitions[order], return_index=True)
    ends = [*starts[1:].tolist(), batch.num_rows]
    return {
        number: sorted_batch.slice(start, end - start)
        for number, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True)
    }


def key_hashes(keys: BytePieces) -> npt.NDArray[np.uint32]:
    """Returns the CRC-32 of each key."""
    starts, sizes = keys.offsets[:-1], np.diff(keys.offsets)
    longest = int(sizes.max(initial=0))
    if longest > KEY_SIZE_STEPPED:
        pairs = zip(starts.tolist(), keys.offsets[1:].tolist(), strict=True)
        return np.fromiter((crc32(keys.data[start:end]) for start, end in pairs), np.uint32, len(sizes))
    data, table = np.frombuffer(keys.data, np.uint8), _table()
    hashes = np.full(len(sizes), ALL_ONES, np.uint32)
    for step in range(longest):
        if (sizes > step).all():
            hashes = (hashes >> np.uint32(8)) ^ table[(hashes ^ data[starts + step]) & np.uint32(0xFF)]
        else:
            rows = np.flatnonzero(sizes > step)
            part = hashes[rows]
            hashes[rows] = (part >> np.uint32(8)) ^ table[(part ^ data[starts[rows] + step]) & np.uint32(0xFF)]
    return hashes ^ np.uint32(ALL_ONES)


def _table() -> npt.NDArray[np.uint32]:
    """Returns the table of CRC-32: how each byte changes it."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & np.uint32(1), (table >> np.uint32(1)) ^ np.uint32(POLYNOMIAL), table >> np.uint32(1))
    return table
