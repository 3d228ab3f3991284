"""The states of a transaction as a table. A missing pair is an error with a name."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from warren.errors import NoSuchTransaction, TransactionAborted, TransactionCommitted, TransactionExists, WrongState


class State(StrEnum):
    """The state of a transaction. From COMMITTED on it is decided: its messages will be in their
    topics, exactly once.
    """

    UNKNOWN = "unknown"
    OPEN = "open"
    PREPARED = "prepared"
    COMMITTED = "committed"
    DONE = "done"
    ABORTED = "aborted"


class Event(StrEnum):
    """What can happen to a transaction. EXPIRE: its time ran out. FINISH: everything was carried out."""

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
    """Returns the state of transaction `id` after `event`. Raises the error that says why it cannot happen."""
    following = TRANSITIONS.get((state, event))
    if following is not None:
        return following
    if event is Event.BEGIN:
        raise TransactionExists(id, state)
    if state is State.UNKNOWN:
        raise NoSuchTransaction(id)
    if state is State.ABORTED:
        raise TransactionAborted(id)
    if state in (State.COMMITTED, State.DONE):
        raise TransactionCommitted(id)
    raise WrongState(id, state, event)
