"""The journal of a store: what happened to its transactions, and the messages of those that have not ended."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from warren.clock import Clock
from warren.config import BLOCK_SIZE_MAX, TRANSACTIONS_REMEMBERED_MAX
from warren.errors import StorageError
from warren.queue.shared_lock import SharedLock
from warren.storage import Log
from warren.storage.columns import Batch
from warren.storage.filesystem import FileSystem
from warren.transaction.entry import Entry, Piece
from warren.transaction.rows import batch_of, row_of
from warren.transaction.states import State

LOGGER: Final = logging.getLogger("warren")
SNAPSHOT: Final = b"snapshot"
CHANGED: Final = b"changed"
ENDED: Final = b"ended"
JOURNAL_BLOCK_SIZE: Final = 4 << 20
EVENTS_PER_SNAPSHOT: Final = 1024
SNAPSHOT_SHARE_MAX: Final = 8
"""A snapshot is written when the events since the last one weigh this many times as much as it does,"""
ROWS_PER_SNAPSHOT: Final = 32 << 20
"""or when so many bytes of messages were written."""


class Transactions:
    """All that is known of transactions: the entries of those that have not ended, and how the latest others did."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.ended: dict[str, State] = {}

    def state(self, id: str) -> State:
        entry = self.entries.get(id)
        return entry.state if entry is not None else self.ended.get(id, State.UNKNOWN)

    def change(self, entry: Entry) -> None:
        """The transaction is now what `entry` says."""
        self.entries[entry.id] = entry
        self.ended.pop(entry.id, None)

    def end(self, id: str, state: State) -> None:
        """The transaction is over. The oldest of those that are remembered is forgotten."""
        self.entries.pop(id, None)
        self.ended.pop(id, None)
        self.ended[id] = state
        while len(self.ended) > TRANSACTIONS_REMEMBERED_MAX:
            del self.ended[next(iter(self.ended))]

    def snapshot(self) -> dict[str, Any]:
        return {
            "entries": [entry.to_json() for entry in self.entries.values()],
            "ended": list(self.ended.items()),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.entries = {data["id"]: Entry.from_json(data) for data in snapshot.get("entries", ())}
        self.ended = {id: State(state) for id, state in snapshot.get("ended", ())}


class Journal:
    """One log for rows and events, so that one sync makes both durable. Any thread of any process may call.

    Whoever writes does so within `changing`: there `transactions` is up to date, and nobody else's turn. What is
    written survives the death of the process at once, and a power cut after `sync`. An event that survives stands
    behind its rows in the same log, so they survive too. Events are told from rows by the marker of their records.
    """

    def __init__(self, directory: str, filesystem: FileSystem, clock: Clock) -> None:
        self.transactions = Transactions()
        self._directory, self._filesystem, self._clock = directory, filesystem, clock
        filesystem.make_directory(directory)
        self._lock = SharedLock(filesystem, directory + ".lock", clock)
        with self._lock:
            self.log = self._open(JOURNAL_BLOCK_SIZE)
        self._large: Log | None = None
        self._seen = -1
        self._events = self._size = self._row_size = self._snapshot_size = 0

    def _open(self, block_size: int) -> Log:
        return Log.open(
            self._directory, durability="os", block_size=block_size, filesystem=self._filesystem, clock=self._clock
        )

    @contextmanager
    def changing(self) -> Iterator[Transactions]:
        """The transactions as they are now, while nobody else changes them."""
        with self._lock:
            self._catch_up()
            yield self.transactions
            if self._is_snapshot_due():
                self._try_snapshot()

    def state(self, id: str) -> State:
        """The state of a transaction now."""
        with self._lock:
            self._catch_up()
            return self.transactions.state(id)

    def entry(self, id: str) -> Entry | None:
        """What is known of a transaction that has not ended."""
        with self._lock:
            self._catch_up()
            return self.transactions.entries.get(id)

    def entries(self) -> list[Entry]:
        """The transactions that have not ended, as they are now."""
        # Without the lock where nothing was written since: asked for often, and most often there is none.
        if self._seen == self.log.end and not self.transactions.entries:
            return []
        with self._lock:
            self._catch_up()
            return list(self.transactions.entries.values())

    # --- Within `changing` ---

    def add_rows(self, batch: Batch) -> Piece:
        """Write messages; where they lie."""
        size = sum(map(len, batch.bodies))
        numbers = self._log_for(max(map(len, batch.bodies))).append_many(
            batch.bodies,
            tags=batch.tags,
            keys=batch.keys,
            ids=batch.ids,
            headers=batch.headers,
            corr_offsets=batch.corr_offsets,
        )
        self._seen = numbers.stop
        self._row_size += size
        return Piece(numbers.start, len(numbers))

    def _log_for(self, body_size: int) -> Log:
        """The journal, opened so that a body of that size fits a block."""
        if body_size < JOURNAL_BLOCK_SIZE // 2:
            return self.log
        if self._large is None:
            self._large = self._open(BLOCK_SIZE_MAX)
        return self._large

    def change(self, entry: Entry) -> None:
        """From now on the transaction is what `entry` says."""
        self._add(CHANGED, _packed(entry.to_json()))
        self.transactions.change(entry)

    def end(self, id: str, state: State) -> None:
        """The transaction is over."""
        self._add(ENDED, _packed({"id": id, "state": state}))
        self.transactions.end(id, state)

    def _add(self, kind: bytes, body: bytes) -> int:
        numbers = self._log_for(len(body)).append_many([body], marker=kind)
        self._seen = numbers.stop
        self._count(body)
        return numbers.start

    # --- At any time ---

    @property
    def end_number(self) -> int:
        """What is written next gets at least this number."""
        return self.log.end

    def rows(self, piece: Piece) -> Batch:
        """The messages that `add_rows` wrote there."""
        number, end = piece.first, piece.first + piece.row_count
        messages = self.log.read(number, limit=piece.row_count)
        while messages and messages[-1].number + 1 < end:
            number = messages[-1].number + 1
            messages += self.log.read(number, limit=end - number)
        return batch_of(list(map(row_of, messages)))

    def sync(self) -> None:
        """Everything that was written is on disk. Called outside of `changing`, so that those who wait share a sync."""
        self.log.sync()

    # --- Replaying ---

    def _catch_up(self) -> None:
        end = self.log.end
        if self._seen == end:
            return
        if not self.log.first <= self._seen <= end:
            self._start()
        for marked in self.log.markers(self._seen):
            self._replay(marked.marker, self._event(marked.number))
        self._seen = end

    def _event(self, number: int) -> bytes:
        message = self.log.at(number)
        assert message is not None
        return message.body

    def _replay(self, kind: bytes, body: bytes) -> None:
        if kind == SNAPSHOT:
            self._forget_sizes(len(body))
            return
        event = json.loads(body)
        if kind == CHANGED:
            self.transactions.change(Entry.from_json(event))
        elif kind == ENDED:
            self.transactions.end(event["id"], State(event["state"]))
        self._count(body)

    def _start(self) -> None:
        """Take the state from the last snapshot; what came after it is applied to that."""
        self.transactions.restore({})
        self._forget_sizes(0)
        self._seen = self.log.first
        snapshots = [marked.number for marked in self.log.markers(self._seen) if marked.marker == SNAPSHOT]
        if snapshots:
            body = self._event(snapshots[-1])
            self.transactions.restore(json.loads(body))
            self._forget_sizes(len(body))
            self._seen = snapshots[-1] + 1

    # --- Snapshots ---

    def _count(self, body: bytes) -> None:
        self._events, self._size = self._events + 1, self._size + len(body)

    def _forget_sizes(self, snapshot_size: int) -> None:
        self._events = self._size = self._row_size = 0
        self._snapshot_size = snapshot_size

    def _is_snapshot_due(self) -> bool:
        if self._row_size >= ROWS_PER_SNAPSHOT:
            return True
        return self._events >= EVENTS_PER_SNAPSHOT and self._size >= SNAPSHOT_SHARE_MAX * self._snapshot_size

    def _try_snapshot(self) -> None:
        """What was decided stays decided, whether there is room for a snapshot or not."""
        try:
            self._write_snapshot()
        except StorageError:
            LOGGER.exception("the journal of transactions could not be shortened; it is tried again")

    def _write_snapshot(self) -> None:
        """Write all that is known, and retire what nobody needs any more. What is not ended keeps its rows."""
        body = _packed(self.transactions.snapshot())
        number = self._add(SNAPSHOT, body)
        self._forget_sizes(len(body))
        # On disk before what it stands for may go.
        self.log.sync()
        self.log.retire(before=min([number, *(entry.first for entry in self.transactions.entries.values())]))

    def close(self) -> None:
        self.log.close()
        if self._large is not None:
            self._large.close()
        self._lock.close()

    def after_fork(self) -> None:
        self._lock.after_fork()


def _packed(event: dict[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()
