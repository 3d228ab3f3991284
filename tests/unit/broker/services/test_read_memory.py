"""Reads of large messages get their memory from the budget, one after the other, and release it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from warren.broker.services.memory_budget import MemoryBudget, MemoryKind
from warren.broker.services.read_memory import READ_COPIES, READ_UNASKED_SIZE_MAX, ReadMemory
from warren.errors import BadInput, TooMany
from warren.storage.format.allowance import UNASKED_SIZE_MAX, unpacked_size_max, use_allowance
from warren.storage.format.limits import RAW_SIZE_MAX

MIB = 1 << 20
SIZE_MAX = 64 * MIB


async def in_thread(work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    return await asyncio.to_thread(work, *arguments, **named)


def reading(*sizes: int) -> Callable[[], int]:
    def work() -> int:
        for size in sizes:
            if size > UNASKED_SIZE_MAX:
                use_allowance(size)
        return sum(sizes)

    return work


def never() -> bool:
    return False


def test_small_reads_take_nothing_from_the_budget() -> None:
    async def run() -> None:
        budget = MemoryBudget(SIZE_MAX)

        result, hold = await ReadMemory(budget, in_thread).run("ann", never, reading(100, READ_UNASKED_SIZE_MAX))

        assert (result, hold, budget.size) == (100 + READ_UNASKED_SIZE_MAX, None, 0)

    asyncio.run(run())


def test_a_large_read_holds_memory_of_an_answer_until_it_is_released() -> None:
    async def run() -> None:
        budget = MemoryBudget(SIZE_MAX)

        result, hold = await ReadMemory(budget, in_thread).run("ann", never, reading(9 * MIB, 11 * MIB))

        assert result == 20 * MIB
        assert hold is not None
        assert budget.sizes[MemoryKind.ANSWERS] == hold.size >= 20 * MIB
        assert budget.sizes[MemoryKind.UNPACKED] == 0
        hold.release()
        assert budget.size == 0

    asyncio.run(run())


def test_large_reads_wait_for_each_other_and_all_are_served() -> None:
    async def run() -> None:
        budget = MemoryBudget(SIZE_MAX)
        memory, most = ReadMemory(budget, in_thread), 0

        async def read() -> None:
            nonlocal most
            _, hold = await memory.run("ann", never, reading(30 * MIB))
            most = max(most, budget.size)
            while budget.waits < 5:
                await asyncio.sleep(0)
            assert hold is not None
            hold.release()

        await asyncio.gather(*(read() for _ in range(6)))

        assert most == 30 * MIB * READ_COPIES or most == 30 * MIB
        assert (budget.waits, budget.size) == (5, 0)

    asyncio.run(run())


def test_a_read_is_counted_with_all_its_copies_while_it_runs() -> None:
    async def run(size: int) -> int:
        budget, counted = MemoryBudget(SIZE_MAX), 0

        def work() -> int:
            nonlocal counted
            use_allowance(size)
            counted = budget.size
            return size

        _, hold = await ReadMemory(budget, in_thread).run("ann", never, work)
        assert hold is not None
        hold.release()
        assert budget.size == 0
        return counted

    assert asyncio.run(run(20 * MIB)) == 20 * MIB * READ_COPIES
    # More than the whole budget: it is read, alone, and the metrics show it.
    assert asyncio.run(run(40 * MIB)) == 40 * MIB * READ_COPIES


def test_a_client_that_disconnects_while_its_read_waits_frees_its_place() -> None:
    async def run() -> None:
        budget = MemoryBudget(SIZE_MAX)
        memory = budget.hold(MemoryKind.ANSWERS, SIZE_MAX // 2, "ann")

        with pytest.raises(TooMany):
            await ReadMemory(budget, in_thread).run("ann", lambda: True, reading(30 * MIB))

        assert not budget.is_waited_for
        memory.release()
        assert budget.size == 0

    asyncio.run(run())


def test_a_read_that_fails_gives_its_memory_back() -> None:
    def fail() -> int:
        use_allowance(30 * MIB)
        raise BadInput("a reason")

    async def run() -> None:
        budget = MemoryBudget(SIZE_MAX)

        with pytest.raises(BadInput):
            await ReadMemory(budget, in_thread).run("ann", never, fail)

        assert budget.size == 0

    asyncio.run(run())


def test_a_thread_without_an_allowance_reads_everything() -> None:
    use_allowance(RAW_SIZE_MAX)

    assert unpacked_size_max() == RAW_SIZE_MAX
