"""The life of a transaction, as a table: a missing pair is an error with a name."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from warren.errors import NoSuchTransaction, TransactionAborted, TransactionCommitted, TransactionExists, WrongState


class State(StrEnum):
    """Where a transaction stands. From COMMITTED on it is decided: what it holds will be in its topics, once."""

    UNKNOWN = "unknown"
    OPEN = "open"
    PREPARED = "prepared"
    COMMITTED = "committed"
    DONE = "done"
    ABORTED = "aborted"


class Event(StrEnum):
    """What can happen to a transaction. EXPIRE: its time ran out. FINISH: nothing is left to be done."""

    BEGIN = "begin"
    CHANGE = "change"
    PREPARE = "prepare"
    COMMIT = "commit"
    ABORT = "abort"
    EXPIRE = "expire"
    FINISH = "finish"


TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.UNKNOWN, Event.BEGIN): State.OPEN,
    (State.ABORTED, Event.BEGIN): State.OPEN,
    (State.OPEN, Event.CHANGE): State.OPEN,
    (State.OPEN, Event.PREPARE): State.PREPARED,
    (State.PREPARED, Event.PREPARE): State.PREPARED,
    (State.OPEN, Event.COMMIT): State.COMMITTED,
    (State.PREPARED, Event.COMMIT): State.COMMITTED,
    (State.COMMITTED, Event.COMMIT): State.COMMITTED,
    (State.DONE, Event.COMMIT): State.DONE,
    (State.OPEN, Event.ABORT): State.ABORTED,
    (State.PREPARED, Event.ABORT): State.ABORTED,
    (State.ABORTED, Event.ABORT): State.ABORTED,
    (State.OPEN, Event.EXPIRE): State.ABORTED,
    (State.PREPARED, Event.EXPIRE): State.ABORTED,
    (State.COMMITTED, Event.FINISH): State.DONE,
    (State.ABORTED, Event.FINISH): State.ABORTED,
}


def next_state(id: str, state: State, event: Event) -> State:
    """The state of transaction `id` after `event`; the error that names why it cannot happen."""
    found = TRANSITIONS.get((state, event))
    if found is not None:
        return found
    if event is Event.BEGIN:
        raise TransactionExists(id, state)
    if state is State.UNKNOWN:
        raise NoSuchTransaction(id)
    if state is State.ABORTED:
        raise TransactionAborted(id)
    if state in (State.COMMITTED, State.DONE):
        raise TransactionCommitted(id)
    raise WrongState(id, state, event)
