"""A pipeline in a process of its own, for a test that kills it: it prints its progress, and starts on a signal."""

from __future__ import annotations

import sys
from typing import Final

import warren.spark
from warren.spark.pipelines.run import silence

PIPELINE: Final = {
    "pipeline": {"name": "copy"},
    "source": {"topics": ["orders"], "format": "json", "schema": "id long not null", "max_per_trigger": 40},
    "step": [{"dead_letter": "orders.dead"}, {"sql": "select id, tag from input"}],
    "sink": {"topic": "copies", "format": "json", "tag": "tag", "partitions": 2},
}
LOOK_S: Final = 0.02


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def main(store: str, folder: str) -> None:
    conf = {
        "spark.driver.memory": "1g",
        "spark.local.dir": folder,
        "spark.sql.shuffle.partitions": "1",
    }
    spark = warren.spark.session("victim", "local[2]", conf)
    silence(spark)
    # What is loaded now need not be loaded by the first batch.
    spark.range(1).selectExpr("to_json(struct(id))").collect()
    say("ready")
    sys.stdin.readline()
    running = warren.spark.pipeline(spark, PIPELINE, store=store)
    say("started")
    while not running.wait(LOOK_S):
        for _ in running.news():
            say("batch")
    say("done")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
