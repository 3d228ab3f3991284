"""ParkingOrder: what is parked in one log, by due time. Few runs on disk, a tail in memory, all of it derived."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

import numpy as np

from warren.queue.done_bits import DoneBits
from warren.queue.due_runs import (
    DUE,
    NUMBER,
    NUMBER_MAX,
    Pairs,
    Run,
    in_order,
    map_run,
    merged,
    rows_up_to,
    run_chain,
    run_files,
    write_run,
)
from warren.storage import Log
from warren.storage.filesystem import FileSystem

TAIL_ROWS_MAX: Final = 1 << 18
"""So many rows are kept in memory before they become a run on disk."""
TAIL_NUMBERS_MAX: Final = 1 << 20
"""So many numbers are passed before a run speaks of them: what whoever opens the log has to look at once more."""
FILES_MAX: Final = 8
"""With more runs than that on disk some are merged."""
MERGE_ROWS: Final = 1 << 16
"""How many rows of a merge are done at a time: the mover delivers in between."""
READ_MAX: Final = 512
"""So few messages are read one by one; more are scanned."""
READ_BYTES_MAX: Final = 4 << 20
CHAIN_TRIES: Final = 10


class ParkingOrder:
    """The open messages of one parked log by due time. For the mover alone, which is one process at a time.

    Invariant: a number below `_seen` is in a run, or done. A run on disk speaks of messages that are on disk.
    """

    def __init__(self, log: Log, done: DoneBits, filesystem: FileSystem, directory: str) -> None:
        self._log, self._done, self._filesystem, self._directory = log, done, filesystem, directory
        self._tail: list[Run] = []
        self._merging: Iterator[None] | None = None
        first = done.first_open(log.end)
        self._files = run_chain(filesystem, directory, first, log.end)
        self._files_end = self._seen = self._files[-1].numbers.stop if self._files else first
        kept = {run.path for run in self._files}
        for path in run_files(filesystem, directory):
            if path not in kept:
                filesystem.remove(path)

    # --- Taking in what was parked ---

    def catch_up(self) -> bool:
        """Take in some of what was parked since, and go on with a merge; whether nothing is left to take in."""
        self._go_on_merging()
        end = min(self._log.end, self._seen + TAIL_ROWS_MAX)
        if end > self._seen:
            pairs = in_order(_open_pairs(self._log, self._done, range(self._seen, end)))
            self._tail.append(Run(pairs, range(self._seen, end)))
            self._seen = end
            self._tidy_tail()
        return self._seen >= self._log.end

    def _go_on_merging(self) -> None:
        if self._merging is None and len(self._files) > FILES_MAX:
            self._merging = self._merge(self._merge_start())
        if self._merging is not None and next(self._merging, self) is self:
            self._merging = None

    @property
    def is_merging(self) -> bool:
        return self._merging is not None or len(self._files) > FILES_MAX

    def _tidy_tail(self) -> None:
        """Keep few runs in memory, and not too many rows: each run is at most half as long as the one before it."""
        tail = self._tail
        while len(tail) > 1 and len(tail[-2]) < 2 * len(tail[-1]):
            last, before = tail.pop(), tail.pop()
            pairs = in_order(before.pairs[before.at :], last.pairs[last.at :])
            tail.append(Run(pairs, range(before.numbers.start, last.numbers.stop)))
        rows = sum(map(len, tail))
        if rows >= TAIL_ROWS_MAX or self._seen - self._files_end >= TAIL_NUMBERS_MAX:
            self._store_tail()

    def _store_tail(self) -> None:
        runs = [run.pairs[run.at :] for run in self._tail]
        rows = sum(map(len, runs))
        numbers = range(self._files_end, self._seen)
        self._tail.clear()
        self._files_end = self._seen
        if rows or self._files:
            # A run must not speak of numbers that a power cut may give to other messages.
            self._log.sync()
            self._filesystem.make_directory(self._directory)
            parts = self._open_parts(numbers, [in_order(*runs)])
            for _ in write_run(self._filesystem, self._directory, numbers, parts):
                pass
            self._files.append(map_run(self._filesystem, self._directory, numbers))

    def _merge_start(self) -> int:
        """Which files to merge, up to the last: those that are not much longer than all after them together."""
        start, rows = len(self._files), 0
        while start and (len(self._files) - start < max(2, FILES_MAX // 2) or len(self._files[start - 1]) <= 2 * rows):
            start -= 1
            rows += len(self._files[start])
        return start

    def _merge(self, start: int) -> Iterator[None]:
        """Make one run of the files from `start` on, step by step. Files that are added meanwhile stay."""
        runs = self._files[start:]
        numbers = range(runs[0].numbers.start, runs[-1].numbers.stop)
        parts = self._open_parts(numbers, merged([run.pairs[run.at :] for run in runs], MERGE_ROWS))
        yield from write_run(self._filesystem, self._directory, numbers, parts)
        place = self._files.index(runs[0])
        self._files[place : place + len(runs)] = [map_run(self._filesystem, self._directory, numbers)]
        for run in runs:
            self._remove(run)

    def _open_parts(self, numbers: range, parts: Iterable[Pairs]) -> Iterator[Pairs]:
        """The rows that are not done."""
        for part in parts:
            yield part[~self._done.are_done(part[:, NUMBER])]
        # What a run leaves out must stay done: a power cut must not take back a bit that was not synced.
        self._done.sync_range(numbers)

    def _remove(self, run: Run) -> None:
        if run.path is not None:
            self._filesystem.remove(run.path)

    # --- What is due ---

    def due(self, now_us: int, limit: int) -> Pairs:
        """The first `limit` rows that are due at `now_us` and not done, in order."""
        found = [run.open_pairs(self._done, run.at, now_us, limit) for run in self._runs()]
        return in_order(*found)[:limit]

    def next_due_us(self) -> int | None:
        """When there is something due; None where nothing is parked. What was cancelled may count."""
        return min((run.first_due_us() for run in self._runs()), default=None)

    def _runs(self) -> list[Run]:
        """The runs that have rows left, each standing at one that is not done."""
        for run in (*self._files, *self._tail):
            run.skip_done(self._done)
        self._tail = [run for run in self._tail if len(run)]
        # In between, a run that is used up stays: without it those behind it would not be found again.
        while self._files and not len(self._files[0]) and self._merging is None:
            self._remove(self._files.pop(0))
        return [run for run in (*self._files, *self._tail) if len(run)]

    def rebuild(self) -> None:
        """Believe none of the runs on disk: take everything in once more."""
        for path in run_files(self._filesystem, self._directory):
            self._filesystem.remove(path)
        self._tail, self._files, self._merging = [], [], None
        self._files_end = self._seen = self._done.first_open(self._log.end)


def pairs_after(
    log: Log, done: DoneBits, filesystem: FileSystem, directory: str, after: tuple[int, int], limit: int
) -> Pairs:
    """The first `limit` open rows behind the row `after`, for anybody: of the runs on disk, and what is in none yet."""
    first = done.first_open(log.end)
    chain = _chain(filesystem, directory, first, log.end)
    found = [run.open_pairs(done, rows_up_to(run.pairs, *after), NUMBER_MAX, limit) for run in chain]
    best = in_order(*found)[:limit]
    start = chain[-1].numbers.stop if chain else first
    while start < (end := min(log.end, start + TAIL_ROWS_MAX)):
        pairs = in_order(_open_pairs(log, done, range(start, end)))
        pairs = pairs[rows_up_to(pairs, *after) :][:limit]
        best = in_order(best, pairs)[:limit]
        start = end
    return best


def _chain(filesystem: FileSystem, directory: str, first: int, end: int) -> list[Run]:
    for _ in range(CHAIN_TRIES):
        # The mover may merge runs while we look.
        with suppress(FileNotFoundError):
            return run_chain(filesystem, directory, first, end)
    return []


def _open_pairs(log: Log, done: DoneBits, numbers: range) -> Pairs:
    """The rows of these numbers, but for what is done, in the order of the log."""
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
