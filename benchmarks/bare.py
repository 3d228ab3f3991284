"""The baselines of Warren: the least that Python can do to write or read the same bytes."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.workspace import BODY_SIZE
from warren.storage.format.layout import NO_KEY, RECORD_HEAD, SIZE_WORD

RECORD_SIZE: Final = RECORD_HEAD.size + BODY_SIZE
"""A packed record of one message: 156 bytes, without padding."""
TIMESTAMP: Final = 1_700_000_000_000_000


class BareFile:
    """A mapped, preallocated file of `count` records, every page of which was touched."""

    def __init__(self, path: Path, count: int, body: bytes) -> None:
        size = count * RECORD_SIZE
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(descriptor, 0, size)
        self._view = mmap.mmap(descriptor, size)
        os.close(descriptor)
        self._count, self._body = count, body
        self.write()

    def write(self) -> float:
        """The bare loop: returns the seconds to pack every head into the map and copy every body after it."""
        view, body, pack_into = self._view, self._body, RECORD_HEAD.pack_into
        head_size, record_size, size_word = RECORD_HEAD.size, RECORD_SIZE, RECORD_SIZE - SIZE_WORD.size
        positions = range(0, self._count * RECORD_SIZE, RECORD_SIZE)
        start = perf_counter()
        for number, position in enumerate(positions):
            pack_into(view, position, size_word, 0, position, number, TIMESTAMP, 0, 1, -1, 0, 0, 0, 0, NO_KEY, 0)
            view[position + head_size : position + record_size] = body
        return perf_counter() - start

    def read(self) -> float:
        """The bare read: returns the seconds to unpack every head and slice every body."""
        view, unpack_from, head_size, record_size = self._view, RECORD_HEAD.unpack_from, RECORD_HEAD.size, RECORD_SIZE
        positions = range(0, self._count * RECORD_SIZE, RECORD_SIZE)
        start = perf_counter()
        for position in positions:
            _head = unpack_from(view, position)
            _body = view[position + head_size : position + record_size]
        return perf_counter() - start


def packed_record(body: bytes) -> bytes:
    head = RECORD_HEAD.pack(RECORD_SIZE - SIZE_WORD.size, 0, 0, 0, TIMESTAMP, 0, 1, -1, 0, 0, 0, 0, NO_KEY, 0)
    return head + body


def write_appending(path: Path, record: bytes, count: int) -> float:
    """The bare write: returns the seconds of one `os.write` per record to a file opened for appending."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    write = os.write
    start = perf_counter()
    for _ in range(count):
        write(descriptor, record)
    seconds = perf_counter() - start
    os.close(descriptor)
    return seconds


def write_synced(path: Path, record: bytes, count: int) -> float:
    """Returns the seconds of a `pwrite` and an `fdatasync` for each record, into a file preallocated like a block."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(descriptor, 0, count * len(record))
    os.fsync(descriptor)
    positions = range(0, count * len(record), len(record))
    start = perf_counter()
    for position in positions:
        os.pwrite(descriptor, record, position)
        os.fdatasync(descriptor)
    seconds = perf_counter() - start
    os.close(descriptor)
    return seconds
