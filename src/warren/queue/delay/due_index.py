"""The messages of one parked log by due time: sorted runs on disk and a tail in memory, derived from the log."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import numpy as np
import numpy.typing as npt

from warren.queue.delay.done_bits import DoneBits
from warren.queue.state import paths
from warren.storage import Log
from warren.storage.disk.filesystem import FileSystem

Pairs = npt.NDArray[np.int64]
"""Two columns, sorted by both: the due time in µs since the epoch, and the number.

Files have the same layout, little-endian.
"""

PAIR_SIZE: Final = 16
DUE: Final = 0
NUMBER: Final = 1
NO_PAIRS: Final[Pairs] = np.empty((0, 2), "<i8")
NUMBER_MAX: Final = (1 << 63) - 1
LOOK_ROWS_MIN: Final = 16
LOOK_ROWS_MAX: Final = 1 << 16
TAIL_ROWS_MAX: Final = 1 << 18
"""At this many rows in memory, the tail becomes a run on disk."""
TAIL_NUMBERS_MAX: Final = 1 << 20
"""At this many numbers since the last run, the tail becomes a run, because a process that opens the log has to scan the
rest.
"""
FILES_MAX: Final = 8
"""If there are more runs than this on disk, some are merged."""
MERGE_ROWS: Final = 1 << 16
"""How many rows of a merge are processed at a time. The mover delivers in between."""
READ_MAX: Final = 512
"""Up to this many messages are read one by one; more are scanned."""
READ_BYTES_MAX: Final = 4 << 20
CHAIN_TRIES: Final = 10


class DueRun:
    """A sorted run of parked messages. Everything before row `at` is done.

    `numbers` is the range of numbers that the run covers: those without a row are done. `path` is None for a run in
    memory.
    """

    __slots__ = ("at", "numbers", "pairs", "path")

    def __init__(self, pairs: Pairs, numbers: range, path: str | None = None) -> None:
        self.pairs, self.numbers, self.path, self.at = pairs, numbers, path, 0

    def __len__(self) -> int:
        """Returns how many rows are left."""
        return len(self.pairs) - self.at

    def skip_done(self, done: DoneBits) -> None:
        """Moves `at` to the first row that is not done."""
        look = LOOK_ROWS_MIN
        while self.at < len(self.pairs):
            are_done = done.are_done(self.pairs[self.at : self.at + look, NUMBER])
            if not are_done.all():
                self.at += int(are_done.argmin())
                return
            self.at += len(are_done)
            look = min(look * 8, LOOK_ROWS_MAX)

    def first_due_us(self) -> int:
        """Returns the due time of the first row that is left."""
        return int(self.pairs[self.at, DUE])

    def open_pairs(self, done: DoneBits, start: int, due_us_max: int, limit: int) -> Pairs:
        """Returns the first `limit` rows from row `start` on that are not done, and not due after `due_us_max`."""
        end = bisect_right(self.pairs[:, DUE], due_us_max, start)
        parts: list[Pairs] = []
        count, look = 0, max(limit, LOOK_ROWS_MIN)
        while start < end and count < limit:
            part = self.pairs[start : min(end, start + look)]
            part_open = part[~done.are_done(part[:, NUMBER])][: limit - count]
            parts.append(part_open)
            start, count, look = start + len(part), count + len(part_open), min(2 * look, LOOK_ROWS_MAX)
        return np.concatenate(parts) if parts else NO_PAIRS


def in_order(*runs: Pairs) -> Pairs:
    """Returns all rows sorted by due time, then by number.

    The runs must be in the order of their numbers, and within each run, rows with the same due time must be in the
    order of their numbers.
    """
    pairs = np.concatenate([NO_PAIRS, *runs])
    # A stable sort keeps the numbers of one due time in order, and is fast on data that is mostly sorted.
    return pairs[np.argsort(np.ascontiguousarray(pairs[:, DUE]), kind="stable")]


def rows_up_to(pairs: Pairs, due_us: int, number: int) -> int:
    """Returns how many rows come before or at (`due_us`, `number`)."""
    dues = pairs[:, DUE]
    start = bisect_left(dues, due_us)
    return bisect_right(pairs[:, NUMBER], number, start, bisect_right(dues, due_us, start))


def merged(runs: Sequence[Pairs], rows: int) -> Iterator[Pairs]:
    """Yields all rows of the runs in order, in parts of about `rows`. Holds no more than that in memory.

    The runs must be in the order of their numbers.
    """
    places, step = [0] * len(runs), max(1, rows // max(1, len(runs)))
    while True:
        heads = [run[place : place + step] for run, place in zip(runs, places, strict=True)]
        # The rows after a head come after the last row of that head. So all rows up to the smallest of these last rows
        # are in memory.
        limits = [
            (int(head[-1, DUE]), int(head[-1, NUMBER]))
            for head, run, place in zip(heads, runs, places, strict=True)
            if place + len(head) < len(run)
        ]
        counts = [rows_up_to(head, *min(limits)) for head in heads] if limits else list(map(len, heads))
        if not any(counts):
            return
        yield in_order(*(head[:count] for head, count in zip(heads, counts, strict=True)))
        places = [place + count for place, count in zip(places, counts, strict=True)]


def write_run(filesystem: FileSystem, directory: str, numbers: range, parts: Iterable[Pairs]) -> Iterator[None]:
    """Writes the parts, which are in order, to the file of `numbers`, and yields after each.

    The file gets its name only when it is complete and on disk.
    """
    path = paths.run_path(directory, numbers)
    file = filesystem.open(path + paths.NEW_SUFFIX, writable=True, create=True)
    file.truncate(0)
    size = 0
    for part in parts:
        data = part.astype("<i8", copy=False).tobytes()
        if data:
            file.write(size, data)
        size += len(data)
        yield
    file.sync()
    file.close()
    filesystem.replace(path + paths.NEW_SUFFIX, path)
    filesystem.sync_directory(directory)


def map_run(filesystem: FileSystem, directory: str, numbers: range) -> DueRun:
    """Returns the run that was written for `numbers`. Raises FileNotFoundError if it no longer exists."""
    path = paths.run_path(directory, numbers)
    file = filesystem.open(path, writable=False)
    rows = file.size() // PAIR_SIZE
    pairs = NO_PAIRS
    if rows:
        view = file.map(rows * PAIR_SIZE, writable=False)
        pairs = np.frombuffer(view, "<i8", rows * 2).reshape(rows, 2)
    file.close()
    return DueRun(pairs, numbers, path)


def run_chain(filesystem: FileSystem, directory: str, first_open: int, end: int) -> list[DueRun]:
    """Returns the runs on disk that together cover all numbers from `first_open` on, as far as they go, below `end`."""
    if not filesystem.exists(directory):
        return []
    ranges = [numbers for name in filesystem.names(directory) if (numbers := paths.run_numbers(name)) is not None]
    chain: list[DueRun] = []
    place = first_open
    # If two runs start at the same number, the longer one was merged from the shorter.
    for numbers in sorted(ranges, key=lambda each: (each.start, -each.stop)):
        if numbers.stop <= place or numbers.stop > end:
            continue
        if numbers.start > place or (chain and numbers.start < place):
            break
        chain.append(map_run(filesystem, directory, numbers))
        place = numbers.stop
    return chain


def run_files(filesystem: FileSystem, directory: str) -> list[str]:
    """Returns the path of every run, complete or not."""
    if not filesystem.exists(directory):
        return []
    return [os.path.join(directory, name) for name in filesystem.names(directory)]


class ParkingOrder:
    """The parked messages of one log that are not done, by due time. Only for the mover, one process at a time.

    Invariant: a number below `_seen` is in a run, or done. A run on disk covers only messages that are on disk.
    """

    def __init__(self, log: Log, done: DoneBits, filesystem: FileSystem, directory: str) -> None:
        self._log, self._done, self._filesystem, self._directory = log, done, filesystem, directory
        self._tail: list[DueRun] = []
        self._merging: Iterator[None] | None = None
        first = done.first_open(log.end)
        self._files = run_chain(filesystem, directory, first, log.end)
        self._files_end = self._next_number = self._files[-1].numbers.stop if self._files else first
        paths_known = {run.path for run in self._files}
        for path in run_files(filesystem, directory):
            if path not in paths_known:
                filesystem.remove(path)

    # --- Taking in what was parked ---

    def catch_up(self) -> bool:
        """Adds some of the newly parked messages, and continues a merge.

        Returns whether it has caught up with the log.
        """
        self._go_on_merging()
        end = min(self._log.end, self._next_number + TAIL_ROWS_MAX)
        if end > self._next_number:
            pairs = in_order(_open_pairs(self._log, self._done, range(self._next_number, end)))
            self._tail.append(DueRun(pairs, range(self._next_number, end)))
            self._next_number = end
            self._tidy_tail()
        return self._next_number >= self._log.end

    def _go_on_merging(self) -> None:
        if self._merging is None and len(self._files) > FILES_MAX:
            self._merging = self._merge(self._merge_start())
        if self._merging is not None and next(self._merging, self) is self:
            self._merging = None

    @property
    def is_merging(self) -> bool:
        return self._merging is not None or len(self._files) > FILES_MAX

    def _tidy_tail(self) -> None:
        """Limits the runs and rows in memory: each run is at most half as long as the one before it."""
        tail = self._tail
        while len(tail) > 1 and len(tail[-2]) < 2 * len(tail[-1]):
            last, before = tail.pop(), tail.pop()
            pairs = in_order(before.pairs[before.at :], last.pairs[last.at :])
            tail.append(DueRun(pairs, range(before.numbers.start, last.numbers.stop)))
        rows = sum(map(len, tail))
        if rows >= TAIL_ROWS_MAX or self._next_number - self._files_end >= TAIL_NUMBERS_MAX:
            self._store_tail()

    def _store_tail(self) -> None:
        runs = [run.pairs[run.at :] for run in self._tail]
        rows = sum(map(len, runs))
        numbers = range(self._files_end, self._next_number)
        self._tail.clear()
        self._files_end = self._next_number
        if rows or self._files:
            # A run must not name numbers that a power cut may give to other messages.
            self._log.sync()
            self._filesystem.make_directory(self._directory)
            parts = self._open_parts(numbers, [in_order(*runs)])
            for _ in write_run(self._filesystem, self._directory, numbers, parts):
                pass
            self._files.append(map_run(self._filesystem, self._directory, numbers))

    def _merge_start(self) -> int:
        """Returns the file at which to begin a merge: the first that is not much longer than all
        later ones together.
        """
        start, rows = len(self._files), 0
        while start and (len(self._files) - start < max(2, FILES_MAX // 2) or len(self._files[start - 1]) <= 2 * rows):
            start -= 1
            rows += len(self._files[start])
        return start

    def _merge(self, start: int) -> Iterator[None]:
        """Merges the files from `start` on into one, step by step. Files that are added during it stay."""
        runs = self._files[start:]
        numbers = range(runs[0].numbers.start, runs[-1].numbers.stop)
        parts = self._open_parts(numbers, merged([run.pairs[run.at :] for run in runs], MERGE_ROWS))
        yield from write_run(self._filesystem, self._directory, numbers, parts)
        place = self._files.index(runs[0])
        self._files[place : place + len(runs)] = [map_run(self._filesystem, self._directory, numbers)]
        for run in runs:
            self._remove(run)

    def _open_parts(self, numbers: range, parts: Iterable[Pairs]) -> Iterator[Pairs]:
        """Yields the rows that are not done."""
        for part in parts:
            yield part[~self._done.are_done(part[:, NUMBER])]
        # Rows that a run omits must stay done, so their bits are synced: a power cut must not clear them.
        self._done.sync_range(numbers)

    def _remove(self, run: DueRun) -> None:
        if run.path is not None:
            self._filesystem.remove(run.path)

    # --- What is due ---

    def due(self, now_us: int, limit: int) -> Pairs:
        """Returns the first `limit` rows that are due at `now_us` and not done, in order."""
        pairs = [run.open_pairs(self._done, run.at, now_us, limit) for run in self._runs()]
        return in_order(*pairs)[:limit]

    def next_due_us(self) -> int | None:
        """Returns the next due time, or None if nothing is parked. Cancelled messages may be counted."""
        return min((run.first_due_us() for run in self._runs()), default=None)

    def _runs(self) -> list[DueRun]:
        """Returns the runs that have rows left, each moved to its first row that is not done."""
        for run in (*self._files, *self._tail):
            run.skip_done(self._done)
        self._tail = [run for run in self._tail if len(run)]
        # A finished run between others is kept: without it `run_chain` would not find the runs that follow it.
        while self._files and not len(self._files[0]) and self._merging is None:
            self._remove(self._files.pop(0))
        return [run for run in (*self._files, *self._tail) if len(run)]

    def rebuild(self) -> None:
        """Discards the runs on disk, and reads everything again."""
        for path in run_files(self._filesystem, self._directory):
            self._filesystem.remove(path)
        self._tail, self._files, self._merging = [], [], None
        self._files_end = self._next_number = self._done.first_open(self._log.end)


def pairs_after(
    log: Log, done: DoneBits, filesystem: FileSystem, directory: str, after: tuple[int, int], limit: int
) -> Pairs:
    """Returns the first `limit` rows after the row `after` that are not done. Any process may call this.

    Reads the runs on disk, and scans the messages that are in no run yet.
    """
    first = done.first_open(log.end)
    chain = _chain(filesystem, directory, first, log.end)
    rows = [run.open_pairs(done, rows_up_to(run.pairs, *after), NUMBER_MAX, limit) for run in chain]
    best = in_order(*rows)[:limit]
    start = chain[-1].numbers.stop if chain else first
    while start < (end := min(log.end, start + TAIL_ROWS_MAX)):
        pairs = in_order(_open_pairs(log, done, range(start, end)))
        pairs = pairs[rows_up_to(pairs, *after) :][:limit]
        best = in_order(best, pairs)[:limit]
        start = end
    return best


def _chain(filesystem: FileSystem, directory: str, first: int, end: int) -> list[DueRun]:
    for _ in range(CHAIN_TRIES):
        # The mover may merge runs at the same time.
        with suppress(FileNotFoundError):
            return run_chain(filesystem, directory, first, end)
    return []


def _open_pairs(log: Log, done: DoneBits, numbers: range) -> Pairs:
    """Returns the rows of these numbers that are not done, in the order of the log."""
    pairs = _read_pairs(log, numbers) if len(numbers) <= READ_MAX else _scan_pairs(log, numbers)
    return pairs[~done.are_done(pairs[:, NUMBER])]


def _read_pairs(log: Log, numbers: range) -> Pairs:
    pairs: list[tuple[int, int]] = []
    start = numbers.start
    while start < numbers.stop:
        messages = log.read(start, limit=numbers.stop - start, bytes_max=READ_BYTES_MAX)
        if not messages:
            break
        pairs += ((message.corr_offset, message.number) for message in messages)
        start = messages[-1].number + 1
    return np.array(pairs, "<i8").reshape(len(pairs), 2)


def _scan_pairs(log: Log, numbers: range) -> Pairs:
    pairs = np.empty((len(numbers), 2), "<i8")
    row = 0
    for batch in log.scan(numbers.start, numbers.stop, columns=["corr_offset", "number"]):
        end = row + batch.num_rows
        pairs[row:end, DUE] = batch.column(0).to_numpy(zero_copy_only=False)
        pairs[row:end, NUMBER] = batch.column(1).to_numpy(zero_copy_only=False)
        row = end
    return pairs[:row]
