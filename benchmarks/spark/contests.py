"""The cost of Warren on Spark: reading, writing, archiving and waiting, compared with Spark's own for the same."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

import warren.spark
from benchmarks.measure import Contestant, Figure, NotMeasured, Row, at_least, at_most, rates, times
from benchmarks.spark.constant import ConstantSource
from benchmarks.spark.data import (
    BATCH,
    DAYS,
    FIRST_DAY_S,
    LARGE_BATCH,
    RARE_TAG,
    TOPIC,
    orders_store,
    small_store,
    value_size,
)
from benchmarks.workspace import Contest, Workspace

CORES: Final = 2
NARROW: Final = "offset long, timestamp timestamp, value binary"
EVERY: Final = (
    "topic string, partition int, offset long, timestamp timestamp, key binary, value binary, id string, tag string, "
    "corr_offset long, byte_offset long"
)
BATCH_WAIT_S_MAX: Final = 60.0
WARM_UP_BATCHES: Final = 5
WARM_UP_READS: Final = 3
READING_ROUNDS_EACH: Final = 5
"""How many rounds reading gets for each round of the others."""
DAY: Final = 17


@cache
def session() -> SparkSession:
    """One session for the whole run: two cores, as for every ratio."""
    spark = warren.spark.session("benchmarks", f"local[{CORES}]")
    spark.dataSource.register(ConstantSource)
    return spark


def to_nowhere(frame: DataFrame) -> float:
    """Returns the seconds until every row of every column has come to Spark."""
    start = perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return perf_counter() - start


def warmed(contestants: Sequence[Contestant], times: int = 1) -> Sequence[Contestant]:
    """The same, after each has run this often, because a JVM is slow at first."""
    for _ in range(times):
        for contestant in contestants:
            contestant.run()
    return contestants


def reading_rounds(workspace: Workspace) -> int:
    """A measurement of a second varies by a third from round to round, so it gets more rounds."""
    return workspace.scale.rounds * READING_ROUNDS_EACH


def messages(store: Path, schema: str | None = None, **options: str) -> DataFrame:
    reader = session().read.format("warren").option("path", str(store)).option("topics", TOPIC).options(**options)
    return (reader if schema is None else reader.schema(schema)).load()


def constant(schema: str, rows: int, batch: int) -> DataFrame:
    options = {"rows": str(rows), "tasks": str(CORES), "batch": str(batch), "size": str(value_size())}
    return session().read.format("constant").options(**options).schema(schema).load()


def parquet(workspace: Workspace) -> Path:
    """The same rows as Spark writes them."""
    path = workspace.directory / "rows.parquet"
    if not path.exists():
        workspace.step("writing Parquet")
        messages(orders_store(workspace)).write.option("compression", "zstd").parquet(str(path))
    return path


# --- Reading ---


def read(workspace: Workspace) -> Sequence[Row]:
    rows = workspace.scale.rows
    large, small = (orders_store(workspace, batch=batch) for batch in (LARGE_BATCH, BATCH))
    table = session().read.parquet(str(parquet(workspace)))
    names = [part.split()[0] for part in NARROW.split(", ")]
    contestants = [
        Contestant("constant batches, 3 columns", rows, lambda: to_nowhere(constant(NARROW, rows, LARGE_BATCH))),
        Contestant("offset, timestamp, value", rows, lambda: to_nowhere(messages(large, NARROW))),
        Contestant("constant batches, 10 columns", rows, lambda: to_nowhere(constant(EVERY, rows, LARGE_BATCH))),
        Contestant("every column", rows, lambda: to_nowhere(messages(large))),
        Contestant("small constant batches, 3 columns", rows, lambda: to_nowhere(constant(NARROW, rows, BATCH))),
        Contestant("offset, timestamp, value of small batches", rows, lambda: to_nowhere(messages(small, NARROW))),
        Contestant("Spark reading Parquet, zstd", rows, lambda: to_nowhere(table.select(*names))),
    ]
    limit, narrow, every_limit, every, small_limit, small_narrow, columnar = rates(
        warmed(contestants, WARM_UP_READS), reading_rounds(workspace), median
    )
    what = "batch read, offset + timestamp + value, to nowhere"
    compared = [
        ("narrow", f"{what}, batches of {LARGE_BATCH:,}", limit, narrow, 0.9),
        ("every", f"batch read, every column, to nowhere, batches of {LARGE_BATCH:,}", every_limit, every, 0.8),
        ("small", f"{what}, batches of {BATCH:,}", small_limit, small_narrow, 0.9),
        ("parquet", what, columnar, narrow, 0.5),
    ]
    return [
        Row(name=f"spark.read.{name}", what=what, baseline=baseline, measured=measured, bar=at_least(bar))
        for name, what, baseline, measured, bar in compared
    ]


# --- Picking ---


def picked(workspace: Workspace) -> Sequence[Row]:
    store, rows = orders_store(workspace), []
    day = {
        "startingTimestamp": str((FIRST_DAY_S + DAY * 86_400) * 1000),
        "endingTimestamp": str((FIRST_DAY_S + (DAY + 1) * 86_400) * 1000),
    }
    for name, what, options in (
        ("time", f"one day of {DAYS} by time", day),
        ("tag", "one message in 100 by tag", {"tag": RARE_TAG}),
    ):
        contestants = [
            Contestant("the whole read", 1, lambda: to_nowhere(messages(store))),
            Contestant(what, 1, lambda options=options: to_nowhere(messages(store, **options))),  # type: ignore[misc]
        ]
        whole, part = times(warmed(contestants, WARM_UP_READS), reading_rounds(workspace), median)
        rows.append(Row(name=f"spark.picked.{name}.time", what=what, baseline=whole, measured=part, bar=at_most(0.1)))
        rows.append(
            Row(
                name=f"spark.picked.{name}.bytes",
                what=f"{what}: bytes that come from disk",
                baseline=Figure(name="the blocks", value=float(sum(sizes(store).values())), unit="B"),
                measured=Figure(name=what, value=float(bytes_read(store, messages(store, **options))), unit="B"),
                bar=at_most(0.05),
            )
        )
    return rows


def sizes(store: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in store.rglob("*.block")}


def bytes_read(store: Path, frame: DataFrame) -> int:
    """Returns how much of the blocks is in the page cache after reading `frame`, when none of it was before."""
    for path in sizes(store):
        forget_cached(path)
    before = cached(store)
    to_nowhere(frame)
    return cached(store) - before


def forget_cached(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def cached(store: Path) -> int:
    """Bytes of the blocks that are in the page cache."""
    command = ["fincore", "--bytes", "--noheadings", "--output", "RES", *map(str, sizes(store))]
    try:
        completed = subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise NotMeasured("fincore (util-linux) is not installed") from error
    return sum(map(int, completed.stdout.split()))


# --- Writing ---


def written(workspace: Workspace) -> Sequence[Row]:
    rows, source = workspace.scale.rows, session().read.parquet(str(parquet(workspace)))
    frame = source.select("value", "key", "tag")

    def to_warren() -> float:
        store = workspace.fresh("written")
        with warren.open(store, keeps=False) as made:
            made.topic(TOPIC, partitions=4)
        start = perf_counter()
        frame.write.format("warren").option("topic", TOPIC).mode("append").save(str(store))
        return perf_counter() - start

    contestants = [
        Contestant("Spark writing Parquet, zstd", rows, lambda: to_parquet(frame, workspace)),
        Contestant("format warren", rows, to_warren),
    ]
    theirs, ours = rates(warmed(contestants), workspace.scale.rounds)
    what = "write from a DataFrame: value, key, tag"
    return [Row(name="spark.written", what=what, baseline=theirs, measured=ours, bar=at_least(0.5))]


def to_parquet(frame: DataFrame, workspace: Workspace) -> float:
    target = workspace.fresh("written.parquet")
    start = perf_counter()
    frame.write.option("compression", "zstd").parquet(str(target))
    seconds = perf_counter() - start
    shutil.rmtree(target)
    return seconds


# --- Archiving ---


def archived(workspace: Workspace) -> Sequence[Row]:
    from warren.spark.archive import archive

    # Of one day: by date they are few files, as on the other side.
    store, rows = orders_store(workspace, days=1), workspace.scale.rows

    def ours() -> float:
        target = workspace.fresh("archive")
        start = perf_counter()
        archive(session(), str(store), str(target), [TOPIC])
        return perf_counter() - start

    contestants = [
        Contestant("df.write.parquet, zstd", rows, lambda: to_parquet(messages(store), workspace)),
        Contestant("archive", rows, ours),
    ]
    theirs, mine = rates(warmed(contestants), workspace.scale.rounds)
    return [
        Row(name="spark.archived", what="archive to Parquet, zstd", baseline=theirs, measured=mine, bar=at_least(3))
    ]


# --- Waiting ---


def micro_batches(workspace: Workspace) -> Sequence[Row]:
    count = workspace.scale.micro_batches + WARM_UP_BATCHES
    rate = session().readStream.format("rate").option("rowsPerSecond", 1).load()
    with small_store(workspace.fresh("small")) as store:
        stream = session().readStream.format("warren").option("path", store.path).option("topics", TOPIC).load()
        topic = store.topic(TOPIC)
        ours = batch_seconds(stream, workspace.fresh("ours"), count, lambda: topic.put(b"x" * value_size()))
        theirs = batch_seconds(rate, workspace.fresh("theirs"), count, lambda: None)
    figures = [
        Figure(name=name, value=median(samples), unit="s", samples=samples)
        for name, samples in (("rate source", theirs), ("format warren", ours))
    ]
    what = "a micro-batch of one message, to nowhere"
    return [
        Row(name="spark.micro_batch", what=what, baseline=figures[0], measured=figures[1], bar=at_most(2)),
    ]


def batch_seconds(stream: DataFrame, checkpoint: Path, count: int, put: Callable[[], Any]) -> list[float]:
    """Returns the time of each micro-batch with rows; the first ones, which warm up, are omitted."""
    seconds_by_batch: dict[int, float] = {}
    query = stream.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    try:
        for _ in range(count):
            put()
            count_before, deadline = len(seconds_by_batch), perf_counter() + BATCH_WAIT_S_MAX
            while len(seconds_by_batch) == count_before and perf_counter() < deadline:
                sleep(0.02)
                for progress in query.recentProgress:
                    if progress["numInputRows"]:
                        seconds_by_batch[progress["batchId"]] = progress["durationMs"]["triggerExecution"] / 1000
    finally:
        query.stop()
    return list(seconds_by_batch.values())[WARM_UP_BATCHES:]


CONTESTS: Final = (
    Contest("spark.read", read),
    Contest("spark.picked", picked),
    Contest("spark.written", written),
    Contest("spark.archived", archived),
    Contest("spark.micro_batch", micro_batches),
)
