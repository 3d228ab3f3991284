"""The life of a store and its transactions through many crashes, drawn from one seed, with a model of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final, Literal
from unittest.mock import patch

import pyarrow as pa

import warren.transaction
from tests.support.line_cutter import LineCutter
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import PowerCut, SimulatedFileSystem
from warren.errors import NoSuchTransaction, StoreBusy, TransactionAborted, TransactionCommitted
from warren.message import Message
from warren.queue.state import shared_lock
from warren.queue.stream.positions import stored_position
from warren.transaction import journal, transaction
from warren.transaction.store import Store
from warren.transaction.transaction import Transaction

DIRECTORY: Final = os.path.join(os.path.dirname(os.path.abspath(warren.transaction.__file__)), "")
SOURCES: Final = 60
"""How many messages can be consumed, for each group."""
TOPICS: Final = (("two", 2, "commit", 2), ("old", 1, "commit", 1), ("loose", 1, "os", 2))
"""The name, the partitions, the durability and the version of each topic that is put to."""
LEASE_S: Final = 10.0
APPLICATION: Final = "application"

Outcome = Literal["open", "all", "nothing", "either", "prepared", "maybe prepared"]


@dataclass
class Planned:
    """A transaction: its puts, commits and acknowledgements, and its expected result."""

    number: int
    id: str | None
    puts: list[tuple[str, int, str]] = field(default_factory=list)
    """Topic, partition (-1 for delayed) and the id of the message."""
    positions: dict[int, int] = field(default_factory=dict)
    acks: list[Message] = field(default_factory=list)
    outcome: Outcome = "open"
    real_id: str = ""
    was_prepared: bool = False

    def is_as_durable_as_its_topic(self) -> bool:
        """Returns whether it was one record of a topic that does not sync: a power cut may lose that, but only
        completely.
        """
        places = {(name, partition) for name, partition, _ in self.puts}
        only_puts = not (self.positions or self.acks or self.id or self.was_prepared)
        return only_puts and places == {("loose", 0)}


@dataclass
class Deciding:
    """A batch that is being committed: its version, and its transactions, of which all happen or none."""

    version: int
    members: list[Planned]


class TransactionLife:
    """A store that is opened, used, cut and recovered repeatedly. Every promise is checked after every crash."""

    def __init__(self, seed: int) -> None:
        self.seed, self.random = seed, Random(seed)
        self.disk = SimulatedFileSystem(seed=seed)
        self.clock = SimulatedClock()
        self.planned: list[Planned] = []
        self.positions: dict[int, int] = {0: 0, 1: 0}
        self.acknowledged: set[int] = set()
        self.had_power_cut = False
        self.deciding: Deciding | None = None
        self.version = -1
        self.crashes: Counter[str] = Counter()
        self._measured: dict[tuple[str, str], int] = {}
        self._memory_max = self.random.choice((500, 4000, 1 << 20))

    def run(self, crashes: int) -> None:
        with ExitStack() as stack:
            stack.enter_context(patch.object(shared_lock, "LOCK_WAIT_S_MAX", 0.01))
            stack.enter_context(patch.object(journal, "JOURNAL_BLOCK_SIZE", 16 << 10))
            stack.enter_context(patch.object(journal, "EVENTS_PER_SNAPSHOT", 12))
            stack.enter_context(patch.object(transaction, "TRANSACTION_MEMORY_MAX", self._memory_max))
            self._open()
            self._fill()
            while self.crashes.total() < crashes:
                self._live_until_crash()
                self._reopen()
            self._decide_all()
            self._drain()

    # --- Opening, crashing ---

    def _open(self) -> None:
        self.store = Store("/store", keeps=False, filesystem=self.disk, clock=self.clock)
        for name, partitions, durability, version in TOPICS:
            self.store.topic(name, partitions=partitions, durability=durability, version=version, block_size=64 << 10)
        source = self.store.topic("source", partitions=2, block_size=64 << 10)
        self.stream = source.group("billing")
        self.work = self.store.topic("jobs", block_size=64 << 10).group(
            "workers", mode="queue", lease=LEASE_S, backoff=0.0
        )

    def _fill(self) -> None:
        for partition in (0, 1):
            bodies = [b"%d" % number for number in range(SOURCES)]
            self.store.topic("source").put_many(bodies, partition=partition)
        self.store.topic("jobs").put_many([b"%d" % number for number in range(SOURCES)])

    def _live_until_crash(self) -> None:
        for _ in range(self.random.randrange(4)):
            name, step = self._draw_step()
            assert self._perform(name, step, None)
        name, step = self._draw_step()
        self._perform(name, step, self._draw_moment(name))
        self._crash()

    def _reopen(self) -> None:
        """Opens, and sometimes crashes again while interrupted work is finished."""
        while self.random.random() < 0.3:
            if self._perform("open", self._open, self._draw_moment("open")):
                break
            self._crash()
        else:
            assert self._perform("open", self._open, None)
        self._check()

    def _crash(self) -> None:
        kind = self.random.choice(("kill", "power cut", "loss"))
        seed = self.random.getrandbits(32)
        # Everything that refers to the dead disk is dead as well.
        self.store.session._lock = None
        if kind == "kill":
            self.disk = self.disk.after_process_kill(seed)
        else:
            self.disk = self.disk.after_power_cut(seed, same_boot=kind == "loss")
        self.had_power_cut |= kind != "kill"
        self.crashes[kind] += 1

    def _perform(self, name: str, step: Callable[[], None], moment: tuple[str, int] | None) -> bool:
        """Carries out the step. Returns False if the power was cut during it."""
        self.clock.pass_ns(self.random.randrange(2_000_000))
        kind, at = moment or ("", 0)
        calls_before = self.disk.calls
        self.disk.cut_at_call = calls_before + at if kind == "call" else None
        cutter = LineCutter(self.disk, at, directory=DIRECTORY) if kind == "line" else None
        try:
            with cutter or nullcontext():
                step()
        except (PowerCut, StoreBusy):
            # A lock of a machine that is dead is never released.
            assert self.disk.is_cut
        self.disk.cut_at_call = None
        if cutter is not None:
            self._measure(name, "line", cutter.lines)
        self._measure(name, "call", self.disk.calls - calls_before)
        return not self.disk.is_cut

    def _measure(self, name: str, kind: str, length: int) -> None:
        self._measured[name, kind] = max(length, self._measured.get((name, kind), 1))

    def _draw_moment(self, name: str) -> tuple[str, int]:
        kind = self.random.choice(("call", "line"))
        longest = self._measured.get((name, kind), 100)
        return kind, self.random.randint(1, longest + longest // 8 + 1)

    # --- Steps ---

    def _draw_step(self) -> tuple[str, Callable[[], None]]:
        waiting = [planned for planned in self.planned if planned.outcome == "prepared"]
        names = ["commit"] * 3 + ["prepare", "abort", "keep", "batch", "batch"] + ["decide"] * (3 if waiting else 0)
        name = self.random.choice(names)
        if name == "keep":
            return name, self._keep
        if name == "batch":
            return name, self._run_batch
        if name == "decide":
            return name, partial(self._decide, self.random.choice(waiting))
        return name, partial(self._run_transaction, self._plan(), name)

    def _plan(self, *, is_named: bool = False) -> Planned:
        random, number = self.random, len(self.planned)
        planned = Planned(number, f"tx-{number}" if is_named or random.random() < 0.5 else None)
        self.planned.append(planned)
        for row in range(random.choice((0, 1, 1, 2, 5, 12))):
            name, partitions, _, _ = random.choice(TOPICS)
            is_delayed = random.random() < 0.1
            partition = -1 if is_delayed else random.randrange(partitions)
            planned.puts.append((name, partition, f"{number}-{row}"))
        return planned

    def _run_transaction(self, planned: Planned, end: str) -> None:
        tx = self.store.transaction(id=planned.id)
        planned.real_id = tx.id
        by_columns = self.random.random() < 0.4
        for name, partition, id in planned.puts:
            body = id.encode() + b":" * self.random.choice((0, 10, 300, 1500))
            if partition < 0:
                tx.put(name, body, id=id, delay=self.random.choice((0.5, 100.0)))
            elif not by_columns:
                tx.put(name, body, id=id, partition=partition)
        if by_columns:
            self._put_columns(planned, tx)
        self._consume(planned, tx)
        getattr(self, f"_end_by_{end}")(planned, tx)

    def _put_columns(self, planned: Planned, tx: Transaction) -> None:
        """Puts the messages for each place as Arrow batches: one for all of them, or one for each message."""
        for place in dict.fromkeys(put[:2] for put in planned.puts if put[1] >= 0):
            ids = [id for name, partition, id in planned.puts if (name, partition) == place]
            for part in [ids] if self.random.random() < 0.5 else [[id] for id in ids]:
                bodies = [id.encode() + b":" * self.random.choice((0, 10, 1500)) for id in part]
                tx.put_columns(place[0], pa.record_batch({"body": bodies, "id": part}), partition=place[1])

    def _consume(self, planned: Planned, tx: Transaction) -> None:
        if self.random.random() < 0.3 and self.stream.read(self.random.randint(1, 3)):
            planned.positions = self.stream.read_positions()
            tx.commit(self.stream)
        if self.random.random() < 0.3:
            planned.acks = self.work.take(self.random.randint(1, 3))
            tx.ack(self.work, planned.acks)

    def _run_batch(self) -> None:
        """Stages some transactions and commits them together, sometimes for a version that was reached before."""
        is_repeat = self.version >= 0 and self.random.random() < 0.25
        version = self.random.randint(0, self.version) if is_repeat else self.version + self.random.choice((1, 1, 7))
        members = [self._plan(is_named=True) for _ in range(self.random.choice((0, 1, 2, 3)))]
        for planned in members:
            self._run_transaction(planned, "prepare")
        for planned in members:
            planned.outcome = "maybe prepared" if is_repeat else "either"
        self.deciding = None if is_repeat else Deciding(version, members)
        ids = [planned.real_id for planned in members]
        assert self.store.commit_batch(APPLICATION, version, ids) == "done"
        for planned in members:
            self._becomes(planned, "nothing" if is_repeat else "all")
        self.deciding = None
        self.version = max(version, self.version)

    def _end_by_commit(self, planned: Planned, tx: Transaction) -> None:
        planned.outcome = "either"
        tx.commit()
        assert tx.last_state == "done"
        self._becomes(planned, "all")

    def _end_by_prepare(self, planned: Planned, tx: Transaction) -> None:
        planned.outcome, planned.was_prepared = "maybe prepared", True
        tx.prepare()
        planned.outcome = "prepared"

    def _end_by_abort(self, planned: Planned, tx: Transaction) -> None:
        tx.abort()
        self._becomes(planned, "nothing")

    def _decide(self, planned: Planned) -> None:
        is_committed = self.random.random() < 0.7
        planned.outcome = "either"
        if is_committed:
            assert self.store.commit(planned.real_id) == "done"
        else:
            assert self.store.abort(planned.real_id) == "aborted"
        self._becomes(planned, "all" if is_committed else "nothing")

    def _keep(self) -> None:
        self.clock.sleep(self.random.choice((0.1, 1.0)))
        self.store.keep()

    def _becomes(self, planned: Planned, outcome: Outcome) -> None:
        planned.outcome = outcome
        if outcome == "all":
            for partition, number in planned.positions.items():
                self.positions[partition] = max(number, self.positions[partition])
            self.acknowledged |= {message.number for message in planned.acks}

    # --- Invariants ---

    def _check(self) -> None:
        """After a crash, every transaction happened completely or not at all, and answered ones as answered."""
        prepared = {each.id: each for each in self.store.recover()}
        there = self._there()
        self._check_batch(set(prepared), there)
        for planned in self.planned:
            self._check_one(planned, there, prepared.pop(planned.real_id, None) is not None)
        assert not prepared, f"{prepared} were never prepared, or decided long ago"
        positions = {partition: stored_position(log, "billing") for partition, log in enumerate(self._source_logs())}
        assert positions == self.positions

    def _check_batch(self, prepared: set[str], there: Counter[tuple[str, int, str]]) -> None:
        """A batch that was being decided is decided for all and with its version, or for none and without."""
        reached = self.store.last_version(APPLICATION)
        reached = -1 if reached is None else reached
        assert reached >= self.version, f"version {self.version} was reached, and now {reached} is"
        deciding, self.deciding = self.deciding, None
        if deciding is None:
            assert reached == self.version
            return
        is_decided = reached == deciding.version
        assert is_decided or reached == self.version
        for planned in deciding.members:
            assert (planned.real_id in prepared) != is_decided, f"{planned} of {deciding}"
            assert all(there[put] == is_decided for put in planned.puts), f"{planned} of {deciding}"
        self.version = reached

    def _check_one(self, planned: Planned, there: Counter[tuple[str, int, str]], is_prepared: bool) -> None:
        counts = [there[put] for put in planned.puts]
        description = f"{planned}: {counts}"
        assert len(set(counts)) <= 1, f"torn: {description}"
        assert set(counts) <= {0, 1}, f"repeated: {description}"
        assert is_prepared == (planned.outcome == "prepared") or planned.outcome in ("either", "maybe prepared"), (
            description
        )
        if planned.outcome == "prepared" or is_prepared:
            assert counts == [0] * len(counts), f"not committed by any process: {description}"
            planned.outcome = "prepared"
            return
        is_there = self._was_committed(planned, counts)
        if planned.outcome == "all":
            assert is_there or (planned.is_as_durable_as_its_topic() and self.had_power_cut), f"lost: {description}"
        elif planned.outcome != "either":
            assert not is_there, f"came back: {description}"
        self._becomes(planned, "all" if is_there else "nothing")

    def _was_committed(self, planned: Planned, counts: list[int]) -> bool:
        """Returns the evidence of its messages, and of its id if it was given one."""
        if planned.puts and planned.id is None:
            return counts[0] == 1
        if not planned.real_id:
            return False
        try:
            answer = self.store.abort(planned.real_id)
            is_there = False
            assert answer == "aborted"
        except TransactionCommitted:
            is_there = True
            assert self.store.commit(planned.real_id) == "done"
        except (NoSuchTransaction, TransactionAborted):
            is_there = False
        if planned.id is None:
            # Without a message only the journal can show it, and that may have forgotten it.
            return is_there or planned.outcome == "all"
        assert not counts or (counts[0] == 1) == is_there, f"{planned} is said to be {is_there}"
        return is_there

    def _there(self) -> Counter[tuple[str, int, str]]:
        """Returns how often each message is at its place, wherever delayed ones are by now."""
        counts: Counter[tuple[str, int, str]] = Counter()
        delayed = {(name, id) for planned in self.planned for name, partition, id in planned.puts if partition < 0}
        for name, _, _, version in TOPICS:
            topic = self.store.topic(name)
            for partition, log in enumerate(topic.logs):
                for message in _all(log):
                    # In version 1 a power cut may remove bytes of messages in flight, including their ids.
                    assert message.id or (version == 1 and self.had_power_cut)
                    if version == 1 and self.had_power_cut and message.body.rstrip(b":") != message.id.encode():
                        # It stays torn, and was written again after it.
                        continue
                    counts[name, -1 if (name, message.id) in delayed else partition, message.id] += 1
            parked = Counter((name, -1, each.message_id) for each in topic.scheduled())
            # A delivered message may still be listed: the process that delivered it had no time to record that.
            counts.update({put: count for put, count in parked.items() if put not in counts})
        return counts

    def _source_logs(self) -> Any:
        return self.store.topic("source").logs

    def _decide_all(self) -> None:
        for planned in self.planned:
            if planned.outcome == "prepared":
                self._decide(planned)
        self._check()

    def _drain(self) -> None:
        """Acknowledged messages are never handed out again, and all others are."""
        deliveries: Counter[int] = Counter()
        self.clock.sleep(LEASE_S + 1)
        while messages := self.work.take(10):
            deliveries.update(message.number for message in messages)
        assert set(deliveries) == set(range(SOURCES)) - self.acknowledged
        assert max(deliveries.values(), default=1) == 1


def _all(log: Any) -> list[Message]:
    messages: list[Message] = log.read(log.first, limit=1 << 20)
    return messages
