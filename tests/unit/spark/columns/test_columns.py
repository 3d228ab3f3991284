"""The columns of a query: named as Kafka's, only the requested ones, and null for missing values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from tests.support.fakes import VERSIONS
from tests.support.spark.reads import batch_reader, batches_of, read_rows, source
from tests.support.store.stores import quick_store
from warren.errors import BadColumn, MalformedValue
from warren.queue.store import Store
from warren.spark.columns.rebatch import SPARK_BATCH_ROWS_MAX, SPARK_BATCH_ROWS_MIN, regrouped
from warren.spark.read.batch_reader import BatchReader
from warren.storage import Log

COLUMNS = ["topic", "partition", "offset", "timestamp", "key", "value", "id", "tag", "corr_offset", "byte_offset"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with quick_store(tmp_path / "store") as opened:
        yield opened


def filled(store: Store, *, version: int = 2) -> Log:
    """A topic with messages of every kind: alone, and in batches with and without tags, keys, ids and headers."""
    log = store.topic("orders", version=version).partition(0)
    log.append(b"0")
    if version == 1:
        log.append(b"1", tag="eu.de", id="i1", corr_offset=0)
        log.append_many([b"2", b"3"], tag="us")
        return log
    log.append(b"1", tag="eu.de", key=b"k1", headers={"a": b"1", "b": b""}, id="i1", corr_offset=0)
    log.append_many([b"2", b"3"], tag="us")
    log.append_many(
        [b"4", b"5", b"6"],
        tags=["eu.de", "", "us"],
        keys=[None, b"k5", b""],
        ids=["", "i5", "i6"],
        headers=[None, {"c": b"x"}, None],
        corr_offsets=[-1, 3, -1],
    )
    return log


@pytest.mark.parametrize("version", VERSIONS)
def test_the_columns_have_the_fields_of_the_message(store: Store, version: int) -> None:
    log = filled(store, version=version)

    rows = read_rows(store.path, topics="orders", includeHeaders="true")

    assert [list(row) for row in rows] == [[*COLUMNS, "headers"]] * log.end
    for row, message in zip(rows, log.read(0), strict=True):
        assert (row["topic"], row["partition"]) == ("orders", 0)
        assert (row["offset"], row["byte_offset"]) == (message.number, message.offset)
        assert int(row["timestamp"].timestamp() * 1_000_000 + 0.5) == message.timestamp
        assert (row["key"], row["value"]) == (message.key, message.body)
        assert (row["id"], row["tag"]) == (message.id or None, message.tag or None)
        assert row["corr_offset"] == (None if message.corr_offset == -1 else message.corr_offset)
        assert row["headers"] == ([{"key": k, "value": v} for k, v in message.headers.items()] or None)


def test_record_batches_have_exactly_the_schema_that_spark_compares_them_with(store: Store) -> None:
    filled(store)
    schema = source(store.path, topics="orders", includeHeaders="true").schema()

    batches = batches_of(batch_reader(store.path, topics="orders", includeHeaders="true"))

    assert all(batch.schema.equals(to_arrow_schema(schema, timezone="UTC")) for batch in batches)
    for batch in batches:
        batch.validate(full=True)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("offset long, value binary", {"offset": 1, "value": b"1"}),
        ("tag string, offset long", {"tag": "eu.de", "offset": 1}),
        ("topic string", {"topic": "orders"}),
        ("partition int, topic string", {"partition": 0, "topic": "orders"}),
        ("value string, key string", {"value": "1", "key": "k1"}),
        ("OFFSET long", {"OFFSET": 1}),
    ],
)
def test_a_query_gets_the_columns_it_names_in_its_order(store: Store, schema: str, expected: dict[str, object]) -> None:
    filled(store)

    rows = read_rows(store.path, schema, topics="orders")

    assert rows[1] == expected
    assert list(rows[1]) == list(expected)
    assert len(rows) == 7


@pytest.mark.parametrize("schema", ["id string", "tag string", "corr_offset long", "key binary"])
def test_absent_fields_are_null_by_default(store: Store, schema: str) -> None:
    filled(store)

    assert list(read_rows(store.path, schema, topics="orders")[0].values()) == [None]


def test_columns_that_are_never_null_can_be_requested_as_such(store: Store) -> None:
    filled(store)
    schema = StructType([StructField("offset", LongType(), nullable=False)])

    reader = source(store.path, topics="orders").reader(schema)
    assert isinstance(reader, BatchReader)

    assert batches_of(reader)[0].schema == to_arrow_schema(schema, timezone="UTC")


def test_only_the_requested_columns_are_scanned(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(store)
    scanned: list[object] = []
    scan = Log.scan

    def watched(log: Log, *arguments: object, **options: object) -> object:
        scanned.append(options["columns"])
        return scan(log, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Log, "scan", watched)

    read_rows(store.path, "offset long, topic string", topics="orders")

    assert scanned == [["number"]]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("ofset long", "did you mean 'offset'"),
        ("amount double", "there are topic, partition"),
        ("offset string", "it is bigint, not string"),
        ("value long", "it is binary or string, not bigint"),
    ],
)
def test_invalid_columns_are_refused(store: Store, schema: str, reason: str) -> None:
    with pytest.raises(BadColumn, match=reason):
        batch_reader(store.path, schema, topics="orders")


def test_a_nullable_column_cannot_be_requested_as_not_null(store: Store) -> None:
    filled(store)
    made = source(store.path, topics="orders")

    with pytest.raises(BadColumn, match="omit NOT NULL"):
        made.reader(StructType([StructField("corr_offset", LongType(), nullable=False)]))

    made.reader(StructType([StructField("offset", LongType(), nullable=False)]))


def test_a_value_that_is_not_text_is_reported_with_its_number(store: Store) -> None:
    store.topic("orders").partition(0).append_many([b"a", b"b", b"\xff"])

    with pytest.raises(MalformedValue, match=r"message 2 of partition 0 of topic 'orders'.*not UTF-8; request it as"):
        read_rows(store.path, "value string", topics="orders")


def test_small_batches_are_joined_and_large_ones_cut() -> None:
    def batch(start: int, count: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array(range(start, start + count))], ["number"])

    small = [batch(start, 1000) for start in range(0, 25_000, 1000)]
    large = batch(25_000, SPARK_BATCH_ROWS_MAX + 10)

    batches = list(regrouped([*small, large]))

    assert [len(each) for each in batches] == [
        SPARK_BATCH_ROWS_MIN,
        SPARK_BATCH_ROWS_MIN,
        5000,
        SPARK_BATCH_ROWS_MAX,
        10,
    ]
    assert [value for each in batches for value in each.column(0).to_pylist()] == list(
        range(25_010 + SPARK_BATCH_ROWS_MAX)
    )


def test_large_messages_are_joined_only_up_to_a_memory_limit() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([b"x" * (9 << 20)])], ["body"])

    assert [len(each) for each in regrouped([batch] * 4)] == [2, 2]
