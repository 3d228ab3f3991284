"""Commits the prepared transactions of an outside system together with the progress of that system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from warren.errors import NoSuchTransaction, TransactionAborted, TransactionCommitted, WrongState
from warren.queue.store import Store
from warren.transaction.completion import Completion
from warren.transaction.journal import Journal, Transactions
from warren.transaction.journal_entry import JournalEntry
from warren.transaction.states import Event, State, next_state


class Batches:
    """Decides many prepared transactions together. Any thread of any process may call.

    Invariant: one event in the journal commits all transactions of a batch and records that the application has reached
    its version, so after a crash both hold or neither does. A version is decided once; further transactions for the
    same version are aborted.
    """

    def __init__(self, store: Store, finishing: Completion) -> None:
        self._store, self._finishing = store, finishing

    def commit(self, journal: Journal, application: str | None, version: int, ids: Sequence[str]) -> State:
        """Returns DONE if all of it happened, now or before, and COMMITTED if it is decided and not carried out yet.

        Without an application only the transactions themselves are remembered.
        """
        ids = list(dict.fromkeys(ids))
        with ExitStack() as stack:
            for id in sorted(ids):
                stack.enter_context(self._finishing.working_on(id))
            entries = self._decide(journal, application, version, ids)
            # The process that made the decision may have been killed before the sync.
            journal.sync()
            if entries:
                return self._finishing.carry_out_all(journal, entries)
        if entries is None:
            again = frozenset(ids)
            self.abort(journal, lambda entry: entry.id in again)
            self._finishing.settle_all(journal)
        return State.DONE

    def _decide(
        self, journal: Journal, application: str | None, version: int, ids: Sequence[str]
    ) -> list[JournalEntry] | None:
        """Writes the decision. Returns None if that version was reached before."""
        before = {id: journal.entry(id) for id in ids}
        ends = {id: self._finishing.ends(entry) for id, entry in before.items() if entry is not None}
        with journal.changing() as transactions:
            if _is_decided(transactions, application, version, ids):
                return None
            entries = [self._committed(transactions, id, ends.get(id)) for id in ids]
            journal.decide(application, version, entries)
            return entries

    def _committed(self, transactions: Transactions, id: str, ends: Sequence[int] | None) -> JournalEntry:
        """Returns the committed form of a prepared transaction. Raises the error that says why it
        cannot be committed.
        """
        state, entry = transactions.state(id), transactions.entries.get(id)
        after = next_state(id, state, Event.COMMIT)
        if state in (State.COMMITTED, State.DONE):
            raise TransactionCommitted(id)
        if entry is None:
            raise NoSuchTransaction(id)
        if state is not State.PREPARED:
            raise WrongState(id, state, Event.COMMIT)
        if self.is_past(entry):
            raise TransactionAborted(id)
        starts = [target.since for target in entry.targets] if ends is None else ends
        targets = [replace(target, since=end) for target, end in zip(entry.targets, starts, strict=True)]
        return replace(entry, state=after, session=self._store.session.id, targets=targets)

    def abort(self, journal: Journal, is_chosen: Callable[[JournalEntry], bool]) -> list[str]:
        """Aborts the prepared transactions that `is_chosen` selects, with one sync for all. Returns their ids."""
        ids = [entry.id for entry in journal.entries() if entry.state is State.PREPARED and is_chosen(entry)]
        if not ids:
            return []
        with ExitStack() as stack:
            for id in sorted(ids):
                stack.enter_context(self._finishing.working_on(id))
            aborted: list[JournalEntry] = []
            with journal.changing() as transactions:
                for id in ids:
                    entry = transactions.entries.get(id)
                    if entry is not None and entry.state is State.PREPARED and is_chosen(entry):
                        aborted.append(self._abort(journal, entry))
            journal.sync()
            held = [entry for entry in aborted if entry.acks]
            if held:
                self._finishing.carry_out_all(journal, held)
        return [entry.id for entry in aborted]

    def _abort(self, journal: Journal, entry: JournalEntry) -> JournalEntry:
        entry = replace(entry, state=State.ABORTED, session=self._store.session.id)
        if entry.acks:
            # Its messages are given back before the journal drops it.
            journal.change(entry)
        else:
            journal.end(entry.id, State.ABORTED)
        return entry

    def is_past(self, entry: JournalEntry) -> bool:
        """Returns whether it was prepared and its time to be decided is over."""
        return entry.state is State.PREPARED and 0 < entry.deadline <= self._store.clock.now_ns() // 1000


def _is_decided(transactions: Transactions, application: str | None, version: int, ids: Sequence[str]) -> bool:
    if application is not None:
        reached = transactions.versions.get(application)
        return reached is not None and version <= reached
    return bool(ids) and all(transactions.state(id) in (State.COMMITTED, State.DONE) for id in ids)
