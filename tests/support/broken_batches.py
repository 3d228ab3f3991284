"""Kafka batches with a right head and checksum, and records that cannot be read."""

from __future__ import annotations

import random

from tests.support.kafka_batches import batch_of
from warren.storage.format.checksum import crc32c
from warren.storage.format.layout import KAFKA_BATCH_HEAD, KAFKA_CHECKED_AT, KAFKA_LENGTH_END, KafkaBatchHead


def broken_batch(count: int = 3, *, compression: int = 0) -> bytes:
    """Returns a batch of `count` records that are random bytes."""
    return with_records(count, random.Random(count).randbytes(20 * count), compression=compression)


def same_delta_batch(count: int = 3) -> bytes:
    """Returns a batch of `count` records that all claim to be the first."""
    one = batch_of([(None, b"again", [])])
    return with_records(count, one[KAFKA_BATCH_HEAD.size :] * count)


def with_records(count: int, records: bytes, *, compression: int = 0) -> bytes:
    """Returns a batch that a broker accepts by its head and checksum, for any records."""
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch_of([(None, b"", [])] * count)))
    head = head._replace(
        batch_length=KAFKA_BATCH_HEAD.size - KAFKA_LENGTH_END + len(records), attributes=compression, record_count=count
    )
    data = KAFKA_BATCH_HEAD.pack(*head) + records
    return KAFKA_BATCH_HEAD.pack(*head._replace(checksum=crc32c(data[KAFKA_CHECKED_AT:]))) + records
