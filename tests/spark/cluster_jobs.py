"""The work of the driver in the tests on a cluster; started by spark-submit, it prints one line of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import warren.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMEOUT_S: Final = 400


def where(spark: SparkSession) -> Any:
    """Returns the processes of the cluster that ran a task, and the place of their Warren."""

    def describe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        import warren

        for _ in batches:
            yield pa.record_batch({"file": [warren.__file__], "parent": [os.getppid()]})

    rows = spark.range(8, numPartitions=8).mapInArrow(describe, "file string, parent long").collect()
    return {"files": sorted({row.file for row in rows}), "parents": sorted({row.parent for row in rows})}


def batch(spark: SparkSession, store: str) -> Any:
    """Returns the result of a batch read of the topic orders."""
    rows = read(spark, store, "orders").selectExpr("cast(value as string) value", "partition").collect()
    return {"values": sorted(row.value for row in rows), "partitions": sorted({row.partition for row in rows})}


def write(spark: SparkSession, store: str) -> Any:
    """Writes the same batch twice under one name, as by a job that was started again."""
    rows = spark.range(0, 1000, 1, 4).selectExpr("cast(id as string) value", "cast(id % 7 as string) key")
    for _ in range(2):
        (
            rows.write.format("warren")
            .mode("append")
            .option("topic", "written")
            .options(txnAppId="nightly", txnVersion="7")
            .save(store)
        )
    return {}


def copy(spark: SparkSession, store: str, checkpoint: str, at_once: str) -> Any:
    """Copies every message of the topic orders to the topic copies, a limited number per batch; a restart continues."""
    rows = (
        spark.readStream.format("warren")
        .options(topics="orders", startingOffsets="earliest", maxOffsetsPerTrigger=at_once, minPartitions="2")
        .load(store)
    )
    query = (
        rows.select("key", "value", "tag")
        .writeStream.format("warren")
        .option("topic", "copies")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(store)
    )
    assert query.awaitTermination(TIMEOUT_S)
    return {"batches": sum(1 for _ in query.recentProgress)}


def read(spark: SparkSession, store: str, topic: str) -> DataFrame:
    return spark.read.format("warren").option("topics", topic).load(store)


JOBS: Final[Mapping[str, Callable[..., Any]]] = {"where": where, "batch": batch, "write": write, "copy": copy}


def main(jobs: str) -> None:
    """Runs the jobs, given as a JSON list of names with their arguments, one after the other."""
    spark = warren.spark.session("cluster test")
    sys.stdout.write(json.dumps([JOBS[name](spark, *arguments) for name, *arguments in json.loads(jobs)]) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
