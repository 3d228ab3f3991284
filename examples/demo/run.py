"""The whole story in one run: orders into a store, revenue and an archive out of it, on a Spark of this machine."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import as_file, files
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from rich.console import Console

import warren
import warren.spark
from warren.cli.output.rates import Stage, Stopwatch, rates_json, rates_table
from warren.cli.output.tables import write_json
from warren.cli.running.bar import progress_bars
from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import BadInput, SparkMissing
from warren.examples.demo.order_data import put_orders
from warren.examples.demo.results import (
    countries,
    draw,
    reasons_of,
    show_archive,
    show_dead_letters,
    show_revenue,
    slots,
)
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, remove_tree

DEMO_DELIVERY_S_MAX: Final = 30.0
"""How long the demo waits for what it put with a delay."""

PARTITIONS: Final = 4
MARKER: Final = "demo.txt"
"""A file in each directory that the demo made. The demo removes only a directory that has it."""
POLL_S: Final = 0.1
TOPIC: Final = "orders"
DEAD_TOPIC: Final = "orders.dead"
REVENUE_TOPIC: Final = "revenue"


class Outcome(NamedTuple):
    """What the run made: what was archived, and what the comparison of the archive with the log found."""

    archived: Any
    verification: Any


def main(orders: int, directory: str, *, is_json: bool = False) -> None:
    """Writes orders to a new store in `directory`, runs the pipeline and the archive on Spark, and shows the results.

    Raises SparkMissing if Spark is not installed, and BadInput if `directory` exists and no demo made it.
    """
    console = Console(highlight=False, stderr=is_json)
    path = fresh_directory(directory)
    store = os.path.join(path, "store")
    console.print(f"[bold]Warren[/]: {orders:,} orders, in {directory}/", soft_wrap=True)
    # Checked first, because without Spark there is nothing to show.
    if find_spec("pyspark") is None:
        raise SparkMissing
    with progress_bars(console) as progress:
        stopwatch = Stopwatch(progress, SYSTEM_CLOCK)
        outcome = run_on_spark(stopwatch, store, os.path.join(path, "archive"), orders)
    show(console, stopwatch, outcome, orders, directory, is_json=is_json)


def run_on_spark(stopwatch: Stopwatch, store: str, archive: str, orders: int) -> Outcome:
    """Puts the orders while Spark starts, then runs the pipeline, archives the orders and verifies the archive."""
    with ThreadPoolExecutor(1, "warren-demo") as pool:
        writing = pool.submit(write, stopwatch, store, orders)
        with stopwatch.waiting("Spark starts"):
            spark = warren.spark.session("warren demo")
        try:
            writing.result()
            run_pipeline(stopwatch, spark, store)
            return run_archive(stopwatch, spark, store, archive)
        finally:
            spark.stop()


def show(
    console: Console, stopwatch: Stopwatch, outcome: Outcome, orders: int, directory: str, *, is_json: bool
) -> None:
    """Draws the chart, and shows the results as tables, or writes them as one JSON document."""
    archived, verification = outcome
    store, chart = os.path.join(directory, "store"), os.path.join(directory, "revenue.png")
    with warren.open(store, keeps=False) as opened:
        revenue, reasons = slots(opened.topic(REVENUE_TOPIC)), reasons_of(opened.topic(DEAD_TOPIC))
    draw(revenue, chart)
    totals = countries(revenue)
    if is_json:
        facts = {"messages": archived.count, "files": len(archived.files), "bytes": archived.size}
        write_json(
            {
                "directory": directory,
                "orders": orders,
                "chart": chart,
                "revenue": [
                    {"country": total.country, "orders": total.orders, "revenue": total.revenue} for total in totals
                ],
                "dead_letters": dict(reasons.most_common()),
                "archive": {**facts, "is_verified": verification.is_good},
                "rates": rates_json(stopwatch.rates),
            }
        )
        return
    console.print()
    show_revenue(console, totals)
    show_dead_letters(console, reasons)
    show_archive(console, archived, verification)
    console.print(rates_table("Rates", stopwatch.rates), "", sep="\n")
    console.print(f"The chart is {chart}. To see the topics, run:", soft_wrap=True)
    console.print(f"  warren topic list --store {store}", soft_wrap=True)


def fresh_directory(directory: str) -> str:
    """Makes an empty directory in place of the one that an earlier demo made, and returns its absolute path.

    Raises BadInput if the directory exists and no demo made it.
    """
    path = os.path.abspath(directory)
    if os.path.exists(path):
        if not os.path.exists(os.path.join(path, MARKER)):
            raise BadInput(f"{directory} exists already, and no demo made it; name another directory with --dir")
        remove_tree(SYSTEM_FILE_SYSTEM, path)
    os.makedirs(path)
    with open(os.path.join(path, MARKER), "w", encoding="utf-8") as file:
        file.write("Made by `warren demo`, which removes it when it is run again.\n")
    return path


def write(stopwatch: Stopwatch, path: str, count: int, clock: Clock = SYSTEM_CLOCK) -> None:
    """Puts the orders, some of them with a delay, and waits until those have been delivered as well."""
    with warren.open(path) as store:
        topic = store.topic(TOPIC, partitions=PARTITIONS)
        with stopwatch.stage("put orders, each batch synced", count) as stage:
            put = put_orders(topic, count, on_batch=stage.advance)
        deadline_s = clock.steady_s() + DEMO_DELIVERY_S_MAX
        with stopwatch.waiting(f"{put.delayed:,} of them come later"):
            while sum(log.end for log in topic.logs) < count and clock.steady_s() < deadline_s:
                clock.sleep(POLL_S)


def run_pipeline(stopwatch: Stopwatch, spark: Any, store: str) -> None:
    """Adds up the revenue by country and five minutes, until every order is counted."""
    with (
        stopwatch.stage("pipeline revenue: orders read", 0) as stage,
        as_file(files("warren.examples.demo") / "revenue.toml") as file,
    ):
        running = warren.spark.pipeline(spark, file, store=store)
        while not running.wait(POLL_S):
            show_progress(stage, running.progress())
        show_progress(stage, running.progress())


def show_progress(stage: Stage, progress: Any) -> None:
    stage.reach(progress.messages, progress.messages + (progress.behind or 0))


def run_archive(stopwatch: Stopwatch, spark: Any, store: str, directory: str) -> Outcome:
    """Writes all orders as Parquet, and then compares them with the log, message by message."""
    from warren.spark.archive import archive, verify

    with stopwatch.stage("archive to Parquet", 0) as stage:
        archived = archive(spark, store, directory, [TOPIC], progress=stage.reach)
        stage.reach(archived.count, archived.count)
    with stopwatch.stage("verify the archive", archived.count) as stage:
        verification = verify(spark, directory, store, progress=stage.reach)
        stage.reach(archived.count, archived.count)
    return Outcome(archived, verification)


if __name__ == "__main__":
    main(1_000_000, "warren-demo")
