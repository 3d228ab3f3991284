"""The steps of a pipeline, tried on tables that stand for its source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from warren.errors import BadPipeline
from warren.spark.pipelines.definition import Definition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id long not null, country string, amount double"
COLUMNS = (
    "topic string, partition int, offset long, timestamp timestamp, key binary, value binary, id string, tag string, "
    "headers array<struct<key:string,value:binary>>"
)


def definition(directory: Path | None = None, **sections: Any) -> Definition:
    source = {"topics": ["orders"], "format": "json", "schema": SCHEMA, **sections.pop("source", {})}
    source = {name: value for name, value in source.items() if value is not None}
    sink = sections.pop("sink", {"topic": "out", "format": "json"})
    tables = {"pipeline": {"name": "p"}, "source": source, "sink": sink, **sections}
    return Definition.of(tables, directory=str(directory) if directory else None)


def messages(spark: SparkSession, *values: bytes | None) -> DataFrame:
    from datetime import UTC, datetime

    when = datetime(2026, 3, 1, 12, tzinfo=UTC)
    headers = [("trace", b"1"), ("warren.dead-reason", b"an older one")]
    rows = [("orders", 1, row, when, b"k", value, f"id-{row}", "eu.de", headers) for row, value in enumerate(values)]
    return spark.createDataFrame(rows, COLUMNS)


def test_values_become_columns_in_addition_to_those_of_the_message(spark: SparkSession) -> None:
    from warren.spark.pipelines.parse import with_columns

    frame = with_columns(messages(spark, b'{"id": 7, "country": "de", "amount": 1.5}'), definition())

    (row,) = frame.collect()
    assert (row.id, row.country, row.amount) == (7, "de", 1.5)
    assert (row.topic, row.partition, row.offset, row.message_id) == ("orders", 1, 0, "id-0")
    assert bytes(row.value).startswith(b'{"id": 7')


def test_csv_becomes_columns_and_text_becomes_text(spark: SparkSession) -> None:
    from warren.spark.pipelines.parse import with_columns

    as_csv = definition(source={"format": "csv"})
    as_text = definition(source={"format": "text", "schema": None})
    frame = messages(spark, b"7,de,1.5")

    (row,), (text,) = with_columns(frame, as_csv).collect(), with_columns(frame, as_text).collect()

    assert (row.id, row.country, row.amount) == (7, "de", 1.5)
    assert text.value == "7,de,1.5"


@pytest.mark.parametrize("format", ["json", "csv", "text"])
def test_a_message_that_does_not_fit_stops_the_query_and_is_named(spark: SparkSession, format: str) -> None:
    from warren.spark.pipelines.failure import reason_of
    from warren.spark.pipelines.parse import with_columns

    good = {"json": b'{"id": 7}', "csv": b"7,de,1.5", "text": b"fine"}[format]
    frame = with_columns(messages(spark, good, b"\xff"), definition(source=source_of(format)))

    with pytest.raises(Exception, match="USER_RAISED_EXCEPTION") as stopped:
        frame.collect()

    assert reason_of(str(stopped.value)) == (
        "message 1 of partition 1 of topic orders: the value is not UTF-8; "
        "a step with dead_letter sets such messages aside"
    )


def source_of(format: str) -> dict[str, Any]:
    return {"format": format, "schema": None if format == "text" else SCHEMA}


def test_a_message_that_does_not_fit_becomes_a_dead_letter_with_the_reason(spark: SparkSession) -> None:
    from warren.spark.pipelines.dead_letters import letters
    from warren.spark.pipelines.parse import with_columns

    reasons = {
        b'{"id": 1, "country": "de", "amount": "lots"}': "amount is not double",
        b'{"id": "x", "amount": "lots"}': "id is not bigint, amount is not double",
        b'{"country": "de"}': "id is missing",
        b'{"id": 1, "coun': "the value is not JSON",
        b"[1]": "the value is not a JSON object",
        b"null": "the value is not a JSON object",
        b" ": "the value is empty",
        b"\xff\xfe": "the value is not UTF-8",
        None: "there is no value",
    }
    good = [b'{"id": 1}', b'{"id": 1, "country": null, "other": [1]}']
    defined = definition(step=[{"dead_letter": "orders.dead"}])
    frame = messages(spark, *reasons, *good)

    dead = letters(frame, defined).collect()
    good_rows = with_columns(frame, defined).collect()

    headers = [{header["key"]: bytes(header["value"]).decode() for header in row.headers} for row in dead]
    assert [row["warren.dead-reason"] for row in headers] == list(reasons.values())
    assert [row["warren.dead-number"] for row in headers] == [str(number) for number in range(len(reasons))]
    place = {name: headers[0][f"warren.dead-{name}"] for name in ("topic", "partition", "group", "attempts")}
    assert place == {"topic": "orders", "partition": "1", "group": "p", "attempts": "1"}
    assert headers[0]["trace"] == "1"
    assert [None if row.value is None else bytes(row.value) for row in dead] == list(reasons)
    assert {(bytes(row.key), row.tag) for row in dead} == {(b"k", "eu.de")}
    assert [row.message_id for row in good_rows] == ["id-9", "id-10"]


def test_headers_are_dropped_if_they_leave_no_room_for_the_reason(spark: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    from warren.spark.pipelines.dead_letters import letters

    large = F.array(F.struct(F.lit("x").alias("key"), F.repeat(F.lit("x"), 65_000).cast("binary").alias("value")))
    frame = messages(spark, b"").withColumn("headers", large)

    (row,) = letters(frame, definition(step=[{"dead_letter": "orders.dead"}])).collect()

    assert len(row.headers) == 6


def test_a_csv_value_that_does_not_fit_is_reported_with_its_columns(spark: SparkSession) -> None:
    from warren.spark.pipelines.dead_letters import letters

    defined = definition(source={"format": "csv"}, step=[{"dead_letter": "orders.dead"}])

    (row,) = letters(messages(spark, b"x,de,1", b"1,de,1"), defined).collect()

    reasons = [bytes(header["value"]) for header in row.headers if header["key"] == "warren.dead-reason"]
    assert reasons == [b"the value does not fit the columns id, country, amount"]


def test_each_step_can_use_the_step_before_it_and_all_named_steps(spark: SparkSession, tmp_path: Path) -> None:
    from warren.spark.pipelines.steps import transformed

    (tmp_path / "my_steps.py").write_text(
        "from pyspark.sql import functions as F\n\n"
        "def twice(frame):\n    return frame.withColumn('n', double('n'))\n\n"
        "@F.udf('long')\ndef double(n):\n    return times(n)\n\n"
        "def times(n):\n    return 2 * n\n"
    )
    steps = [
        {"sql": "select offset n from input", "name": "all_rows"},
        {"python": "my_steps:twice"},
        {"sql": "select i.n, (select count(*) from all_rows) c from input i where n > 0"},
    ]
    spark.range(3).createOrReplaceTempView("input")

    frame = transformed(messages(spark, b"a", b"b", b"c"), definition(tmp_path, step=steps))

    assert sorted((row.n, row.c) for row in frame.collect()) == [(2, 3), (4, 3)]
    assert spark.table("input").columns == ["id"], "a view of the user's own came back"
    spark.catalog.dropTempView("input")
    assert not spark.catalog.tableExists("all_rows")


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (
            {"sql": "select amout from input"},
            "step 1: A column, variable, or function parameter with name `amout` cannot",
        ),
        ({"sql": "selct offset from input"}, "step 1: Syntax error at or near 'selct'"),
        ({"sql": "select * from gone"}, "step 1: The table or view `gone` cannot be found"),
        ({"python": "no_such_steps:f"}, "step 1.python: No module named 'no_such_steps'; modules are imported from "),
        ({"python": "json:f"}, "step 1.python: module 'json' has no function 'f'"),
        ({"python": "builtins:type"}, "step 1.python: builtins:type returned type, not a DataFrame"),
    ],
)
def test_an_invalid_step_is_refused_with_its_number_and_the_reason(
    spark: SparkSession, step: dict[str, Any], sentence: str
) -> None:
    from warren.spark.pipelines.steps import transformed

    with pytest.raises(BadPipeline) as refused:
        transformed(messages(spark, b"a"), definition(step=[step]))

    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_row_becomes_a_message_of_json(spark: SparkSession) -> None:
    from warren.spark.pipelines.sink import to_messages

    rows = spark.sql("select named_struct('start', 1) w, 'de' country, cast(null as double) total, 7 number")
    sink = {"topic": "out", "format": "json", "key": "country", "tag": "w.start", "id": "number"}

    (row,) = to_messages(rows, definition(sink=sink)).collect()

    assert json.loads(row.value) == {"w": {"start": 1}, "country": "de", "total": None, "number": 7}
    assert (row.key, row.tag, row.id) == ("de", "1", "7")


def test_a_message_is_passed_on_unchanged_or_with_another_key(spark: SparkSession) -> None:
    from warren.spark.pipelines.sink import to_messages

    binary = definition(sink={"topic": "out", "format": "binary"})
    text = definition(sink={"topic": "out", "format": "text", "key": "topic"})
    frame = messages(spark, b"body")

    (same,), (other,) = to_messages(frame, binary).collect(), to_messages(frame, text).collect()

    assert (bytes(same.value), bytes(same.key), same.tag, same.id) == (b"body", b"k", "eu.de", "id-0")
    assert same.headers[0]["key"] == "trace"
    assert (other.value, other.key) == ("body", "orders")


@pytest.mark.parametrize(
    ("sink", "sentence"),
    [
        ({"format": "text"}, 'sink.format: "text" needs a column `value`; the columns are a, b; rename one'),
        ({"format": "json", "key": "c"}, "sink.key: there is no column 'c'; the columns are a, b"),
    ],
)
def test_a_column_that_is_missing_is_named(spark: SparkSession, sink: dict[str, Any], sentence: str) -> None:
    from warren.spark.pipelines.sink import to_messages

    with pytest.raises(BadPipeline) as refused:
        to_messages(spark.sql("select 1 a, 2 b"), definition(sink={"topic": "out", **sink}))

    assert sentence in str(refused.value)
