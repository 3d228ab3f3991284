"""Ids of producers: each is assigned once in the life of a store, to one user, even if the broker dies.

An id is a count and a tag of the user that asked for it, 63 bits in all:

    count (40 bits) | tag of count and user (23 bits)

So the broker knows from an id alone, also after a restart, whether a user may send batches by it. This is needed
because every consumer sees the ids of producers in the batches that it reads.
"""

from __future__ import annotations

import hashlib
import threading
from typing import Final

from warren.errors import CorruptSettings
from warren.queue.state import paths
from warren.queue.state.json_file import read_json, write_json
from warren.storage.disk.filesystem import FileSystem

PRODUCER_IDS_RESERVED: Final = 1000
"""How many producer ids are reserved on disk together."""

RESERVED: Final = "reserved"
TAG_BITS: Final = 23


def is_given_to(producer_id: int, user: str) -> bool:
    """Returns whether this id may have been assigned to the user. An id of another user passes once in 2**23 times."""
    count = producer_id >> TAG_BITS
    return producer_id == _id(count, user)


def _id(count: int, user: str) -> int:
    digest = hashlib.blake2b(f"{count}/{user}".encode(errors="surrogatepass"), digest_size=4).digest()
    return count << TAG_BITS | int.from_bytes(digest) >> (32 - TAG_BITS)


class ProducerIds:
    """Counts ids. Any thread may call, and sometimes waits for the disk. Only one broker at a time has the store.

    Invariant: no id is handed out before a count above it is on disk.
    """

    def __init__(self, filesystem: FileSystem, store_path: str) -> None:
        self._filesystem = filesystem
        self._directory = paths.broker_directory(store_path)
        self._next = self._reserved = 0
        self._mutex = threading.Lock()

    def take(self, user: str = "") -> int:
        """Returns an id for this user that no producer has had before."""
        with self._mutex:
            if self._next >= self._reserved:
                self._reserve()
            self._next += 1
            return _id(self._next - 1, user)

    def _reserve(self) -> None:
        path = paths.producer_ids_file(self._directory)
        first = (read_json(self._filesystem, path) or {}).get(RESERVED, 0)
        if not isinstance(first, int) or first < 0:
            raise CorruptSettings(path, f"{RESERVED} is {first!r}")
        self._filesystem.make_directory(self._directory)
        write_json(self._filesystem, path, {RESERVED: first + PRODUCER_IDS_RESERVED})
        self._next, self._reserved = first, first + PRODUCER_IDS_RESERVED
