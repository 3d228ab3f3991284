"""Carries out what a transaction decided, exactly once, in any process: its messages, positions and
acknowledgements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

from warren.errors import GONE, NoSuchGroup, NoSuchTopic
from warren.queue.leases.queue_group import QueueGroup
from warren.queue.state.append_once import append_once
from warren.queue.state.group_settings import read_settings
from warren.queue.store import Store
from warren.queue.stream.positions import store_positions, stored_position
from warren.queue.stream.stream_group import StreamGroup
from warren.queue.topic import Topic
from warren.storage import Log
from warren.storage.disk import paths
from warren.storage.disk.filesystem import SystemFileSystem
from warren.storage.format.record import Packed, record_size
from warren.transaction.journal import Journal
from warren.transaction.journal_entry import GroupName, JournalEntry, LogName, Piece, Target

APPEND_SIZE_TARGET: Final = 16 << 20
"""How many bytes of a transaction's records are read from the journal and appended to their log together."""

RowsAtHand = Mapping[Piece, Sequence[Packed]]
"""Pieces that are still in memory, packed."""


APPENDS_AT_ONCE_MAX: Final = 8


class LogPart(NamedTuple):
    """The part of one transaction that goes to one log: its target, and the index of that among its targets."""

    entry: JournalEntry
    number: int
    target: Target


def append_missing(log: Log, parts: Sequence[LogPart], journal: Journal, at_hand: RowsAtHand) -> None:
    """Appends the missing messages, in order. No other caller may do the same at the same time."""
    written, waiting = _written(log, parts), RecordBuffer(log)
    for entry, number, target in parts:
        for place, piece in enumerate(target.pieces):
            marker = entry.marker(number, place)
            if piece.is_packed and waiting.add(at_hand.get(piece) or journal.packed(piece), written[marker]):
                continue
            waiting.flush()
            append_once(log, journal.rows(piece), marker, target.since)
    waiting.flush()


def _written(log: Log, parts: Sequence[LogPart]) -> Counter[bytes]:
    """Returns how many messages of each piece are in the log, by marker, with one scan for all."""
    since, written = min(part.target.since for part in parts), Counter[bytes]()
    if since < log.end:
        for marked in log.markers(since):
            written[marked.marker] += marked.message_count
    return written


class RecordBuffer:
    """Packed records that are appended together, so that there are few commits and little is in memory."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._records: list[Packed] = []
        self._size = 0

    def add(self, records: Iterable[Packed], written: int) -> bool:
        """Appends the records of a piece, of which `written` messages are in the log, now or at the next `flush`.

        Returns False if the rest cannot be appended as it was packed, because the log keeps no markers, was created
        again, or has smaller blocks now.
        """
        if not self._log.format.keeps_markers:
            return False
        for packed in records:
            if written >= packed.message_count:
                written -= packed.message_count
                continue
            if written or record_size(packed) > self._log.record_size_max:
                return False
            self._records.append(packed)
            self._size += len(packed.payload)
            if self._size >= APPEND_SIZE_TARGET:
                self.flush()
        return True

    def flush(self) -> None:
        """Appends all records that were added."""
        records, self._records, self._size = self._records, [], 0
        if records:
            self._log.append_packed(records)


class AtHand(NamedTuple):
    """The data that the committing process has in memory and other processes look up: rows, and the open groups."""

    rows: RowsAtHand
    streams: Mapping[GroupName, StreamGroup]
    queues: Mapping[GroupName, QueueGroup]


NOTHING_AT_HAND: Final = AtHand({}, {}, {})


class Apply:
    """Carries out decided transactions. Any thread may call, but only one at a time for one transaction.

    Every step can be repeated without harm, and is on disk when its method returns. Parts for a deleted topic or group
    are left out. Logs are appended to in parallel, so that their syncs overlap.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pool: ThreadPoolExecutor | None = None

    def find_log(self, place: LogName) -> Log:
        """Returns the log that a transaction puts to. Raises NoSuchTopic if it was deleted."""
        return _log_of(self._store.existing_topic(place.topic), place)

    # --- Messages ---

    def put_all(self, entries: Sequence[JournalEntry], journal: Journal, rows: RowsAtHand) -> None:
        """Appends every missing message of the transactions: log by log, and within each log in the order of the
        transactions.
        """
        parts: dict[LogName, list[LogPart]] = {}
        for entry in entries:
            for number, target in enumerate(entry.targets):
                parts.setdefault(target.place, []).append(LogPart(entry, number, target))
        jobs: list[Callable[[], None]] = []
        for place, of_log in parts.items():
            with _unless_deleted():
                topic = self._store.existing_topic(place.topic)
                if topic.is_queue:
                    # The topic that the transaction put to was deleted, and a queue was created under its name.
                    continue
                log, is_synced = _log_of(topic, place), topic.loses_nothing
                jobs.append(partial(_put, log, is_synced, of_log, journal, rows))
        self._side_by_side(jobs)
        if any(place.horizon is not None for place in parts):
            # Some of the delayed messages may be due.
            self._store.wakeup.ring()

    def _side_by_side(self, jobs: Sequence[Callable[[], None]]) -> None:
        if len(jobs) < 2 or not isinstance(self._store.filesystem, SystemFileSystem):
            for job in jobs:
                job()
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(APPENDS_AT_ONCE_MAX, "warren-transaction")
        others = [self._pool.submit(job) for job in jobs[1:]]
        try:
            jobs[0]()
        finally:
            errors = [other.exception() for other in others]
        for error in errors:
            if error is not None:
                raise error

    # --- Groups ---

    def move_positions(self, entry: JournalEntry, streams: Mapping[GroupName, StreamGroup]) -> None:
        """Commits the positions. A repetition may come after a later transaction has moved them further.

        So positions move forward; they move back only from the position that the group had at the time of the decision.
        """
        for name, positions in entry.positions.items():
            with _unless_deleted():
                topic = self._existing_group(name)
                back, moved = entry.back.get(name, {}), {}
                for partition, number in positions.items():
                    stored = stored_position(topic.partition(partition), name.group)
                    if number > stored or back.get(partition) == stored:
                        moved[partition] = number
                member = streams.get(name)
                if member is not None:
                    member.apply_positions(moved)
                else:
                    store_positions(topic, name.group, moved)
                if not topic.syncs_answers:
                    self._sync_positions(topic, name.group, positions)

    def _sync_positions(self, topic: Topic, group: str, partitions: Mapping[int, int]) -> None:
        """Syncs the positions, because the journal drops them once they are stored."""
        for partition in partitions:
            path = paths.reader_path(topic.partition(partition).path, group)
            file = self._store.filesystem.open(path, writable=True)
            file.sync()
            file.close()

    def end_holds(self, entry: JournalEntry, queues: Mapping[GroupName, QueueGroup], *, committed: bool) -> None:
        """Acknowledges the messages of queue groups that the transaction holds, or gives them back."""
        for name in entry.acks:
            with _unless_deleted():
                opened = queues.get(name)
                if opened is not None:
                    opened.finish(entry.token, committed)
                    continue
                with self._existing_group(name).group(name.group, mode="queue") as group:
                    group.finish(entry.token, committed)

    def _existing_group(self, name: GroupName) -> Topic:
        """Returns the topic of a group. Raises NoSuchGroup if the group does not exist."""
        topic = self._store.existing_topic(name.topic)
        if read_settings(self._store.filesystem, topic.directory, name.group) is None:
            raise NoSuchGroup(name.topic, name.group)
        return topic

    def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def after_fork(self) -> None:
        """In a child process: makes a new pool, because the parent's threads do not exist here."""
        self._pool = None


def _log_of(topic: Topic, place: LogName) -> Log:
    if place.partition >= topic.partition_count:
        # The process that prepared the transaction may have seen partitions that this one has not seen yet.
        topic.see_partitions()
    return topic.partition(place.partition) if place.horizon is None else topic.delay.log(place.horizon)


def _put(log: Log, is_synced: bool, parts: Sequence[LogPart], journal: Journal, rows: RowsAtHand) -> None:
    with _unless_deleted():
        append_missing(log, parts, journal, rows)
        if not is_synced:
            # The journal drops the rows once they are in the log, so they must be on disk.
            log.sync()


@contextmanager
def _unless_deleted() -> Iterator[None]:
    """Ignores that a topic or group was deleted, so that its part is left out."""
    try:
        yield
    except (NoSuchTopic, NoSuchGroup, *GONE):
        return
