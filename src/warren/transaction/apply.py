"""Carrying out what a transaction decided, exactly once, by whichever process is there: messages, positions, acks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

from warren.errors import GONE, NoSuchGroup, NoSuchTopic
from warren.queue.group_settings import read_settings
from warren.queue.positions import store_positions, stored_position
from warren.queue.queue_group import QueueGroup
from warren.queue.store import Store
from warren.queue.stream_group import StreamGroup
from warren.queue.topic import Topic
from warren.storage import Log, paths
from warren.storage.filesystem import SystemFileSystem
from warren.transaction.appending import Part, RowsAtHand, append_missing
from warren.transaction.entry import Entry, GroupName, Place
from warren.transaction.journal import Journal

APPENDS_AT_ONCE_MAX: Final = 8


class AtHand(NamedTuple):
    """What whoever committed has, and others look up: the rows in memory, and the groups as it opened them."""

    rows: RowsAtHand
    streams: Mapping[GroupName, StreamGroup]
    queues: Mapping[GroupName, QueueGroup]


NOTHING_AT_HAND: Final = AtHand({}, {}, {})


class Apply:
    """Does what transactions decided. Any thread may call, but only one at a time for one transaction.

    What is done twice is done once, and all of it is on disk when a method returns. A topic or group that was deleted
    took its part with it. Logs are appended to side by side, so that their syncs overlap.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pool: ThreadPoolExecutor | None = None

    def find_log(self, place: Place) -> Log:
        """The log that a transaction puts to; NoSuchTopic where it was deleted."""
        return _log_of(self._store.existing_topic(place.topic), place)

    # --- Messages ---

    def put_all(self, entries: Sequence[Entry], journal: Journal, rows: RowsAtHand) -> None:
        """Append every message of the transactions that is not there yet: log by log, and in each in their order."""
        parts: dict[Place, list[Part]] = {}
        for entry in entries:
            for number, target in enumerate(entry.targets):
                parts.setdefault(target.place, []).append(Part(entry, number, target))
        jobs: list[Callable[[], None]] = []
        for place, found in parts.items():
            with _unless_deleted():
                topic = self._store.existing_topic(place.topic)
                if topic.is_queue:
                    # The topic that the transaction put to was deleted, and a queue was made under its name.
                    continue
                log, is_synced = _log_of(topic, place), topic.settings.durability == "commit"
                jobs.append(partial(_put, log, is_synced, found, journal, rows))
        self._side_by_side(jobs)
        if any(place.horizon is not None for place in parts):
            # Some of them may be due.
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

    def move_positions(self, entry: Entry, streams: Mapping[GroupName, StreamGroup]) -> None:
        """Commit the positions. This may be done again, and a later transaction may have got further meanwhile.

        So they go forward, and back only from where the group stood when the transaction was decided.
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
                if topic.settings.durability != "commit":
                    self._sync_positions(topic, name.group, positions)

    def _sync_positions(self, topic: Topic, group: str, partitions: Mapping[int, int]) -> None:
        """The journal forgets the positions once they are stored."""
        for partition in partitions:
            path = paths.reader_path(topic.partition(partition).path, group)
            file = self._store.filesystem.open(path, writable=True)
            file.sync()
            file.close()

    def end_holds(self, entry: Entry, queues: Mapping[GroupName, QueueGroup], *, committed: bool) -> None:
        """What the transaction holds of queue groups is acknowledged, or given back."""
        for name in entry.acks:
            with _unless_deleted():
                opened = queues.get(name)
                if opened is not None:
                    opened.finish(entry.token, committed)
                    continue
                with self._existing_group(name).group(name.group, mode="queue") as group:
                    group.finish(entry.token, committed)

    def _existing_group(self, name: GroupName) -> Topic:
        """The topic of a group that is there."""
        topic = self._store.existing_topic(name.topic)
        if read_settings(self._store.filesystem, topic.directory, name.group) is None:
            raise NoSuchGroup(name.topic, name.group)
        return topic

    def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def after_fork(self) -> None:
        """A child has none of the parent's threads."""
        self._pool = None


def _log_of(topic: Topic, place: Place) -> Log:
    if place.partition >= topic.partition_count:
        # Whoever put to it may have seen partitions that another process added.
        topic.see_partitions()
    return topic.partition(place.partition) if place.horizon is None else topic.delay.log(place.horizon)


def _put(log: Log, is_synced: bool, parts: Sequence[Part], journal: Journal, rows: RowsAtHand) -> None:
    with _unless_deleted():
        append_missing(log, parts, journal, rows)
        if not is_synced:
            # The journal forgets the rows once they are here.
            log.sync()


@contextmanager
def _unless_deleted() -> Iterator[None]:
    """What concerns a topic or a group that somebody deleted is left out."""
    try:
        yield
    except (NoSuchTopic, NoSuchGroup, *GONE):
        return
