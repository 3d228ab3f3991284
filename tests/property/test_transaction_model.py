"""Transactions compared with plain lists: begun, prepared, committed and aborted in any order, by two openings of a
store.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from tests.support.examples import examples
from tests.support.simulated_clock import SimulatedClock
from tests.support.store.transaction_stores import bodies, open_store
from warren.errors import (
    NoSuchTransaction,
    TransactionAborted,
    TransactionCommitted,
    TransactionError,
    TransactionExists,
    WrongState,
)
from warren.transaction import journal, transaction
from warren.transaction.store import Store
from warren.transaction.transaction import Transaction

TOPICS = ("plain", "wide", "old", "loose")
IDS = ("alpha", "beta", "gamma")
Refusal = type[TransactionError]


@dataclass(eq=False)
class Expected:
    """A transaction of the model: its puts, and its state."""

    tx: Transaction
    opening: int
    is_named: bool
    puts: list[tuple[str, bytes]] = field(default_factory=list)
    state: str = "open"


class TransactionsBesideLists(RuleBasedStateMachine):
    """Every rule does one thing to both; afterwards the topics have the content of the lists."""

    transactions: Bundle[Expected] = Bundle("transactions")

    @initialize(memory_max=st.sampled_from((300, 1 << 20)))
    def make(self, memory_max: int) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.clock = SimulatedClock()
        self.patches = [
            patch.object(journal, "EVENTS_PER_SNAPSHOT", 8),
            patch.object(journal, "JOURNAL_BLOCK_SIZE", 8 << 10),
            patch.object(transaction, "TRANSACTION_MEMORY_MAX", memory_max),
        ]
        for each in self.patches:
            each.start()
        self.stores = [self._open(), self._open()]
        for name in TOPICS:
            self.stores[0].topic(
                name,
                partitions=3 if name == "wide" else 1,
                version=1 if name == "old" else 2,
                durability="os" if name == "loose" else "commit",
            )
        self.lists: dict[str, list[bytes]] = {name: [] for name in TOPICS}
        self.by_id: dict[str, Expected] = {}
        self.all: list[Expected] = []
        self.count = 0
        self.versions: dict[str, int] = {}

    def _open(self) -> Store:
        return open_store(Path(self.directory.name), self.clock)

    def teardown(self) -> None:
        if hasattr(self, "stores"):
            for store in self.stores:
                store.close()
            for each in self.patches:
                each.stop()
            self.directory.cleanup()

    # --- Rules ---

    @rule(target=transactions, opening=st.integers(0, 1), id=st.none() | st.sampled_from(IDS))
    def begin(self, opening: int, id: str | None) -> Expected:
        earlier = self.by_id.get(id) if id is not None else None
        is_open_here = any(
            each.tx.id == id and each.opening == opening and each.state == "open" and each is not earlier
            for each in self.all
        )
        if earlier is not None and (is_open_here or self._is_taken(earlier, opening)):
            with pytest.raises(TransactionExists):
                self.stores[opening].transaction(id=id)
            return earlier
        expected = Expected(self.stores[opening].transaction(timeout=1000.0, id=id), opening, id is not None)
        if id is not None and (earlier is None or earlier.state == "aborted"):
            self.by_id[id] = expected
        self.all.append(expected)
        return expected

    @staticmethod
    def _is_taken(earlier: Expected, opening: int) -> bool:
        """An open transaction is known to its own process, and to others once some of it is in the journal."""
        if earlier.state == "open":
            return earlier.opening == opening or earlier.tx.first is not None
        return earlier.state != "aborted"

    @rule(
        expected=transactions,
        topic=st.sampled_from(TOPICS),
        size=st.sampled_from((0, 100, 500)),
        how=st.sampled_from(("one", "many", "columns")),
    )
    def put(self, expected: Expected, topic: str, size: int, how: str) -> None:
        if expected not in self.all:
            return
        self.count += 1
        rows = [b"%d-%d:" % (self.count, row) + bytes(size) for row in range(1 if how == "one" else 3)]
        refusal = self._refusal(expected)
        if refusal is not None:
            with pytest.raises(refusal):
                expected.tx.put(topic, rows[0])
            return
        try:
            if how == "many":
                expected.tx.put_many(topic, rows)
            elif how == "columns":
                expected.tx.put_columns(topic, self._columns(topic, rows))
            else:
                expected.tx.put(topic, rows[0])
        except TransactionExists:
            # Too large for memory, and the id of another process in the journal.
            assert self._is_ousted(expected)
            expected.state = "aborted"
            return
        expected.puts += [(topic, body) for body in rows]

    @staticmethod
    def _columns(topic: str, rows: list[bytes]) -> pa.RecordBatch:
        """Puts the messages with keys, if the topic accepts them."""
        return pa.record_batch({"body": rows} if topic == "old" else {"body": rows, "key": rows})

    def _is_ousted(self, expected: Expected) -> bool:
        """Returns whether another process took the id first."""
        return expected.is_named and self.by_id[expected.tx.id] is not expected

    @staticmethod
    def _refusal(expected: Expected) -> Refusal | None:
        refusals: dict[str, Refusal] = {
            "prepared": WrongState,
            "done": TransactionCommitted,
            "aborted": TransactionAborted,
        }
        return refusals.get(expected.state)

    @rule(expected=transactions)
    def prepare(self, expected: Expected) -> None:
        if expected not in self.all:
            return
        refusal = self._refusal(expected) if expected.state != "prepared" else None
        if refusal is None and expected.state == "open" and self._meets_another(expected):
            refusal = TransactionExists
            expected.state = "aborted"
        if refusal is not None:
            with pytest.raises(refusal):
                expected.tx.prepare()
            return
        expected.tx.prepare()
        self._own_id(expected)
        expected.state = "prepared"

    def _meets_another(self, expected: Expected) -> bool:
        """Returns whether the journal has another transaction of this id that was not aborted."""
        if not self._is_ousted(expected):
            return False
        other = self.by_id[expected.tx.id]
        return other.state in ("prepared", "done") or (other.state == "open" and other.tx.first is not None)

    def _own_id(self, expected: Expected) -> None:
        if expected.is_named:
            self.by_id[expected.tx.id] = expected

    @rule(expected=transactions)
    def commit(self, expected: Expected) -> None:
        if expected not in self.all:
            return
        if expected.state == "open" and self._meets_another(expected):
            expected.state = "aborted"
            with pytest.raises(TransactionExists):
                expected.tx.commit()
        elif expected.state == "aborted":
            with pytest.raises(TransactionAborted):
                expected.tx.commit()
        else:
            expected.tx.commit()
            if expected.state != "done":
                self._own_id(expected)
                self._happens(expected)

    def _happens(self, expected: Expected) -> None:
        expected.state = "done"
        for topic, body in expected.puts:
            self.lists[topic].append(body)

    @rule(expected=consumes(transactions))
    def abort(self, expected: Expected) -> None:
        if expected not in self.all:
            return
        if expected.state == "done":
            with pytest.raises(TransactionCommitted):
                expected.tx.abort()
        elif expected.state in ("open", "prepared"):
            expected.tx.abort()
            expected.state = "aborted"

    @rule(opening=st.integers(0, 1), id=st.sampled_from(IDS), is_commit=st.booleans())
    def decide_by_id(self, opening: int, id: str, is_commit: bool) -> None:
        expected, store = self.by_id.get(id), self.stores[opening]
        act = store.commit if is_commit else store.abort
        if expected is None or expected.state in ("open", "aborted"):
            # Transactions that others have open, or had before they were in the journal, do not matter here.
            if expected is None and not any(each.tx.id == id for each in self.all):
                with pytest.raises(NoSuchTransaction):
                    act(id)
            return
        if expected.state == "prepared":
            assert act(id) == ("done" if is_commit else "aborted")
            if is_commit:
                self._happens(expected)
            else:
                expected.state = "aborted"
        elif is_commit:
            assert act(id) == "done"
        else:
            with pytest.raises(TransactionCommitted):
                act(id)

    @rule(
        opening=st.integers(0, 1),
        application=st.sampled_from(("first", "second")),
        version=st.integers(0, 4),
        ids=st.lists(st.sampled_from(IDS), unique=True),
    )
    def commit_batch(self, opening: int, application: str, version: int, ids: list[str]) -> None:
        store, reached = self.stores[opening], self.versions.get(application, -1)
        members = [self.by_id.get(id) for id in ids]
        prepared = [each for each in members if each is not None and each.state == "prepared"]
        if version <= reached:
            assert store.commit_batch(application, version, ids) == "done"
            for each in prepared:
                each.state = "aborted"
        elif len(prepared) < len(ids):
            with pytest.raises(TransactionError):
                store.commit_batch(application, version, ids)
        else:
            assert store.commit_batch(application, version, ids) == "done"
            self.versions[application] = version
            for each in prepared:
                self._happens(each)

    @rule(opening=st.integers(0, 1))
    def close_and_open(self, opening: int) -> None:
        self.stores[opening].close()
        for expected in self.all:
            if expected.opening == opening and expected.state == "open":
                expected.state = "aborted"
        self.stores[opening] = self._open()
        # Objects of a closed opening cannot be used any more.
        self.all = [expected for expected in self.all if expected.opening != opening]

    @rule(opening=st.integers(0, 1))
    def keep(self, opening: int) -> None:
        self.stores[opening].keep()

    # --- Invariants ---

    @invariant()
    def the_topics_hold_what_was_committed(self) -> None:
        if hasattr(self, "stores"):
            for name, expected in self.lists.items():
                stored = bodies(self.stores[self.count % 2], name)
                assert sorted(stored) == sorted(expected) if name == "wide" else stored == expected

    @invariant()
    def both_know_how_far_applications_got(self) -> None:
        if hasattr(self, "stores"):
            for store in self.stores:
                versions = {name: store.last_version(name) for name in ("first", "second")}
                assert {name: version for name, version in versions.items() if version is not None} == self.versions

    @invariant()
    def what_is_prepared_waits(self) -> None:
        if hasattr(self, "stores"):
            ids = {each.id for each in self.stores[0].recover()}
            prepared = {each.tx.id for each in self.all if each.state == "prepared"}
            assert prepared <= ids


TestTransactionsBesideLists = TransactionsBesideLists.TestCase
TestTransactionsBesideLists.settings = settings(max_examples=examples(30), stateful_step_count=20)
