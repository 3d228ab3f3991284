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
NO_STATE: Final = -1
"""Means that the last snapshot must be read before the state is used again."""

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
        """Replaces the state by a value that `snapshot` returned. An empty snapshot is the initial state."""
        ...


class Ledger:
    """Keeps `state` the same in all processes. Any thread may call.

    A caller changes the state within `changing`: there it is up to date, and no other process changes it. When `add`
    returns, the event is in the ledger and survives the death of the process. After `sync` it is on disk.
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
        self.next_number = NO_STATE
        """The number of the first event that is not in the state yet."""
        self._events, self._size, self._snapshot_size = 0, 0, 0

    @contextmanager
    def changing(self) -> Iterator[None]:
        """While this is entered the state is up to date, and no other thread or process changes it."""
        with self._lock:
            self._catch_up()
            yield
            if self._events >= EVENTS_PER_SNAPSHOT and self._size >= SNAPSHOT_SHARE_MAX * self._snapshot_size:
                # There may be room for the snapshot later. The events are stored in any case.
                with suppress(StorageFull):
                    self._write_snapshot()

    def look(self) -> None:
        """Brings the state up to date, for reading."""
        with self._lock:
            self._catch_up()

    def add(self, kind: str, event: LedgerEvent) -> None:
        """Adds an event. Called within `changing`. If this raises, the event was not added."""
        body = ENCODER.encode(event).encode()
        self.log.append(body, tag=kind)
        next_number = self.next_number
        # Also for an interruption: a state that is half changed must not be used again.
        self.next_number = NO_STATE
        self._state.apply(kind, event)
        self.next_number = next_number + 1
        self._events, self._size = self._events + 1, self._size + len(body)

    def sync(self) -> None:
        """Syncs all events that were added. Called outside `changing`, so that several callers share a sync."""
        self.log.sync()

    def _catch_up(self) -> None:
        end, next_number = self.log.end, self.next_number
        if next_number == end:
            return
        self.next_number = NO_STATE
        # The log ends before the events that were replayed: unsynced events were lost in a crash.
        if next_number < self.log.first or next_number > end:
            next_number = self._start()
        while next_number < end:
            for message in self.log.read(next_number):
                next_number = message.number + 1
                if message.tag == SNAPSHOT:
                    self._events, self._size, self._snapshot_size = 0, 0, len(message.body)
                else:
                    self._state.apply(message.tag, json.loads(message.body))
                    self._events, self._size = self._events + 1, self._size + len(message.body)
        self.next_number = next_number

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
        self.next_number = receipt.number + 1
        self._events, self._size, self._snapshot_size = 0, 0, len(body)
        # The snapshot must be on disk before the events that it replaces may be removed.
        self.log.sync()
        self.log.retire(before=receipt.number)

    def close(self) -> None:
        self.log.close()
        self._lock.close()

    def after_fork(self) -> None:
        self._lock.after_fork()
