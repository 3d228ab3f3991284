"""Runs: rows of due time and number, in order. Small ones are arrays in memory, large ones mapped files."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from warren.queue import store_paths
from warren.queue.done_bits import DoneBits
from warren.storage.filesystem import FileSystem

Pairs = npt.NDArray[np.int64]
"""Two columns, the due time in µs since the epoch and the number, sorted by both. So are the files, little-endian."""

PAIR_SIZE: Final = 16
DUE: Final = 0
NUMBER: Final = 1
NO_PAIRS: Final[Pairs] = np.empty((0, 2), "<i8")
NUMBER_MAX: Final = (1 << 63) - 1
LOOK_ROWS_MIN: Final = 16
LOOK_ROWS_MAX: Final = 1 << 16


class Run:
    """Some of what is parked. Everything before row `at` is done.

    `numbers` is the range of numbers that the run speaks of: those that are not in it are done. `path` is None for a
    run in memory.
    """

    __slots__ = ("at", "numbers", "pairs", "path")

    def __init__(self, pairs: Pairs, numbers: range, path: str | None = None) -> None:
        self.pairs, self.numbers, self.path, self.at = pairs, numbers, path, 0

    def __len__(self) -> int:
        """How many rows are left."""
        return len(self.pairs) - self.at

    def skip_done(self, done: DoneBits) -> None:
        """Stand at the first row that is not done."""
        look = LOOK_ROWS_MIN
        while self.at < len(self.pairs):
            are_done = done.are_done(self.pairs[self.at : self.at + look, NUMBER])
            if not are_done.all():
                self.at += int(are_done.argmin())
                return
            self.at += len(are_done)
            look = min(look * 8, LOOK_ROWS_MAX)

    def first_due_us(self) -> int:
        """The due time of the first row that is left."""
        return int(self.pairs[self.at, DUE])

    def open_pairs(self, done: DoneBits, start: int, due_us_max: int, limit: int) -> Pairs:
        """The first `limit` rows from row `start` on that are not done, and not due after `due_us_max`."""
        end = bisect_right(self.pairs[:, DUE], due_us_max, start)
        found: list[Pairs] = []
        count, look = 0, max(limit, LOOK_ROWS_MIN)
        while start < end and count < limit:
            part = self.pairs[start : min(end, start + look)]
            part_open = part[~done.are_done(part[:, NUMBER])][: limit - count]
            found.append(part_open)
            start, count, look = start + len(part), count + len(part_open), min(2 * look, LOOK_ROWS_MAX)
        return np.concatenate(found) if found else NO_PAIRS


def in_order(*runs: Pairs) -> Pairs:
    """All rows sorted by due time, then by number. The runs come in the order of their numbers, and so do rows that
    are due at the same time.
    """
    pairs = np.concatenate([NO_PAIRS, *runs])
    # A stable sort leaves the numbers of one due time in order, and goes through what is sorted in one pass.
    return pairs[np.argsort(np.ascontiguousarray(pairs[:, DUE]), kind="stable")]


def rows_up_to(pairs: Pairs, due_us: int, number: int) -> int:
    """How many rows come before or at (`due_us`, `number`)."""
    dues = pairs[:, DUE]
    start = bisect_left(dues, due_us)
    return bisect_right(pairs[:, NUMBER], number, start, bisect_right(dues, due_us, start))


def merged(runs: Sequence[Pairs], rows: int) -> Iterator[Pairs]:
    """All rows of the runs in order, in parts of about `rows`, without holding more than that.

    The runs come in the order of their numbers.
    """
    places, step = [0] * len(runs), max(1, rows // max(1, len(runs)))
    while True:
        heads = [run[place : place + step] for run, place in zip(runs, places, strict=True)]
        # What stands behind a head comes after its last row, so up to the first of those all is at hand.
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
    """Write the parts, which are in order, to the file of `numbers`; there is a pause after each.

    The file has its name when it is whole and on disk, never before.
    """
    path = store_paths.run_path(directory, numbers)
    file = filesystem.open(path + store_paths.NEW_SUFFIX, writable=True, create=True)
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
    filesystem.replace(path + store_paths.NEW_SUFFIX, path)
    filesystem.sync_directory(directory)


def map_run(filesystem: FileSystem, directory: str, numbers: range) -> Run:
    """The run that was written for `numbers`; FileNotFoundError where it is gone."""
    path = store_paths.run_path(directory, numbers)
    file = filesystem.open(path, writable=False)
    rows = file.size() // PAIR_SIZE
    pairs = NO_PAIRS
    if rows:
        view = file.map(rows * PAIR_SIZE, writable=False)
        pairs = np.frombuffer(view, "<i8", rows * 2).reshape(rows, 2)
    file.close()
    return Run(pairs, numbers, path)


def run_chain(filesystem: FileSystem, directory: str, first_open: int, end: int) -> list[Run]:
    """The runs on disk that together speak of all numbers from `first_open` on, as far as they go, below `end`."""
    if not filesystem.exists(directory):
        return []
    ranges = [numbers for name in filesystem.names(directory) if (numbers := store_paths.run_numbers(name)) is not None]
    chain: list[Run] = []
    place = first_open
    # Where two start at the same number, the longer one was made of the shorter.
    for numbers in sorted(ranges, key=lambda each: (each.start, -each.stop)):
        if numbers.stop <= place or numbers.stop > end:
            continue
        if numbers.start > place or (chain and numbers.start < place):
            break
        chain.append(map_run(filesystem, directory, numbers))
        place = numbers.stop
    return chain


def run_files(filesystem: FileSystem, directory: str) -> list[str]:
    """The path of every run, whole or not."""
    if not filesystem.exists(directory):
        return []
    return [os.path.join(directory, name) for name in filesystem.names(directory)]
