"""A queue group compared with a plain list of messages: who may get which, when, how often, and the
fate of the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.examples import examples
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedFileSystem
from warren.clock import steady_us
from warren.errors import LeaseLost
from warren.message import Message
from warren.queue.leases.lease_state import Backoff
from warren.queue.leases.queue_group import LOOK_S, QueueGroup
from warren.queue.state import ledger
from warren.queue.state.group_settings import GroupSettings
from warren.queue.store import Store
from warren.storage.read.messages import ScanRoom

MS = 1000
PARTITIONS = 2
LEASE_MS = 1000
ATTEMPTS_MAX = 3
NUMBERS = st.integers(0, PARTITIONS - 1)
OPENERS = st.integers(0, 1)
KEYS = (None, b"a", b"b", b"c")
TAGS = ("", "eu.de", "us.ny")
TIMES_MS = st.sampled_from((0, 1, 100, 250, 500, 999, 1000, 1001, 3000))


@dataclass
class Entry:
    """One message that was put: a line of the model."""

    partition: int
    number: int
    key: bytes | None
    tag: str
    body: bytes
    state: str = "new"
    time_us: int = 0
    attempt: int = 0
    session: int = -1
    transaction: str = ""
    reasons: list[str] = field(default_factory=list)


@dataclass
class Hand:
    """The messages of one take of a session, as far as its lease is still renewed."""

    session: int
    messages: list[Message]
    due_us: int


def taken_in_looks(group: QueueGroup) -> list[Message]:
    while True:
        room = ScanRoom(1)
        messages = group.take_within(1, room)
        if messages or not room.is_used_up:
            return messages


class QueueGroupMachine(RuleBasedStateMachine):
    """Two openers of one store, each with the group, with the list of all messages that were put."""

    @initialize(
        ordered=st.booleans(),
        tag=st.sampled_from((None, None, "eu.#")),
        backoff_ms=st.sampled_from((0, 100, 700)),
    )
    def begin(self, ordered: bool, tag: str | None, backoff_ms: int) -> None:
        self.patch = mock.patch.multiple(ledger, EVENTS_PER_SNAPSHOT=5, SNAPSHOT_SHARE_MAX=1)
        self.patch.start()
        self.disk, self.clock = SimulatedFileSystem(map_capacity=1 << 20), SimulatedClock()
        self.ordered, self.tag, self.backoff_us = ordered, tag, backoff_ms * MS
        self.settings = GroupSettings(
            mode="queue",
            tag=tag,
            lease_s=LEASE_MS / 1000,
            attempts_max=ATTEMPTS_MAX,
            backoff_s=backoff_ms / 1000,
            backoff_s_max=1.0,
            ordered_by_key=ordered,
        )
        self.entries: list[Entry] = []
        self.buried: list[Entry] = []
        self.redriven = 0
        self.handles: list[Message] = []
        self.hands: list[Hand] = []
        self.transactions = 0
        self.sessions = 0
        self.numbers = [0] * PARTITIONS
        self.openers = [self.open(), self.open()]

    def open(self) -> tuple[int, Store, QueueGroup]:
        self.sessions += 1
        store = Store("/data", keeps=False, filesystem=self.disk, clock=self.clock)
        topic = store.topic("orders", PARTITIONS, durability="os")
        return self.sessions, store, QueueGroup(topic, "workers", self.settings)

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.stop()

    # --- The model ---

    @property
    def now_us(self) -> int:
        return steady_us(self.clock)

    def after_us(self, attempt: int, *seed: int) -> int:
        longest_us = min(self.backoff_us * 2 ** (attempt - 1), 1_000_000) if attempt else 0
        wait_us = Backoff(self.backoff_us, 1_000_000).after_us(attempt, *seed)
        assert longest_us * 3 // 4 <= wait_us <= longest_us
        return wait_us

    def passes(self, entry: Entry) -> bool:
        return self.tag is None or entry.tag.startswith("eu")

    def is_due(self, entry: Entry) -> bool:
        if entry.state == "leased":
            return entry.time_us + self.after_us(entry.attempt, entry.time_us) <= self.now_us
        return entry.state == "new" or (entry.state == "waiting" and entry.time_us <= self.now_us)

    def is_first(self, entry: Entry) -> bool:
        """Returns whether no earlier message of its key is unfinished."""
        if not self.ordered or entry.key is None:
            return True
        return not any(
            other.key == entry.key and other.partition == entry.partition and other.number < entry.number
            for other in self.open_entries()
        )

    def open_entries(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.state not in ("done", "dead") and self.passes(entry)]

    def free_the_dead(self) -> None:
        living = {number for number, _, _ in self.openers}
        for entry in self.entries:
            if entry.state == "leased" and entry.session not in living:
                wait_us = self.after_us(entry.attempt, entry.time_us)
                entry.state, entry.time_us = "waiting", self.now_us + wait_us

    def eligible(self) -> tuple[list[Entry], list[Entry]]:
        """Returns the messages that may be handed out now, and those to be buried instead."""
        due = [entry for entry in self.open_entries() if self.is_due(entry) and self.is_first(entry)]
        return (
            [entry for entry in due if entry.attempt < ATTEMPTS_MAX],
            [entry for entry in due if entry.attempt >= ATTEMPTS_MAX],
        )

    def bury(self, entries: list[Entry]) -> None:
        for entry in entries:
            entry.state = "dead"
            self.buried.append(entry)

    def entry_of(self, message: Message) -> Entry:
        (match,) = [
            entry for entry in self.entries if (entry.partition, entry.number) == (message.partition, message.number)
        ]
        return match

    def is_kept(self, message: Message) -> bool:
        entry = self.entry_of(message)
        return entry.state == "leased" and entry.attempt == message.attempt

    # --- Actions ---

    @rule(opener=OPENERS, partition=NUMBERS, key=st.sampled_from(KEYS), tag=st.sampled_from(TAGS))
    def put(self, opener: int, partition: int, key: bytes | None, tag: str) -> None:
        body = b"%d" % len(self.entries)
        topic = self.openers[opener][1].topic("orders")
        receipt = topic.put(body, key=key, tag=tag, partition=partition)
        self.note(Entry(partition, receipt.number, key, tag, body))

    @rule(opener=OPENERS, partition=NUMBERS, keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=12))
    def put_many(self, opener: int, partition: int, keys: list[bytes | None]) -> None:
        topic = self.openers[opener][1].topic("orders")
        bodies = [b"%d" % (len(self.entries) + row) for row in range(len(keys))]
        topic.put_many(bodies, tag="eu.de", keys=keys, partition=partition)
        for key, body in zip(keys, bodies, strict=True):
            self.note(Entry(partition, self.numbers[partition], key, "eu.de", body))

    def note(self, entry: Entry) -> None:
        assert entry.number == self.numbers[entry.partition]
        self.numbers[entry.partition] += 1
        self.entries.append(entry)

    @rule(opener=OPENERS, count=st.integers(1, 30))
    def take_again_and_acknowledge(self, opener: int, count: int) -> None:
        self.take(opener, count)
        self.ack_the_latest(1 - opener, (count + 1) // 2)
        self.take(opener, count)

    @rule(opener=OPENERS, limit=st.sampled_from((None, 1, 2, 5, 100)), in_looks=st.booleans())
    def take(self, opener: int, limit: int | None, in_looks: bool = False) -> None:
        """Takes without a wait; or takes one message in steps that scan one record each, as the broker does, without
        renewal.
        """
        session, _, group = self.openers[opener]
        self.free_the_dead()
        room = limit or 1
        eligible, failed = self.eligible()
        while not eligible and failed:
            self.bury(failed)
            eligible, failed = self.eligible()

        in_looks = in_looks and limit is None
        result = taken_in_looks(group) if in_looks else group.take(limit)

        messages = result if isinstance(result, list) else [result] if result is not None else []
        places = [(message.partition, message.number) for message in messages]
        allowed = {(entry.partition, entry.number): entry for entry in eligible}
        keys = [(message.partition, message.key) for message in messages if message.key is not None]
        assert len(set(places)) == len(places)
        assert set(places) <= set(allowed)
        if self.ordered:
            assert len(set(keys)) == len(keys)
            # Not always as many as possible: messages after many that have to wait may come with the next take.
            possible = min(room, self.distinct(eligible))
            assert min(1, possible) <= len(messages) <= possible
        else:
            assert len(messages) == min(room, len(eligible))
        for message in messages:
            entry = allowed[message.partition, message.number]
            assert (message.body, message.key, message.tag) == (entry.body, entry.key, entry.tag)
            assert message.attempt == entry.attempt + 1
            entry.state, entry.time_us = "leased", self.now_us + LEASE_MS * MS
            entry.attempt, entry.session = message.attempt, session
        self.handles += messages
        if not in_looks:
            self.hands.append(Hand(session, list(messages), self.now_us + LEASE_MS * MS // 2))
        if len(messages) < room:
            self.bury(failed)
        else:
            self.bury(self.found_dead(failed))

    def distinct(self, entries: list[Entry]) -> int:
        """Returns how many can be taken together: the first of each key, and all that have none."""
        keys = {(entry.partition, entry.key) for entry in entries if entry.key is not None}
        return len(keys) + sum(entry.key is None for entry in entries)

    def letters(self) -> list[bytes]:
        store = self.openers[0][1]
        if not store.has_topic("orders.dead"):
            return []
        return [letter.body for letter in store.topic("orders.dead").partition(0).read(0, limit=10_000)]

    def found_dead(self, entries: list[Entry]) -> list[Entry]:
        """Returns those that were buried already: a take that found enough need not have got that far."""
        new = self.letters()[len(self.buried) :]
        return sorted((entry for entry in entries if entry.body in new), key=lambda entry: new.index(entry.body))

    def one_handle(self, draw: int) -> Message:
        """Mostly one that was taken recently."""
        recent = self.handles if draw % 3 == 0 else self.handles[-8:]
        return recent[draw // 3 % len(recent)]

    @rule(opener=OPENERS)
    def renew(self, opener: int) -> None:
        """The thread of a store runs. All taken messages are in hand, because the model never drops a message."""
        session, store, _ = self.openers[opener]
        hands = [hand for hand in self.hands if hand.session == session]
        is_due = any(hand.due_us <= self.now_us and hand.messages for hand in hands)

        store.renewals.run()

        for hand in hands if is_due else ():
            if hand.due_us <= self.now_us + LEASE_MS * MS // 4:
                hand.messages = list(filter(self.is_kept, hand.messages))
                hand.due_us = self.now_us + LEASE_MS * MS // 2
                for message in hand.messages:
                    self.entry_of(message).time_us = self.now_us + LEASE_MS * MS

    has_handles = precondition(lambda self: bool(self.handles))

    @has_handles
    @rule(opener=OPENERS, draws=st.lists(st.integers(0, 1000), min_size=1, max_size=6))
    def ack_many(self, opener: int, draws: list[int]) -> None:
        messages = [self.one_handle(draw) for draw in draws]
        live = [message for message in messages if self.is_kept(message)]
        lost_count = len(messages) - len({(message.partition, message.number) for message in live})

        lost_reported = 0
        try:
            self.openers[opener][2].ack_many(messages)
        except LeaseLost as error:
            lost_reported = len(error.places)
        assert lost_reported == lost_count
        for message in live:
            self.entry_of(message).state = "done"

    @rule(opener=OPENERS, count=st.integers(1, 30))
    def ack_the_latest(self, opener: int, count: int) -> None:
        messages = [message for message in self.handles[-count:] if self.is_kept(message)]

        self.openers[opener][2].ack_many(messages)

        for message in messages:
            self.entry_of(message).state = "done"

    @has_handles
    @rule(opener=OPENERS, draw=st.integers(0, 1000), delay_ms=st.one_of(st.none(), TIMES_MS))
    def nack(self, opener: int, draw: int, delay_ms: int | None) -> None:
        message = self.one_handle(draw)
        entry, is_kept = self.entry_of(message), self.is_kept(message)

        try:
            self.openers[opener][2].nack(message, None if delay_ms is None else delay_ms / 1000, "no luck")
        except LeaseLost:
            assert not is_kept
            return

        assert is_kept
        if entry.attempt >= ATTEMPTS_MAX:
            self.bury([entry])
        else:
            place = message.partition, message.number
            delay_us = self.after_us(entry.attempt, *place) if delay_ms is None else delay_ms * MS
            entry.state, entry.time_us = "waiting", self.now_us + delay_us

    @has_handles
    @rule(opener=OPENERS, draw=st.integers(0, 1000), ms=TIMES_MS)
    def extend(self, opener: int, draw: int, ms: int) -> None:
        message = self.one_handle(draw)
        is_kept = self.is_kept(message)

        try:
            self.openers[opener][2].extend(message, ms / 1000)
        except LeaseLost:
            assert not is_kept
        else:
            assert is_kept
            self.entry_of(message).time_us = self.now_us + ms * MS
        for hand in self.hands:
            if hand.session == self.openers[opener][0]:
                hand.messages = [each for each in hand.messages if each[:3:2] != message[:3:2]]

    @has_handles
    @rule(opener=OPENERS, draws=st.lists(st.integers(0, 1000), min_size=1, max_size=4, unique=True))
    def hold(self, opener: int, draws: list[int]) -> None:
        messages = list({id(message): message for message in map(self.one_handle, draws)}.values())
        are_kept = all(map(self.is_kept, messages))
        self.transactions += 1
        transaction = f"t{self.transactions}"

        try:
            self.openers[opener][2].hold(transaction, messages)
        except LeaseLost:
            assert not are_kept
        else:
            assert are_kept
            for message in messages:
                entry = self.entry_of(message)
                entry.state, entry.transaction = "held", transaction

    @rule(opener=OPENERS, draw=st.integers(0, 1000), committed=st.booleans())
    def finish(self, opener: int, draw: int, committed: bool) -> None:
        transaction = f"t{draw % (self.transactions + 1)}"

        self.openers[opener][2].finish(transaction, committed)
        self.openers[opener][2].finish(transaction, not committed)

        for entry in self.entries:
            if entry.state == "held" and entry.transaction == transaction:
                entry.state, entry.time_us = ("done", 0) if committed else ("waiting", 0)

    @rule(opener=OPENERS, limit=st.sampled_from((None, 1, 2)))
    def redrive(self, opener: int, limit: int | None) -> None:
        count = self.openers[opener][2].redrive(limit)

        revived = self.buried[self.redriven :][:limit]
        assert count == len(revived)
        self.redriven += count
        for partition in range(PARTITIONS):
            for entry in revived:
                if entry.partition == partition:
                    number = self.numbers[partition]
                    self.note(Entry(partition, number, entry.key, entry.tag, entry.body))

    @rule(opener=OPENERS, closes=st.booleans())
    def lose_a_session(self, opener: int, closes: bool) -> None:
        """An opener leaves without giving anything back, and another one comes."""
        _, store, group = self.openers[opener]
        if closes:
            group.close()
        store.close()
        self.openers[opener] = self.open()
        self.clock.pass_ns(int(LOOK_S * 1e9))

    @rule(ms=TIMES_MS)
    def let_time_pass(self, ms: int) -> None:
        self.clock.pass_ns(ms * MS * 1000)

    @rule(seconds=st.sampled_from((-5 * 3600, -1, 0.2, 4 * 3600)))
    def set_the_clock(self, seconds: float) -> None:
        """Sets the wall clock, which no lease uses."""
        self.clock.set_back_ns(-round(seconds * 1e9))

    # --- Invariants ---

    @invariant()
    def the_group_stands_where_the_model_stands(self) -> None:
        if not hasattr(self, "openers"):
            return
        for _, _, group in self.openers:
            assert group.held() == {entry.transaction for entry in self.entries if entry.state == "held"}
            assert group.in_flight() == sum(entry.state in ("leased", "held") for entry in self.entries)
            if self.tag is None:
                open_entries = self.open_entries()
                assert group.lag() == {
                    partition: sum(entry.partition == partition for entry in open_entries)
                    for partition in range(PARTITIONS)
                }

    @invariant()
    def dead_letters_are_there_once_and_in_order(self) -> None:
        if hasattr(self, "openers"):
            assert self.letters() == [entry.body for entry in self.buried]


TestQueueGroupMachine = QueueGroupMachine.TestCase
TestQueueGroupMachine.settings = settings(max_examples=examples(60), stateful_step_count=40)
