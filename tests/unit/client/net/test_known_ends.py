"""KnownEnds: they grow only, by topic and partition."""

from __future__ import annotations

from warren.client.net.known_ends import KnownEnds


def test_a_message_below_the_highest_noted_end_is_known() -> None:
    ends = KnownEnds()
    ends.note("orders", {0: 5, 1: 2})
    ends.note("orders", {0: 3})

    assert ends.are_past("orders", {0: 4})
    assert ends.are_past("orders", {0: 5, 1: 1})
    assert not ends.are_past("orders", {0: 5, 1: 2, 2: 0})
    assert not ends.are_past("payments", {0: 0})


def test_a_deleted_topic_is_forgotten_and_the_others_stay_known() -> None:
    ends = KnownEnds()
    ends.note("orders", {0: 5})
    ends.note("payments", {0: 5})

    ends.forget("orders")

    assert not ends.are_past("orders", {0: 0})
    assert ends.are_past("payments", {0: 0})
