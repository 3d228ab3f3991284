"""Repairs a store whose journal or `store.json` is damaged, and reports which transactions were in doubt."""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import CorruptRecord, JournalDamaged, NotALog, StoreInUse, UnknownVersion
from warren.queue.standalone.pointer_file import QUEUE_FILE_COPY_SIZE
from warren.queue.state import identity
from warren.queue.state import paths as store_paths
from warren.queue.state.session import Session
from warren.queue.state.shared_lock import SharedLock
from warren.storage import Log
from warren.storage.disk import paths
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, FileSystem, remove_tree
from warren.transaction.journal import Journal, Transactions
from warren.transaction.journal_entry import JournalEntry
from warren.transaction.store import Store

JOURNAL_FILE_NAMES: Final = ("index", ".block")
"""The suffixes of the journal files that are read. Locks are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A transaction that had not ended, as far as the damaged journal can be read. `when` is in µs since the epoch.

    If it was committed, its messages may or may not be in their topics. If it was open or prepared, the decision may be
    in the part that cannot be read.
    """

    id: str
    state: str
    when: int
    message_count: int
    topics: Sequence[str]
    position_count: int
    ack_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDamage:
    """The damage that keeps a store from working: why `store.json` and the journal cannot be read; None if they can."""

    settings: str | None
    journal: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A journal that was set aside: its new place, and the part that could be read.

    `applications` holds the last version of each application that decides in batches. The new journal has them too.
    """

    path: str
    record_count: int
    doubts: Sequence[Doubt]
    applications: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    """The result of a repair. `given_back` counts, by topic and group, the unknown transactions that held messages."""

    damage: StoreDamage
    store_id: str | None
    journal: SetAside | None
    given_back: Sequence[tuple[str, str, int]]


class Salvage:
    """One store in a directory, which no other program may have open. One thread at a time."""

    def __init__(self, path: str, *, filesystem: FileSystem = SYSTEM_FILE_SYSTEM, clock: Clock = SYSTEM_CLOCK) -> None:
        self._path, self._filesystem, self._clock = os.path.abspath(path), filesystem, clock
        self._transactions = store_paths.transactions_directory(self._path)
        self._journal = store_paths.journal_directory(self._transactions)

    def find_damage(self) -> StoreDamage:
        """Checks both files, and changes nothing that opening the store would not. Raises StoreInUse."""
        with self._alone():
            return self._find_damage()

    def _find_damage(self) -> StoreDamage:
        settings = identity.find_damage(self._filesystem, self._path)
        if not self._filesystem.exists(store_paths.store_file(self._path)):
            settings = "the file does not exist"
        return StoreDamage(settings=settings, journal=self._journal_damage())

    def _journal_damage(self) -> str | None:
        if not self._filesystem.exists(self._journal):
            return None
        try:
            journal = Journal(self._journal, self._filesystem, self._clock)
            try:
                journal.check()
            finally:
                journal.close()
        except JournalDamaged as error:
            return error.reason
        return None

    def run(self) -> Salvaged:
        """Repairs the damaged files. Raises StoreInUse, and changes nothing, if another program has the store open.

        Raises StoreReplicated if it has slaves: a damaged replica starts from nothing, and gets all from its master.
        """
        identity.check_not_replicated(self._filesystem, self._path)
        with self._alone():
            damage = self._find_damage()
            store_id = None if damage.settings is None else identity.make_anew(self._filesystem, self._path)
            aside = None if damage.journal is None else self._set_aside()
        with Store(self._path, keeps=False, filesystem=self._filesystem, clock=self._clock) as store:
            given_back = list(self._give_back(store))
        return Salvaged(damage=damage, store_id=store_id, journal=aside, given_back=given_back)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keeps other programs from opening the store, because they would use the journal that is set aside."""
        filesystem = self._filesystem
        lock = SharedLock(filesystem, store_paths.store_lock(self._path), self._clock)
        sessions = store_paths.sessions_directory(self._path)
        try:
            with lock:
                session = Session(filesystem, sessions)
                try:
                    ids = [store_paths.session_id(name) for name in filesystem.names(sessions)]
                    others = [id for id in ids if id is not None and id != session.id and session.is_alive(id)]
                    if others:
                        raise StoreInUse(self._path, len(others))
                    yield
                finally:
                    session.close()
        finally:
            lock.close()

    # --- The journal ---

    def _set_aside(self) -> SetAside:
        """Reads as much of the journal as possible, and replaces it by a new journal with that content."""
        transactions, record_count = self._read_copy()
        new = store_paths.new_journal_directory(self._transactions)
        self._remove(new)
        journal = Journal(new, self._filesystem, self._clock)
        journal.start_from(transactions)
        journal.close()
        aside = store_paths.damaged_journal_directory(self._transactions, self._clock.now_ns() // 1000)
        self._filesystem.replace(self._journal, aside)
        self._filesystem.replace(new, self._journal)
        self._filesystem.sync_directory(self._transactions)
        self._remove(new)
        return SetAside(
            path=aside,
            record_count=record_count,
            doubts=[_doubt(entry) for entry in transactions.entries.values()],
            applications=dict(transactions.versions),
        )

    def _read_copy(self) -> tuple[Transactions, int]:
        """Returns the state of the journal up to its first damage, and the number of messages up to there.

        Works on a copy, because the copy is cut at the damage, and the journal itself must not change.
        """
        copy = store_paths.journal_copy_directory(self._transactions)
        self._remove(copy)
        self._filesystem.make_directory(copy)
        for name in self._filesystem.names(self._journal):
            if name.endswith(JOURNAL_FILE_NAMES):
                self._copy_file(os.path.join(self._journal, name), os.path.join(copy, name))
        transactions, record_count = Transactions(), 0
        if self._cut(copy):
            journal = Journal(copy, self._filesystem, self._clock)
            try:
                journal.entries()
            except JournalDamaged:
                # The event makes no sense. Everything before it was read.
                pass
            finally:
                transactions, record_count = journal.transactions, journal.log.end - journal.log.first
                journal.close()
        self._remove(copy)
        return transactions, record_count

    def _cut(self, copy: str) -> bool:
        """Cuts the copy at its first damage. Returns False if no part of it can be read, with its index or without."""
        index = paths.index_path(copy)
        while True:
            try:
                Log.open(copy, durability="os", repair=True, filesystem=self._filesystem, clock=self._clock).close()
            except (CorruptRecord, NotALog, UnknownVersion):
                if not self._filesystem.exists(index):
                    return False
                # The index is derived from the blocks.
                self._filesystem.remove(index)
            else:
                return True

    def _copy_file(self, source_path: str, target_path: str) -> None:
        source = self._filesystem.open(source_path, writable=False)
        target = self._filesystem.open(target_path, writable=True, create=True)
        for position in range(0, source.size(), QUEUE_FILE_COPY_SIZE):
            target.write(position, source.read(position, QUEUE_FILE_COPY_SIZE))
        source.close()
        target.close()

    # --- What is held ---

    def _give_back(self, store: Store) -> Iterator[tuple[str, str, int]]:
        """Returns to the queue groups the messages that are held by transactions that the journal does not know."""
        for topic in map(store.existing_topic, store.topics()):
            for name in topic.groups():
                if topic.group_settings(name).mode != "queue":
                    continue
                with topic.group(name, mode="queue") as group:
                    # Read before the journal, because a transaction enters the journal before it holds any message.
                    held = group.held()
                    unknown = held - self._known_tokens() if held else held
                    for token in unknown:
                        group.finish(token, committed=False)
                if unknown:
                    yield topic.name, name, len(unknown)

    def _known_tokens(self) -> set[str]:
        """Returns the ids under which the transactions that have not ended hold messages."""
        if not self._filesystem.exists(self._journal):
            return set()
        journal = Journal(self._journal, self._filesystem, self._clock)
        try:
            return {entry.token for entry in journal.entries()}
        finally:
            journal.close()

    def _remove(self, directory: str) -> None:
        """Removes a directory that this module made, and its lock file."""
        remove_tree(self._filesystem, directory)
        if self._filesystem.exists(directory + ".lock"):
            self._filesystem.remove(directory + ".lock")


def _doubt(entry: JournalEntry) -> Doubt:
    return Doubt(
        id=entry.id,
        state=str(entry.state),
        when=entry.when,
        message_count=entry.message_count,
        topics=sorted({target.place.topic for target in entry.targets}),
        position_count=sum(map(len, entry.positions.values())),
        ack_count=sum(entry.acks.values()),
    )
