"""The effect of each event of a queue group's ledger on a message, by the state of the message."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import pytest

from warren.queue.leases.lease_state import (
    DONE,
    DYING,
    FREED,
    HELD,
    LEASED,
    TRANSITIONS,
    WAITING,
    Backoff,
    Burial,
    Leases,
)

SPAN: Final = [0, 0, 1]
BACKOFF: Final = (0, 0)
LETTER: Final = (0, 0, 1, "it failed")
FREE: Final = ("free", {"owners": ["worker"], "at": 0, "backoff": BACKOFF})
INTO: Final[dict[str, list[tuple[str, dict[str, Any]]]]] = {
    LEASED: [],
    WAITING: [("nack", {"spans": [SPAN], "until": 5})],
    FREED: [FREE],
    HELD: [("hold", {"id": "transaction", "spans": [SPAN]})],
    DYING: [("bury", {"id": "burial", "since": 0, "letters": [LETTER]})],
}
"""The events that bring a message that was just taken into each state."""
EVENTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "take": ("take", {"owner": "other", "at": 9, "steady": 9, "until": 99, "new": [], "again": [(0, 0, 1, 2)]}),
    "extend": ("extend", {"spans": [SPAN], "until": 50}),
    "nack": ("nack", {"spans": [SPAN], "until": 5}),
    "free": FREE,
    "hold": ("hold", {"id": "other", "spans": [SPAN]}),
    "abort": ("finish", {"id": "transaction", "committed": False}),
    "commit": ("finish", {"id": "transaction", "committed": True}),
    "bury": ("bury", {"id": "other", "since": 0, "letters": [LETTER]}),
    "buried": ("buried", {"id": "burial"}),
    "done": ("done", {"spans": [SPAN]}),
}


def leases_with_message(kind: str) -> Leases:
    """Returns the state of a group with one message, which is in this state."""
    leases = Leases(Backoff(*BACKOFF))
    leases.apply("begin", {"next": [(0, 0)]})
    record = {"owner": "worker", "at": 1, "steady": 1, "until": 10, "new": [(0, 1, [(0, 1)])], "again": []}
    leases.apply("take", record)
    for name, event in INTO[kind]:
        leases.apply(name, event)
    # The lease that an event about an earlier message with the same number refers to.
    leases.held.setdefault("transaction", [SPAN])
    leases.burials.setdefault("burial", Burial(0, [LETTER]))
    return leases


def kind_of(leases: Leases) -> str:
    lease = leases.of(0, 0)
    return DONE if lease is None else lease.kind


@pytest.mark.parametrize(("kind", "cause"), [pair for pair in product(INTO, EVENTS) if pair[1] != "take"])
def test_every_event_changes_a_message_as_the_table_says_and_a_missing_pair_changes_nothing(
    kind: str, cause: str
) -> None:
    leases = leases_with_message(kind)
    before = leases.of(0, 0)
    assert kind_of(leases) == kind

    leases.apply(*EVENTS[cause])

    assert kind_of(leases) == TRANSITIONS.get((kind, cause), kind)
    if (kind, cause) not in TRANSITIONS:
        assert leases.of(0, 0) == before


@pytest.mark.parametrize("kind", [kind for kind, cause in TRANSITIONS if cause == "take"])
def test_a_message_that_may_be_handed_out_again_is_leased_by_the_next_take(kind: str) -> None:
    leases = leases_with_message(kind)

    (run,) = leases.pop_due(100, 1)
    leases.apply(*EVENTS["take"])

    assert (run.partition, run.start, run.end) == (0, 0, 1)
    assert leases.of(0, 0) == (LEASED, 99, 2, "other")


@pytest.mark.parametrize("kind", [HELD, DYING])
def test_a_message_that_is_held_or_dying_is_not_offered_to_a_take(kind: str) -> None:
    assert leases_with_message(kind).pop_due(1 << 60, 1) == []


def test_the_table_names_only_states_and_events_that_exist() -> None:
    assert {kind for kind, _ in TRANSITIONS} == set(INTO)
    assert {cause for _, cause in TRANSITIONS} == set(EVENTS)
    assert set(TRANSITIONS.values()) == {LEASED, WAITING, FREED, HELD, DYING, DONE}


def test_an_extended_lease_keeps_its_owner_and_attempt_and_a_nack_can_leave_the_attempt_uncounted() -> None:
    leases = leases_with_message(LEASED)

    leases.apply(*EVENTS["extend"])
    assert leases.of(0, 0) == (LEASED, 50, 1, "worker")

    leases.apply("nack", {"spans": [SPAN], "until": 7, "uncounted": 1})
    assert leases.of(0, 0) == (WAITING, 7, 0, "")


def test_a_held_message_belongs_to_the_transaction_and_comes_back_immediately_if_that_is_aborted() -> None:
    leases = leases_with_message(HELD)
    assert leases.of(0, 0) == (HELD, 0, 1, "transaction")

    leases.apply(*EVENTS["abort"])

    assert leases.of(0, 0) == (WAITING, 0, 1, "")
