"""The steps of a promotion and of a hand-over: every pair of the tables."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from warren.replication.mastership import (
    HAND_OVER,
    PROMOTION,
    HandOver,
    HandOverEvent,
    Promotion,
    PromotionEvent,
)


def test_a_promotion_serves_after_all_three_events_with_the_last_two_in_any_order() -> None:
    for order in permutations(PromotionEvent):
        step = Promotion.KEEPING_EPOCHS
        if order[0] is not PromotionEvent.EPOCHS_KEPT:
            with pytest.raises(KeyError):
                PROMOTION[step, order[0]]
            continue
        for event in order:
            step = PROMOTION[step, event]
        assert step is Promotion.SERVING


def test_no_event_of_a_promotion_comes_twice() -> None:
    assert all(PROMOTION.get((after, event)) is None for (_, event), after in PROMOTION.items())
    assert not any((Promotion.SERVING, event) in PROMOTION for event in PromotionEvent)


def test_a_hand_over_that_was_proposed_cannot_be_taken_back() -> None:
    reached = {HandOver.PROPOSED}
    for _ in HandOver:
        reached |= {
            HAND_OVER[step, event] for step, event in product(reached, HandOverEvent) if (step, event) in HAND_OVER
        }

    assert reached == {HandOver.PROPOSED, HandOver.ENDED}


@pytest.mark.parametrize(("step", "event"), list(product(HandOver, HandOverEvent)))
def test_a_pair_that_is_not_in_the_table_is_an_error(step: HandOver, event: HandOverEvent) -> None:
    expected = {
        (HandOver.NOT_WANTED, HandOverEvent.WANTED),
        (HandOver.DRAINING, HandOverEvent.WANTED),
        (HandOver.DRAINING, HandOverEvent.DRAINED),
        (HandOver.DRAINING, HandOverEvent.TIMED_OUT),
        (HandOver.PROPOSED, HandOverEvent.WANTED),
        (HandOver.PROPOSED, HandOverEvent.ANSWERED),
    }

    assert ((step, event) in HAND_OVER) is ((step, event) in expected)
