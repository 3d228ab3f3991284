"""Record batches as Kafka's clients make them, of messages given as rows or piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from warren.storage.format.kafka_batch import pack_kafka
from warren.storage.format.record import Packed

Pair = tuple[str, bytes | None]
CLIENT_TIME_MS = 1_600_000_000_000


def batch_of(
    records: Iterable[tuple[bytes | None, bytes | None, Sequence[Pair]]],
    *,
    compression: int = 0,
    is_transactional: bool = False,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """A batch of records, each a key, a value and headers."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=int(is_transactional),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=1 << 30,
    )
    for place, (key, value, headers) in enumerate(records):
        builder.append(place, CLIENT_TIME_MS + place * 37, key, value, list(headers))
    return bytes(builder.build())


def batch_of_rows(rows: Sequence[Mapping[str, Any]], *, compression: int = 0) -> bytes:
    """A batch of messages of Warren, as a Kafka client has to send them."""
    return batch_of(((row.get("key"), row["body"], _headers(row)) for row in rows), compression=compression)


def packed_rows(rows: Sequence[Mapping[str, Any]], *, compression: int = 0) -> Packed:
    """The same, ready to be appended."""
    return pack_kafka(batch_of_rows(rows, compression=compression))


def _headers(row: Mapping[str, Any]) -> list[Pair]:
    headers: list[Pair] = list((row.get("headers") or {}).items())
    if row.get("tag"):
        headers.append(("warren.tag", row["tag"].encode()))
    if row.get("id"):
        headers.insert(0, ("warren.id", row["id"].encode()))
    if row.get("corr_offset", -1) >= 0:
        headers.append(("warren.corr-offset", b"%d" % row["corr_offset"]))
    return headers
