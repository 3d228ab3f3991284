"""Any records, batched and compressed by either of two clients, are read unchanged, walked in either way."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.kafka_batches import CLIENT_TIME_MS, batch_of
from warren.protocol.kafka.record_batch import split
from warren.storage.format.columns import Columns
from warren.storage.format.kafka_batch import records_of
from warren.storage.format.kafka_columns import KafkaColumns
from warren.storage.format.kafka_records import RecordPlaces, places_one_by_one, places_together
from warren.storage.format.layout import SECTION_BODY_ENDS, SECTION_HEADERS_ENDS, SECTION_KEY_ENDS

BLOBS = st.none() | st.binary(max_size=200) | st.sampled_from([b"", b"same", bytes(9000)])
NAMES = st.text(max_size=20).filter(lambda name: not name.startswith("warren."))
HEADERS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=30)), max_size=3)
RECORDS = st.lists(st.tuples(BLOBS, BLOBS, HEADERS), min_size=1, max_size=70)
EVEN = st.tuples(st.sampled_from([1, 63, 64, 65, 200, 9000]), st.sampled_from([0, 1, 50, 100]), st.booleans())


def batch_of_kafka_python(records: list[Any], compression: int) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.record.default_records import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    for place, (key, value, headers) in enumerate(records):
        builder.append(place, CLIENT_TIME_MS + place, key, value, headers)
    return bytes(builder.build())


def check(batch: bytes, records: list[Any]) -> None:
    (part,) = split(memoryview(batch))
    area = records_of(part.data, len(records))
    same_places(places_one_by_one(area, len(records)), places_together(area, len(records)))
    columns = KafkaColumns(part.data, len(records))
    rows = slice(0, len(records))
    keys = columns.keys(rows) if SECTION_KEY_ENDS in columns else [None] * len(records)
    headers = columns.headers(rows) if SECTION_HEADERS_ENDS in columns else [{}] * len(records)
    assert keys == [key for key, _, _ in records]
    assert columns.blobs(SECTION_BODY_ENDS).to_list() == [value or b"" for _, value, _ in records]
    assert [dict(one) for one in headers] == [expected_headers(value, pairs) for _, value, pairs in records]
    for kind in (SECTION_BODY_ENDS, SECTION_KEY_ENDS):
        if kind in columns:
            assert columns.blobs(kind).to_list() == Columns.blobs(columns, kind).to_list()


def same_places(ours: RecordPlaces, others: RecordPlaces) -> None:
    for name, one, other in zip(RecordPlaces._fields, ours, others, strict=True):
        np.testing.assert_array_equal(one, other, name)


def expected_headers(value: bytes | None, pairs: list[Any]) -> dict[str, bytes]:
    headers = {name: content or b"" for name, content in pairs}
    if value is None:
        headers["warren.null-body"] = b""
    return headers


@settings(max_examples=examples(150))
@given(RECORDS, st.integers(0, 4))
def test_records_of_aiokafka_are_read_as_they_were_sent(records: list[Any], compression: int) -> None:
    check(batch_of(records, compression=compression), records)


@settings(max_examples=examples(25))
@given(RECORDS, st.sampled_from([0, 1]))
def test_records_of_kafka_python_are_read_as_they_were_sent(records: list[Any], compression: int) -> None:
    check(batch_of_kafka_python(records, compression), records)


@settings(max_examples=examples(30))
@given(EVEN, st.integers(0, 4))
def test_records_of_one_size_are_read_as_they_were_sent(shape: tuple[int, int, bool], compression: int) -> None:
    count, size, has_key = shape
    records: list[Any] = [(b"%04d" % row if has_key else None, bytes([row % 256]) * size, []) for row in range(count)]

    check(batch_of(records, compression=compression), records)


@settings(max_examples=examples(300))
@given(RECORDS, st.data())
def test_damaged_records_are_read_or_refused_alike_by_both_readers(records: list[Any], data: st.DataObject) -> None:
    area = bytearray(records_of(batch_of(records), len(records)))
    place = data.draw(st.integers(0, len(area) - 1))
    area[place] = data.draw(st.integers(0, 255))
    count = data.draw(st.sampled_from([len(records), len(records), len(records) + 1, 1]))

    try:
        one_by_one: RecordPlaces | None = places_one_by_one(bytes(area), count)
    except (ValueError, IndexError):
        one_by_one = None
    try:
        together: RecordPlaces | None = places_together(bytes(area), count)
    except (ValueError, IndexError):
        together = None

    assert (one_by_one is None) == (together is None)
    if one_by_one is not None and together is not None:
        same_places(one_by_one, together)


@pytest.mark.parametrize("compression", range(5))
def test_a_large_batch_is_read_with_any_compression(compression: int) -> None:
    records: list[Any] = [(None, b"%07d" % row * 20, []) for row in range(20_000)]

    check(batch_of(records, compression=compression), records)
