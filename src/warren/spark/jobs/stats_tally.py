"""A task of the statistics: counts messages by window, with NumPy instead of a loop. The counts of
tasks can be added.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from warren.spark.jobs.stats_latency import UNKNOWN, TimeSource
from warren.spark.jobs.stats_sketch import Buckets, counted

if TYPE_CHECKING:
    from warren.spark.read.splits import ReadRange, ReadTask

STATS_TAGS_MAX: Final = 10_000
"""How many tags a task counts, in all windows together. Further tags are counted as one."""

OTHER_TAGS: Final = "…"
"""Stands for all tags beyond the first STATS_TAGS_MAX."""


class Tally:
    """The counts of one window of a topic. The tallies of its parts are added to one of the whole window."""

    def __init__(self) -> None:
        self.messages = self.size = 0
        self.tags: Counter[str] = Counter()
        self.gaps: Buckets = Counter()
        self.latencies: Buckets = Counter()

    def add(self, other: Tally) -> None:
        self.messages += other.messages
        self.size += other.size
        self.tags.update(other.tags)
        self.gaps.update(other.gaps)
        self.latencies.update(other.latencies)

    def to_json(self) -> list[Any]:
        return [self.messages, self.size, self.tags, list(self.gaps.items()), list(self.latencies.items())]

    @classmethod
    def from_json(cls, data: list[Any]) -> Tally:
        tally = cls()
        tally.messages, tally.size, tags, gaps, latencies = data
        tally.tags, tally.gaps, tally.latencies = Counter(tags), Counter(dict(gaps)), Counter(dict(latencies))
        return tally


class RangeTally:
    """The tallies of one range of a partition, by window, and the times of its first and last message."""

    def __init__(self, read_range: ReadRange, start: int, window_us: int, time_source: TimeSource | None) -> None:
        self._range, self._start, self._window_us, self._time_source = read_range, start, window_us, time_source
        self._windows: dict[int, Tally] = {}
        self._tags: set[str] = set()
        self._first_us: int | None = None
        self._last_us: int | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Counts the messages of a batch. They come after those of the batch before."""
        times = rows.column("timestamp").cast(pa.int64()).to_numpy()
        # Times never decrease in a log, so the messages of a window are next to each other.
        windows = times // self._window_us
        starts = np.concatenate([[0], np.flatnonzero(np.diff(windows)) + 1])
        counts = np.diff(np.append(starts, len(times)))
        runs = np.repeat(np.arange(len(starts)), counts)
        sizes = np.add.reduceat(pc.binary_length(rows.column("body")).to_numpy().astype(np.int64), starts)
        gaps = self._gaps(times, runs, len(starts))
        tags = self._tag_counts(rows.column("tag"), runs, len(starts))
        latencies = self._latencies(rows, times, runs, len(starts))
        for run, window in enumerate(windows[starts].tolist()):
            tally = self._windows.setdefault(window, Tally())
            tally.messages += int(counts[run])
            tally.size += int(sizes[run])
            tally.gaps.update(gaps[run])
            tally.tags.update(tags[run])
            tally.latencies.update(latencies[run])

    def _gaps(self, times: npt.NDArray[np.int64], runs: npt.NDArray[np.intp], run_count: int) -> list[Buckets]:
        """Returns the times between one message and the next, counted in the window of the later one."""
        if self._last_us is None:
            self._first_us = int(times[0])
            gaps, runs = np.diff(times), runs[1:]
        else:
            gaps = np.diff(times, prepend=self._last_us)
        self._last_us = int(times[-1])
        return counted(runs, gaps, run_count)

    def _tag_counts(self, tags: pa.Array, runs: npt.NDArray[np.intp], run_count: int) -> list[Counter[str]]:
        encoded = tags.dictionary_encode()
        names = [self._counted_as(name) for name in encoded.dictionary.to_pylist()]
        keys = runs * len(names) + encoded.indices.to_numpy()
        present, counts = np.unique(keys, return_counts=True)
        each: list[Counter[str]] = [Counter() for _ in range(run_count)]
        for key, count in zip(present.tolist(), counts.tolist(), strict=True):
            each[key // len(names)][names[key % len(names)]] += count
        return each

    def _counted_as(self, tag: str) -> str:
        if len(self._tags) < STATS_TAGS_MAX:
            self._tags.add(tag)
        return tag if tag in self._tags else OTHER_TAGS

    def _latencies(
        self, rows: pa.RecordBatch, times: npt.NDArray[np.int64], runs: npt.NDArray[np.intp], run_count: int
    ) -> list[Buckets]:
        if self._time_source is None:
            return [Counter() for _ in range(run_count)]
        made = self._time_source.times_us(rows)
        is_known = made != UNKNOWN
        return counted(runs[is_known], times[is_known] - made[is_known], run_count)

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self._range.topic,
            "partition": self._range.partition,
            "start": self._start,
            "first_us": self._first_us,
            "last_us": self._last_us,
            "windows": [[window, tally.to_json()] for window, tally in self._windows.items()],
        }


def tallied(window_us: int, time_source: TimeSource | None, tag: str | None, task: ReadTask) -> Iterator[bytes]:
    """Yields the tally of each range of a task, as JSON."""
    columns = ["timestamp", "tag", "body"]
    if time_source is not None and time_source.column not in columns:
        columns.append(time_source.column)
    for read_range in task.ranges:
        tally = RangeTally(read_range, getattr(read_range, "start", 0), window_us, time_source)
        for rows in read_range.read(columns, tag):
            if rows.num_rows:
                tally.add(rows)
        yield json.dumps(tally.to_json()).encode()
