"""A query that was written for Kafka, with another format and no other change."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import warren
import warren.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LINES = [b"a rabbit digs a burrow", b"a warren is a burrow of many"]


def main(spark: SparkSession, directory: Path) -> dict[str, int]:
    store = directory / "data"
    with warren.open(store) as opened:
        opened.topic("lines", partitions=2).put_many(LINES, keys=[b"1", b"2"])

    query = word_count(spark, store, directory / "checkpoint")
    query.awaitTermination()

    counts = {row["word"]: row["count"] for row in spark.table("words").collect()}
    print(counts)
    return counts


def word_count(spark: SparkSession, store: Path, checkpoint: Path) -> StreamingQuery:
    lines = (
        spark.readStream.format("warren")
        .option("path", str(store))
        .option("subscribe", "lines")
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .load()
        .selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "topic", "partition", "offset", "timestamp")
    )
    words = lines.selectExpr("explode(split(value, ' ')) AS word").groupBy("word").count()
    return (
        words.writeStream.format("memory")
        .queryName("words")
        .outputMode("complete")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="warren-example-") as folder:
        main(warren.spark.session("example"), Path(folder))
