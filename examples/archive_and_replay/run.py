"""Messages to Parquet, verified, and some of them back into a topic."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import warren
import warren.spark
from warren.examples.demo.order_data import put_orders
from warren.spark.archive import archive, verify
from warren.spark.jobs.replay import replay
from warren.spark.jobs.selection import Selection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(spark: SparkSession, directory: Path) -> dict[str, int]:
    store, archive_folder = str(directory / "data"), str(directory / "archive")
    with warren.open(store) as opened:
        orders = opened.topic("orders", partitions=2)
        put_orders(orders, 1000, delay_s=0)
        first = archive(spark, store, archive_folder, ["orders"])
        put_orders(orders, 500, seed=2, delay_s=0)
        second = archive(spark, store, archive_folder, ["orders"])
    assert verify(spark, archive_folder, store).is_good

    table = spark.read.format("warren").options(path=store, topics="orders", archive=archive_folder).load()
    japan = replay(
        spark, Selection(store=store, topics=["orders"], archive=archive_folder, tag="asia.jp"), "orders.jp", name="jp"
    )
    results = {
        "archived first": first.count,
        "archived then": second.count,
        "in the table": table.count(),
        "replayed": japan.messages,
    }
    print(results)
    return results


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="warren-example-") as folder:
        main(warren.spark.session("example"), Path(folder))
