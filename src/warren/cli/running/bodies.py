"""The bodies of `warren put`: from arguments, whole files, and the lines of a stream as they arrive."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, Final

from warren.errors import BadInput, TooLarge
from warren.storage.format.limits import BODY_SIZE_MAX

READ_SIZE: Final = 1 << 20
STDIN: Final = "-"


class Bodies:
    """The bodies to put. Raises BadInput if there are none, or if arguments are mixed with files.

    `separator` ends each body of a file or of stdin; None makes one body of each whole file. The single argument `-`
    stands for the lines of stdin.
    """

    def __init__(self, arguments: Sequence[str], files: Sequence[str], separator: bytes | None) -> None:
        if list(arguments) == [STDIN]:
            arguments, files = [], [*files, STDIN]
            separator = b"\n" if separator is None else separator
        if arguments and (files or separator is not None):
            raise BadInput("pass the bodies as arguments, or in files and lines, not both")
        if not arguments and not files:
            if separator is None and sys.stdin.isatty():
                raise BadInput("nothing to put: pass a BODY, --file, or lines on stdin")
            files, separator = [STDIN], b"\n" if separator is None else separator
        for path in files:
            _check_file(path)
        self._arguments, self._files, self._separator = arguments, files, separator

    def batches(self) -> Iterator[Sequence[bytes]]:
        """Yields the bodies that are put together: all arguments, each whole file, and the lines of one read."""
        if self._arguments:
            yield [os.fsencode(text) for text in self._arguments]
        for path in self._files:
            with _opened(path) as stream:
                if self._separator is None:
                    yield [_whole(stream)]
                else:
                    yield from lines(stream, self._separator)

    @property
    def size(self) -> int | None:
        """The number of bytes to read, or None for a pipe or a terminal."""
        sizes = [_size(path) for path in self._files]
        return None if None in sizes else sum(size for size in sizes if size is not None)


def lines(stream: BinaryIO, separator: bytes, size_max: int = BODY_SIZE_MAX) -> Iterator[list[bytes]]:
    """Yields the bodies that `separator` ends, in batches. A batch is what has arrived; it never waits for more.

    Raises TooLarge before a body takes more memory than a body may have.
    """
    begun = bytearray()
    while arrived := stream.read1(READ_SIZE):  # type: ignore[attr-defined]
        ended, end, rest = arrived.rpartition(separator)
        if end:
            begun += ended
            yield bytes(begun).split(separator)
            begun.clear()
        begun += rest
        if len(begun) > size_max:
            raise TooLarge("body", len(begun), size_max)
    if begun:
        yield [bytes(begun)]


def _whole(stream: BinaryIO) -> bytes:
    body = stream.read(BODY_SIZE_MAX + 1)
    if len(body) > BODY_SIZE_MAX:
        raise TooLarge("body", len(body), BODY_SIZE_MAX)
    return body


def _check_file(path: str) -> None:
    """Raises BadInput for a directory, and OSError for a missing file, before anything is created or put."""
    if path != STDIN and stat.S_ISDIR(os.stat(path).st_mode):
        raise BadInput(f"{path} is a directory; name its files")


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if path == STDIN:
        yield sys.stdin.buffer
        return
    with open(path, "rb") as file:
        yield file


def _size(path: str) -> int | None:
    try:
        status = os.fstat(sys.stdin.fileno()) if path == STDIN else os.stat(path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
