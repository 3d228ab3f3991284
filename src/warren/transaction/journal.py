"""The journal of a store: the events of its transactions, and the messages of transactions that have not ended."""

from __future__ import annotations

import json
import logging
import os.path
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from warren.clock import Clock
from warren.errors import CorruptRecord, JournalDamaged, NotALog, StorageError, UnknownVersion
from warren.queue.state.shared_lock import SharedLock
from warren.storage import Log
from warren.storage.disk.filesystem import FileSystem
from warren.storage.format.columns import Batch
from warren.storage.format.limits import BLOCK_SIZE_MAX
from warren.storage.format.record import Packed
from warren.transaction.journal_entry import MARKER_START, JournalEntry, Piece
from warren.transaction.pending_rows import batch_of, row_of
from warren.transaction.states import State

TRANSACTIONS_REMEMBERED_MAX: Final = 10_000
"""For how many ended transactions the outcome is remembered, to answer a repeated commit or abort."""
APPLICATIONS_REMEMBERED_MAX: Final = 10_000
"""For how many applications the journal remembers the last version."""

LOGGER: Final = logging.getLogger("warren")
SNAPSHOT: Final = b"snapshot"
CHANGED: Final = b"changed"
ENDED: Final = b"ended"
BATCH: Final = b"batch"
JOURNAL_BLOCK_SIZE: Final = 4 << 20
JOURNAL_WIDE_BLOCK_SIZE: Final = 64 << 20
"""For rows that would fill a large part of an ordinary block. Fewer files cost fewer syncs."""
EVENTS_PER_SNAPSHOT: Final = 1024
SNAPSHOT_SHARE_MAX: Final = 8
"""A snapshot is written when this many events since the last one are this many times its size,"""
EVENTS_PER_SNAPSHOT_MAX: Final = 4096
"""or when there are so many events that opening the store would take long,"""
RETIRED_PER_SNAPSHOT: Final = 32 << 20
"""or when it frees this many bytes of blocks."""
LOOK_FURTHER: Final = 16


class Transactions:
    """The known transactions: those that have not ended, and the outcomes of the latest others.

    `versions` holds the last version of each application that decides its transactions in batches, the latest used
    last.
    """

    def __init__(self) -> None:
        self.entries: dict[str, JournalEntry] = {}
        self.ended: dict[str, State] = {}
        self.versions: dict[str, int] = {}

    def state(self, id: str) -> State:
        entry = self.entries.get(id)
        return entry.state if entry is not None else self.ended.get(id, State.UNKNOWN)

    def change(self, entry: JournalEntry) -> None:
        """Sets the transaction to `entry`."""
        self.entries[entry.id] = entry
        self.ended.pop(entry.id, None)

    def end(self, id: str, state: State) -> None:
        """Ends the transaction. The oldest outcome is dropped."""
        self.entries.pop(id, None)
        self.ended.pop(id, None)
        self.ended[id] = state
        while len(self.ended) > TRANSACTIONS_REMEMBERED_MAX:
            del self.ended[next(iter(self.ended))]

    def reach(self, application: str, version: int) -> None:
        """Sets the version that the application has reached. The application that was used longest ago is dropped."""
        self.versions.pop(application, None)
        self.versions[application] = version
        while len(self.versions) > APPLICATIONS_REMEMBERED_MAX:
            del self.versions[next(iter(self.versions))]

    def snapshot(self) -> dict[str, Any]:
        return {
            "entries": [entry.to_json() for entry in self.entries.values()],
            "ended": list(self.ended.items()),
            "versions": list(self.versions.items()),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.entries = {data["id"]: JournalEntry.from_json(data) for data in snapshot.get("entries", ())}
        self.ended = {id: State(state) for id, state in snapshot.get("ended", ())}
        self.versions = dict(snapshot.get("versions", ()))


class Journal:
    """One log for rows and events, so that one sync makes both durable. Any thread of any process may call.

    A caller writes within `changing`: there `transactions` is up to date, and no other process writes. Written data
    survives the death of the process immediately, and a power cut after `sync`. An event comes after its rows in the
    same log, so if the event survives, they do too. The marker of a record shows whether it is an event: rows have
    none, or one that starts with `MARKER_START`. Raises JournalDamaged if it cannot read data that it needs.
    """

    def __init__(self, directory: str, filesystem: FileSystem, clock: Clock) -> None:
        self.transactions = Transactions()
        self._directory, self._filesystem, self._clock = directory, filesystem, clock
        filesystem.make_directory(directory)
        self._lock = SharedLock(filesystem, directory + ".lock", clock)
        try:
            with self._lock, _as_journal_damage():
                self.log = self._open(JOURNAL_BLOCK_SIZE)
        except BaseException:
            self._lock.close()
            raise
        self._larger: dict[int, Log] = {}
        self._next_number = -1
        self._events = self._size = self._snapshot_size = 0

    def _open(self, block_size: int) -> Log:
        return Log.open(
            self._directory, durability="os", block_size=block_size, filesystem=self._filesystem, clock=self._clock
        )

    @contextmanager
    def changing(self) -> Iterator[Transactions]:
        """While this is entered the transactions are up to date, and no other thread or process changes them."""
        with self._lock:
            self._catch_up()
            yield self.transactions
            if self._is_snapshot_due():
                self._try_snapshot()

    def state(self, id: str) -> State:
        """Returns the current state of a transaction."""
        with self._lock:
            self._catch_up()
            return self.transactions.state(id)

    def entry(self, id: str) -> JournalEntry | None:
        """Returns the entry of a transaction that has not ended."""
        with self._lock:
            self._catch_up()
            return self.transactions.entries.get(id)

    def version(self, application: str) -> int | None:
        """Returns the last version of an application, or None if it is not known."""
        with self._lock:
            self._catch_up()
            return self.transactions.versions.get(application)

    def entries(self) -> list[JournalEntry]:
        """Returns the transactions that have not ended."""
        # Without the lock if nothing was written since: this is called often, and usually there is no entry.
        if self._next_number == self.log.end and not self.transactions.entries:
            return []
        with self._lock:
            self._catch_up()
            return list(self.transactions.entries.values())

    # --- Within `changing` ---

    def add_packed(self, records: Sequence[Packed]) -> Piece:
        """Writes messages as packed records, and returns where they are."""
        size = sum(len(packed.payload) for packed in records)
        numbers = self._log_for(size).append_packed(records)
        self._next_number = numbers.stop
        return Piece(numbers.start, len(numbers), is_packed=True)

    def _log_for(self, size: int) -> Log:
        """Returns the journal, opened so that data of this size fits into a block."""
        if size < JOURNAL_BLOCK_SIZE // 2:
            return self.log
        block_size = JOURNAL_WIDE_BLOCK_SIZE if size < JOURNAL_WIDE_BLOCK_SIZE // 2 else BLOCK_SIZE_MAX
        if block_size not in self._larger:
            self._larger[block_size] = self._open(block_size)
        return self._larger[block_size]

    def change(self, entry: JournalEntry) -> None:
        """Sets the transaction to `entry` from now on."""
        self._add(CHANGED, _packed(entry.to_json()))
        self.transactions.change(entry)

    def end(self, id: str, state: State) -> None:
        """Ends the transaction."""
        self._add(ENDED, _packed({"id": id, "state": state}))
        self.transactions.end(id, state)

    def decide(self, application: str | None, version: int, entries: Sequence[JournalEntry]) -> None:
        """Records, in one event, that the application has reached the version, and sets its transactions to `entries`.

        If the application is None, no version is remembered.
        """
        event = {
            "application": application,
            "version": version,
            "entries": [entry.to_json() for entry in entries],
        }
        self._add(BATCH, _packed(event))
        self._apply_batch(application, version, entries)

    def _apply_batch(self, application: str | None, version: int, entries: Sequence[JournalEntry]) -> None:
        for entry in entries:
            self.transactions.change(entry)
        if application is not None:
            self.transactions.reach(application, version)

    def _add(self, kind: bytes, body: bytes) -> int:
        numbers = self._log_for(len(body)).append_many([body], marker=kind)
        self._next_number = numbers.stop
        self._count(body)
        return numbers.start

    # --- At any time ---

    @property
    def end_number(self) -> int:
        """Returns a lower bound of the number of the next write."""
        return self.log.end

    def rows(self, piece: Piece) -> Batch:
        """Returns the messages that were written there."""
        number, end = piece.first, piece.first + piece.row_count
        messages = self.log.read(number, limit=piece.row_count)
        while messages and messages[-1].number + 1 < end:
            number = messages[-1].number + 1
            messages += self.log.read(number, limit=end - number)
        return batch_of(list(map(row_of, messages)))

    def packed(self, piece: Piece) -> Iterator[Packed]:
        """Yields the records that `add_packed` wrote there."""
        return self.log.packed(piece.first, piece.first + piece.row_count)

    def check(self) -> None:
        """Raises JournalDamaged if any part of it, rows too, cannot be read."""
        with self._lock, _as_journal_damage():
            self._catch_up()
            self.log.verify()

    def start_from(self, transactions: Transactions) -> None:
        """Begins a new journal with the content of another one, except transactions that had not ended there."""
        with self._lock:
            self.transactions.restore({**transactions.snapshot(), "entries": ()})
            self._write_snapshot()

    def sync(self) -> None:
        """Syncs all writes. Called outside `changing`, so that several callers share a sync."""
        self.log.sync()

    # --- Replaying ---

    def _catch_up(self) -> None:
        end = self.log.end
        if self._next_number == end:
            return
        with _as_journal_damage():
            if not self.log.first <= self._next_number <= end:
                self._start()
            for marked in self.log.markers(self._next_number, MARKER_START):
                self._replay(marked.marker, self._event(marked.number))
        self._next_number = end

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
            self.transactions.change(JournalEntry.from_json(event))
        elif kind == ENDED:
            self.transactions.end(event["id"], State(event["state"]))
        elif kind == BATCH:
            entries = [JournalEntry.from_json(entry) for entry in event["entries"]]
            self._apply_batch(event["application"], event["version"], entries)
        self._count(body)

    def _start(self) -> None:
        """Restores the state from the last snapshot, and applies the later events."""
        self.transactions.restore({})
        self._forget_sizes(0)
        self._next_number = self.log.first
        number = self._last_snapshot()
        if number is not None:
            body = self._event(number)
            self.transactions.restore(json.loads(body))
            self._forget_sizes(len(body))
            self._next_number = number + 1

    def _last_snapshot(self) -> int | None:
        """Returns the number of the last snapshot. Searches backwards from the end, in growing steps."""
        first, end, back = self.log.first, self.log.end, EVENTS_PER_SNAPSHOT
        while True:
            start = max(first, end - back)
            events = self.log.markers(start, MARKER_START)
            snapshots = [marked.number for marked in events if marked.marker == SNAPSHOT]
            if snapshots or start == first:
                return snapshots[-1] if snapshots else None
            back *= LOOK_FURTHER

    # --- Snapshots ---

    def _count(self, body: bytes) -> None:
        self._events, self._size = self._events + 1, self._size + len(body)

    def _forget_sizes(self, snapshot_size: int) -> None:
        self._events = self._size = 0
        self._snapshot_size = snapshot_size

    def _is_snapshot_due(self) -> bool:
        is_worth_it = self._size >= SNAPSHOT_SHARE_MAX * self._snapshot_size
        if self._events >= (EVENTS_PER_SNAPSHOT if is_worth_it else EVENTS_PER_SNAPSHOT_MAX):
            return True
        return self._retirable_size() >= RETIRED_PER_SNAPSHOT

    def _retirable_size(self) -> int:
        """Returns how many bytes of blocks a snapshot would free, regardless of which process wrote them."""
        first, end = self.log.first, self.log.end
        if first == end:
            return 0
        needed = min([end - 1, *(entry.first for entry in self.transactions.entries.values())])
        return self.log.block_of(max(first, needed)).base_offset - self.log.block_of(first).base_offset

    def _try_snapshot(self) -> None:
        """Writes a snapshot if there is room. A decision stands even if there is none."""
        try:
            self._write_snapshot()
        except StorageError:
            LOGGER.exception("the journal of transactions could not be shortened; this is tried again")

    def _write_snapshot(self) -> None:
        """Writes the whole state, and retires blocks that are not needed. Open transactions keep their rows."""
        body = _packed(self.transactions.snapshot())
        number = self._add(SNAPSHOT, body)
        self._forget_sizes(len(body))
        # The snapshot must be on disk before the blocks that it replaces may be removed.
        self.log.sync()
        self.log.retire(before=min([number, *(entry.first for entry in self.transactions.entries.values())]))

    def close(self) -> None:
        self.log.close()
        for log in self._larger.values():
            log.close()
        self._lock.close()

    def after_fork(self) -> None:
        self._lock.after_fork()


@contextmanager
def _as_journal_damage() -> Iterator[None]:
    """Turns damage of the journal into JournalDamaged: bytes with a wrong checksum, and events that make no sense."""
    try:
        yield
    except CorruptRecord as error:
        place = f"{os.path.basename(error.path)} at byte {error.position}"
        raise JournalDamaged(f"{place}: {error.reason}") from error
    except UnknownVersion as error:
        raise JournalDamaged(f"{os.path.basename(error.path)} has format version {error.version}") from error
    except NotALog as error:
        raise JournalDamaged(error.reason) from error
    except (ValueError, KeyError, TypeError) as error:
        raise JournalDamaged(f"an event cannot be read ({type(error).__name__}: {error})") from error


def _packed(event: dict[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()
