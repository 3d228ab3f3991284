"""Writes the content of an open transaction to the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from warren.errors import GONE, NoSuchPartition, NoSuchTopic, TransactionAborted, TransactionExists
from warren.queue.state.group_settings import read_settings
from warren.queue.store import Store
from warren.queue.stream.positions import stored_position
from warren.storage.format.record import Packed
from warren.transaction.apply import AtHand
from warren.transaction.completion import Completion
from warren.transaction.journal import Journal
from warren.transaction.journal_entry import GroupName, JournalEntry, LogName, Piece, Target, marker_of
from warren.transaction.pending_rows import PackWith
from warren.transaction.states import Event, State, next_state
from warren.transaction.transaction import Transaction


class JournalWriter:
    """Writes transactions of this process. The caller holds the mutex of the transaction.

    Invariant: while rows of a transaction are in the journal, so is an entry that protects them from retirement.
    """

    def __init__(self, store: Store, finishing: Completion) -> None:
        self._store, self._finishing = store, finishing

    def spill(self, journal: Journal, transaction: Transaction) -> None:
        """Moves the rows from memory to the journal."""
        with journal.changing():
            self._begin(journal, transaction)
            _move_rows(journal, transaction)

    def stage(self, journal: Journal, transaction: Transaction, batches: Mapping[LogName, PackWith]) -> None:
        """Writes batches to the journal, as the records that their logs accept.

        Raises BadInput, and changes nothing, if a log does not accept one of them.
        """
        packed: list[tuple[Target, list[Packed]]] = []
        for place, pack in batches.items():
            target = transaction.target_for(place)
            number = list(transaction.targets).index(place)
            packed.append((target, pack(marker_of(transaction.token, number, len(target.pieces)))))
        with journal.changing():
            self._begin(journal, transaction)
            for target, records in packed:
                target.pieces.append(journal.add_packed(records))

    def _begin(self, journal: Journal, transaction: Transaction) -> None:
        """Within `changing`: adds the transaction to the journal, which keeps its rows from then on."""
        _check_id(journal, transaction)
        if transaction.first is None:
            transaction.first = journal.end_number
            journal.change(self._entry(transaction, State.OPEN))

    def write(self, journal: Journal, transaction: Transaction, state: State) -> tuple[JournalEntry, AtHand]:
        """Writes all of it, prepared or committed. The caller syncs.

        Returns the entry, and the part that is in memory.
        """
        for name, stream in transaction.streams.items():
            stream.check_claim(transaction.claims[name])
        if transaction.acks:
            self._hold(journal, transaction)
        for place, target in transaction.targets.items():
            target.since = self._finishing.end(place)
        with journal.changing():
            _check_id(journal, transaction)
            if transaction.first is None:
                transaction.first = journal.end_number
            rows = _move_rows(journal, transaction)
            entry = self._entry(transaction, state)
            journal.change(entry)
        return entry, AtHand(rows, dict(transaction.streams), dict(transaction.queues))

    def _hold(self, journal: Journal, transaction: Transaction) -> None:
        """Holds the messages that are to be acknowledged, until the transaction is decided."""
        with journal.changing():
            self._begin(journal, transaction)
            # The journal may have an entry without these holds. A process that finds it gives back the messages that it
            # holds.
            journal.change(self._entry(transaction, State.OPEN))
        # The entry must be on disk before the holds: a hold of an unknown transaction would never end.
        journal.sync()
        for name, messages in transaction.acks.items():
            transaction.queues[name].hold(transaction.token, messages)

    def _entry(self, transaction: Transaction, state: State) -> JournalEntry:
        assert transaction.first is not None
        now_us = self._store.clock.now_ns() // 1000
        lasting_s = transaction.prepared_timeout_s
        is_whole = state is not State.OPEN
        return JournalEntry(
            id=transaction.id,
            state=state,
            session=self._store.session.id,
            token=transaction.token,
            when=now_us,
            first=transaction.first,
            deadline=0 if lasting_s is None else now_us + int(lasting_s * 1_000_000),
            targets=list(transaction.targets.values()) if is_whole else [],
            positions=dict(transaction.positions) if is_whole else {},
            acks={name: len(messages) for name, messages in transaction.acks.items()},
            back=self._back(transaction) if is_whole else {},
        )

    def _back(self, transaction: Transaction) -> dict[GroupName, dict[int, int]]:
        """Returns the committed positions that the transaction moves back."""
        moved_back: dict[GroupName, dict[int, int]] = {}
        for name in transaction.movable:
            # Nothing is moved if the topic or group was deleted.
            with suppress(NoSuchTopic, NoSuchPartition, *GONE):
                topic = self._store.existing_topic(name.topic)
                if read_settings(self._store.filesystem, topic.directory, name.group) is None:
                    continue
                for partition, number in transaction.positions[name].items():
                    stored = stored_position(topic.partition(partition), name.group)
                    if number < stored:
                        moved_back.setdefault(name, {})[partition] = stored
        return moved_back


def _check_id(journal: Journal, transaction: Transaction) -> None:
    """Within `changing`: checks that no other transaction has the id, and that no process aborted this one."""
    id, transactions = transaction.id, journal.transactions
    entry = transactions.entries.get(id)
    if transaction.first is None:
        next_state(id, transactions.state(id), Event.BEGIN)
        if entry is not None:
            # It was aborted, and the messages that it held were not given back yet.
            raise TransactionExists(id, entry.state)
    elif entry is None or entry.token != transaction.token or entry.state is not State.OPEN:
        raise TransactionAborted(id)


def _move_rows(journal: Journal, transaction: Transaction) -> dict[Piece, Sequence[Packed]]:
    """Within `changing`: writes the rows that are in memory to the journal, and returns them."""
    moved: dict[Piece, Sequence[Packed]] = {}
    for number, (place, target) in enumerate(transaction.targets.items()):
        rows, limits = transaction.rows[place], transaction.limits_of(place)
        if not rows.rows:
            continue
        packed = limits.pack(rows.batch(), marker_of(transaction.token, number, len(target.pieces)))
        piece = journal.add_packed(packed)
        moved[piece] = packed
        target.pieces.append(piece)
        rows.clear()
    transaction.size = 0
    return moved
