"""Ids of producers: each is handed out once in the life of a store, even if the broker dies."""

from __future__ import annotations

import threading
from typing import Final

from warren.errors import CorruptSettings
from warren.queue.state import paths
from warren.queue.state.json_file import read_json, write_json
from warren.storage.disk.filesystem import FileSystem

PRODUCER_IDS_RESERVED: Final = 1000
"""How many producer ids are reserved on disk at once."""

RESERVED: Final = "reserved"


class ProducerIds:
    """Counts ids. Any thread may call, and waits for the disk now and then. Only one broker at a time has the store.

    Invariant: no id is handed out before a count above it is on disk.
    """

    def __init__(self, filesystem: FileSystem, store_path: str) -> None:
        self._filesystem = filesystem
        self._directory = paths.broker_directory(store_path)
        self._next = self._reserved = 0
        self._mutex = threading.Lock()

    def take(self) -> int:
        """Returns an id that no other producer has."""
        with self._mutex:
            if self._next >= self._reserved:
                self._reserve()
            self._next += 1
            return self._next - 1

    def _reserve(self) -> None:
        path = paths.producer_ids_file(self._directory)
        kept = (read_json(self._filesystem, path) or {}).get(RESERVED, 0)
        if not isinstance(kept, int) or kept < 0:
            raise CorruptSettings(path, f"{RESERVED} is {kept!r}")
        self._filesystem.make_directory(self._directory)
        write_json(self._filesystem, path, {RESERVED: kept + PRODUCER_IDS_RESERVED})
        self._next, self._reserved = kept, kept + PRODUCER_IDS_RESERVED
