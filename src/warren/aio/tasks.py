"""The messages that a queue waits for, and a cancellation that comes too late."""

from __future__ import annotations

import asyncio
from typing import Any

from warren.errors import BadInput


class Tasks:
    """Messages that were put and are not done yet. For the tasks of one event loop."""

    def __init__(self) -> None:
        self._unfinished = 0
        self._finished = asyncio.Event()
        self._finished.set()

    def add(self) -> None:
        self._unfinished += 1
        self._finished.clear()

    def done(self) -> None:
        """One message is done, or was withdrawn."""
        if not self._unfinished:
            raise BadInput("task_done() was called more often than there were messages")
        self._unfinished -= 1
        if not self._unfinished:
            self._finished.set()

    async def join(self) -> None:
        """Return when every message is done."""
        await self._finished.wait()


def cancel_later() -> None:
    """The running task caught a cancellation that came too late to undo what it had waited for; it gets it again.

    It gets it at its next `await`, unless whoever cancelled has taken it back by then, as a timeout does whose block
    has ended.
    """
    task = asyncio.current_task()
    assert task is not None, "only a task can be cancelled"
    asyncio.get_running_loop().call_soon(_cancel_again, task)


def _cancel_again(task: asyncio.Task[Any]) -> None:
    if not task.done() and task.cancelling():
        task.uncancel()
        task.cancel()
