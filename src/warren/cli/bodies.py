"""Where the bodies of `warren put` come from: arguments, whole files, and the lines of a stream as they arrive."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

from warren.config import BODY_SIZE_MAX
from warren.errors import BadInput, TooLarge

READ_SIZE: Final = 1 << 20
STDIN: Final = "-"


def argument_bytes(text: str) -> bytes:
    """An argument of the command line as the bytes that the shell gave."""
    return os.fsencode(text)


def whole(stream: BinaryIO, size_max: int = BODY_SIZE_MAX) -> bytes:
    """Everything that `stream` holds, as one body; TooLarge before more memory is taken than a body may have."""
    body = stream.read(size_max + 1)
    if len(body) > size_max:
        raise TooLarge("body", len(body), size_max)
    return body


def lines(stream: BinaryIO, separator: bytes, size_max: int = BODY_SIZE_MAX) -> Iterator[list[bytes]]:
    """The bodies that `separator` ends, in batches: what has arrived is given at once, and never waits for more."""
    begun = bytearray()
    while arrived := stream.read1(READ_SIZE):  # type: ignore[attr-defined]
        ended, found, rest = arrived.rpartition(separator)
        if found:
            begun += ended
            yield bytes(begun).split(separator)
            begun.clear()
        begun += rest
        if len(begun) > size_max:
            raise TooLarge("body", len(begun), size_max)
    if begun:
        yield [bytes(begun)]


def check_file(path: str) -> None:
    """BadInput for a directory, and OSError for what is not there; `-` is stdin."""
    if path != STDIN and stat.S_ISDIR(os.stat(path).st_mode):
        raise BadInput(f"{path} is a directory; name the files in it")


@contextmanager
def opened(path: str, stdin: BinaryIO) -> Iterator[BinaryIO]:
    """The file `path` for reading; `-` is stdin."""
    if path == STDIN:
        yield stdin
        return
    with open(path, "rb") as file:
        yield file


def total_size(paths: Iterable[str], stdin: BinaryIO) -> int | None:
    """How many bytes there are to read; None where a pipe or a terminal does not tell."""
    sizes = [_size(path, stdin) for path in paths]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def _size(path: str, stdin: BinaryIO) -> int | None:
    try:
        found = os.fstat(stdin.fileno()) if path == STDIN else os.stat(path)
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
