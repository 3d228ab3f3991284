"""Which parked messages are done, delivered or cancelled: one bit for each number, in mapped files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from warren.queue import store_paths
from warren.storage.filesystem import File, FileSystem

Numbers = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]

BITS_PER_FILE: Final = 1 << 20


class DoneBits:
    """The bits of one parked log. A bit only ever goes from 0 to 1: a power cut loses none that were synced.

    Anybody may look. Whoever sets bits holds the topic's delay lock, and has made sure that the messages are on disk:
    a number that a power cut gives to another message must not be done already. What comes before `first`, the first
    number that is still in the log, is done.
    """

    def __init__(self, filesystem: FileSystem, directory: str, first: Callable[[], int]) -> None:
        self._first = first
        self._filesystem, self._directory, self._bits_per_file = filesystem, directory, BITS_PER_FILE
        self._files: dict[int, tuple[File, Bits]] = {}
        self._unsynced: set[int] = set()
        self._open_from = 0

    # --- Looking ---

    def is_done(self, number: int) -> bool:
        bits = self._bits(number // self._bits_per_file)
        place = number % self._bits_per_file
        if bits is not None and bits[place >> 3] >> (place & 7) & 1:
            return True
        return number < self._first()

    def are_done(self, numbers: Numbers) -> npt.NDArray[np.bool_]:
        """For each of the numbers, whether it is done."""
        done = np.zeros(len(numbers), np.bool_)
        of_file = numbers // self._bits_per_file
        for file in _distinct(of_file):
            bits = self._bits(file)
            if bits is not None:
                rows = of_file == file
                places = numbers[rows] % self._bits_per_file
                done[rows] = bits[places >> 3] >> (places & 7).astype(np.uint8) & 1
        # Looked at last: bits are removed after the messages.
        return done | (numbers < self._first())

    def first_open(self, end: int) -> int:
        """The first number that is not done; `end` where all before it are."""
        number = max(self._first(), self._open_from)
        while number < end:
            file, place = divmod(number, self._bits_per_file)
            bits = self._bits(file)
            if bits is None:
                break
            flags = np.unpackbits(bits[place >> 3 :], bitorder="little")[place & 7 :]
            zero = int(flags.argmin())
            if not flags[zero]:
                number += zero
                break
            number = (file + 1) * self._bits_per_file
        self._open_from = max(self._open_from, min(number, end))
        return min(number, end)

    def _bits(self, file: int) -> Bits | None:
        """The bits of one file; None where none of them was ever set."""
        known = self._files.get(file)
        if known is None:
            path = store_paths.done_path(self._directory, file * self._bits_per_file)
            if not self._filesystem.exists(path):
                return None
            opened = self._filesystem.open(path, writable=True)
            if opened.size() < self._size:
                # Whoever makes it is not done yet, or died: it holds no bits.
                return None
            known = self._files[file] = opened, self._mapped(opened)
        return known[1]

    @property
    def _size(self) -> int:
        return self._bits_per_file // 8

    def _mapped(self, file: File) -> Bits:
        return np.frombuffer(file.map(self._size, writable=True), np.uint8, self._size)

    # --- Setting ---

    def set(self, numbers: Numbers) -> None:
        """These are done, for every process; on disk after `sync`."""
        of_file = numbers // self._bits_per_file
        for file in _distinct(of_file):
            places = numbers[of_file == file] % self._bits_per_file
            bits = self._bits(file)
            if bits is None:
                bits = self._make(file)
            np.bitwise_or.at(bits, places >> 3, np.uint8(1) << (places & 7).astype(np.uint8))
            self._unsynced.add(file)

    def _make(self, file: int) -> Bits:
        filesystem = self._filesystem
        filesystem.make_directory(self._directory)
        opened = filesystem.open(
            store_paths.done_path(self._directory, file * self._bits_per_file), writable=True, create=True
        )
        if opened.size() < self._size:
            opened.preallocate(self._size)
        opened.sync()
        # Without its name a file that is on disk is lost.
        filesystem.sync_directory(self._directory)
        bits = self._mapped(opened)
        self._files[file] = opened, bits
        return bits

    def sync(self) -> None:
        """What was set through this object is on disk."""
        for file in sorted(self._unsynced):
            self._files[file][0].sync()
        self._unsynced.clear()

    def sync_range(self, numbers: range) -> None:
        """Every bit of these numbers that is set now is on disk, whoever set it."""
        for file in range(numbers.start // self._bits_per_file, -(-numbers.stop // self._bits_per_file)):
            if self._bits(file) is not None:
                self._files[file][0].sync()

    # --- Keeping house ---

    def retire(self, before: int) -> None:
        """Remove the files that speak of numbers below `before` alone."""
        if not self._filesystem.exists(self._directory):
            return
        for name in self._filesystem.names(self._directory):
            first = store_paths.done_first(name)
            if first is not None and first + self._bits_per_file <= before:
                self._files.pop(first // self._bits_per_file, None)
                self._unsynced.discard(first // self._bits_per_file)
                self._filesystem.remove(store_paths.done_path(self._directory, first))


def _distinct(values: Numbers) -> list[int]:
    if not len(values):
        return []
    least, greatest = int(values.min()), int(values.max())
    # Most of the time all numbers are of one file.
    return [least] if least == greatest else np.unique(values).tolist()
