"""Coordinator: begins and decides the transactions of a store, by id and from any process."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from warren.clock import Duration, seconds_of
from warren.errors import (
    BadInput,
    JournalDamaged,
    NoSuchTransaction,
    StorageError,
    TransactionAborted,
    TransactionCommitted,
    TransactionError,
    TransactionExists,
    WrongState,
)
from warren.queue.state import paths
from warren.queue.store import Store
from warren.storage.format.record import text_bytes
from warren.transaction.apply import AtHand
from warren.transaction.completion import Completion
from warren.transaction.external_commits import Batches
from warren.transaction.journal import TRANSACTIONS_REMEMBERED_MAX, Journal
from warren.transaction.journal_entry import GroupName, JournalEntry, LogName
from warren.transaction.journal_writer import JournalWriter
from warren.transaction.pending_rows import PackWith
from warren.transaction.states import Event, State, next_state
from warren.transaction.transaction import Transaction

TRANSACTION_ID_SIZE_MAX: Final = 200
TRANSACTION_TIMEOUT_S_MAX: Final = 7 * 86_400.0
APPLICATION_NAME_SIZE_MAX: Final = 1000
TRANSACTION_LOOK_S: Final = 1.0
"""How often the keeper checks for transactions that ran out of time or have to be finished for another process."""


class Prepared(NamedTuple):
    """A transaction that waits to be committed or aborted. `when` is when it was prepared, in µs since the epoch."""

    id: str
    when: int
    message_count: int
    position_count: int
    ack_count: int


class Coordinator:
    """The transactions of one opening of a store. Any thread may call.

    Invariant: one event in the journal decides a transaction, and is on disk before any part of the transaction is in a
    log. A transaction that is a single record is decided by that record. An error before the decision aborts the
    transaction; a later error does not.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._directory = paths.transactions_directory(store.path)
        self._finishing = Completion(store)
        self._recording = JournalWriter(store, self._finishing)
        self._batches = Batches(store, self._finishing)
        self._journal: Journal | None = None
        self._is_settled = False
        """Whether the journal could be read, and all unfinished work in it is done."""
        self._open: dict[str, Transaction] = {}
        self._ended_here: dict[str, State] = {}
        """The outcomes of transactions that were never in the journal: aborted, or committed as one record."""
        self._mutex = threading.RLock()

    # --- The journal ---

    def _found_journal(self) -> Journal | None:
        """Returns the journal, or None before the first transaction of the store."""
        if self._journal is None and not self._store.filesystem.exists(self._directory):
            return None
        return self._made_journal()

    def _made_journal(self) -> Journal:
        with self._mutex:
            if self._journal is None:
                store = self._store
                directory = paths.journal_directory(self._directory)
                self._journal = Journal(directory, store.filesystem, store.clock)
            return self._journal

    def state(self, id: str) -> State:
        """Returns the state of a transaction: UNKNOWN if it does not exist, or it was forgotten."""
        self._store.check_open()
        if id in self._open:
            return State.OPEN
        journal = self._journal_of(id)
        return self._ended_here.get(id, State.UNKNOWN) if journal is None else journal.state(id)

    def _journal_of(self, id: str) -> Journal | None:
        """Returns the journal if it has the transaction, otherwise None."""
        journal = self._found_journal()
        return None if journal is None or journal.state(id) is State.UNKNOWN else journal

    # --- While it is open ---

    def begin(self, timeout: Duration, id: str | None, prepared_timeout: Duration | None) -> Transaction:
        """Returns a new transaction. Raises TransactionExists if the id belongs to one that was not aborted."""
        self._store.check_open()
        if not self._is_settled:
            # The store stays open, because nothing else needs the journal.
            self.settle()
        timeout_s, prepared_timeout_s = seconds_of(timeout), seconds_of(prepared_timeout)
        _check_timeout("timeout", timeout_s)
        if prepared_timeout_s is not None:
            _check_timeout("prepared_timeout", prepared_timeout_s)
        if id is not None:
            next_state(id, self.state(checked_id(id)), Event.BEGIN)
        deadline_s = self._store.clock.steady_s() + timeout_s
        transaction = Transaction(self, self._store, id, deadline_s, prepared_timeout_s)
        with self._mutex:
            if transaction.id in self._open:
                raise TransactionExists(transaction.id, State.OPEN)
            self._open[transaction.id] = transaction
            self._ended_here.pop(transaction.id, None)
        return transaction

    def spill(self, transaction: Transaction) -> None:
        """Moves the rows of an open transaction from memory to the journal."""
        try:
            self._recording.spill(self._made_journal(), transaction)
        except BaseException:
            self._drop(transaction)
            raise

    def stage(self, transaction: Transaction, batches: Mapping[LogName, PackWith]) -> None:
        """Writes batches of an open transaction to the journal, as the records that their logs accept."""
        try:
            self._recording.stage(self._made_journal(), transaction, batches)
        except BadInput:
            raise
        except BaseException:
            self._drop(transaction)
            raise

    def check_time(self, transaction: Transaction) -> None:
        """Raises TransactionAborted, and aborts the transaction, if its time is over."""
        next_state(transaction.id, transaction.last_state, Event.CHANGE)
        if transaction.deadline_s <= self._store.clock.steady_s():
            self._drop(transaction)
            raise TransactionAborted(transaction.id)

    def _drop(self, transaction: Transaction) -> None:
        """Aborts an open transaction of this process. Its entry in the journal is aborted now, or
        by the keeper later.
        """
        self._forget(transaction, State.ABORTED)
        if transaction.first is not None:
            # The keeper writes it later if it cannot be written now.
            with suppress(StorageError, TransactionAborted, NoSuchTransaction):
                try:
                    self._abort_in_journal(self._made_journal(), transaction.id, Event.ABORT)
                except TransactionCommitted:
                    # The error came just after the decision.
                    transaction.last_state = State.COMMITTED
        else:
            self._remember(transaction.id, State.ABORTED)

    def _forget(self, transaction: Transaction, state: State) -> None:
        transaction.forget(state)
        self._open.pop(transaction.id, None)

    def _remember(self, id: str, state: State) -> None:
        with self._mutex:
            self._ended_here[id] = state
            if len(self._ended_here) > TRANSACTIONS_REMEMBERED_MAX:
                del self._ended_here[next(iter(self._ended_here))]

    # --- Committing ---

    def prepare(self, transaction: Transaction) -> None:
        """Writes all of it to disk. Any process may decide it from now on."""
        with transaction.mutex:
            if next_state(transaction.id, transaction.state, Event.PREPARE) is transaction.last_state:
                return
            self.check_time(transaction)
            journal, _, _ = self._write(transaction, State.PREPARED)
            self._forget(transaction, State.PREPARED)
        journal.sync()

    def commit(self, id: str) -> State:
        """Commits and carries it out. Returns DONE, or COMMITTED if another process is still carrying it out."""
        self._store.check_open()
        transaction = self._open.get(id)
        if transaction is None:
            with self._finishing.working_on(id):
                state = self._commit_prepared(id)
        else:
            with transaction.mutex, self._finishing.working_on(id):
                is_open = transaction.last_state is State.OPEN
                state = self._commit_open(transaction) if is_open else self._commit_prepared(id)
        if state is State.COMMITTED:
            # Another process decided it, and is about to carry it out or has died.
            self.settle()
            state = self.state(id)
        return state

    def _commit_open(self, transaction: Transaction) -> State:
        self.check_time(transaction)
        if transaction.needs_no_journal():
            return self._commit_at_once(transaction)
        journal, entry, at_hand = self._write(transaction, State.COMMITTED)
        self._forget(transaction, State.COMMITTED)
        # The sync decides: from here on the transaction happens, even if processes die.
        journal.sync()
        transaction.last_state = self._finishing.carry_out(journal, entry, at_hand)
        return transaction.last_state

    def _commit_at_once(self, transaction: Transaction) -> State:
        try:
            transaction.append()
        except BaseException:
            self._drop(transaction)
            raise
        self._forget(transaction, State.DONE)
        self._remember(transaction.id, State.DONE)
        return State.DONE

    def _write(self, transaction: Transaction, state: State) -> tuple[Journal, JournalEntry, AtHand]:
        """Writes all of the transaction to the journal. The caller syncs."""
        try:
            journal = self._made_journal()
            return journal, *self._recording.write(journal, transaction, state)
        except BaseException:
            self._drop(transaction)
            raise

    def _commit_prepared(self, id: str) -> State:
        journal = self._journal_of(id)
        if journal is None:
            return next_state(id, self.state(id), Event.COMMIT)
        before = journal.entry(id)
        ends = self._finishing.ends(before) if before is not None else []
        if before is not None and self._batches.is_past(before):
            self._abort_in_journal(journal, id, Event.EXPIRE)
        with journal.changing() as transactions:
            state = transactions.state(id)
            after = next_state(id, state, Event.COMMIT)
            entry = transactions.entries.get(id)
            if state is State.OPEN:
                # Only the process that has it open knows all of it.
                raise WrongState(id, state, Event.COMMIT)
            if state is State.PREPARED and entry is not None:
                targets = [replace(target, since=end) for target, end in zip(entry.targets, ends, strict=True)]
                entry = replace(entry, state=after, session=self._store.session.id, targets=targets)
                journal.change(entry)
        if entry is None or entry.session != self._store.session.id:
            return after
        journal.sync()
        return self._finishing.carry_out(journal, entry)

    def commit_batch(self, application: str | None, version: int, ids: Sequence[str]) -> State:
        """Commits all of them, records that the application has reached the version, and carries them out."""
        self._store.check_open()
        journal = self._made_journal()
        state = self._batches.commit(journal, application, version, ids)
        # A process that decides in batches may be the only one that is open for a long time.
        self._batches.abort(journal, self._batches.is_past)
        self._finishing.settle(journal)
        return state

    @property
    def last_failure(self) -> str:
        return self._finishing.last_failure

    def last_version(self, application: str) -> int | None:
        """Returns the last version that an application has committed."""
        self._store.check_open()
        journal = self._found_journal()
        return None if journal is None else journal.version(application)

    def abort_prepared(self, prefix: str, before: str | None) -> list[str]:
        """Aborts the prepared transactions whose ids start with `prefix` and sort before `before`."""
        self._store.check_open()
        journal = self._found_journal()

        def is_chosen(entry: JournalEntry) -> bool:
            return entry.id.startswith(prefix) and (before is None or entry.id < before)

        return [] if journal is None else self._batches.abort(journal, is_chosen)

    # --- Aborting ---

    def abort(self, id: str) -> State:
        """Aborts a transaction."""
        self._store.check_open()
        transaction = self._open.get(id)
        if transaction is not None:
            with transaction.mutex:
                if transaction.last_state is State.OPEN:
                    self._drop(transaction)
                    return State.ABORTED
        journal = self._journal_of(id)
        if journal is None:
            return next_state(id, self.state(id), Event.ABORT)
        return self._abort_in_journal(journal, id, Event.ABORT)

    def _abort_in_journal(self, journal: Journal, id: str, event: Event) -> State:
        with self._finishing.working_on(id):
            with journal.changing() as transactions:
                state, entry = transactions.state(id), transactions.entries.get(id)
                next_state(id, state, event)
                if entry is None:
                    return State.ABORTED
                entry = replace(entry, state=State.ABORTED, session=self._store.session.id)
                if entry.acks:
                    journal.change(entry)
                else:
                    journal.end(id, State.ABORTED)
            if state is not State.OPEN or entry.acks:
                journal.sync()
            if entry.acks:
                self._finishing.carry_out(journal, entry)
            return State.ABORTED

    # --- What waits, and what was left ---

    def settle(self) -> None:
        """Returns when everything that was committed is done, and the open transactions of dead sessions are aborted.

        Raises JournalDamaged if the journal cannot be read. Then leases and partitions of dead sessions must not be
        given to others, because a transaction that such a session had committed may have to acknowledge the messages.
        """
        journal = self._found_journal()
        if journal is not None:
            self._finishing.settle_all(journal)
        self._is_settled = True

    def undecided(self, topic: str, group: str) -> set[int]:
        """Returns the partitions whose position a prepared transaction may move.

        Also those of a transaction that is open for members in other processes. No member begins to read them before it
        is decided.
        """
        journal, name = self._found_journal(), GroupName(topic, group)
        entries = [] if journal is None else journal.entries()
        partitions = {
            partition
            for entry in entries
            if entry.state is State.PREPARED
            for partition in entry.positions.get(name, ())
        }
        for transaction in list(self._open.values()):
            if name not in transaction.streams:
                partitions.update(transaction.positions.get(name, ()))
        return partitions

    def recover(self) -> list[Prepared]:
        """Returns the transactions that wait for a decision, the oldest first."""
        self._store.check_open()
        self.settle()
        journal = self._found_journal()
        entries = [] if journal is None else journal.entries()
        return [
            Prepared(
                entry.id,
                entry.when,
                entry.message_count,
                sum(map(len, entry.positions.values())),
                sum(entry.acks.values()),
            )
            for entry in entries
            if entry.state is State.PREPARED
        ]

    def keep(self) -> float:
        """The duty of the store's keeper: aborts transactions whose time is over, and finishes interrupted ones."""
        for transaction in list(self._open.values()):
            with transaction.mutex, suppress(TransactionError):
                self.check_time(transaction)
        # A damaged journal was logged when the store was opened.
        with suppress(JournalDamaged):
            journal = self._found_journal()
            if journal is not None:
                for entry in journal.entries():
                    with suppress(TransactionError):
                        self._keep_entry(journal, entry)
                self._finishing.settle(journal)
        return TRANSACTION_LOOK_S

    def _keep_entry(self, journal: Journal, entry: JournalEntry) -> None:
        is_ours = entry.session == self._store.session.id
        if self._batches.is_past(entry):
            self._abort_in_journal(journal, entry.id, Event.EXPIRE)
        elif entry.state is State.OPEN and is_ours and entry.id not in self._open:
            self._abort_in_journal(journal, entry.id, Event.ABORT)
        elif self._finishing.is_left(entry):
            self._finishing.try_again(journal, entry)

    def close(self) -> None:
        """Aborts the open transactions. Called before the store closes."""
        for transaction in list(self._open.values()):
            with transaction.mutex:
                self._drop(transaction)
        self._finishing.close()
        if self._journal is not None:
            self._journal.close()

    def after_fork(self) -> None:
        """In a child process: discards the transactions that belong to the parent."""
        self._mutex = threading.RLock()
        for transaction in self._open.values():
            transaction.mutex = threading.RLock()
            transaction.forget(State.ABORTED)
        self._open.clear()
        self._finishing.after_fork()
        if self._journal is not None:
            self._journal.after_fork()


def checked_id(id: object) -> str:
    """Returns the id of a transaction. Raises BadInput if it is not valid."""
    if not isinstance(id, str) or not id:
        raise BadInput(f"transaction id {id!r}: expected a non-empty str")
    text_bytes("transaction id", id, TRANSACTION_ID_SIZE_MAX)
    return id


def checked_application(name: object) -> str:
    """Returns the name of an application. Raises BadInput if it is not valid."""
    if not isinstance(name, str) or not name:
        raise BadInput(f"application {name!r}: expected a non-empty str")
    text_bytes("application", name, APPLICATION_NAME_SIZE_MAX)
    return name


def checked_version(version: object) -> int:
    """Returns the version of an application. Raises BadInput if it is not valid."""
    if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version < 1 << 63:
        raise BadInput(f"version {version!r}: expected an int of at least 0")
    return version


def checked_ids(ids: object) -> list[str]:
    """Returns the ids of transactions. Raises BadInput if they are not valid."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise BadInput(f"transaction ids {ids!r}: expected a sequence of ids")
    return list(map(checked_id, ids))


def _check_timeout(name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= TRANSACTION_TIMEOUT_S_MAX:
        raise BadInput(f"{name} {value!r}: expected seconds above 0, at most {TRANSACTION_TIMEOUT_S_MAX:g}")
