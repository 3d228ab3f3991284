"""The memory budget: what waits, what passes, what is next, and which connections are closed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from warren.broker.net.progress import STALLED_HURRY, STALLED_PARTS, Mark
from warren.broker.services.memory_budget import (
    MEMORY_KEPT_SMALL_SIZE_MAX,
    MEMORY_SMALL_SIZE_MAX,
    Hold,
    MemoryBudget,
    MemoryKind,
)
from warren.errors import TooMany

ALL = 64 << 20
LARGE = ALL // 4
MIDDLE = 1 << 20


class Asking:
    """A client that requests memory, and what it got."""

    def __init__(self, budget: MemoryBudget, size: int, owner: str, kind: MemoryKind = MemoryKind.FRAMES) -> None:
        self.hold: Hold | None = None
        now = budget.ask(self, kind, size, owner, self._granted)
        self.hold = now or self.hold

    def _granted(self, hold: Hold) -> None:
        self.hold = hold

    def release(self) -> None:
        assert self.hold is not None
        self.hold.release()


def test_reserved_memory_is_counted_by_kind_and_released_once() -> None:
    budget = MemoryBudget(ALL)
    hold = budget.hold(MemoryKind.FRAMES, 1000, "ann")

    hold.move(MemoryKind.REQUESTS)
    assert (budget.size, budget.sizes[MemoryKind.FRAMES], budget.sizes[MemoryKind.REQUESTS]) == (1000, 0, 1000)
    hold.release()
    hold.release()

    assert budget.size == 0
    assert set(budget.sizes.values()) == {0}


def test_a_large_request_waits_for_room_and_gets_it_when_others_are_done() -> None:
    budget = MemoryBudget(ALL)
    first, second = Asking(budget, ALL // 2, "ann"), Asking(budget, ALL // 2 - MIDDLE, "bob", MemoryKind.UNPACKED)
    third = Asking(budget, 2 * MIDDLE, "eve")

    assert first.hold is not None
    # Both are among the largest pieces, which have half of it together.
    assert second.hold is None
    assert third.hold is not None
    first.release()

    assert second.hold is not None
    assert budget.waits == 1


def test_one_owner_cannot_take_the_share_of_others() -> None:
    budget = MemoryBudget(ALL)
    mine = [Asking(budget, MIDDLE, "ann") for _ in range(ALL // MIDDLE)]
    other = Asking(budget, MIDDLE, "bob")

    assert sum(each.hold is not None for each in mine) == ALL // MIDDLE // 2
    assert other.hold is not None
    mine[0].release()

    assert sum(each.hold is not None and each.hold.size > 0 for each in mine) == ALL // MIDDLE // 2


def test_requests_get_room_in_the_order_in_which_they_came() -> None:
    budget = MemoryBudget(ALL)
    fillers = [Asking(budget, MIDDLE, f"user-{number}") for number in range(ALL // MIDDLE)]
    large = Asking(budget, 3 * MIDDLE, "ann")
    later = Asking(budget, MIDDLE, "bob")

    fillers[0].release()
    fillers[1].release()
    assert (large.hold, later.hold) == (None, None)
    fillers[2].release()

    assert large.hold is not None
    assert later.hold is None


def test_a_request_larger_than_the_budget_is_admitted_alone() -> None:
    budget = MemoryBudget(ALL)
    small = Asking(budget, ALL // 8, "bob")
    large = Asking(budget, 2 * ALL, "ann")
    reservation = budget.keep(MemoryKind.MEMBERS, MIDDLE, "eve")

    assert large.hold is None
    small.release()

    assert large.hold is not None
    assert reservation.size == MIDDLE


def test_a_piece_above_the_limit_is_admitted_next_to_small_requests_and_counts_in_full() -> None:
    budget, granted = MemoryBudget(ALL), list[Hold]()
    budget.take(1000)
    other = budget.hold(MemoryKind.FRAMES, ALL // 4, "bob")

    assert budget.ask("read", MemoryKind.UNPACKED, 2 * ALL, "ann", granted.append) is None
    assert budget.ask("later", MemoryKind.FRAMES, 1, "cid", granted.append) is not None
    other.release()

    assert [hold.size for hold in granted] == [2 * ALL]
    assert budget.size == 2 * ALL + 1001
    assert budget.is_full


def test_small_requests_that_are_answered_make_room_too() -> None:
    budget = MemoryBudget(ALL)
    budget.take(ALL - 1000)
    waiting = Asking(budget, MIDDLE, "ann")

    for _ in range(MIDDLE // 1000 + 1):
        budget.give_back(1000)
    assert waiting.hold is None
    budget.give_back(MEMORY_SMALL_SIZE_MAX)

    assert waiting.hold is not None


def test_a_client_that_leaves_makes_room_for_waiting_clients() -> None:
    budget = MemoryBudget(ALL)
    fillers = [Asking(budget, MIDDLE, f"user-{number}") for number in range(ALL // MIDDLE)]
    large, later = Asking(budget, 3 * MIDDLE, "ann"), Asking(budget, MIDDLE, "bob")

    fillers[0].release()
    budget.forget(large)

    assert later.hold is not None
    assert large.hold is None


def test_kept_memory_leaves_half_for_requests_and_a_part_for_other_owners() -> None:
    budget = MemoryBudget(ALL)

    while budget.may_keep(MIDDLE, "ann"):
        budget.keep(MemoryKind.MEMBERS, MIDDLE, "ann")
    mine = budget.size
    with pytest.raises(TooMany) as caught:
        budget.keep(MemoryKind.MEMBERS, MIDDLE, "ann")
    budget.keep(MemoryKind.TRANSACTIONS, MIDDLE, "bob")
    while budget.may_keep(MIDDLE, "eve"):
        budget.keep(MemoryKind.SESSIONS, MIDDLE, "eve")

    assert caught.value.retryable
    assert mine < ALL // 4
    assert budget.kept < ALL // 2
    # Small things still have room.
    budget.keep(MemoryKind.MEMBERS, MEMORY_KEPT_SMALL_SIZE_MAX, "ann")
    assert budget.refusals == 1


def test_answers_get_smaller_while_clients_do_not_take_them_and_then_wait() -> None:
    budget, resumed = MemoryBudget(ALL), list[str]()

    assert budget.answer_size_max(MIDDLE) == MIDDLE
    unread = budget.hold(MemoryKind.ANSWERS, ALL // 4, "ann")
    assert budget.answer_size_max(MIDDLE) == MEMORY_SMALL_SIZE_MAX
    assert not budget.is_crowded
    unread.resize(ALL // 2)
    assert budget.is_crowded
    budget.hold_back("bob", lambda: resumed.append("bob"))
    unread.resize(ALL // 8)

    assert resumed == ["bob"]
    assert not budget.is_crowded


STALLED_S = 60.0


def stalls(state_at: Callable[[float], tuple[tuple[int, int, int], int]], until_s: float, *, is_hurried: bool) -> bool:
    """Returns whether a connection that is checked every second is closed within this time."""
    mark, now_s = Mark(), 0.0
    while now_s <= until_s:
        frame, unsent = state_at(now_s)
        if mark.stalled(1000 + now_s, STALLED_S, is_hurried=is_hurried, frame=frame, unsent=unsent):
            return True
        now_s += 1.0
    return False


@pytest.mark.parametrize("is_hurried", [False, True])
def test_a_request_that_stops_coming_ends_its_connection(is_hurried: bool) -> None:
    limit_s = STALLED_S / STALLED_HURRY if is_hurried else STALLED_S

    assert stalls(lambda _: ((1, 500, 1000), 0), limit_s + 1, is_hurried=is_hurried)
    assert not stalls(lambda _: ((1, 500, 1000), 0), limit_s - 2, is_hurried=is_hurried)


def test_a_request_that_trickles_ends_its_connection_and_one_that_comes_on_does_not() -> None:
    size = 1_000_000
    slow_enough = size / STALLED_PARTS / STALLED_S

    assert stalls(lambda now_s: ((1, int(now_s), size), 0), 2 * STALLED_S, is_hurried=True)
    assert not stalls(lambda now_s: ((1, int(now_s * slow_enough * 1.1), size), 0), 9 * STALLED_S, is_hurried=True)
    # One slow request after the other does not count as stalling.
    assert not stalls(lambda now_s: ((int(now_s / 50), 10, size), 0), 5 * STALLED_S, is_hurried=False)


def test_a_connection_between_requests_or_not_read_from_may_take_its_time() -> None:
    assert not stalls(lambda _: ((1, 0, 0), 0), 10 * STALLED_S, is_hurried=True)


def test_unread_answers_close_their_connection_and_slow_readers_keep_theirs() -> None:
    assert stalls(lambda _: ((0, 0, 0), 5000), STALLED_S + 1, is_hurried=False)
    assert not stalls(lambda now_s: ((0, 0, 0), 100_000 - int(now_s)), 5 * STALLED_S, is_hurried=False)
