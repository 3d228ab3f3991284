"""Finishing: what was decided is carried out, by this process for itself and for those that died."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from warren.errors import NoSuchTopic
from warren.queue import store_paths
from warren.queue.shared_lock import SharedLock
from warren.queue.store import Store
from warren.transaction.apply import Apply, InMemory
from warren.transaction.entry import Entry, Place
from warren.transaction.journal import Journal
from warren.transaction.states import State

LOGGER: Final = logging.getLogger("warren")


class Finishing:
    """Carries out decided transactions. Any thread may call.

    Whoever is at work on one is named in the journal by session; others take it over only once that session is dead.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._apply = Apply(store)
        self._at_work: set[str] = set()
        self._changed = threading.Condition()
        lock_path = store_paths.settling_lock(store_paths.transactions_directory(store.path))
        self._settling = SharedLock(store.filesystem, lock_path, store.clock)
        self._settling_thread = 0

    def end(self, place: Place) -> int:
        """Where a log ends now; NoSuchTopic where it was deleted."""
        return self._apply.find_log(place).end

    def ends(self, entry: Entry) -> list[int]:
        """Where the logs of a transaction end now; 0 for one that was deleted."""
        ends = []
        for target in entry.targets:
            try:
                ends.append(self.end(target.place))
            except NoSuchTopic:
                ends.append(0)
        return ends

    def is_at_work(self, id: str) -> bool:
        """Whether a thread of this process works on the transaction."""
        return id in self._at_work

    @contextmanager
    def working_on(self, id: str) -> Iterator[None]:
        """One thread of this process at a time works on a transaction."""
        with self._changed:
            while id in self._at_work:
                self._changed.wait()
            self._at_work.add(id)
        try:
            yield
        finally:
            with self._changed:
                self._at_work.discard(id)
                self._changed.notify_all()

    def carry_out(self, journal: Journal, entry: Entry, in_memory: InMemory) -> State:
        """What was decided happens. What cannot be done now is tried again by the keeper: it stays decided."""
        try:
            self._apply.put_all(entry, journal, in_memory)
        except Exception:
            LOGGER.exception("transaction %r is committed, and could not be carried out yet", entry.id)
            return State.COMMITTED
        with journal.changing():
            journal.end(entry.id, State.DONE)
        return State.DONE

    # --- What others left ---

    def settle(self, journal: Journal) -> None:
        """Finish what sessions that died had committed, and abort what they had open."""
        # A group that is told what was decided may itself ask for this.
        if self._settling_thread == threading.get_ident() or not self._orphans(journal):
            return
        with self._settling:
            self._settling_thread = threading.get_ident()
            try:
                self._settle(journal)
            finally:
                self._settling_thread = 0

    def _orphans(self, journal: Journal) -> list[Entry]:
        session = self._store.session
        return [
            entry
            for entry in journal.entries()
            if entry.state is not State.PREPARED and entry.session != session.id and not session.is_alive(entry.session)
        ]

    def _settle(self, journal: Journal) -> None:
        orphans = self._orphans(journal)
        with journal.changing() as transactions:
            for entry in orphans:
                if transactions.state(entry.id) is State.OPEN:
                    journal.end(entry.id, State.ABORTED)
        decided = [entry for entry in orphans if entry.state is State.COMMITTED]
        with ExitStack() as stack:
            for entry in decided:
                stack.enter_context(self.working_on(entry.id))
            taken = self._take_over(journal, decided)
            # A killed process may have written its decision, and not have synced it.
            journal.sync()
            for entry in taken:
                self.carry_out(journal, entry, {})

    def _take_over(self, journal: Journal, entries: Sequence[Entry]) -> list[Entry]:
        """From here on they are ours to carry out.

        A power cut may have taken the end of a log that is not synced with every put: then the first try is gone too,
        and the next one is looked for from where the log ends now.
        """
        taken = []
        for entry in entries:
            ends = zip(entry.targets, self.ends(entry), strict=True)
            targets = [replace(target, since=min(target.since, end)) for target, end in ends]
            taken.append(replace(entry, session=self._store.session.id, targets=targets))
        with journal.changing():
            for entry in taken:
                journal.change(entry)
        return taken

    def close(self) -> None:
        self._apply.close()
        self._settling.close()

    def after_fork(self) -> None:
        """In a child: what the parent works on stays the parent's."""
        self._changed = threading.Condition()
        self._at_work.clear()
        self._settling_thread = 0
        self._apply.after_fork()
        self._settling.after_fork()
