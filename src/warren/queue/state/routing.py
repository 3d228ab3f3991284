"""Decides which partition a message goes to, and splits a batch accordingly.

The partition of a key is CRC-32 (ISO 3309, as in zlib and PNG) of its bytes, modulo the number of partitions. That is
the same in every process, on every machine and in every release. librdkafka calls it `consistent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

from warren.errors import BadInput
from warren.storage.format.columns import Batch


class PartitionBatch(NamedTuple):
    """The messages of a batch that go to one partition. `rows` says which rows of the whole batch they are."""

    partition: int
    rows: Sequence[int]
    batch: Batch


def partition_of(key: bytes, partition_count: int) -> int:
    """Returns the partition of every message with this key."""
    return crc32(key) % partition_count


def rows_by_partition(
    keys: Sequence[bytes | None], partition_count: int, keyless_partition: int
) -> dict[int, list[int]]:
    """Returns the rows of a batch by partition, sorted. Messages without a key all go to `keyless_partition`.

    Raises BadInput if a key is neither bytes nor None.
    """
    rows: dict[int, list[int]] = {}
    try:
        for row, key in enumerate(keys):
            partition = keyless_partition if key is None else crc32(key) % partition_count
            rows.setdefault(partition, []).append(row)
    except TypeError as error:
        raise BadInput("keys: expected bytes or None for each") from error
    return dict(sorted(rows.items()))


def split_by_partition(
    batch: Batch, partition_count: int, keyless_partition: int, *, by_key: bool = True
) -> list[PartitionBatch]:
    """Splits a batch by the keys of its messages, sorted by partition.

    The batch stays whole, for `keyless_partition`, if no message has a key or if `by_key` is false because the caller
    has named the partition. Raises BadInput if a column is not as long as the bodies, or a key is neither bytes nor
    None.
    """
    batch.check()
    if batch.keys is None or not by_key:
        return [PartitionBatch(keyless_partition, range(len(batch.bodies)), batch)]
    rows = rows_by_partition(batch.keys, partition_count, keyless_partition)
    return [PartitionBatch(partition, picked, pick_rows(batch, picked)) for partition, picked in rows.items()]


def pick_rows(batch: Batch, rows: Sequence[int]) -> Batch:
    """Returns a batch of these rows alone."""
    columns: list[Any] = [None if column is None else [column[row] for row in rows] for column in batch]
    return Batch(*columns)
