"""Intent: what the mover is about to deliver, on disk before it begins, so that whoever comes next can finish it."""

from __future__ import annotations

import json
import os.path
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from warren.storage.checksum import crc32c
from warren.storage.filesystem import File, FileSystem

INTENT_SIZE_FIRST: Final = 64 << 10
HEAD_SIZE: Final = 32
"""Checksum and size of what follows, as text."""

Row = tuple[str, int]
"""A parked message: its horizon and its number."""


class Target(NamedTuple):
    """What goes to one partition, in this order. `since` is the partition's end from before."""

    partition: int
    since: int
    rows: Sequence[Row]


class Intent(NamedTuple):
    """What is delivered together. The batches that are appended carry the marker."""

    marker: str
    targets: Sequence[Target]

    def rows(self) -> Iterator[Row]:
        return (row for target in self.targets for row in target.rows)

    def numbers(self) -> dict[str, list[int]]:
        """The numbers of each horizon."""
        found: dict[str, list[int]] = {}
        for horizon, number in self.rows():
            found.setdefault(horizon, []).append(number)
        return found


class IntentFile:
    """The intent of one topic: the last one that was written, finished or not. Whoever uses it holds the delay lock.

    Invariant: what the file holds is whole, or it holds no intent; and it is written anew only after everything that
    it says was delivered, and is known to be done after a power cut too.
    """

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self._filesystem, self._path = filesystem, path
        self._file: File | None = None
        self._seen: tuple[bytes, Intent | None] = (b"", None)

    def read(self) -> Intent | None:
        """The intent; None where there is none."""
        if self._file is None:
            if not self._filesystem.exists(self._path):
                return None
            self._file = self._filesystem.open(self._path, writable=True)
        head = self._file.read(0, HEAD_SIZE)
        if head != self._seen[0]:
            self._seen = head, self._parsed(self._file, head)
        return self._seen[1]

    def _parsed(self, file: File, head: bytes) -> Intent | None:
        words = head.split()
        if len(words) != 2 or not all(word.isdigit() for word in words):
            return None
        checksum, size = map(int, words)
        body = file.read(HEAD_SIZE, size)
        if len(body) != size or crc32c(body) != checksum:
            return None
        data = json.loads(body)
        targets = [Target(partition, since, _rows(stretches)) for partition, since, stretches in data["targets"]]
        return Intent(data["marker"], targets)

    def write(self, intent: Intent) -> None:
        """Put `intent` in the place of the last one; on disk when this returns."""
        targets = [(target.partition, target.since, _stretches(target.rows)) for target in intent.targets]
        body = json.dumps({"marker": intent.marker, "targets": targets}, separators=(",", ":")).encode()
        head = b"%d %d" % (crc32c(body), len(body))
        if self._file is None:
            self._file = self._made()
        self._file.write(0, head.ljust(HEAD_SIZE) + body)
        self._file.sync()
        self._seen = head.ljust(HEAD_SIZE), intent

    def _made(self) -> File:
        file = self._filesystem.open(self._path, writable=True, create=True)
        if file.size() < INTENT_SIZE_FIRST:
            file.preallocate(INTENT_SIZE_FIRST)
        file.sync()
        self._filesystem.sync_directory(os.path.dirname(self._path))
        return file

    def sync(self) -> None:
        """What was read is on disk, whoever wrote it."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        file, self._file = self._file, None
        self._seen = b"", None
        if file is not None:
            file.close()


def _stretches(rows: Sequence[Row]) -> list[tuple[str, int, int]]:
    """The rows with what follows upon another put together: horizon, first number, count."""
    stretches: list[tuple[str, int, int]] = []
    for horizon, number in rows:
        if stretches and stretches[-1][0] == horizon and sum(stretches[-1][1:]) == number:
            stretches[-1] = horizon, stretches[-1][1], stretches[-1][2] + 1
        else:
            stretches.append((horizon, number, 1))
    return stretches


def _rows(stretches: Sequence[tuple[str, int, int]]) -> list[Row]:
    return [(horizon, number) for horizon, first, count in stretches for number in range(first, first + count)]
