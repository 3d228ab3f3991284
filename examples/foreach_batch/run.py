"""Your own code for each batch, called twice, and still every message once."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import warren
import warren.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAYMENTS = [b"5", b"120", b"40", b"999", b"7"]
LARGE = 100


def main(spark: SparkSession, directory: Path) -> dict[str, list[bytes]]:
    store = str(directory / "data")
    with warren.open(store) as opened:
        opened.topic("payments").put_many(PAYMENTS)

    def write(batch: DataFrame, number: int) -> None:
        for _ in range(2):
            for topic, rows in {"booked": batch, "checked": batch.where(f"CAST(value AS INT) > {LARGE}")}.items():
                once = rows.select("value").write.format("warren").option("path", store).option("topic", topic)
                once.option("txnAppId", "example-1").option("txnVersion", number).mode("append").save()

    payments = spark.readStream.format("warren").options(path=store, topics="payments", maxOffsetsPerTrigger=2)
    start = (
        payments.option("startingOffsets", "earliest").load().selectExpr("CAST(value AS STRING) AS value").writeStream
    )
    query = start.foreachBatch(write).option("checkpointLocation", str(directory / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()

    with warren.open(store) as opened:
        results = {name: [message.body for message in opened.topic(name).since(0)] for name in ("booked", "checked")}
    print(results)
    return results


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="warren-example-") as folder:
        main(warren.spark.session("example"), Path(folder))
