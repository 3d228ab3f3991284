"""What a task of the statistics counts: messages by window, without a loop over them, as something to be added up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from warren.config import STATS_TAGS_MAX
from warren.spark.stats_latency import UNKNOWN, Origin
from warren.spark.stats_sketch import Buckets, counted

if TYPE_CHECKING:
    from warren.spark.splits import Piece, Task

OTHER_TAGS: Final = "…"
"""Under this, the messages of tags that are not counted apart."""


class Tally:
    """What is known of one window of a topic. Tallies of parts of it are added to that of the whole."""

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


class PieceTally:
    """The tallies of one piece of a partition, by window, and the times of its first and last message."""

    def __init__(self, piece: Piece, start: int, window_us: int, origin: Origin | None) -> None:
        self._piece, self._start, self._window_us, self._origin = piece, start, window_us, origin
        self._windows: dict[int, Tally] = {}
        self._tags: set[str] = set()
        self._first_us: int | None = None
        self._last_us: int | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Count the messages of a batch, which come after those that were counted before."""
        times = rows.column("timestamp").cast(pa.int64()).to_numpy()
        # Times never decrease in a log: the messages of a window lie side by side.
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
        """The times between one message and the next, in the window of the later one."""
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
        found, counts = np.unique(keys, return_counts=True)
        each: list[Counter[str]] = [Counter() for _ in range(run_count)]
        for key, count in zip(found.tolist(), counts.tolist(), strict=True):
            each[key // len(names)][names[key % len(names)]] += count
        return each

    def _counted_as(self, tag: str) -> str:
        if len(self._tags) < STATS_TAGS_MAX:
            self._tags.add(tag)
        return tag if tag in self._tags else OTHER_TAGS

    def _latencies(
        self, rows: pa.RecordBatch, times: npt.NDArray[np.int64], runs: npt.NDArray[np.intp], run_count: int
    ) -> list[Buckets]:
        if self._origin is None:
            return [Counter() for _ in range(run_count)]
        made = self._origin.times_us(rows)
        is_known = made != UNKNOWN
        return counted(runs[is_known], times[is_known] - made[is_known], run_count)

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self._piece.topic,
            "partition": self._piece.partition,
            "start": self._start,
            "first_us": self._first_us,
            "last_us": self._last_us,
            "windows": [[window, tally.to_json()] for window, tally in self._windows.items()],
        }


def tallied(window_us: int, origin: Origin | None, tag: str | None, task: Task) -> Iterator[bytes]:
    """The tallies of a task's pieces."""
    columns = ["timestamp", "tag", "body"]
    if origin is not None and origin.column not in columns:
        columns.append(origin.column)
    for piece in task.pieces:
        tally = PieceTally(piece, getattr(piece, "start", 0), window_us, origin)
        for rows in piece.read(columns, tag):
            if rows.num_rows:
                tally.add(rows)
        yield json.dumps(tally.to_json()).encode()
