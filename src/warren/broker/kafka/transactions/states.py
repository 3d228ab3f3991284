"""The states of a transactional producer, as a table: a missing pair is an error that clients understand."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from warren.broker.kafka.errors import Code


class TransactionState(StrEnum):
    """The state of the latest transaction of a producer; EMPTY if there was none in its epoch.

    In BEGINNING, COMMITTING and ABORTING the broker waits for the disk; a client that sends a request then has to send
    it again.
    """

    EMPTY = "empty"
    BEGINNING = "beginning"
    OPEN = "open"
    COMMITTING = "committing"
    ABORTING = "aborting"
    COMMITTED = "committed"
    ABORTED = "aborted"


class TransactionEvent(StrEnum):
    """Requests of clients, and their outcomes. ADD: a partition or a group joins. FAIL: the transaction is lost."""

    ADD = "add"
    COMMIT = "commit"
    ABORT = "abort"
    FINISH = "finish"
    FAIL = "fail"


ASKED: Final = (TransactionEvent.ADD, TransactionEvent.COMMIT, TransactionEvent.ABORT)
WAITING: Final = (TransactionState.BEGINNING, TransactionState.COMMITTING, TransactionState.ABORTING)
TRANSITIONS: Final[dict[tuple[TransactionState, TransactionEvent], TransactionState]] = {
    (TransactionState.EMPTY, TransactionEvent.ADD): TransactionState.BEGINNING,
    (TransactionState.COMMITTED, TransactionEvent.ADD): TransactionState.BEGINNING,
    (TransactionState.ABORTED, TransactionEvent.ADD): TransactionState.BEGINNING,
    (TransactionState.BEGINNING, TransactionEvent.FINISH): TransactionState.OPEN,
    (TransactionState.BEGINNING, TransactionEvent.FAIL): TransactionState.ABORTED,
    (TransactionState.OPEN, TransactionEvent.ADD): TransactionState.OPEN,
    (TransactionState.OPEN, TransactionEvent.COMMIT): TransactionState.COMMITTING,
    (TransactionState.OPEN, TransactionEvent.ABORT): TransactionState.ABORTING,
    (TransactionState.COMMITTING, TransactionEvent.FINISH): TransactionState.COMMITTED,
    (TransactionState.COMMITTING, TransactionEvent.FAIL): TransactionState.ABORTED,
    (TransactionState.ABORTING, TransactionEvent.FINISH): TransactionState.ABORTED,
    (TransactionState.ABORTING, TransactionEvent.FAIL): TransactionState.ABORTED,
    # Repeated because the answer was lost.
    (TransactionState.COMMITTED, TransactionEvent.COMMIT): TransactionState.COMMITTED,
    (TransactionState.ABORTED, TransactionEvent.ABORT): TransactionState.ABORTED,
}


def next_state(state: TransactionState, event: TransactionEvent) -> TransactionState | Code:
    """Returns the state after `event`, or the error if the event is not possible in this state."""
    following = TRANSITIONS.get((state, event))
    if following is not None:
        return following
    return Code.CONCURRENT_TRANSACTIONS if state in WAITING and event in ASKED else Code.INVALID_TXN_STATE
