"""A state that many processes share: a log of its events, which each process replays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

from warren.clock import Clock
from warren.errors import StorageFull
from warren.queue.state.shared_lock import SharedLock
from warren.storage import Log
from warren.storage.append.background_sync import BackgroundSync
from warren.storage.disk.filesystem import FileSystem

SNAPSHOT: Final = "snapshot"
LEDGER_BLOCK_SIZE: Final = 16 << 20
"""A snapshot must fit into a block, so this is also the size limit of a state."""
EVENTS_PER_SNAPSHOT: Final = 1024
SNAPSHOT_SHARE_MAX: Final = 8
"""A snapshot is written when the events since the last one are this many times its size."""
ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
NOTHING_SEEN: Final = -1
"""Means: read the last snapshot before the state is used again."""

LedgerEvent = dict[str, Any]


class LedgerState(Protocol):
    """The state of a ledger. The same events lead to the same state in every process."""

    def apply(self, kind: str, event: LedgerEvent) -> None:
        """Applies an event of this kind."""
        ...

    def snapshot(self) -> LedgerEvent:
        """Returns the whole state, for JSON."""
        ...

    def restore(self, snapshot: LedgerEvent) -> None:
        """Replaces the state by what `snapshot` returned. An empty snapshot is the state at the beginning."""
        ...


class Ledger:
    """Changes `state` in the same way for all processes. Any thread may call.

    A caller changes the state within `changing`: there it is up to date, and no other process changes it. An event is
    in the ledger as soon as `add` returns (it survives the death of the process), and on disk after `sync`.
    """

    def __init__(
        self,
        directory: str,
        state: LedgerState,
        filesystem: FileSystem,
        clock: Clock,
        background: BackgroundSync | None = None,
        durability: str = "os",
    ) -> None:
        filesystem.make_directory(directory)
        self._state = state
        self._lock = SharedLock(filesystem, directory + ".lock", clock)
        with self._lock:
            self.log = Log.open(
                directory,
                durability=durability,
                block_size=LEDGER_BLOCK_SIZE,
                filesystem=filesystem,
                clock=clock,
                background=background,
            )
        self.seen = NOTHING_SEEN
        """The number of the first event that is not in the state yet."""
        self._events, self._size, self._snapshot_size = 0, 0, 0

    @contextmanager
    def changing(self) -> Iterator[None]:
        """While this is entered the state is up to date, and no other thread or process changes it."""
        with self._lock:
            self._catch_up()
            yield
            if self._events >= EVENTS_PER_SNAPSHOT and self._size >= SNAPSHOT_SHARE_MAX * self._snapshot_size:
                # If there is no room for the snapshot now, there may be later. The events are stored in any case.
                with suppress(StorageFull):
                    self._write_snapshot()

    def look(self) -> None:
        """Brings the state up to date, for reading."""
        with self._lock:
            self._catch_up()

    def add(self, kind: str, event: LedgerEvent) -> None:
        """Adds an event. Called within `changing`. If this raises, nothing has happened."""
        body = ENCODER.encode(event).encode()
        self.log.append(body, tag=kind)
        seen = self.seen
        # Any interruption: a state that is half changed must not be used again.
        self.seen = NOTHING_SEEN
        self._state.apply(kind, event)
        self.seen = seen + 1
        self._count(body)

    def sync(self) -> None:
        """Syncs all events that were added. Called outside of `changing`, so that several callers share a sync."""
        self.log.sync()

    def _count(self, body: bytes) -> None:
        self._events, self._size = self._events + 1, self._size + len(body)

    def _catch_up(self) -> None:
        end, seen = self.log.end, self.seen
        if seen == end:
            return
        self.seen = NOTHING_SEEN
        # The log is shorter than what was replayed: unsynced events were lost in a crash.
        if seen < self.log.first or seen > end:
            seen = self._start()
        while seen < end:
            for message in self.log.read(seen):
                seen = message.number + 1
                if message.tag == SNAPSHOT:
                    self._events, self._size, self._snapshot_size = 0, 0, len(message.body)
                else:
                    self._state.apply(message.tag, json.loads(message.body))
                    self._count(message.body)
        self.seen = seen

    def _start(self) -> int:
        """Restores the state from the last snapshot. Returns the number of the first event to apply to it."""
        self._events = self._size = self._snapshot_size = 0
        for message in self.log.backwards():
            if message.tag == SNAPSHOT:
                self._state.restore(json.loads(message.body))
                self._snapshot_size = len(message.body)
                return message.number + 1
        self._state.restore({})
        return self.log.first

    def _write_snapshot(self) -> None:
        body = ENCODER.encode(self._state.snapshot()).encode()
        receipt = self.log.append(body, tag=SNAPSHOT)
        self.seen = receipt.number + 1
        self._events, self._size, self._snapshot_size = 0, 0, len(body)
        # The snapshot must be on disk before the events that it replaces may go.
        self.log.sync()
        self.log.retire(before=receipt.number)

    def close(self) -> None:
        self.log.close()
        self._lock.close()

    def after_fork(self) -> None:
        self._lock.after_fork()
