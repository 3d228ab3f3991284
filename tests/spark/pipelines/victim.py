"""Pipelines in their own process, for a test that kills it: they start on command, and print their progress."""

from __future__ import annotations

import sys
from typing import Any, Final

import warren.spark
from warren.spark.pipelines.run import silence

PIPELINES: Final = ("north", "south")
QUERIES: Final = 2
"""A pipeline has a query for the rows and one for what could not be parsed."""
COPIES: Final = ".copies"
LETTERS: Final = ".dead"
"""The topics of a pipeline are its name and one of these."""
LOOK_S: Final = 0.02


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def definition(name: str, at_once: int) -> dict[str, Any]:
    """Copies messages that can be parsed to one topic, and puts the others into another."""
    orders = {"topics": ["orders"], "format": "json", "schema": "id long not null", "max_per_trigger": at_once}
    return {
        "pipeline": {"name": name},
        "source": orders,
        "step": [{"dead_letter": name + LETTERS}, {"sql": "select id, tag from input"}],
        "sink": {"topic": name + COPIES, "format": "json", "tag": "tag", "partitions": 2},
    }


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
    at_once = int(sys.stdin.readline())
    running = [warren.spark.pipeline(spark, definition(name, at_once), store=store) for name in PIPELINES]
    say("started")
    while running:
        for pipeline in tuple(running):
            is_done = pipeline.wait(LOOK_S)
            for _ in pipeline.news():
                say("batch")
            if is_done:
                running.remove(pipeline)
    say("done")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
