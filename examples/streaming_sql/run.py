"""A pipeline in a file, run twice: visits by page and minute."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import warren
import warren.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = Path(__file__).with_name("visits.toml")
FIRST = [("/", "ann", "12:00:10"), ("/", "ann", "12:00:20"), ("/", "bob", "12:00:30"), ("/cart", "bob", "12:00:40")]
LATER = [("/", "ann", "12:05:00"), ("/cart", "cem", "12:30:00"), ("/", "cem", "12:31:00")]


def main(spark: SparkSession, directory: Path) -> list[dict[str, Any]]:
    store = directory / "data"
    for visits in (FIRST, LATER):
        put(store, visits)
        running = warren.spark.pipeline(spark, PIPELINE, store=store)
        running.wait()
        print(running.progress())

    with warren.open(store) as opened:
        rows = [json.loads(message.body) for message in opened.topic("busy_pages").since(0)]
    for row in rows:
        print(row)
    return rows


def put(store: Path, visits: list[tuple[str, str, str]]) -> None:
    bodies = [json.dumps({"page": page, "visitor": who, "at": f"2026-03-01T{at}Z"}) for page, who, at in visits]
    with warren.open(store) as opened:
        opened.topic("visits").put_many([body.encode() for body in bodies])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="warren-example-") as folder:
        main(warren.spark.session("example"), Path(folder))
