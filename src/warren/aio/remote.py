"""RemoteBridge: from the event loop to the objects of a client; those who wait for a broker take no thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from warren.aio.bridge import Bridge, checked_seconds, nothing
from warren.client.connection import Connection
from warren.client.steps import Hurry, Pause, Step, Steps, steps_of
from warren.clock import Duration
from warren.config import AIO_WAITS_MAX
from warren.errors import WarrenError

R = TypeVar("R")


class Taken(NamedTuple):
    """A step that was taken: what is to be waited for next, or nothing and the result."""

    step: Step | None
    result: Any = None


class RemoteBridge(Bridge):
    """The threads of one client. Tasks of one event loop may call it.

    Threads send and receive; in between, while a broker waits, the event loop watches the connection. Each wait has a
    connection to itself, and no more than AIO_WAITS_MAX are there at once: tasks beyond them wait for their turn.
    """

    def __init__(self) -> None:
        super().__init__()
        self._turns = asyncio.Semaphore(AIO_WAITS_MAX)

    async def wait(
        self,
        method: Callable[..., R],
        *arguments: Any,
        seconds: Duration,
        undo: Callable[[R], object] = nothing,
        **options: Any,
    ) -> R:
        """What the stepwise `method` gives when it waits for up to `seconds`.

        What it gave to a task that was cancelled meanwhile is handed to `undo`.
        """
        most_s = checked_seconds(seconds)
        loop = asyncio.get_running_loop()
        end_s = loop.time() + most_s
        has_turn = await self._has_turn(most_s)
        wait_s = max(0.0, end_s - loop.time()) if has_turn else 0.0
        try:
            return await self._take(steps_of(method)(*arguments, **options, wait=wait_s), undo)
        finally:
            if has_turn:
                self._turns.release()

    async def _has_turn(self, seconds: float) -> bool:
        """Wait until one may wait at the broker; False where that did not come within `seconds`."""
        try:
            async with asyncio.timeout(seconds if self._turns.locked() else None):
                return await self._turns.acquire()
        except TimeoutError:
            return False

    async def _take(self, steps: Steps[R], undo: Callable[[R], object]) -> R:
        is_silent = False
        while True:
            taking = self._begin(self._waits, partial(take, steps, is_silent))
            try:
                taken = await asyncio.shield(taking)
                if taken.step is None:
                    result: R = taken.result
                    return result
                is_silent = not await _has_come(taken.step)
            except asyncio.CancelledError:
                await self._end(steps, taking, undo)
                raise

    async def _end(self, steps: Steps[R], taking: asyncio.Future[Taken], undo: Callable[[R], object]) -> None:
        """Give back what the steps would give if they ended now."""
        # The broker may be gone as well: then what it held for us is free.
        with suppress(WarrenError):
            taken = await taking
            found: R = taken.result if taken.step is None else await self.call(hurry, steps)
            if found:
                await self.call(undo, found)


def take(steps: Steps[Any], is_silent: bool) -> Taken:
    """Take the next step. `is_silent`: what was waited for did not come in time."""
    try:
        return Taken(steps.throw(TimeoutError("no answer in time")) if is_silent else next(steps))
    except StopIteration as end:
        return Taken(None, end.value)


def hurry(steps: Steps[R]) -> R:
    """What the steps give when nobody waits any longer."""
    try:
        while True:
            steps.throw(Hurry())
    except StopIteration as end:
        result: R = end.value
        return result


async def _has_come(step: Step) -> bool:
    """Wait for what comes before the next step; False where it does not come in time."""
    if isinstance(step, Pause):
        await asyncio.sleep(step.seconds)
        return True
    return await _can_be_read(step)


async def _can_be_read(connection: Connection) -> bool:
    """Wait until an answer is there, or the connection broke; False where neither comes in the time that it has."""
    loop = asyncio.get_running_loop()
    came: asyncio.Future[None] = loop.create_future()
    file = connection.fileno()
    loop.add_reader(file, _set, came)
    try:
        async with asyncio.timeout(connection.timeout_s):
            await came
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(file)
    return True


def _set(came: asyncio.Future[None]) -> None:
    if not came.done():
        came.set_result(None)
