"""The life of a transactional producer, as a table: a missing pair is an error that clients understand."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from warren.broker.kafka_errors import Code


class State(StrEnum):
    """Where the latest transaction of a producer stands; EMPTY where it has had none in its epoch.

    In BEGINNING, COMMITTING and ABORTING the disk is waited for: whoever asks then is told to ask again.
    """

    EMPTY = "empty"
    BEGINNING = "beginning"
    OPEN = "open"
    COMMITTING = "committing"
    ABORTING = "aborting"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Event(StrEnum):
    """What clients ask for, and what becomes of it. ADD: a partition or a group takes part. FAIL: it is no more."""

    ADD = "add"
    COMMIT = "commit"
    ABORT = "abort"
    FINISH = "finish"
    FAIL = "fail"


ASKED: Final = (Event.ADD, Event.COMMIT, Event.ABORT)
WAITING: Final = (State.BEGINNING, State.COMMITTING, State.ABORTING)
TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.EMPTY, Event.ADD): State.BEGINNING,
    (State.COMMITTED, Event.ADD): State.BEGINNING,
    (State.ABORTED, Event.ADD): State.BEGINNING,
    (State.BEGINNING, Event.FINISH): State.OPEN,
    (State.BEGINNING, Event.FAIL): State.ABORTED,
    (State.OPEN, Event.ADD): State.OPEN,
    (State.OPEN, Event.COMMIT): State.COMMITTING,
    (State.OPEN, Event.ABORT): State.ABORTING,
    (State.COMMITTING, Event.FINISH): State.COMMITTED,
    (State.COMMITTING, Event.FAIL): State.ABORTED,
    (State.ABORTING, Event.FINISH): State.ABORTED,
    (State.ABORTING, Event.FAIL): State.ABORTED,
    # Asked again because the answer was lost.
    (State.COMMITTED, Event.COMMIT): State.COMMITTED,
    (State.ABORTED, Event.ABORT): State.ABORTED,
}


def next_state(state: State, event: Event) -> State | Code:
    """The state after `event`, or what a client is told that asked for what cannot be."""
    found = TRANSITIONS.get((state, event))
    if found is not None:
        return found
    return Code.CONCURRENT_TRANSACTIONS if state in WAITING and event in ASKED else Code.INVALID_TXN_STATE
