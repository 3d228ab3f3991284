"""A topic as a table: the revenue of European orders by country."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import warren
import warren.spark
from warren.examples.demo.order_data import SCHEMA, put_orders

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


def main(spark: SparkSession, directory: Path) -> list[Row]:
    from pyspark.sql import functions as F  # noqa: N812

    store = directory / "data"
    with warren.open(store) as opened:
        put_orders(opened.topic("orders", partitions=2), 1000)

    messages = (
        spark.read.format("warren").option("path", str(store)).option("topics", "orders").option("tag", "eu.#").load()
    )
    orders = messages.select(F.from_json(F.col("value").cast("string"), SCHEMA.replace(" not null", "")).alias("order"))
    revenue = (
        orders.select("order.*")
        .groupBy("country")
        .agg(F.count("*").alias("orders"), F.round(F.sum("amount"), 2).alias("revenue"))
        .orderBy(F.desc("revenue"))
    )
    revenue.show()
    return revenue.collect()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="warren-example-") as folder:
        main(warren.spark.session("example"), Path(folder))
