"""The states of a transaction: every pair of a state and an event has the outcome that this table says, or an error."""

from __future__ import annotations

import pytest

from warren.errors import (
    NoSuchTransaction,
    TransactionAborted,
    TransactionCommitted,
    TransactionError,
    TransactionExists,
    WrongState,
)
from warren.transaction.states import TRANSITIONS, Event, State, next_state

Outcome = State | type[TransactionError]
EVENTS = ("begin", "change", "prepare", "commit", "abort", "expire", "finish")
OPEN, PREPARED, COMMITTED, DONE, ABORTED = State.OPEN, State.PREPARED, State.COMMITTED, State.DONE, State.ABORTED
EXPECTED: dict[str, tuple[Outcome, ...]] = {
    "unknown": (OPEN, *[NoSuchTransaction] * 6),
    "open": (TransactionExists, OPEN, PREPARED, COMMITTED, ABORTED, ABORTED, WrongState),
    "prepared": (TransactionExists, WrongState, PREPARED, COMMITTED, ABORTED, ABORTED, WrongState),
    "committed": (
        TransactionExists,
        TransactionCommitted,
        TransactionCommitted,
        COMMITTED,
        TransactionCommitted,
        TransactionCommitted,
        DONE,
    ),
    "done": (
        TransactionExists,
        TransactionCommitted,
        TransactionCommitted,
        DONE,
        TransactionCommitted,
        TransactionCommitted,
        TransactionCommitted,
    ),
    "aborted": (OPEN, TransactionAborted, TransactionAborted, TransactionAborted, ABORTED, TransactionAborted, ABORTED),
}
PAIRS = [
    (State(state), Event(event), outcome)
    for state, outcomes in EXPECTED.items()
    for event, outcome in zip(EVENTS, outcomes, strict=True)
]


@pytest.mark.parametrize(("state", "event", "outcome"), PAIRS)
def test_every_pair_has_its_outcome(state: State, event: Event, outcome: Outcome) -> None:
    if isinstance(outcome, State):
        assert next_state("t", state, event) is outcome
        return

    with pytest.raises(outcome) as raised:
        next_state("t", state, event)

    assert type(raised.value) is outcome
    assert raised.value.id == "t"


def test_every_pair_is_visited() -> None:
    assert {(state, event) for state, event, _ in PAIRS} == {(state, event) for state in State for event in Event}
    assert {(state, event) for state, event, outcome in PAIRS if isinstance(outcome, State)} == set(TRANSITIONS)


def test_a_decision_is_final() -> None:
    for (state, _), after in TRANSITIONS.items():
        if state in (State.COMMITTED, State.DONE):
            assert after in (State.COMMITTED, State.DONE)
