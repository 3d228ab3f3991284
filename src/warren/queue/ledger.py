"""A state that many processes share: a log of everything that happened to it, which each of them replays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

from warren.clock import Clock
from warren.errors import StorageFull
from warren.queue.shared_lock import SharedLock
from warren.storage import Log
from warren.storage.background import Background
from warren.storage.filesystem import FileSystem

SNAPSHOT: Final = "snapshot"
LEDGER_BLOCK_SIZE: Final = 16 << 20
"""A snapshot has to fit a block: this is also how large a state can become."""
EVENTS_PER_SNAPSHOT: Final = 1024
SNAPSHOT_SHARE_MAX: Final = 8
"""A snapshot is written when the events since the last one weigh this many times as much as it does."""
ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
NOTHING_SEEN: Final = -1
"""The state is taken from the last snapshot before it is used again."""

Event = dict[str, Any]


class State(Protocol):
    """What a ledger keeps. The same events give the same state, in whatever process."""

    def apply(self, kind: str, event: Event) -> None:
        """`kind` happened."""
        ...

    def snapshot(self) -> Event:
        """All of the state, for JSON."""
        ...

    def restore(self, snapshot: Event) -> None:
        """Be what `snapshot` gave, whatever the state was before; as at the beginning, where it is empty."""
        ...


class Ledger:
    """Changes `state` for all processes alike. Any thread may call.

    Whoever changes the state does so within `changing`: there it is up to date, and nobody else's turn. An event is in
    the ledger as soon as `add` returns (it survives the death of the process), and on disk after `sync`.
    """

    def __init__(
        self,
        directory: str,
        state: State,
        filesystem: FileSystem,
        clock: Clock,
        background: Background | None = None,
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
        """The state is up to date, and nobody else changes it."""
        with self._lock:
            self._catch_up()
            yield
            if self._events >= EVENTS_PER_SNAPSHOT and self._size >= SNAPSHOT_SHARE_MAX * self._snapshot_size:
                # Where there is no room for it now, there may be later: what happened, happened.
                with suppress(StorageFull):
                    self._write_snapshot()

    def look(self) -> None:
        """Bring the state up to date, to look at it."""
        with self._lock:
            self._catch_up()

    def add(self, kind: str, event: Event) -> None:
        """`kind` happens now. To be called within `changing`. Where this raises, nothing has happened."""
        body = ENCODER.encode(event).encode()
        self.log.append(body, tag=kind)
        seen = self.seen
        # Whatever interrupts the change: a state that is half changed is not used again.
        self.seen = NOTHING_SEEN
        self._state.apply(kind, event)
        self.seen = seen + 1
        self._count(body)

    def sync(self) -> None:
        """Everything that was added is on disk. Called outside of `changing`, so that those who wait share a sync."""
        self.log.sync()

    def _count(self, body: bytes) -> None:
        self._events, self._size = self._events + 1, self._size + len(body)

    def _catch_up(self) -> None:
        end, seen = self.log.end, self.seen
        if seen == end:
            return
        self.seen = NOTHING_SEEN
        # Shorter than what was seen: events were lost that nobody had been promised.
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
        """Take the state from the last snapshot; the number of the first event that is to be applied to that."""
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
        # On disk before what it stands for may go.
        self.log.sync()
        self.log.retire(before=receipt.number)

    def close(self) -> None:
        self.log.close()
        self._lock.close()

    def after_fork(self) -> None:
        self._lock.after_fork()
