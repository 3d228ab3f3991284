"""Batches that unpack to much are looked into one at a time, beside everything else: there is room for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from warren.protocol.record_batch import Batch, check_records

T = TypeVar("T")


class Unpacking:
    """One thread, so that however many clients send little that unpacks to much, one of them at a time gets memory.

    Each connection waits for at most one request, whose bytes its budget counts. For the event loop's thread.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "warren-unpacking")

    async def check(self, batch: Batch, body_size_max: int) -> None:
        """Raises BadBatch if the records are not such as the head says, and TooLarge if a body is too large."""
        await asyncio.get_running_loop().run_in_executor(self._thread, check_records, batch, body_size_max)

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """What `work` gives, which unpacks as much."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def close(self) -> None:
        """Begin nothing more; what was begun is finished first."""
        self._thread.shutdown(cancel_futures=True)
