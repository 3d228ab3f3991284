"""How long tests wait, and ways to wait no longer than needed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

WAIT_S: Final = 20.0
"""Longer than any working call takes."""
SHORT_S: Final = 0.05
"""For calls that have to time out."""


def until(condition: Callable[[], object]) -> None:
    """Returns when `condition` holds. Fails after WAIT_S."""
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, "the condition did not come true"
        time.sleep(0.001)


def until_waiting(condition: threading.Condition, count: int = 1) -> None:
    """Returns when `count` threads wait for `condition`."""
    until(lambda: len(condition._waiters) == count)  # type: ignore[attr-defined]


async def until_true(condition: Callable[[], object]) -> None:
    """Returns when `condition` holds, and lets other tasks run during the wait. Fails after WAIT_S."""
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.001)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Runs `coroutine` in its own event loop."""

    async def within_time() -> None:
        async with asyncio.timeout(WAIT_S):
            await coroutine

    asyncio.run(within_time())


async def settle() -> None:
    """Lets every task run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)
