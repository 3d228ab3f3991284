"""Batches that unpack to much are unpacked one at a time, and counted by the budget for as long as that takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from warren.broker.budget import Budget, Kind
from warren.config import RAW_SIZE_MAX
from warren.errors import TooLarge
from warren.storage.kafka_batch import UnpacksToMore

T = TypeVar("T")
TRIED_SIZES: Final = (16 << 20, 64 << 20)
"""What a batch unpacks to is known only when it was unpacked: up to how much is tried first, and then."""


class Unpacking:
    """One thread, so that however many clients send little that unpacks to much, one of them at a time gets memory.

    The memory is not waited for: requests that wait for their turn hold some themselves, and would wait for each other.
    So one batch comes on top of the budget, which is why it may not unpack to more than that. For the event loop's
    thread.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._size_max = min(RAW_SIZE_MAX, max(budget.size_max, TRIED_SIZES[0]))
        self._thread = ThreadPoolExecutor(1, "warren-unpacking")
        self._turn = asyncio.Lock()

    async def run(self, owner: str, work: Callable[[int], T]) -> T:
        """Returns what `work` returns, which is told how many bytes it may unpack, and raises UnpacksToMore beyond.

        Raises TooLarge if that is more than the broker has memory for.
        """
        loop = asyncio.get_running_loop()
        async with self._turn:
            for size in (*(size for size in TRIED_SIZES if size < self._size_max), self._size_max):
                hold = self._budget.hold(Kind.UNPACKED, size, owner)
                try:
                    return await loop.run_in_executor(self._thread, work, size)
                except UnpacksToMore:
                    continue
                finally:
                    hold.release()
        raise TooLarge("unpacked batch", self._size_max + 1, self._size_max)

    def close(self) -> None:
        """Begin nothing more; what was begun is finished first."""
        self._thread.shutdown(cancel_futures=True)
