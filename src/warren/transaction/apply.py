"""Carrying out what a transaction decided: every message to its log, exactly once, by whichever process is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from warren.errors import NoSuchTopic
from warren.queue.once import append_once
from warren.queue.store import Store
from warren.queue.topic import GONE, Topic
from warren.storage import Log
from warren.storage.columns import Batch
from warren.storage.filesystem import SystemFileSystem
from warren.transaction.entry import Entry, Piece, Place, Target
from warren.transaction.journal import Journal

APPENDS_AT_ONCE_MAX: Final = 8

InMemory = Mapping[Piece, Batch]
"""The rows that need not be read from the journal."""


class Apply:
    """Appends what committed transactions hold. Any thread may call, but only one at a time for one transaction.

    Logs are appended to side by side, so that their syncs overlap.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pool: ThreadPoolExecutor | None = None

    def find_log(self, place: Place) -> Log:
        """The log that a transaction puts to; NoSuchTopic where it was deleted."""
        return self._find_log(place)[1]

    def _find_log(self, place: Place) -> tuple[Topic, Log]:
        topic = self._store.existing_topic(place.topic)
        return topic, topic.partition(place.partition)

    def ends(self, places: Sequence[Place]) -> list[int]:
        """Where the logs end now; 0 for one that was deleted."""
        return [self._end(place) for place in places]

    def _end(self, place: Place) -> int:
        try:
            return self.find_log(place).end
        except (NoSuchTopic, *GONE):
            return 0

    def put_all(self, entry: Entry, journal: Journal, in_memory: InMemory) -> None:
        """Append every message of the transaction that is not there yet; they are on disk when this returns."""
        jobs = [
            lambda number=number, target=target: self._put(entry, number, target, journal, in_memory)
            for number, target in enumerate(entry.targets)
        ]
        self._side_by_side(jobs)

    def _put(self, entry: Entry, number: int, target: Target, journal: Journal, in_memory: InMemory) -> None:
        try:
            topic, log = self._find_log(target.place)
            for place, piece in enumerate(target.pieces):
                batch = in_memory.get(piece) or journal.rows(piece)
                append_once(log, batch, entry.marker(number, place), target.since)
            if topic.settings.durability != "commit":
                # The journal forgets the rows once they are here.
                log.sync()
        except (NoSuchTopic, *GONE):
            # Whoever deleted the topic deleted these messages with it.
            return

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

    def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def after_fork(self) -> None:
        """A child has none of the parent's threads."""
        self._pool = None
