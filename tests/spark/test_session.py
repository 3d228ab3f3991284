"""A session of Warren: from installed packages, tuned, and quiet."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

import warren.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_job_runs_in_python_workers(spark: SparkSession) -> None:
    def doubled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"id": pa.array([2 * number for number in batch["id"].to_pylist()], pa.int64())})

    rows = spark.range(10).mapInArrow(doubled, "id long").collect()

    assert [row.id for row in rows] == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]


def test_python_workers_use_unix_sockets_and_the_same_python(spark: SparkSession) -> None:
    def describe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import sys

        for _ in batches:
            yield pa.record_batch({"by": [os.environ["PYTHON_UNIX_DOMAIN_ENABLED"]], "python": [sys.executable]})

    worker = spark.range(1).mapInArrow(describe, "by string, python string").first()

    assert worker is not None
    assert (worker.by.lower(), worker.python) == ("true", sys.executable)


def test_warren_spark_session_returns_the_running_session(spark: SparkSession) -> None:
    joined = warren.spark.session(conf={"spark.sql.shuffle.partitions": "3"})

    assert joined is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    spark.conf.set("spark.sql.shuffle.partitions", "2")
