"""Typed reads: the fields of JSON, CSV and text as columns, and the treatment of values that do not fit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, DateType, IntegerType, LongType, MapType, StringType, StructField, StructType

from tests.support.spark.reads import batch_reader, batches_of, read_rows, source
from tests.support.store.stores import quick_store
from warren.errors import BadColumn, BadOption, MalformedValue
from warren.queue.store import Store
from warren.spark.columns.json_values import JsonValues
from warren.spark.columns.text_values import readable_rows


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with quick_store(tmp_path / "store") as opened:
        yield opened


def put(store: Store, *bodies: bytes) -> None:
    store.topic("orders").partition(0).append_many(list(bodies), tag="eu", ids=["i"] * len(bodies))


def values(store: Store, schema: str, **options: str) -> list[list[Any]]:
    return [list(row.values()) for row in read_rows(store.path, schema, topics="orders", **options)]


# --- JSON ---


def test_the_fields_of_json_become_columns_of_every_type(store: Store) -> None:
    put(
        store,
        b'{"n": 7, "i": 8, "x": 1.5, "s": "a", "b": true, "d": "2026-03-01", "t": "2026-03-01T12:00:00.5+01:00", '
        b'"m": 1.25, "l": ["p", null], "more": {"ignored": [1]}}',
        b"{}",
    )

    rows = values(
        store,
        "n long, i int, x double, s string, b boolean, d date, t timestamp, m decimal, l array<string>",
        valueFormat="json",
    )

    at = datetime(2026, 3, 1, 11, 0, 0, 500_000, tzinfo=UTC)
    assert rows == [[7, 8, 1.5, "a", True, date(2026, 3, 1), at, Decimal("1.25"), ["p", None]], [None] * 9]


def test_a_field_may_hold_fields(store: Store) -> None:
    put(store, b'{"o": {"day": "2026-03-01", "n": [1, 2]}}')
    inner = StructType([StructField("day", DateType()), StructField("n", ArrayType(IntegerType()))])
    reader = source(store.path, topics="orders", valueFormat="json").reader(StructType([StructField("o", inner)]))

    rows = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]  # type: ignore[union-attr]

    assert rows == [{"o": {"day": date(2026, 3, 1), "n": [1, 2]}}]


def test_columns_of_the_message_come_with_those_of_the_value(store: Store) -> None:
    put(store, b'{"id": 5, "tag": "ignored", "key": 1}')

    (row,) = read_rows(
        store.path, "offset long, id long, tag string, key long, value string", topics="orders", valueFormat="json"
    )

    assert row == {"offset": 0, "id": 5, "tag": "eu", "key": 1, "value": '{"id": 5, "tag": "ignored", "key": 1}'}


@pytest.mark.parametrize(("names", "expected"), [("id,offset", ("i", "own")), ("offset", ("doc", "own"))])
def test_the_columns_of_the_message_can_be_named(store: Store, names: str, expected: tuple[str, str]) -> None:
    put(store, b'{"id": "doc", "tag": "own"}')

    (row,) = read_rows(store.path, "id string, tag string", topics="orders", valueFormat="json", messageColumns=names)

    assert (row["id"], row["tag"]) == expected


def test_invalid_columns_of_the_message_are_refused(store: Store) -> None:
    with pytest.raises(BadOption, match="a message has no column 'nope'"):
        batch_reader(store.path, "nope long", topics="orders", valueFormat="json", messageColumns="nope")
    with pytest.raises(BadColumn, match="it is string, not bigint"):
        batch_reader(store.path, "id long", topics="orders", valueFormat="json", messageColumns="id")


MALFORMED = [
    b"nope",
    b"",
    b"  ",
    b'{"n": "x"}',
    b'{"n": 1.5}',
    b'{"n": 1}{"n": 2}',
    b'{"n": 1}}{"document": {"n": 2}',
    b'{"n": ',
    b'{"n": 99999999999999999999}',
    b'{"n": 1, "n": 2}',
    b"[1]",
    b"7",
    b'{"n": true}',
    b'{"d": "2026-13-01"}',
    b'{"d": 5}',
    b'{"s": 5}',
    b'{"s": "\xff"}',
    b'{"s": "a\nb"}',
]


@pytest.mark.parametrize("body", MALFORMED)
def test_a_value_that_does_not_fit_spoils_no_other(store: Store, body: bytes) -> None:
    put(store, b'{"n": 1}', body, b'{"n": 3, "d": "2026-03-01", "s": "a"}')

    rows = values(store, "offset long, n long, d date, s string, _corrupt_record string", valueFormat="json")

    assert rows == [
        [0, 1, None, None, None],
        [1, None, None, None, body.decode(errors="replace")],
        [2, 3, date(2026, 3, 1), "a", None],
    ]


@pytest.mark.parametrize("body", MALFORMED)
def test_a_value_that_does_not_fit_can_be_dropped_or_stop_the_query(store: Store, body: bytes) -> None:
    put(store, b'{"n": 1}', body, b'{"n": 3}')
    schema = "offset long, n long, d date, s string"

    assert values(store, schema, valueFormat="json", mode="DROPMALFORMED") == [[0, 1, None, None], [2, 3, None, None]]
    with pytest.raises(MalformedValue, match="message 1 of partition 0 of topic 'orders' does not fit the schema"):
        values(store, schema, valueFormat="json", mode="FAILFAST")


def test_values_that_do_not_fit_go_to_the_named_column(store: Store) -> None:
    put(store, b"nope")

    rows = values(store, "n long, bad string", valueFormat="json", columnNameOfCorruptRecord="bad")

    assert rows == [[None, "nope"]]


def test_values_can_be_checked_without_a_column_of_theirs(store: Store) -> None:
    put(store, b"{}", b"nope")

    assert values(store, "offset long, _corrupt_record string", valueFormat="json") == [[0, None], [1, "nope"]]


def test_json_may_stand_on_several_lines(store: Store) -> None:
    put(store, b'{\n  "n": 1\n}\n', b'\r\n{"n":\t2}', b"null")

    assert values(store, "n long, _corrupt_record string", valueFormat="json") == [[1, None], [2, None], [None, None]]


def test_typed_batches_have_exactly_the_schema_that_spark_compares_them_with(store: Store) -> None:
    put(store, b'{"n": 1, "d": "2026-03-01", "l": ["a"]}', b"nope")
    schema = "d date, offset long, l array<string>, t timestamp, n int, m decimal, _corrupt_record string"
    reader = batch_reader(store.path, schema, topics="orders", valueFormat="json")

    for batch in batches_of(reader):
        batch.validate(full=True)
        assert batch.schema.field("l").type == pa.list_(pa.field("element", pa.string()))
        assert batch.schema.field("t").type == pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize("kind", [MapType(StringType(), LongType()), ArrayType(MapType(StringType(), LongType()))])
def test_a_type_that_json_cannot_give_is_refused(store: Store, kind: Any) -> None:
    made = source(store.path, topics="orders", valueFormat="json")

    with pytest.raises(BadColumn, match="cannot be read as map"):
        made.reader(StructType([StructField("m", kind)]))


def test_a_field_of_the_value_cannot_be_requested_as_never_null(store: Store) -> None:
    made = source(store.path, topics="orders", valueFormat="json")

    with pytest.raises(BadColumn, match="omit NOT NULL"):
        made.reader(StructType([StructField("n", LongType(), nullable=False)]))


documents = st.one_of(
    st.dictionaries(st.sampled_from(["a", "b"]), st.one_of(st.none(), st.integers(-5, 5), st.text(max_size=3))).map(
        lambda value: json.dumps(value).encode()
    ),
    st.binary(max_size=12),
    st.sampled_from(MALFORMED),
)


@given(bodies=st.lists(documents, max_size=12))
def test_the_parsed_value_does_not_depend_on_its_neighbours(bodies: Sequence[bytes]) -> None:
    made = JsonValues(pa.schema([("a", pa.int64()), ("b", pa.string())]))

    def parsed(some: Sequence[bytes]) -> list[tuple[Any, ...]]:
        arrays, fits = made.parse(pa.array(some, pa.binary()))
        return list(zip(fits.tolist(), *(array.to_pylist() for array in arrays), strict=True))

    assert parsed(bodies) == [row for body in bodies for row in parsed([body])]


def test_few_bad_rows_are_found_with_few_looks() -> None:
    looks: list[int] = []

    def is_readable(rows: Any) -> bool:
        looks.append(len(rows))
        return not {17, 40_000} & set(rows.tolist())

    rows = readable_rows(np.arange(65_536), is_readable)

    assert len(rows) == 65_534
    assert len(looks) < 80


# --- CSV ---


def test_the_fields_of_csv_become_columns_in_their_order(store: Store) -> None:
    put(
        store,
        b"7,a,1.5,true,2026-03-01,2026-03-01 12:00:00,1.25",
        b",,,,,2026-03-01,",
        b'8,"b, ""c""",,,,2026-03-01T12:00+02:00,',
    )

    rows = values(
        store, "offset long, n long, s string, x double, b boolean, d date, t timestamp, m decimal", valueFormat="csv"
    )

    day = date(2026, 3, 1)
    assert rows == [
        [0, 7, "a", 1.5, True, day, datetime(2026, 3, 1, 12, tzinfo=UTC), Decimal("1.25")],
        [1, None, None, None, None, None, datetime(2026, 3, 1, tzinfo=UTC), None],
        [2, 8, 'b, "c"', None, None, None, datetime(2026, 3, 1, 10, tzinfo=UTC), None],
    ]


@pytest.mark.parametrize(
    "body", [b"", b"1", b"1,a,b", b"x,a", b'1,"a', b"1,a\n2,b", b"\xff,a", b"99999999999999999999,a"]
)
def test_a_line_that_does_not_fit_spoils_no_other(store: Store, body: bytes) -> None:
    put(store, b"1,a", body, b"3,")
    schema = "n long, s string, _corrupt_record string"

    rows = values(store, schema, valueFormat="csv")

    assert rows == [[1, "a", None], [None, None, body.decode(errors="replace")], [3, None, None]]
    assert values(store, "n long, s string", valueFormat="csv", mode="DROPMALFORMED") == [[1, "a"], [3, None]]


def test_the_separator_can_be_chosen(store: Store) -> None:
    put(store, b"1\ta,b")

    assert values(store, "n long, s string", valueFormat="csv", sep="\t") == [[1, "a,b"]]
    with pytest.raises(BadOption, match="expected one character"):
        batch_reader(store.path, "n long", topics="orders", valueFormat="csv", sep="ab")


def test_a_type_that_csv_cannot_give_is_refused(store: Store) -> None:
    with pytest.raises(BadColumn, match="a field of CSV cannot be read as list"):
        batch_reader(store.path, "l array<string>", topics="orders", valueFormat="csv")


# --- Text ---


def test_text_is_one_column_with_any_name(store: Store) -> None:
    put(store, b"a", b"\xff")

    assert values(store, "line string, offset long", valueFormat="text") == [["a", 0], [None, 1]]
    assert values(store, "value string", valueFormat="text", mode="DROPMALFORMED") == [["a"]]
    with pytest.raises(BadOption, match="text is one column of type string, not a, b"):
        batch_reader(store.path, "a string, b string", topics="orders", valueFormat="text")


def test_text_without_a_schema_yields_the_message_columns_with_a_text_value(store: Store) -> None:
    put(store, b"a")

    (row,) = read_rows(store.path, topics="orders", valueFormat="text")

    assert (row["value"], row["tag"], row["offset"]) == ("a", "eu", 0)
