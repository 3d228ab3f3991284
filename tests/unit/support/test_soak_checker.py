"""The checker of the long run reports each kind of fault, because a checker that never complains proves nothing."""

from __future__ import annotations

from typing import Any

from tests.soak.checker import Stored, check, check_copy
from tests.soak.cluster.run import longest_gap
from tests.soak.history import Event


def event(kind: str, at_ns: int, who: str = "a", **facts: Any) -> Event:
    return Event(kind, at_ns, who, facts)


def put(*ids: str, at_ns: int = 0, is_done: bool = True, **facts: Any) -> list[Event]:
    events = [event("puts", at_ns, ids=list(ids), **facts)]
    return [*events, event("put", at_ns + 1, ids=list(ids))] if is_done else events


def kinds(events: list[Event], stored: list[Stored]) -> list[str]:
    return [fault.kind for fault in check(events, stored)]


ONE = Stored(0, 0, "a/plain/1", 100)
TWO = Stored(0, 1, "a/plain/2", 100)


def test_a_clean_history_has_no_faults() -> None:
    messages = [[0, 0, "a/plain/1"], [0, 1, "a/plain/2"]]
    events = [
        *put("a/plain/1", "a/plain/2"),
        event("read", 10, group="g", since_ns=9, messages=messages),
        event("committed", 11, group="g", positions={"0": 2}),
        event("took", 12, group="q", since_ns=11, messages=messages),
        event("acked", 13, group="q", messages=messages),
    ]

    assert kinds(events, [ONE, TWO]) == []


def test_a_missing_message_is_reported_as_lost() -> None:
    assert kinds(put("a/plain/1"), []) == ["lost"]
    assert kinds(put("a/plain/1", is_done=False), []) == []


def test_a_message_that_was_never_put_is_a_phantom() -> None:
    assert kinds([], [ONE]) == ["phantom"]


def test_a_delivered_cancelled_message_is_a_phantom() -> None:
    events = [*put("a/delayed/1", is_done=False), event("cancelled", 5, ids=["a/delayed/1"])]

    assert kinds(events, [Stored(0, 0, "a/delayed/1", 100)]) == ["phantom"]
    assert kinds(events, []) == []


def test_a_wrong_copy_is_reported() -> None:
    assert check_copy("copiers", ["a", "b"], ["b", "a"]) == []
    assert [fault.kind for fault in check_copy("copiers", ["a", "b"], ["b", "b", "c"])] == [
        "lost",
        "phantom",
        "duplicated",
    ]


def test_a_repeated_message_is_reported_as_duplicated() -> None:
    assert kinds(put("a/plain/1"), [ONE, ONE._replace(number=1)]) == ["duplicated"]


def test_half_a_transaction_is_torn() -> None:
    events = put("a/tx/1", "a/tx/2", is_done=False, transaction="t")

    assert kinds(events, [Stored(0, 0, "a/tx/1", 100)]) == ["torn"]
    assert kinds(events, []) == []


def test_a_message_before_its_due_time_is_early() -> None:
    stored = [Stored(0, 0, "a/delayed/1", 100)]

    assert kinds(put("a/delayed/1", due_us=101), stored) == ["early"]
    assert kinds(put("a/delayed/1", due_us=100), stored) == []


def test_messages_of_one_producer_are_in_order() -> None:
    stored = [ONE._replace(number=1), TWO._replace(number=0)]

    assert kinds(put("a/plain/1", "a/plain/2"), stored) == ["reordered"]


def test_committed_messages_do_not_come_again() -> None:
    once = event("read", 10, group="g", since_ns=9, messages=[[0, 0, "a/plain/1"]])
    commit = event("committed", 11, group="g", positions={"0": 1})

    again = event("read", 20, "b", group="g", since_ns=15, messages=[[0, 0, "a/plain/1"]])
    before = event("read", 20, "b", group="g", since_ns=10, messages=[[0, 0, "a/plain/1"]])

    assert kinds([*put("a/plain/1"), once, commit, again], [ONE]) == ["duplicated"]
    assert kinds([*put("a/plain/1"), once, commit, before], [ONE]) == []


def test_acknowledged_messages_do_not_come_again() -> None:
    message = [[0, 0, "a/plain/1"]]
    once = event("took", 10, group="q", since_ns=9, messages=message)
    acked = event("acked", 11, group="q", messages=message)

    again = event("took", 20, "b", group="q", since_ns=15, messages=message)

    assert kinds([*put("a/plain/1"), once, acked, again], [ONE]) == ["duplicated"]
    assert kinds([*put("a/plain/1"), once, again], [ONE]) == []


def test_a_message_that_a_group_never_got_is_lost() -> None:
    events = [*put("a/plain/1", "a/plain/2"), event("took", 10, group="q", since_ns=9, messages=[[0, 1, "a/plain/2"]])]

    assert kinds(events, [ONE, TWO]) == ["lost"]


def test_a_message_that_is_not_in_the_log_is_a_phantom_for_a_group() -> None:
    events = [*put("a/plain/1"), event("read", 10, group="g", since_ns=9, messages=[[0, 0, "a/plain/9"]])]

    assert kinds(events, [ONE]) == ["phantom"]


def test_a_member_that_reads_backwards_is_reported() -> None:
    events = [
        *put("a/plain/1", "a/plain/2"),
        event("read", 10, group="g", since_ns=9, messages=[[0, 1, "a/plain/2"], [0, 0, "a/plain/1"]]),
    ]

    assert kinds(events, [ONE, TWO]) == ["reordered"]


def test_only_a_clock_that_steps_before_the_delivery_excuses_an_early_message() -> None:
    due = put("a/delayed/1", at_ns=10, due_us=200)
    read = event("read", 30, group="g", since_ns=20, messages=[[0, 0, "a/delayed/1"]])
    stored = [Stored(0, 0, "a/delayed/1", 100)]

    assert kinds([*due, read], stored) == ["early"]
    assert kinds([event("clock", 9), *due, read], stored) == ["early"]
    assert kinds([*due, event("clock", 25), read], stored) == []
    assert kinds([*due, read, event("clock", 31)], stored) == ["early"]


def test_the_longest_time_without_a_put_of_ours_and_its_fault_are_known() -> None:
    second = 10**9
    events = [
        event("fault", 0, "nemesis", fault="kill"),
        *put("warren-1/plain/0", at_ns=second),
        event("fault", 2 * second, "nemesis", fault="cut"),
        event("put", 3 * second, "kafka-1", ids=["kafka-1/plain/0"]),
        event("put", 5 * second + 1, "warren-2", ids=["warren-2/plain/0"]),
        event("fault", 6 * second, "nemesis", fault="pause"),
        event("put", 7 * second, "warren-2", ids=["warren-2/plain/1"]),
    ]
    ours = [each._replace(who="warren-1") if each.who == "a" else each for each in events]

    assert longest_gap(ours) == (4.0, "cut")
    assert longest_gap(events[:2]) == (0.0, "")
