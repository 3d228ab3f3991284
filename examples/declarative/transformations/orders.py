"""Orders of a topic as a table, their totals as a view, and the large ones in a separate topic."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession, functions

STORE = os.environ["WARREN_STORE"]
spark = SparkSession.active()


@dp.table
def orders() -> DataFrame:
    return (
        spark.readStream.format("warren")
        .schema("offset long, timestamp timestamp, country string, amount double")
        .options(topics="orders", startingOffsets="earliest", valueFormat="json")
        .load(STORE)
    )


@dp.materialized_view
def totals() -> DataFrame:
    return spark.read.table("orders").groupBy("country").agg(functions.sum("amount").alias("total"))


dp.create_sink("large_orders", "warren", {"path": STORE, "topic": "large", "valueFormat": "json"})


@dp.append_flow(target="large_orders")
def large() -> DataFrame:
    return spark.readStream.table("orders").where("amount >= 100").select("country", "amount")
