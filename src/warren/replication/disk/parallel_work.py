"""Work on many files by several threads, because a disk syncs many files in about the time of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, FileSystem

THREADS: Final = 8
T = TypeVar("T")
R = TypeVar("R")


def for_each(filesystem: FileSystem, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Calls `work` with each of the items, and returns the results in their order. Raises the first error.

    Only the file system of the machine gets threads. Any other is there for tests, whose runs have to repeat.
    """
    items = list(items)
    if len(items) < 2 or filesystem is not SYSTEM_FILE_SYSTEM:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(len(items), THREADS)) as threads:
        return list(threads.map(work, items))
