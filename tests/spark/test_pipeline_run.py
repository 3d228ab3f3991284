"""Pipelines as a whole: from a topic, through Spark, to wherever the file says."""

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

    from warren.spark.pipelines.runner import Running

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


def test_each_run_goes_on_where_the_last_one_ended(spark: SparkSession, tmp_path: Path) -> None:
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
        "dead_letter puts such messages aside; what it finished is kept, and the next run goes on from there"
    )


def test_what_cannot_start_says_why_and_leaves_nothing_running(spark: SparkSession, tmp_path: Path) -> None:
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
