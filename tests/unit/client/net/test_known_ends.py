"""KnownEnds: they grow only, by topic and partition."""

from __future__ import annotations

from warren.client.net.known_ends import KnownEnds


def test_a_message_is_known_below_the_highest_end_that_was_noted() -> None:
    known = KnownEnds()
    known.note("orders", {0: 5, 1: 2})
    known.note("orders", {0: 3})

    assert known.are_past("orders", {0: 4})
    assert known.are_past("orders", {0: 5, 1: 1})
    assert not known.are_past("orders", {0: 5, 1: 2, 2: 0})
    assert not known.are_past("payments", {0: 0})


def test_a_topic_that_was_deleted_is_forgotten_and_no_other_one() -> None:
    known = KnownEnds()
    known.note("orders", {0: 5})
    known.note("payments", {0: 5})

    known.forget("orders")

    assert not known.are_past("orders", {0: 0})
    assert known.are_past("payments", {0: 0})
