"""Pipelines as a whole: from a topic, through Spark, to any target of the file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import warren
from warren.errors import BadPipeline, NoSuchTopic, NotAStore, PipelineBusy, PipelineFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from warren.spark.pipelines.run import Running

WAIT_S = 120.0
ORDERS = {"topics": ["orders"], "format": "json", "schema": "id long not null, country string, amount double"}


def put(store: Path, *bodies: bytes, topic: str = "orders", partitions: int | None = None) -> None:
    with warren.open(store, keeps=False) as opened:
        opened.topic(topic, partitions).put_many(bodies, tag="eu.de")


def order(id: int, country: str = "de", amount: float = 1.0) -> bytes:
    return json.dumps({"id": id, "country": country, "amount": amount}).encode()


def bodies(store: Path, topic: str) -> list[bytes]:
    with warren.open(store, keeps=False) as opened:
        return [message.body for message in opened.existing_topic(topic).since(0)]


def start(spark: SparkSession, store: Path, sink: dict[str, Any], steps: Sequence[Any] = (), **head: Any) -> Running:
    from warren.spark import pipeline

    source = ORDERS | head.pop("source", {})
    tables = {"pipeline": {"name": "p", **head}, "source": source, "step": list(steps), "sink": sink}
    return pipeline(spark, tables, store=store)


def run(spark: SparkSession, store: Path, sink: dict[str, Any], steps: Sequence[Any] = (), **head: Any) -> Running:
    running = start(spark, store, sink, steps, **head)
    assert running.wait(WAIT_S)
    return running


def test_each_run_continues_after_the_last_one(spark: SparkSession, tmp_path: Path) -> None:
    store, rows = tmp_path / "store", tmp_path / "rows"
    put(store, order(0), order(1), partitions=2)
    sink = {"parquet": str(rows)}

    first = run(spark, store, sink).progress()
    put(store, order(2))
    second = run(spark, store, sink).progress()

    assert (first.messages, first.behind, second.messages, second.behind) == (2, 0, 1, 0)
    assert sorted(row.id for row in spark.read.parquet(str(rows)).collect()) == [0, 1, 2]
    assert (store / "pipelines" / "p" / "checkpoint" / "rows").is_dir()


def test_a_pipeline_runs_once_at_a_time_and_stops_between_batches(spark: SparkSession, tmp_path: Path) -> None:
    store, rows = tmp_path / "store", tmp_path / "rows"
    put(store, *map(order, range(5)))
    sink = {"parquet": str(rows)}
    running = start(spark, store, sink, trigger="continuous", source={"max_per_trigger": 2})

    with pytest.raises(PipelineBusy, match=r"pipeline 'p' of the store .* runs already"):
        start(spark, store, sink)
    while running.progress().messages < 5:
        assert not running.wait(0.1)
    running.stop()

    assert not running.is_active
    assert spark.read.parquet(str(rows)).count() == 5
    put(store, order(5))
    assert run(spark, store, sink).progress().messages == 1


def test_a_message_that_does_not_parse_stops_the_pipeline_with_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, order(0), b"{")

    with pytest.raises(PipelineFailed) as stopped:
        run(spark, tmp_path, {"parquet": str(tmp_path / "rows")})

    assert str(stopped.value) == (
        "pipeline 'p' stopped: message 1 of partition 0 of topic orders: the value is not JSON; a step with "
        "dead_letter sets such messages aside; finished batches are kept, and the next run continues after them"
    )


def fails_by_chance(times: int, tried: Path) -> str:
    """The source of a step that fails this often, as Spark does on a machine that is too busy."""
    return f"""
import os
def flaky(frame):
    def passed(batches):
        with open({str(tried)!r}, "a") as log:
            log.write(".")
        if os.path.getsize({str(tried)!r}) <= {times}:
            raise RuntimeError("Python worker failed to connect back")
        yield from batches
    return frame.mapInArrow(passed, frame.schema)
"""


@pytest.mark.parametrize(("times", "is_saved"), [(2, True), (100, False)])
def test_a_query_that_spark_fails_by_chance_is_started_again_a_limited_number_of_times(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, is_saved: bool
) -> None:
    store, rows, name = tmp_path / "store", tmp_path / "rows", f"flaky_{times}"
    put(store, *map(order, range(5)))
    (tmp_path / f"{name}.py").write_text(fails_by_chance(times, tmp_path / "tried"))
    monkeypatch.syspath_prepend(str(tmp_path))

    running = start(spark, store, {"parquet": str(rows)}, [{"python": f"{name}:flaky"}])

    if is_saved:
        assert running.wait(WAIT_S)
        assert sorted(row.id for row in spark.read.parquet(str(rows)).collect()) == list(range(5))
    else:
        with pytest.raises(PipelineFailed, match="failed to connect back"):
            running.wait(WAIT_S)
        assert not running.is_active


def test_a_pipeline_that_cannot_start_reports_why_and_leaves_nothing_running(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path, order(0))
    console = {"console": True}

    with pytest.raises(NotAStore):
        start(spark, tmp_path / "none", console)
    with pytest.raises(BadPipeline, match=r"step 1: .*`amout` cannot be resolved"):
        start(spark, tmp_path, console, [{"sql": "select amout from input"}])
    with pytest.raises(BadPipeline, match=r"source.schema: "):
        start(spark, tmp_path, console, source={"schema": "id lung"})
    with pytest.raises(BadPipeline, match=r"sink: .*update"):
        start(spark, tmp_path, {"parquet": "x", "mode": "update"})
    with pytest.raises(NoSuchTopic):
        start(spark, tmp_path, console, source={"topics": ["gone"]})

    assert spark.streams.active == []


def test_the_example_of_the_documents_counts_each_order_once(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, order(0, "de", 1.5), order(1, "fr", 2.0), order(2, "de", 1.0), partitions=2)
    step = {
        "sql": "select window(timestamp, '1 minute') w, country, sum(amount) total from input group by 1, 2",
        "watermark": "timestamp 30 seconds",
    }
    sink = {"topic": "revenue", "format": "json", "key": "country", "mode": "update", "partitions": 2}

    run(spark, tmp_path, sink, [step], source={"tag": "eu.#"})
    put(tmp_path, order(3, "de", 4.0))
    run(spark, tmp_path, sink, [step], source={"tag": "eu.#"})

    with warren.open(tmp_path, keeps=False) as opened:
        messages = list(opened.existing_topic("revenue").since(0))
    rows = [json.loads(message.body) for message in messages]
    assert {message.key for message in messages} == {b"de", b"fr"}
    assert set(rows[0]) == {"w", "country", "total"}
    assert set(rows[0]["w"]) == {"start", "end"}
    totals = {(row["w"]["start"], row["country"]): row["total"] for row in rows}
    assert sum(total for (_, country), total in totals.items() if country == "de") == 6.5
    assert sum(total for (_, country), total in totals.items() if country == "fr") == 2.0


def test_unparsable_messages_are_set_aside_once_and_the_rest_continues(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, order(0), b"{", b'{"id": "x"}', order(1))
    steps = [{"dead_letter": "orders.dead"}, {"sql": "select id from input"}]
    sink = {"topic": "ids", "format": "json"}

    run(spark, tmp_path, sink, steps)
    put(tmp_path, b"", order(2))
    run(spark, tmp_path, sink, steps)
    run(spark, tmp_path, sink, steps)

    with warren.open(tmp_path, keeps=False) as opened:
        letters = list(opened.existing_topic("orders.dead").since(0))
    assert sorted(bodies(tmp_path, "ids")) == [b'{"id":0}', b'{"id":1}', b'{"id":2}']
    assert [letter.body for letter in letters] == [b"{", b'{"id": "x"}', b""]
    assert [letter.headers["warren.dead-reason"].decode() for letter in letters] == [
        "the value is not JSON",
        "id is not bigint",
        "the value is empty",
    ]
    assert [letter.headers["warren.dead-number"] for letter in letters] == [b"1", b"2", b"4"]
    assert {letter.tag for letter in letters} == {"eu.de"}


def test_a_message_that_came_before_is_dropped_also_in_a_later_run(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, order(0), order(0), order(1))
    steps = [{"dedupe": ["id"], "within": "1 hour"}, {"sql": "select id, value from input", "name": "rows"}]
    sink = {"topic": "once", "format": "binary", "key": "id"}

    run(spark, tmp_path, sink, steps)
    put(tmp_path, order(1), order(2))
    run(spark, tmp_path, sink, steps)

    assert sorted(bodies(tmp_path, "once")) == [order(0), order(1), order(2)]


def test_rows_go_to_a_table_in_a_directory_for_each_value(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, order(0, "de"), order(1, "fr"))
    sink = {"table": "pipeline_rows", "partition_by": ["country"]}

    run(spark, tmp_path, sink, [{"sql": "select id, country from input"}], source={"columns": ["timestamp"]})

    assert sorted(tuple(row) for row in spark.table("pipeline_rows").collect()) == [(0, "de"), (1, "fr")]
    spark.sql("drop table pipeline_rows")


def test_the_group_of_a_pipeline_shows_how_far_it_came(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, order(0), order(1))

    run(spark, tmp_path, {"console": True})
    put(tmp_path, order(2))

    with warren.open(tmp_path, keeps=False) as opened:
        topic = opened.existing_topic("orders")
        assert topic.groups() == ["p"]
        with topic.group("p") as group:
            # Everything that the run has read is done, including its last batch.
            assert sum(group.lag().values()) == 1


def test_two_pipelines_write_one_topic_and_every_message_exists_once(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, *map(order, range(40)))
    put(tmp_path, *map(order, range(40, 80)), topic="more")
    sink = {"topic": "all", "format": "binary", "partitions": 2}

    first = start(spark, tmp_path, sink, source={"max_per_trigger": 7}, name="a")
    second = start(spark, tmp_path, sink, source={"topics": ["more"], "max_per_trigger": 7}, name="b")

    assert first.wait(WAIT_S)
    assert second.wait(WAIT_S)
    assert sorted(bodies(tmp_path, "all")) == sorted(map(order, range(80)))
