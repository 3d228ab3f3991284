"""Random sends, repeats, failures and restarts: each batch of a producer is stored once, in the
order of its creation.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.examples import examples
from warren.broker.kafka.errors import Code
from warren.broker.kafka.producers.sequences import REMEMBERED, SEQUENCE_END, Sequences, StoredBatch
from warren.storage.format.layout import KafkaBatchHead

PRODUCERS = st.integers(0, 2)
COUNTS = st.integers(1, 4)
FIRST = SEQUENCE_END - 6
"""Where producers begin, so that their numbers soon start again at 0."""


class Sending(RuleBasedStateMachine):
    """Producers as clients are: a batch is made once, and sent until it is acknowledged, up to five at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.sequences = Sequences()
        self.log: list[KafkaBatchHead] = []
        self.made: dict[int, list[KafkaBatchHead]] = {producer: [] for producer in range(3)}
        self.unacknowledged: dict[int, list[KafkaBatchHead]] = {producer: [] for producer in range(3)}
        self.note: tuple[int, Any] = 0, []

    @rule(producer=PRODUCERS, count=COUNTS)
    def make(self, producer: int, count: int) -> None:
        if len(self.unacknowledged[producer]) >= REMEMBERED:
            return
        made = self.made[producer]
        sequence = (made[-1].base_sequence + made[-1].record_count) % SEQUENCE_END if made else FIRST
        head = KafkaBatchHead(0, 100, 0, 2, 0, 0, count - 1, 0, 0, producer, 0, sequence, count)
        made.append(head)
        self.unacknowledged[producer].append(head)

    @rule(producer=PRODUCERS, place=st.integers(0, REMEMBERED - 1), is_stored=st.booleans(), is_heard=st.booleans())
    def send(self, producer: int, place: int, is_stored: bool, is_heard: bool) -> None:
        waiting = self.unacknowledged[producer]
        if place >= len(waiting) or (place and not self.log_of(producer)):
            # An unknown producer is accepted: its first batch is the first that it sends.
            return
        head = waiting[place]
        verdict = self.sequences.judge(head)
        if isinstance(verdict, Code):
            assert verdict is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
            return
        if isinstance(verdict, StoredBatch):
            assert isinstance(verdict.stored, int)
            assert self.log[verdict.stored] == head
        elif is_stored:
            self.sequences.take(head, len(self.log))
            self.log.append(head)
        else:
            self.sequences.refuse(head)
            return
        if is_heard:
            waiting.remove(head)

    def log_of(self, producer: int) -> list[KafkaBatchHead]:
        return [head for head in self.log if head.producer_id == producer]

    @rule()
    def take_note(self) -> None:
        self.note = len(self.log), json.loads(json.dumps(self.sequences.to_json()))

    @precondition(lambda self: self.log)
    @rule(overlap=st.integers(0, 8))
    def restart(self, overlap: int) -> None:
        end, state = self.note
        self.sequences = Sequences()
        self.sequences.restore(state)
        for number in range(max(0, end - overlap), len(self.log)):
            self.sequences.learn(self.log[number], number)

    @invariant()
    def each_batch_is_there_once_and_in_order(self) -> None:
        for producer, made in self.made.items():
            stored = self.log_of(producer)
            assert stored == made[: len(stored)]

    @invariant()
    def what_was_acknowledged_is_there(self) -> None:
        for producer, made in self.made.items():
            stored = self.log_of(producer)
            assert all(head in stored for head in made if head not in self.unacknowledged[producer])


Sending.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
TestSending = Sending.TestCase
