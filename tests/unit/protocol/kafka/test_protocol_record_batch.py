"""Record batches: those of a producer are checked before they are accepted; those for a consumer can be read by its
client.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from tests.support.kafka_batches import batch_of
from warren.errors import BadBatch
from warren.message import Message
from warren.protocol.kafka.record_batch import build, check_records, split
from warren.storage import Log
from warren.storage.format.checksum import crc32c
from warren.storage.format.kafka_batch import pack_kafka
from warren.storage.format.layout import KAFKA_BATCH_HEAD, KAFKA_CHECKED_AT, KafkaBatchHead

RECORDS: list[Any] = [(b"k", b"value", [("h", b"1")]), (None, b"", []), (b"", None, [])]


def changed(batch: bytes, *, checks: bool = True, **changes: int) -> memoryview:
    """Returns the batch with some fields of its head changed, and by default a right checksum."""
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch))._replace(**changes)
    data = KAFKA_BATCH_HEAD.pack(*head) + batch[KAFKA_BATCH_HEAD.size :]
    if checks:
        head = head._replace(checksum=crc32c(data[KAFKA_CHECKED_AT:]))
    return memoryview(KAFKA_BATCH_HEAD.pack(*head) + batch[KAFKA_BATCH_HEAD.size :])


@pytest.mark.parametrize("compression", range(5))
def test_a_producers_data_is_split_into_batches_without_copies(compression: int) -> None:
    first = batch_of(RECORDS, compression=compression, producer_id=77, producer_epoch=3, base_sequence=40)
    second = batch_of(RECORDS[:1], compression=compression, is_transactional=True)
    sent = first + second

    batches = split(memoryview(sent))

    assert [bytes(batch.data) for batch in batches] == [first, second]
    assert all(batch.data.obj is sent for batch in batches)
    assert batches[0].compression == ["none", "gzip", "snappy", "lz4", "zstd"][compression]
    assert (batches[0].head.producer_id, batches[0].head.producer_epoch, batches[0].head.base_sequence) == (77, 3, 40)
    assert [batch.is_idempotent for batch in batches] == [True, False]
    assert [batch.is_transactional for batch in batches] == [False, True]
    for batch in batches:
        check_records(batch)


PLAIN = batch_of(RECORDS)
BAD = {
    "nothing": memoryview(b""),
    "half a head": memoryview(PLAIN[:40]),
    "a head alone": changed(PLAIN[:61], batch_length=49),
    "half a batch": memoryview(PLAIN[:-1]),
    "a batch and a half": memoryview(PLAIN + PLAIN[:70]),
    "an older format": changed(PLAIN, magic=1),
    "a length below zero": changed(PLAIN, batch_length=-1),
    "a length over what is there": changed(PLAIN, batch_length=1 << 30),
    "no records": changed(PLAIN, record_count=0, last_offset_delta=-1),
    "more records than bytes": changed(PLAIN, record_count=1 << 30, last_offset_delta=(1 << 30) - 1),
    "offsets with gaps": changed(PLAIN, last_offset_delta=3),
    "an unknown compression": changed(PLAIN, attributes=5),
    "a control batch": changed(PLAIN, attributes=0x20),
    "another checksum": changed(PLAIN, checks=False, checksum=1),
    "other content": changed(PLAIN, checks=False, max_timestamp=5),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_batch_that_does_not_check_is_refused(fault: str) -> None:
    with pytest.raises(BadBatch):
        split(BAD[fault])


@pytest.mark.parametrize("compression", range(5))
@pytest.mark.parametrize("count", [2, 4, 100])
def test_another_count_of_records_than_in_the_head_is_refused(compression: int, count: int) -> None:
    batch = batch_of([*RECORDS[:2], (None, bytes(800), [])], compression=compression)
    (lying,) = split(changed(batch, record_count=count, last_offset_delta=count - 1))

    with pytest.raises(BadBatch):
        check_records(lying)


def message(number: int, body: bytes = b"body", **fields: Any) -> Message:
    base = Message(number, 0, 0, "orders", 1_700_000_000_123_456 + number, "", "", None, {}, -1, body, 0)
    return base._replace(**fields)


def test_a_batch_made_of_messages_is_read_by_a_client() -> None:
    headers = {"trace": b"1"}
    messages = [
        message(40, b"first", id="id-1", tag="eu.ä", key=b"k", headers=headers, corr_offset=0),
        message(41, b""),
        message(42, b"", headers={"warren.null-body": b""}),
    ]

    theirs = DefaultRecordBatch(b"".join(build(messages)))
    checks = theirs.validate_crc()
    first, second, third = theirs

    assert checks
    assert (first.offset, first.timestamp, first.key, first.value) == (40, 1_700_000_000_123, b"k", b"first")
    assert dict(first.headers) == {
        "trace": b"1",
        "warren.tag": "eu.ä".encode(),
        "warren.id": b"id-1",
        "warren.corr-offset": b"0",
    }
    assert (second.offset, second.key, second.value, second.headers) == (41, None, b"", [])
    assert (third.value, third.headers) == (None, [])


def test_messages_made_into_a_batch_and_put_again_are_the_same(tmp_path: Path) -> None:
    fields = {"id": "id", "tag": "t", "key": b"k", "headers": {"a": b"1"}, "corr_offset": 7}
    messages = [message(0, b"x", **fields), message(1), message(2, b"", headers={"warren.null-body": b""})]

    with Log.open(tmp_path, durability="os") as log:
        log.append_packed([pack_kafka(b"".join(build(messages)))])
        again = log.read(0)

    ignored: dict[str, Any] = {"topic": "", "offset": 0, "timestamp": 0}
    assert [one._replace(**ignored, headers=dict(one.headers)) for one in again] == [
        one._replace(**ignored) for one in messages
    ]
