"""RemoteBridge: from the event loop to the objects of a client. A task that waits for a broker occupies no thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from warren.aio.thread_bridge import Bridge, checked_seconds, nothing
from warren.client.net.call_steps import CallStep, Hurry, Pause, Steps, steps_of
from warren.client.net.connection import Connection
from warren.clock import Duration
from warren.errors import StoreClosed, WarrenError

AIO_WAITS_MAX: Final = 1_000
"""How many tasks of a client may wait at the broker at the same time, each over its own connection.

Further tasks wait here.
"""

R = TypeVar("R")


class StepResult(NamedTuple):
    """The result of a step: the next step to wait for, or None and the final result."""

    step: CallStep | None
    result: Any = None


class RemoteBridge(Bridge):
    """The threads of one client. Tasks of one event loop may call it.

    Threads send and receive. In between, while the broker holds a long poll, the event loop watches the connection.
    Each wait has a connection of its own. At most AIO_WAITS_MAX tasks wait at the broker at the same time; others wait
    for their turn.
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
        """Returns what the stepwise `method` returns when it waits for up to `seconds`.

        If the task is cancelled in the meantime, `undo` gets that result.
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
        """Waits for a turn to wait at the broker. Returns False if none came within `seconds`."""
        try:
            async with asyncio.timeout(seconds if self._turns.locked() else None):
                return await self._turns.acquire()
        except TimeoutError:
            return False

    async def _take(self, steps: Steps[R], undo: Callable[[R], object]) -> R:
        is_silent = False
        while True:
            try:
                taking = self._begin(self._waits, partial(take, steps, is_silent))
            except StoreClosed:
                # The steps close the connection on which they wait.
                steps.close()
                raise
            try:
                outcome = await asyncio.shield(taking)
                if outcome.step is None:
                    result: R = outcome.result
                    return result
                is_silent = not await _has_come(outcome.step)
            except asyncio.CancelledError:
                await self._end(steps, taking, undo)
                raise

    async def _end(self, steps: Steps[R], taking: asyncio.Future[StepResult], undo: Callable[[R], object]) -> None:
        """Ends the steps now, and passes their result to `undo`."""
        # If the broker cannot be reached either, it frees by itself what it held for this client.
        with suppress(WarrenError):
            outcome = await taking
            result: R = outcome.result if outcome.step is None else await self.call(hurry, steps)
            if result:
                await self.call(undo, result)


def take(steps: Steps[Any], is_silent: bool) -> StepResult:
    """Takes the next step. `is_silent` means that the last step got no answer before its timeout."""
    try:
        return StepResult(steps.throw(TimeoutError("no answer in time")) if is_silent else next(steps))
    except StopIteration as end:
        return StepResult(None, end.value)


def hurry(steps: Steps[R]) -> R:
    """Ends the steps without a further wait, because their task was cancelled. Returns their result."""
    try:
        while True:
            steps.throw(Hurry())
    except StopIteration as end:
        result: R = end.value
        return result


async def _has_come(step: CallStep) -> bool:
    """Waits for the event that `step` names. Returns False if it does not come in time."""
    if isinstance(step, Pause):
        await asyncio.sleep(step.seconds)
        return True
    return await _can_be_read(step)


async def _can_be_read(connection: Connection) -> bool:
    """Waits until an answer has come or the connection broke. Returns False if neither happens within its timeout."""
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
