"""Intent: the messages that the mover is about to deliver. It is stored first, so that another mover can finish it."""

from __future__ import annotations

import json
import os.path
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from warren.storage.disk.filesystem import File, FileSystem
from warren.storage.format.checksum import crc32c

INTENT_SIZE_FIRST: Final = 64 << 10
HEAD_SIZE: Final = 32
"""The checksum and size of the rest of the file, as text."""

IntentRow = tuple[str, int]
"""A parked message: its horizon and its number."""


class PartitionRows(NamedTuple):
    """The messages for one partition, in this order. `since` is the end of the partition before the delivery."""

    partition: int
    since: int
    rows: Sequence[IntentRow]


class Intent(NamedTuple):
    """The messages that are delivered together. The appended batches carry the marker."""

    marker: str
    targets: Sequence[PartitionRows]

    def rows(self) -> Iterator[IntentRow]:
        return (row for target in self.targets for row in target.rows)

    def numbers(self) -> dict[str, list[int]]:
        """Returns the numbers by horizon."""
        numbers: dict[str, list[int]] = {}
        for horizon, number in self.rows():
            numbers.setdefault(horizon, []).append(number)
        return numbers


class IntentFile:
    """The intent of one topic: the last one that was written, finished or not. The caller holds the delay lock.

    Invariant: the file holds a complete intent, or none. It is overwritten only after everything in it was delivered,
    and the done bits were synced.
    """

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self._filesystem, self._path = filesystem, path
        self._file: File | None = None
        self._last_read: tuple[bytes, Intent | None] = (b"", None)

    def read(self) -> Intent | None:
        """Returns the intent, or None if there is none."""
        if self._file is None:
            if not self._filesystem.exists(self._path):
                return None
            self._file = self._filesystem.open(self._path, writable=True)
        head = self._file.read(0, HEAD_SIZE)
        if head != self._last_read[0]:
            self._last_read = head, self._parsed(self._file, head)
        return self._last_read[1]

    def _parsed(self, file: File, head: bytes) -> Intent | None:
        words = head.split()
        if len(words) != 2 or not all(word.isdigit() for word in words):
            return None
        checksum, size = map(int, words)
        body = file.read(HEAD_SIZE, size)
        if len(body) != size or crc32c(body) != checksum:
            return None
        data = json.loads(body)
        targets = [PartitionRows(partition, since, _rows(stretches)) for partition, since, stretches in data["targets"]]
        return Intent(data["marker"], targets)

    def write(self, intent: Intent) -> None:
        """Replaces the last intent. It is on disk when this returns."""
        targets = [(target.partition, target.since, _stretches(target.rows)) for target in intent.targets]
        body = json.dumps({"marker": intent.marker, "targets": targets}, separators=(",", ":")).encode()
        head = b"%d %d" % (crc32c(body), len(body))
        if self._file is None:
            self._file = self._made()
        self._file.write(0, head.ljust(HEAD_SIZE) + body)
        self._file.sync()
        self._last_read = head.ljust(HEAD_SIZE), intent

    def _made(self) -> File:
        file = self._filesystem.open(self._path, writable=True, create=True)
        if file.size() < INTENT_SIZE_FIRST:
            file.preallocate(INTENT_SIZE_FIRST)
        file.sync()
        self._filesystem.sync_directory(os.path.dirname(self._path))
        return file

    def sync(self) -> None:
        """Makes sure that the intent that was read is on disk, even if another process wrote it."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        file, self._file = self._file, None
        self._last_read = b"", None
        if file is not None:
            file.close()


def _stretches(rows: Sequence[IntentRow]) -> list[tuple[str, int, int]]:
    """Returns the rows with consecutive numbers combined: horizon, first number, count."""
    stretches: list[tuple[str, int, int]] = []
    for horizon, number in rows:
        if stretches and stretches[-1][0] == horizon and sum(stretches[-1][1:]) == number:
            stretches[-1] = horizon, stretches[-1][1], stretches[-1][2] + 1
        else:
            stretches.append((horizon, number, 1))
    return stretches


def _rows(stretches: Sequence[tuple[str, int, int]]) -> list[IntentRow]:
    return [(horizon, number) for horizon, first, count in stretches for number in range(first, first + count)]
