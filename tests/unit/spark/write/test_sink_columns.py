"""The columns and options of a query that writes: their effect, and what is refused before a task runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warren
from tests.support.examples import examples
from tests.support.spark.writes import Query, bodies, stored_messages, stores_closed_after
from warren.errors import BadColumn, BadOption
from warren.spark.columns.json_writer import json_objects
from warren.spark.store_access.store_cache import process_stores

NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, UTC)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    with stores_closed_after():
        yield
        process_stores().close()


def written(monkeypatch: pytest.MonkeyPatch, path: Path, schema: str, rows: list[Any], **options: Any) -> Query:
    query = Query(monkeypatch, path, schema, **{"topic": "orders", **options})
    query.write(rows)
    return query


# --- The value ---


@pytest.mark.parametrize("schema", ["value string", "value binary", "line string", "VALUE string", "payload binary"])
def test_the_value_is_a_column_of_that_name_or_the_only_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, schema: str
) -> None:
    row: tuple[Any, ...] = ("grün",) if "string" in schema else ("grün".encode(),)

    written(monkeypatch, tmp_path, schema, [row])

    assert bodies(tmp_path) == ["grün".encode()]


def test_columns_of_the_message_may_accompany_the_only_column(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written(monkeypatch, tmp_path, "key binary, line string, Tag string", [(b"k", "line", "t")])

    (message,) = stored_messages(tmp_path)
    assert (message.body, message.key, message.tag) == (b"line", b"k", "t")


def test_rows_that_were_read_can_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    schema = (
        "topic string, partition int, offset long, timestamp timestamp, key binary, value binary, id string, "
        "tag string, corr_offset long, byte_offset long, headers headers"
    )
    headers = [{"key": "h", "value": b"1"}, {"key": "g", "value": b"2"}]
    row = ("orders", 0, 7, NOON, b"k", b"v", "i", "t", None, 99, headers)

    written(monkeypatch, tmp_path, schema, [row, (*row[:10], None), (*row[:10], [])], topic="copy")

    messages = stored_messages(tmp_path, "copy")
    assert [message.headers for message in messages] == [{"h": b"1", "g": b"2"}, {}, {}]
    first = messages[0]
    assert (first.number, first.body, first.key, first.id, first.tag) == (0, b"v", b"k", "i", "t")
    assert bodies(tmp_path, "orders") == []


@pytest.mark.parametrize(
    ("schema", "headers"),
    [
        ("map<string,binary>", {"a": b"1", "b": b""}),
        ("map<string,string>", {"a": "1", "b": ""}),
        ("headers", [{"key": "a", "value": b"1"}, {"key": "b", "value": b""}]),
    ],
)
def test_headers_come_in_three_shapes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, schema: str, headers: Any
) -> None:
    pairs = list(headers.items()) if isinstance(headers, dict) else headers

    written(monkeypatch, tmp_path, f"value string, headers {schema}", [("1", None), ("2", pairs), ("3", [])])

    assert [message.headers for message in stored_messages(tmp_path)] == [{}, {"a": b"1", "b": b""}, {}]


# --- Topics and partitions ---


def test_rows_go_to_the_topics_and_partitions_that_they_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with warren.open(tmp_path / "store", keeps=False) as store:
        store.topic("a", partitions=3)
        store.topic("b", partitions=2)
    rows = [("a", 2, "1"), ("b", 1, "2"), ("a", 0, "3"), ("a", 2, "4"), ("b", None, "5")]

    written(monkeypatch, tmp_path, "topic string, partition int, value string", rows, topic=None)

    assert [(m.partition, m.body) for m in stored_messages(tmp_path, "a")] == [(0, b"3"), (2, b"1"), (2, b"4")]
    in_b = [(message.partition, message.body) for message in stored_messages(tmp_path, "b")]
    assert (1, b"2") in in_b
    assert sorted(body for _, body in in_b) == [b"2", b"5"]


def test_the_option_goes_before_the_column(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written(monkeypatch, tmp_path, "topic string, value string", [("a", "1"), (None, "2")], topic="orders")

    assert bodies(tmp_path) == [b"1", b"2"]


def test_delayed_rows_wait_until_they_are_due(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with warren.open(tmp_path / "store", keeps=False) as store:
        now = datetime.fromtimestamp(store.clock.now_ns() / 1e9, UTC)
    rows = [
        ("now", b"k", None),
        ("later", b"k", now + timedelta(days=2)),
        ("past", b"k", datetime(1969, 1, 1, tzinfo=UTC)),
    ]

    written(monkeypatch, tmp_path, "value string, key binary, deliver_at timestamp", rows)

    with warren.open(tmp_path / "store", keeps=False) as store:
        assert [each.due for each in store.topic("orders").scheduled()][-1] == rows[1][2]
        store.keep()
        assert sorted(bodies(tmp_path)) == [b"now", b"past"]
        assert {message.key for message in stored_messages(tmp_path)} == {b"k"}


# --- JSON ---


def test_any_columns_make_a_json_object(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    schema = (
        "id long, country string, total double, paid boolean, day date, price decimal, at timestamp, "
        "wall timestamp_ntz, raw binary, w window, list array<double>, names map<string,string>, "
        "numbered map<int,string>, texts array<string>, blobs array<binary>, Key string, tag string"
    )
    window = {"start": NOON, "end": None}
    row = (
        *(7, 'say "hi"\n\\', 1.5, True, date(2026, 3, 1), Decimal("12.50"), NOON, NOON.replace(tzinfo=None)),
        *(b"\0\1", window, [1.0, None, float("nan")], [("a", "ü"), ("b", None)], [(1, "x")], ["q"], [b"\0"], "k", "t"),
    )
    empty = (8, *[None] * 16)

    written(monkeypatch, tmp_path, schema, [row, empty], valueFormat="json")

    first, second = stored_messages(tmp_path)
    assert json.loads(first.body) == {
        "id": 7,
        "country": 'say "hi"\n\\',
        "total": 1.5,
        "paid": True,
        "day": "2026-03-01",
        "price": 12.5,
        "at": "2026-03-01T12:00:00.250000Z",
        "wall": "2026-03-01T12:00:00.250000",
        "raw": "AAE=",
        "w": {"start": "2026-03-01T12:00:00.250000Z"},
        "list": [1.0, None, "NaN"],
        "names": {"a": "ü", "b": None},
        "numbered": {"1": "x"},
        "texts": ["q"],
        "blobs": ["AA=="],
    }
    assert (first.key, first.tag, first.id) == (b"k", "t", "")
    assert second.body == b'{"id":8}'


def test_the_columns_that_belong_to_the_message_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    schema, row = "id string, key string, value string", ("i", "k", "v")

    written(monkeypatch, tmp_path, schema, [row], valueFormat="json", topic="a")
    written(monkeypatch, tmp_path, schema, [row], valueFormat="json", topic="b", messageColumns="id")
    written(monkeypatch, tmp_path, schema, [row], valueFormat="json", topic="c", messageColumns="")
    written(monkeypatch, tmp_path, "key string", [("k",)], valueFormat="json", topic="d")

    messages = [stored_messages(tmp_path, topic)[0] for topic in "abcd"]
    assert [json.loads(message.body) for message in messages] == [
        {"id": "i", "value": "v"},
        {"key": "k", "value": "v"},
        {"id": "i", "key": "k", "value": "v"},
        {},
    ]
    assert [(message.key, message.id) for message in messages] == [(b"k", ""), (None, "i"), (None, ""), (b"k", "")]


json_values = st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=20))


@given(rows=st.lists(st.tuples(json_values, st.none() | st.floats(), st.none() | st.integers(-(2**63), 2**63 - 1))))
@settings(deadline=None, max_examples=examples(60))
def test_every_row_comes_back_from_its_json(rows: list[tuple[str | None, float | None, int | None]]) -> None:
    kinds = (pa.string(), pa.float64(), pa.int64())
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(kinds)]

    texts = json_objects(['te"xt', "float", "int"], columns, len(rows)).to_pylist()

    names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    for (text, number, whole), found_text in zip(rows, texts, strict=True):
        expected = {'te"xt': text, "float": names.get(str(number), number), "int": whole}
        assert json.loads(found_text) == {name: value for name, value in expected.items() if value is not None}


# --- Refused when the query is planned ---


@pytest.mark.parametrize(
    ("schema", "options", "reason"),
    [
        ("value int", {}, "column 'value': it is int; expected string or binary"),
        ("key int, value string", {}, "column 'key': it is int"),
        ("headers string, value string", {}, r"expected array<struct"),
        ("partition string, value string", {}, "column 'partition': it is string; expected int"),
        ("deliver_at string, value string", {}, "expected timestamp"),
        ("deliver_at timestamp_ntz, value string", {}, "expected timestamp"),
        ("value string, kee string", {}, "column 'kee': .* did you mean 'key'"),
        ("value string, amount double", {}, "column 'amount': .* valueFormat=json"),
        ("a string, b string", {}, "column 'a'"),
        ("amount double", {}, "column 'amount'"),
        ("key string", {}, "column 'value': it is missing"),
        ("id int", {"valueFormat": "json", "messageColumns": "id"}, "column 'id': it is int"),
        ("value string, VALUE string", {}, "same name"),
    ],
)
def test_columns_that_make_no_message_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, schema: str, options: dict[str, str], reason: str
) -> None:
    query = Query(monkeypatch, tmp_path, schema, topic="orders", **options)

    with pytest.raises(BadColumn, match=reason):
        query.batch_writer()
    with pytest.raises(BadColumn, match=reason):
        query.stream_writer()
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"topik": "orders"}, "'topik'.* did you mean 'topic'"),
        ({"topic": None}, "'topic': it is missing"),
        ({"topic": "a/b"}, "'topic': topic name 'a/b'"),
        ({"path": ""}, "'path': it is missing"),
        ({"path": "hdfs://there"}, "'path'"),
        ({"servers": "localhost"}, "'servers': path is also set"),
        ({"partitions": "0"}, "'partitions'"),
        ({"partitions": "1001"}, "'partitions'"),
        ({"valueFormat": "avro"}, "expected one of binary, text, json"),
        ({"txnAppId": "a"}, "'txnVersion': it is missing"),
        ({"txnVersion": "1"}, "'txnAppId': it is missing"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "'txnVersion'"),
        ({"txnAppId": "a", "txnVersion": "x"}, "'txnVersion'"),
        ({"txnAppId": "a", "txnVersion": str(1 << 63)}, "'txnVersion'"),
        ({"txnAppId": "a" * 1000, "txnVersion": "1"}, "'txnAppId': it has 1000 bytes"),
    ],
)
def test_options_that_cannot_be_taken_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    query = Query(monkeypatch, tmp_path, "value string", **{"topic": "orders", **options})

    with pytest.raises(BadOption, match=reason):
        query.batch_writer()
    assert not (tmp_path / "store").exists()


def test_a_stream_needs_no_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    query = Query(monkeypatch, tmp_path, "value string", topic="orders", txnAppId="a", txnVersion="1")

    with pytest.raises(BadOption, match="identified by its query and batch"):
        query.stream_writer()


def test_message_columns_are_columns_of_a_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    query = Query(monkeypatch, tmp_path, "amount double", topic="a", valueFormat="json", messageColumns="amount")

    with pytest.raises(BadOption, match="'amount': a message has value, topic"):
        query.batch_writer()
