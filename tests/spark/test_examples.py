"""Every example does what its README says; those that need a Spark session share one."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tidy.documents import fenced, needs_spark
from tests.tidy.source import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = ROOT / "examples"


def example(name: str) -> Any:
    return import_module(f"examples.{name}.run")


def test_a_topic_is_a_table(spark: SparkSession, tmp_path: Path) -> None:
    rows = example("batch_query").main(spark, tmp_path)

    assert {row["country"] for row in rows if row["country"]} == {"de", "fr", "it", "es", "nl"}
    assert rows[0]["revenue"] > rows[-1]["revenue"]


def test_a_pipeline_continues_at_its_position(spark: SparkSession, tmp_path: Path) -> None:
    rows = example("streaming_sql").main(spark, tmp_path)

    counts = {(row["minute"][11:16], row["page"]): row["visits"] for row in rows}
    assert counts == {("12:00", "/"): 2, ("12:00", "/cart"): 1}


def test_a_query_for_kafka_runs_with_another_format(spark: SparkSession, tmp_path: Path) -> None:
    counts = example("kafka_style").main(spark, tmp_path)

    assert (counts["a"], counts["burrow"], counts["many"]) == (4, 2, 1)


def test_a_batch_that_is_written_twice_exists_once(spark: SparkSession, tmp_path: Path) -> None:
    bodies = example("foreach_batch").main(spark, tmp_path)

    assert bodies == {"booked": [b"5", b"120", b"40", b"999", b"7"], "checked": [b"120", b"999"]}


def test_archived_messages_are_read_back(spark: SparkSession, tmp_path: Path) -> None:
    counts = example("archive_and_replay").main(spark, tmp_path)

    assert counts["archived first"] + counts["archived then"] == counts["in the table"] == 1500
    assert 80 < counts["replayed"] < 160


def test_the_revenue_pipeline_counts_every_good_order_and_puts_the_others_aside(
    spark: SparkSession, tmp_path: Path
) -> None:
    orders, reasons = example("revenue").main(spark, tmp_path)

    assert sum(orders.values()) == 10_000 - sum(reasons.values())
    assert set(reasons) == {
        "amount is not double",
        "id is missing",
        "the value is not JSON",
        "the value is not UTF-8",
    }


def test_every_lesson_has_a_readme_and_is_in_the_list() -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__"}

    listed = (EXAMPLES / "README.md").read_text()
    assert all(f"[{name}]" in listed for name in folders)
    assert all((EXAMPLES / name / "README.md").exists() for name in folders - {"declarative"})


def test_the_example_of_the_readme_counts_the_messages_of_the_first_one(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = fenced((ROOT / "README.md").read_text(), "python")
    (query,) = (example for example in others if needs_spark(example))

    for example in (first, query):
        # A relative path starts in the directory in which the JVM of the shared session was started.
        exec(example.replace('"data"', repr(str(tmp_path / "data"))), {})

    output = capsys.readouterr().out
    assert "|eu.de|    1|" in output
    assert "|eu.fr|    2|" in output
