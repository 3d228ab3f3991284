"""DoneBits: which parked messages are done, that is delivered or cancelled. One bit for each
number, in mapped files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from warren.queue.state import paths
from warren.storage.disk.filesystem import File, FileSystem

Numbers = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]

BITS_PER_FILE: Final = 1 << 20


class DoneBits:
    """The bits of one parked log. A bit only goes from 0 to 1, and a power cut loses none that was synced.

    Any process may read them. A process that sets bits holds the topic's delay lock, and has synced the messages first:
    otherwise a power cut could give the number to a new message, which would then count as done. Everything before
    `first`, the first number that is still in the log, is done.
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
        """Returns for each of the numbers whether it is done."""
        done = np.zeros(len(numbers), np.bool_)
        of_file = numbers // self._bits_per_file
        for file in _distinct(of_file):
            bits = self._bits(file)
            if bits is not None:
                rows = of_file == file
                places = numbers[rows] % self._bits_per_file
                done[rows] = bits[places >> 3] >> (places & 7).astype(np.uint8) & 1
        # Read last, because bits are removed after the messages.
        return done | (numbers < self._first())

    def first_open(self, end: int) -> int:
        """Returns the first number that is not done, or `end` if all before it are done."""
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
        """Returns the bits of one file, or None if none of them was ever set."""
        entry = self._files.get(file)
        if entry is None:
            path = paths.done_path(self._directory, file * self._bits_per_file)
            if not self._filesystem.exists(path):
                return None
            opened = self._filesystem.open(path, writable=True)
            if opened.size() < self._size:
                # The process that creates the file has not finished, or has died. The file then has no set bits.
                return None
            entry = self._files[file] = opened, self._mapped(opened)
        return entry[1]

    @property
    def _size(self) -> int:
        return self._bits_per_file // 8

    def _mapped(self, file: File) -> Bits:
        return np.frombuffer(file.map(self._size, writable=True), np.uint8, self._size)

    # --- Setting ---

    def set(self, numbers: Numbers) -> None:
        """Marks these numbers as done, for every process. They are on disk after `sync`."""
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
            paths.done_path(self._directory, file * self._bits_per_file), writable=True, create=True
        )
        if opened.size() < self._size:
            opened.preallocate(self._size)
        opened.sync()
        # A file is lost in a power cut, even if its data is on disk, unless its directory entry is synced.
        filesystem.sync_directory(self._directory)
        bits = self._mapped(opened)
        self._files[file] = opened, bits
        return bits

    def sync(self) -> None:
        """Syncs the bits that were set through this object."""
        for file in sorted(self._unsynced):
            self._files[file][0].sync()
        self._unsynced.clear()

    def sync_range(self, numbers: range) -> None:
        """Syncs all bits of these numbers, including those that other processes set."""
        for file in range(numbers.start // self._bits_per_file, -(-numbers.stop // self._bits_per_file)):
            if self._bits(file) is not None:
                self._files[file][0].sync()

    # --- Keeping house ---

    def retire(self, before: int) -> None:
        """Removes the files that hold only numbers below `before`."""
        if not self._filesystem.exists(self._directory):
            return
        for name in self._filesystem.names(self._directory):
            first = paths.done_first(name)
            if first is not None and first + self._bits_per_file <= before:
                self._files.pop(first // self._bits_per_file, None)
                self._unsynced.discard(first // self._bits_per_file)
                self._filesystem.remove(paths.done_path(self._directory, first))


def _distinct(values: Numbers) -> list[int]:
    if not len(values):
        return []
    least, greatest = int(values.min()), int(values.max())
    # Most of the time all numbers belong to one file.
    return [least] if least == greatest else np.unique(values).tolist()
