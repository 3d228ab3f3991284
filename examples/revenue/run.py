"""Revenue by country, and the messages that are not orders, with the reason."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import warren
import warren.spark
from warren.examples.demo.order_data import put_orders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = Path(__file__).parents[1] / "demo" / "revenue.toml"


def main(spark: SparkSession, directory: Path) -> tuple[Counter[str], Counter[str]]:
    store = directory / "data"
    with warren.open(store) as opened:
        put_orders(opened.topic("orders", partitions=2), 10_000, delay_s=0)
        opened.keep()

    warren.spark.pipeline(spark, PIPELINE, store=store).wait()

    with warren.open(store) as opened:
        slots = {message.key: json.loads(message.body) for message in opened.topic("revenue").since(0)}
        letters = [message.headers["warren.dead-reason"].decode() for message in opened.topic("orders.dead").since(0)]
    orders: Counter[str] = Counter()
    for slot in slots.values():
        orders[slot["country"]] += slot["orders"]
    reasons = Counter(letters)
    print("orders:", dict(orders))
    print("dead letters:", dict(reasons))
    return orders, reasons


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="warren-example-") as folder:
        main(warren.spark.session("example"), Path(folder))
