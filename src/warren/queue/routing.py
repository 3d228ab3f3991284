"""Which partition a message goes to.

The partition of a key is CRC-32 (ISO 3309, as in zlib and PNG) of its bytes, modulo the number of partitions. That is
the same in every process, on every machine and in every release, and what librdkafka calls `consistent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32


def partition_of(key: bytes, partition_count: int) -> int:
    """The partition that every message with this key goes to."""
    return crc32(key) % partition_count


def rows_by_partition(
    keys: Sequence[bytes | None], partition_count: int, keyless_partition: int
) -> dict[int, list[int]]:
    """Which rows of a batch go to which partition. Those without a key stay together."""
    rows: dict[int, list[int]] = {}
    for row, key in enumerate(keys):
        partition = keyless_partition if key is None else crc32(key) % partition_count
        rows.setdefault(partition, []).append(row)
    return rows
