"""Statistics of topics by time window: messages, bytes, tags, and quantiles of gaps and latencies."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from warren.errors import BadInput
from warren.spark.archive.table import ArchiveRange
from warren.spark.jobs.selection import Selection
from warren.spark.jobs.stats_latency import TimeSource
from warren.spark.jobs.stats_sketch import buckets_of, quantile_us
from warren.spark.jobs.stats_tally import Tally, tallied
from warren.spark.read.log_range import LogRange
from warren.spark.runtime.tasks import ShowProgress, counted, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from warren.spark.read.splits import ReadTask

STATS_WINDOWS_MAX: Final = 100_000
STATS_WINDOWS_SHOWN: Final = 24
"""The largest number of windows if the caller sets no length of a window."""

SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
NICE_WINDOWS_S: Final = (1, 10, 60, 300, 900, 3_600, 21_600, 86_400, 604_800, 2_592_000, 31_536_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStats:
    """One window of one topic, from `start_us` on. Quantiles are in seconds; empty if nothing was measured.

    `gaps` are the times between a message and the one before it in its partition. `tags` has the most frequent first.
    """

    topic: str
    start_us: int
    window_us: int
    messages: int
    size: int
    tags: dict[str, int]
    gaps: dict[str, float]
    latencies: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "start": self.start_us,
            "window": self.window_us,
            "messages": self.messages,
            "size": self.size,
            "tags": self.tags,
            "gaps": self.gaps,
            "latencies": self.latencies,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """The windows of all topics that have messages, by topic and time."""

    window_us: int
    windows: Sequence[WindowStats]

    def totals(self) -> dict[str, int]:
        """Returns the number of messages of each topic."""
        totals: dict[str, int] = {}
        for window in self.windows:
            totals[window.topic] = totals.get(window.topic, 0) + window.messages
        return totals

    def table(self) -> pa.Table:
        """Returns an Arrow table with a row for each window and a column for each quantile."""
        rows = [
            {
                "topic": window.topic,
                "start": window.start_us,
                "window_s": window.window_us / 1e6,
                "messages": window.messages,
                "bytes": window.size,
                "tags": list(window.tags.items()),
                **{f"gap_{name}_s": window.gaps.get(name) for name in SHARES},
                **{f"latency_{name}_s": window.latencies.get(name) for name in SHARES},
            }
            for window in self.windows
        ]
        return pa.Table.from_pylist(rows, schema=TABLE_SCHEMA)

    def save_parquet(self, path: str) -> None:
        """Writes the table to a Parquet file."""
        pq.write_table(self.table(), path, compression="zstd")


TABLE_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("start", pa.timestamp("us", "UTC")),
        ("window_s", pa.float64()),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("tags", pa.map_(pa.string(), pa.int64())),
        *((f"{what}_{name}_s", pa.float64()) for what in ("gap", "latency") for name in SHARES),
    ]
)


def stats(
    spark: SparkSession,
    selection: Selection,
    *,
    window_us: int | None = None,
    latency: str | None = None,
    progress: ShowProgress | None = None,
) -> Stats:
    """Counts the messages of a selection by topic and window.

    Without `window_us` it chooses one that makes a table of readable length. `latency` names the header or the field
    that holds the time at which a message was created, as `header:NAME` or `json:FIELD`. Its latency is the time from
    then until it was put into the log.
    """
    time_source = None if latency is None else TimeSource.parse(latency)
    tasks = selection.tasks()
    times = _edge_times(tasks)
    window_us = _checked_window_us(window_us, max(times) - min(times) if times else 0)
    with counted(spark, sum(map(len, tasks)), progress):
        results = run_tasks(spark, tasks, partial(tallied, window_us, time_source, selection.tag))
    parts = [json.loads(result) for result in results]
    return Stats(window_us=window_us, windows=_merged(parts, window_us))


def _checked_window_us(window_us: int | None, span_us: int) -> int:
    """Returns the length of a window: the given one, or a round length that makes few enough windows to read."""
    if window_us is None:
        nice = (second * 1_000_000 for second in NICE_WINDOWS_S)
        return next((each for each in nice if span_us / each <= STATS_WINDOWS_SHOWN - 1), NICE_WINDOWS_S[-1] * 10**6)
    if window_us < 1:
        raise BadInput(f"a window of {window_us} µs: expected at least 1")
    if span_us // window_us > STATS_WINDOWS_MAX:
        raise BadInput(
            f"{span_us // window_us:,} windows are over the limit of {STATS_WINDOWS_MAX:,}: choose a longer window"
        )
    return window_us


def _edge_times(tasks: Sequence[ReadTask]) -> list[int]:
    """Returns the times of the first and the last message of every range. All others lie between them."""
    times: list[int] = []
    for read_range in (read_range for task in tasks for read_range in task.ranges):
        assert isinstance(read_range, LogRange | ArchiveRange), "a selection has only these"
        for number in (read_range.start, read_range.end - 1):
            for rows in replace(read_range, start=number, end=number + 1).read(["timestamp"], None):
                times += rows.column("timestamp").cast(pa.int64()).to_pylist()
    return times


def _merged(parts: Sequence[dict[str, Any]], window_us: int) -> list[WindowStats]:
    tallies: dict[tuple[str, int], Tally] = {}

    def tally_of(topic: str, window: int) -> Tally:
        return tallies.setdefault((topic, window), Tally())

    last: dict[tuple[str, int], int] = {}
    for part in sorted(parts, key=lambda part: (part["topic"], part["partition"], part["start"])):
        for window, data in part["windows"]:
            tally_of(part["topic"], window).add(Tally.from_json(data))
        if part["first_us"] is None:
            continue
        # The gap between the last message of one range and the first of the next is in neither range.
        place = (part["topic"], part["partition"])
        if place in last:
            (bucket,) = buckets_of(_array(part["first_us"] - last[place])).tolist()
            tally_of(part["topic"], part["first_us"] // window_us).gaps[bucket] += 1
        last[place] = part["last_us"]
    return [_window(topic, window * window_us, window_us, tallies[topic, window]) for topic, window in sorted(tallies)]


def _array(value: int) -> Any:
    return pa.array([value], pa.int64()).to_numpy()


def _window(topic: str, start_us: int, window_us: int, tally: Tally) -> WindowStats:
    return WindowStats(
        topic=topic,
        start_us=start_us,
        window_us=window_us,
        messages=tally.messages,
        size=tally.size,
        tags=dict(sorted(tally.tags.items(), key=lambda pair: (-pair[1], pair[0]))),
        gaps=_quantiles(partial(quantile_us, tally.gaps)),
        latencies=_quantiles(partial(quantile_us, tally.latencies)),
    )


def _quantiles(quantile: Callable[[float], float | None]) -> dict[str, float]:
    values = {name: quantile(share) for name, share in SHARES.items()}
    return {name: value / 1e6 for name, value in values.items() if value is not None}
