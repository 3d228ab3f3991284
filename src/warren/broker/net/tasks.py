"""The background tasks of a broker: an error in one of them is logged, and ends neither the others nor the broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")
LOGGER: Final = logging.getLogger("warren.broker")


class BackgroundTasks(asyncio.TaskGroup):
    """A task group in which no task fails: the group logs the error, and the task has no result."""

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        work = cast(Coroutine[Any, Any, T], coro)
        task = super().create_task(_logged(work), name=name, context=context)
        # A task that is cancelled before its first step, as when the broker ends, never awaits its work.
        task.add_done_callback(lambda _: work.close())
        return task


async def _logged(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except Exception:
        LOGGER.exception("%r failed", work)
        return cast(T, None)
