"""Long requests share the event loop: after each slice others get their turn, and one long request works at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from warren.broker.services.turns import LOOP_ROWS_AT_ONCE, Turns

MANY = 10 * LOOP_ROWS_AT_ONCE


class Clock:
    """Time that passes when the test lets it pass."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def worked(turns: Turns, clock: Clock, count: int, cost_s: float, items: list[int]) -> None:
    """Works through this many items, each of which takes this long."""
    async for item in turns.over(range(count)):
        clock.now_s += cost_s
        items.append(item)


def test_every_item_is_worked_on_in_order() -> None:
    clock, items = Clock(), list[int]()

    asyncio.run(worked(Turns(clock, 0.01), clock, MANY, 0.001, items))

    assert items == list(range(MANY))


def test_a_few_items_are_worked_on_without_a_pause() -> None:
    clock, items = Clock(), list[int]()
    turns = Turns(clock, 0.01)

    asyncio.run(worked(turns, clock, LOOP_ROWS_AT_ONCE, 0.0001, items))

    assert (len(items), turns.count) == (LOOP_ROWS_AT_ONCE, 0)


def test_a_few_items_that_take_long_are_paused_by_time() -> None:
    clock, items = Clock(), list[int]()
    turns = Turns(clock, 0.01)

    asyncio.run(worked(turns, clock, 4, 0.01, items))

    assert (len(items), turns.count) == (4, 3)


def test_no_more_than_a_slice_is_worked_between_two_turns_of_the_loop() -> None:
    clock, items, longest = Clock(), list[int](), [0.0]
    last_turn_s = [0.0]

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def look() -> None:
            longest[0] = max(longest[0], clock.now_s - last_turn_s[0])
            last_turn_s[0] = clock.now_s
            if len(items) < 3 * MANY:
                loop.call_soon(look)

        look()
        turns = Turns(clock, 0.01)
        # Three together: they do not work for a slice each in one turn.
        await asyncio.gather(*(worked(turns, clock, MANY, 0.001, items) for _ in range(3)))

    asyncio.run(main())

    assert len(items) == 3 * MANY
    # The last item of a slice is completed.
    assert longest[0] <= 0.01 + 0.001 + 1e-9


def test_requests_take_turns_with_one_another() -> None:
    clock = Clock()
    items: Sequence[list[int]] = [[], []]
    first_when_second_began: list[int] = []

    async def main() -> None:
        turns = Turns(clock, 0.01)
        await asyncio.gather(*(worked(turns, clock, MANY, 0.001, each) for each in items))

    async def watched() -> None:
        task = asyncio.create_task(main())
        while not items[1]:
            await asyncio.sleep(0)
        first_when_second_began.append(len(items[0]))
        await task

    asyncio.run(watched())

    assert 0 < first_when_second_began[0] < MANY


def test_a_request_that_is_cancelled_while_it_waits_holds_up_no_other() -> None:
    clock, items, other = Clock(), list[int](), list[int]()

    async def main() -> None:
        turns = Turns(clock, 0.01)
        gone = asyncio.create_task(worked(turns, clock, MANY, 0.001, other))
        await asyncio.sleep(0)
        gone.cancel()
        await worked(turns, clock, MANY, 0.001, items)

    asyncio.run(main())

    assert (len(items), other) == (MANY, [])
