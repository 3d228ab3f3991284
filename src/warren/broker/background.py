"""What a broker does besides: a mistake in one task is told in the log, and ends neither the others nor the broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")
LOGGER: Final = logging.getLogger("warren.broker")


class Background(asyncio.TaskGroup):
    """A task group in which no task fails: one that would has no result, and the log says why."""

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        return super().create_task(_told(cast(Coroutine[Any, Any, T], coro)), name=name, context=context)


async def _told(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except Exception:
        LOGGER.exception("%r failed", work)
        return cast(T, None)
