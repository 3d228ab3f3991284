"""The whole story in one command: orders into a store, revenue and an archive out of it, on a Spark of this machine."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import as_file, files
from importlib.util import find_spec
from typing import Annotated, Any, Final

import typer
from rich.console import Console

import warren
import warren.spark
from warren.cli.demo_results import (
    countries,
    draw,
    reasons_of,
    show_archive,
    show_dead_letters,
    show_revenue,
    slots,
)
from warren.cli.rates import Stage, Stopwatch, progress_bars, rates_json, rates_table
from warren.cli.show import write_json
from warren.cli.store import AsJson
from warren.clock import SYSTEM_CLOCK, Clock
from warren.config import DEMO_DELIVERY_S_MAX
from warren.errors import BadInput, SparkMissing
from warren.storage.filesystem import SYSTEM_FILE_SYSTEM, remove_tree

ORDERS_DEFAULT: Final = 1_000_000
PARTITIONS: Final = 4
DIRECTORY_DEFAULT: Final = "warren-demo"
MARKER: Final = "demo.txt"
"""Stands in a directory that the demo made, and may remove."""
LOOK_S: Final = 0.1
TOPIC: Final = "orders"
DEAD_TOPIC: Final = "orders.dead"
REVENUE_TOPIC: Final = "revenue"


def demo(
    orders: Annotated[int, typer.Option(min=1, help="How many orders to write.")] = ORDERS_DEFAULT,
    directory: Annotated[
        str,
        typer.Option("--dir", metavar="DIRECTORY", help="Where the store, the archive and the chart go; made anew."),
    ] = DIRECTORY_DEFAULT,
    is_json: AsJson = False,
) -> None:
    """Write orders to a fresh store, turn them into revenue and an archive on Spark, and show what came out."""
    console = Console(highlight=False, stderr=is_json)
    place = fresh_directory(directory)
    store, archive = os.path.join(place, "store"), os.path.join(place, "archive")
    console.print(f"[bold]Warren[/]: {orders:,} orders, in {directory}/", soft_wrap=True)
    # Before a second is spent: without Spark there is nothing to show.
    if find_spec("pyspark") is None:
        raise SparkMissing
    with progress_bars(console) as progress, ThreadPoolExecutor(1, "warren-demo") as pool:
        stopwatch = Stopwatch(progress, SYSTEM_CLOCK)
        writing = pool.submit(write, stopwatch, store, orders)
        with stopwatch.waiting("Spark starts"):
            spark = warren.spark.session("warren demo")
        try:
            writing.result()
            run_pipeline(stopwatch, spark, store)
            archived, verified = run_archive(stopwatch, spark, store, archive)
        finally:
            spark.stop()
    chart = os.path.join(directory, "revenue.png")
    with warren.open(store, keeps=False) as opened:
        found, reasons = slots(opened.topic(REVENUE_TOPIC)), reasons_of(opened.topic(DEAD_TOPIC))
    draw(found, chart)
    if is_json:
        revenue = [
            {"country": each.country, "orders": each.orders, "revenue": each.revenue} for each in countries(found)
        ]
        facts = {"messages": archived.count, "files": len(archived.files), "bytes": archived.size}
        write_json(
            {
                "directory": directory,
                "orders": orders,
                "chart": chart,
                "revenue": revenue,
                "dead_letters": dict(reasons.most_common()),
                "archive": {**facts, "is_verified": verified.is_good},
                "rates": rates_json(stopwatch.rates),
            }
        )
        return
    console.print()
    show_revenue(console, countries(found))
    show_dead_letters(console, reasons)
    show_archive(console, archived, verified)
    console.print(rates_table("Rates", stopwatch.rates), "", sep="\n")
    console.print(f"The chart is {chart}. Look around with:", soft_wrap=True)
    console.print(f"  warren topic list --store {os.path.join(directory, 'store')}", soft_wrap=True)


def fresh_directory(directory: str) -> str:
    """An empty directory, in the place of what an earlier demo left there. What is somebody else's is not touched."""
    path = os.path.abspath(directory)
    if os.path.exists(path):
        if not os.path.exists(os.path.join(path, MARKER)):
            raise BadInput(f"{directory} is there already, and no demo made it; name another directory with --dir")
        remove_tree(SYSTEM_FILE_SYSTEM, path)
    os.makedirs(path)
    with open(os.path.join(path, MARKER), "w", encoding="utf-8") as file:
        file.write("Made by `warren demo`, which removes it when it is run again.\n")
    return path


def write(stopwatch: Stopwatch, path: str, count: int, clock: Clock = SYSTEM_CLOCK) -> None:
    """Put the orders, some of them for later, and wait until those have come as well."""
    from warren.spark.orders import put_orders

    with warren.open(path) as store:
        topic = store.topic(TOPIC, partitions=PARTITIONS)
        with stopwatch.stage("put orders, each batch synced", count) as stage:
            put = put_orders(topic, count, told=stage.advance)
        deadline_s = clock.steady_s() + DEMO_DELIVERY_S_MAX
        with stopwatch.waiting(f"{put.delayed:,} of them come later"):
            while sum(log.end for log in topic.logs) < count and clock.steady_s() < deadline_s:
                clock.sleep(LOOK_S)


def run_pipeline(stopwatch: Stopwatch, spark: Any, store: str) -> None:
    """Revenue by country and five minutes, until every order is counted."""
    with (
        stopwatch.stage("pipeline revenue: orders read", 0) as stage,
        as_file(files("warren.spark.pipelines") / "revenue.toml") as file,
    ):
        running = warren.spark.pipeline(spark, file, store=store)
        while not running.wait(LOOK_S):
            show_progress(stage, running.progress())
        show_progress(stage, running.progress())


def show_progress(stage: Stage, progress: Any) -> None:
    stage.reach(progress.messages, progress.messages + (progress.behind or 0))


def run_archive(stopwatch: Stopwatch, spark: Any, store: str, directory: str) -> tuple[Any, Any]:
    """All orders as Parquet, and then compared with the log, message by message."""
    from warren.spark.archive import archive, verify

    with stopwatch.stage("archive to Parquet", 0) as stage:
        archived = archive(spark, store, directory, [TOPIC], progress=stage.reach)
        stage.reach(archived.count, archived.count)
    with stopwatch.stage("verify the archive", archived.count) as stage:
        verified = verify(spark, directory, store, progress=stage.reach)
        stage.reach(archived.count, archived.count)
    return archived, verified
