"""How long tests wait, and ways to wait no longer than needed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

WAIT_S: Final = 20.0
"""So long nothing takes that works."""
SHORT_S: Final = 0.05


def until(condition: Callable[[], object]) -> None:
    """Return when `condition` holds."""
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run `coroutine` in an event loop of its own."""

    async def within_time() -> None:
        async with asyncio.timeout(WAIT_S):
            await coroutine

    asyncio.run(within_time())


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)
