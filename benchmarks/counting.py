"""The machine's file system with a tally of its calls: syncs, bytes read, pages of maps touched."""

from __future__ import annotations

import mmap
import os
import shutil
import threading
from pathlib import Path
from typing import Final

import numpy as np

from warren.storage.disk.filesystem import SystemFile, SystemFileSystem

PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")
PAGE_IS_PRESENT: Final = np.uint64(1 << 63)
PAGEMAP_ENTRY_SIZE: Final = 8


class Tally:
    """The calls of the files. Any thread may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.syncs = 0
        self.pages_read: dict[str, set[int]] = {}
        self.maps: list[mmap.mmap] = []
        """Kept, so that their pages can be counted after the code that mapped them has closed them."""

    def note_sync(self) -> None:
        with self._lock:
            self.syncs += 1

    def note_read(self, path: str, position: int, size: int) -> None:
        with self._lock:
            pages = range(position // PAGE_SIZE, (position + size + PAGE_SIZE - 1) // PAGE_SIZE)
            self.pages_read.setdefault(path, set()).update(pages)

    def pages_seen(self, path: str) -> set[int]:
        """Returns the pages of a file that were read, or touched in a map of it."""
        return self.pages_read.get(path, set()) | _pages_touched(path)


class CountingFile(SystemFile):
    """A file that counts its calls in the tally."""

    def __init__(self, path: str, *, writable: bool, create: bool, tally: Tally) -> None:
        super().__init__(path, writable=writable, create=create)
        self._tally = tally

    def map(self, length: int, *, writable: bool) -> mmap.mmap:
        view = super().map(length, writable=writable)
        self._tally.maps.append(view)
        return view

    def read(self, position: int, size: int) -> bytes:
        data = super().read(position, size)
        self._tally.note_read(self.path, position, len(data))
        return data

    def sync(self) -> None:
        self._tally.note_sync()
        super().sync()


class CountingFileSystem(SystemFileSystem):
    """The machine's own files, counted. With another `boot_id` the machine seems to have been restarted."""

    def __init__(self, boot_id: bytes | None = None) -> None:
        self.tally = Tally()
        self._boot_id = boot_id

    def open(self, path: str, *, writable: bool, create: bool = False) -> CountingFile:
        return CountingFile(path, writable=writable, create=create, tally=self.tally)

    def boot_id(self) -> bytes:
        return self._boot_id or super().boot_id()


class IndexKeepingFile(SystemFile):
    """A file of which every synced state is kept in a copy: the least that a power cut leaves."""

    def sync(self) -> None:
        super().sync()
        shutil.copyfile(self.path, synced_copy(self.path))


class IndexKeepingFileSystem(SystemFileSystem):
    """The machine's own files, with a copy of the index as it was at its last sync."""

    def open(self, path: str, *, writable: bool, create: bool = False) -> SystemFile:
        kind = IndexKeepingFile if Path(path).name.startswith("index") else SystemFile
        return kind(path, writable=writable, create=create)


def synced_copy(path: str) -> Path:
    """Returns where the last synced state of a log's index is kept: outside the log."""
    directory = Path(path).parent
    return directory.with_name(f"{directory.name}.synced-index")


def _pages_touched(path: str) -> set[int]:
    """Returns the pages of a file that this process has touched in its maps.

    The kernel maps the cached pages around each touched one, so these are never fewer than were read.
    """
    pages: set[int] = set()
    with open("/proc/self/maps", encoding="utf-8") as maps, open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        for line in maps:
            span, _, offset, _, _, *name = line.split(maxsplit=5)
            if not name or name[0].strip() != path:
                continue
            start, end = (int(address, 16) // PAGE_SIZE for address in span.split("-"))
            entries = os.pread(pagemap.fileno(), (end - start) * PAGEMAP_ENTRY_SIZE, start * PAGEMAP_ENTRY_SIZE)
            present = np.flatnonzero(np.frombuffer(entries, np.uint64) & PAGE_IS_PRESENT)
            pages.update((present + int(offset, 16) // PAGE_SIZE).tolist())
    return pages
