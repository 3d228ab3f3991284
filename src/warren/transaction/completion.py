"""Carries out decided transactions, of this process and of processes that died."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from warren.errors import NoSuchTopic, StoreBusy
from warren.limits import LOCK_WAIT_S_MAX
from warren.queue.state import paths
from warren.queue.state.shared_lock import SharedLock
from warren.queue.store import Store
from warren.transaction.apply import NOTHING_AT_HAND, Apply, AtHand
from warren.transaction.journal import Journal
from warren.transaction.journal_entry import JournalEntry, LogName
from warren.transaction.states import Event, State, next_state

LOGGER: Final = logging.getLogger("warren")
SETTLE_WAIT_S_MAX: Final = 5.0
"""How long to wait for a process that decided a transaction and seems to be alive."""
SETTLE_LOOK_S: Final = 0.002


class Completion:
    """Carries out decided transactions. Any thread may call.

    The journal names the session that works on a transaction. Other sessions take it over only when that session is
    dead.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._apply = Apply(store)
        self._at_work: dict[str, int] = {}
        """The transactions that threads of this process work on, and the thread of each."""
        self._changed = threading.Condition()
        lock_path = paths.settling_lock(paths.transactions_directory(store.path))
        self._settling = SharedLock(store.filesystem, lock_path, store.clock)
        self._settling_thread = 0
        self.last_failure = ""
        """Why the last decided transaction that failed could not be carried out."""

    def end(self, place: LogName) -> int:
        """Returns the end of a log. Raises NoSuchTopic if it was deleted."""
        return self._apply.find_log(place).end

    def ends(self, entry: JournalEntry) -> list[int]:
        """Returns the ends of a transaction's logs: 0 for one that was deleted."""
        ends = []
        for target in entry.targets:
            try:
                ends.append(self.end(target.place))
            except NoSuchTopic:
                ends.append(0)
        return ends

    # --- Who is at work ---

    def is_left(self, entry: JournalEntry) -> bool:
        """Returns whether this process decided it and none of its threads works on it."""
        is_decided = entry.state in (State.COMMITTED, State.ABORTED)
        return is_decided and entry.session == self._store.session.id and entry.id not in self._at_work

    @contextmanager
    def working_on(self, id: str) -> Iterator[None]:
        """Lets one thread of this process at a time work on a transaction.

        If the transaction is open, takes its mutex first.
        """
        me = threading.get_ident()
        is_nested = self._at_work.get(id) == me
        with self._changed:
            while not is_nested and id in self._at_work:
                if not self._changed.wait(LOCK_WAIT_S_MAX):
                    raise StoreBusy(self._store.path)
            self._at_work[id] = me
        try:
            yield
        finally:
            if not is_nested:
                with self._changed:
                    del self._at_work[id]
                    self._changed.notify_all()

    # --- Carrying out ---

    def carry_out(self, journal: Journal, entry: JournalEntry, at_hand: AtHand = NOTHING_AT_HAND) -> State:
        """Carries out a decision that is on disk. If that fails now, the transaction stays decided
        and is tried again.
        """
        return self.carry_out_all(journal, [entry], at_hand)

    def carry_out_all(
        self, journal: Journal, entries: Sequence[JournalEntry], at_hand: AtHand = NOTHING_AT_HAND
    ) -> State:
        """Does the same for transactions that were decided together: all committed, or all aborted."""
        decided = entries[0].state
        is_committed = decided is State.COMMITTED
        try:
            if is_committed:
                self._apply.put_all(entries, journal, at_hand.rows)
            for entry in entries:
                if is_committed:
                    self._apply.move_positions(entry, at_hand.streams)
                self._apply.end_holds(entry, at_hand.queues, committed=is_committed)
        except Exception as error:
            self.last_failure = f"{type(error).__name__}: {error}"
            ids = ", ".join(repr(entry.id) for entry in entries)
            LOGGER.exception("transaction %s is %s but could not be carried out yet", ids, decided)
            return decided
        state = next_state(entries[0].id, decided, Event.FINISH)
        with journal.changing():
            for entry in entries:
                journal.end(entry.id, state)
        return state

    def try_again(self, journal: Journal, entry: JournalEntry) -> None:
        """Carries out a decision that could not be carried out before."""
        with self.working_on(entry.id):
            present = journal.entry(entry.id)
            if present is not None and present.token == entry.token:
                journal.sync()
                self.carry_out(journal, present)

    # --- What others left ---

    def settle(self, journal: Journal) -> None:
        """Finishes the decided transactions of dead sessions, and aborts their open ones."""
        # A group may call this again while it carries out a decision.
        if self._settling_thread == threading.get_ident() or not self._orphans(journal):
            return
        with self._settling:
            self._settling_thread = threading.get_ident()
            try:
                self._settle(journal, self._orphans(journal))
            finally:
                self._settling_thread = 0

    def settle_all(self, journal: Journal) -> None:
        """Returns when everything that was decided before the call is done, by this process or another living one.

        A process that is killed frees its locks one by one, so its partitions or leases may be free before its session
        counts as dead. So this also waits for sessions that seem to be alive.
        """
        decided = {entry.token for entry in self._decided_by_others(journal)}
        deadline_s = self._store.clock.steady_s() + SETTLE_WAIT_S_MAX
        self.settle(journal)
        while self._settling_thread != threading.get_ident():
            left = {entry.token for entry in self._decided_by_others(journal)} & decided
            if not left or self._store.clock.steady_s() > deadline_s:
                return
            self._store.clock.sleep(SETTLE_LOOK_S)
            self.settle(journal)

    def _decided_by_others(self, journal: Journal) -> list[JournalEntry]:
        """Returns the committed transactions that another process, or another thread of this one, is carrying out.

        A thread that carries one out itself waits for no other, because the other might wait for it.
        """
        me, session = threading.get_ident(), self._store.session.id
        with self._changed:
            at_work = dict(self._at_work)
        elsewhere = set() if me in at_work.values() else at_work.keys()
        return [
            entry
            for entry in journal.entries()
            if entry.state is State.COMMITTED and (entry.session != session or entry.id in elsewhere)
        ]

    def _orphans(self, journal: Journal) -> list[JournalEntry]:
        session = self._store.session
        return [
            entry
            for entry in journal.entries()
            if entry.state is not State.PREPARED and entry.session != session.id and not session.is_alive(entry.session)
        ]

    def _settle(self, journal: Journal, orphans: Sequence[JournalEntry]) -> None:
        with ExitStack() as stack:
            for entry in orphans:
                stack.enter_context(self.working_on(entry.id))
            taken_over = [self._taken_over(entry) for entry in orphans]
            with journal.changing():
                for entry in taken_over:
                    journal.change(entry)
            # A killed process may have written its decision without syncing it.
            journal.sync()
            for entry in taken_over:
                self.carry_out(journal, entry)

    def _taken_over(self, entry: JournalEntry) -> JournalEntry:
        """Returns the entry with this session as the one that works on it. An undecided transaction is aborted.

        A power cut may have cut a log that is not synced with every put. Then the first attempt is lost too, and the
        search for the next one starts at the current end of the log.
        """
        ends = zip(entry.targets, self.ends(entry), strict=True)
        targets = [replace(target, since=min(target.since, end)) for target, end in ends]
        state = State.ABORTED if entry.state is State.OPEN else entry.state
        return replace(entry, state=state, session=self._store.session.id, targets=targets)

    def close(self) -> None:
        self._apply.close()
        self._settling.close()

    def after_fork(self) -> None:
        """In a child process: discards the work that belongs to the parent."""
        self._changed = threading.Condition()
        self._at_work.clear()
        self._settling_thread = 0
        self._apply.after_fork()
        self._settling.after_fork()
