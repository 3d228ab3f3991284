"""Requests that wait for messages: parked until a log grows or their time is over, whoever makes it grow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from warren.errors import WarrenError
from warren.storage import Log
from warren.storage.log import wait_for_any

LOOK_S: Final = 0.5
"""How long the thread that watches for other processes sleeps before it looks whom to watch for now."""
RETRY_S: Final = 0.05
"""How long it sleeps where a log that was waited for is gone."""


class LongPolls:
    """Who waits for which logs. For the event loop's thread alone.

    Puts through this broker ring at once. One thread sleeps on the bells of all logs that are waited for, for what
    other processes put. Nobody spins, and a thousand that wait cost a thread.
    """

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._waiting: dict[Log, set[asyncio.Future[None]]] = {}
        self.parked_count = 0
        self._is_watching = self._is_stopped = False
        self._thread = ThreadPoolExecutor(1, "warren-watch")

    async def wait(self, logs: Iterable[Log], seconds: float, rung: asyncio.Future[None] | None = None) -> None:
        """Return when one of the logs has grown, or after `seconds`. Whoever calls has looked, and looks again.

        A caller who may be woken by something else gives the future that is set then.
        """
        if self._is_stopped:
            return
        if rung is None:
            rung = asyncio.get_running_loop().create_future()
        parked = tuple(logs)
        timer = self._enter(parked, seconds, rung)
        try:
            await rung
        finally:
            self._leave(parked, timer, rung)

    def park(self, logs: Sequence[Log], seconds: float, told: Callable[[], None]) -> asyncio.Future[None]:
        """The same without anybody who waits: `told` is called, once, from the loop. For those who are many.

        Whoever wants to be told no more cancels what this gives.
        """
        rung: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_stopped:
            rung.add_done_callback(lambda _: told())
            rung.set_result(None)
            return rung
        timer = self._enter(logs, seconds, rung)

        def leave(rung: asyncio.Future[None]) -> None:
            self._leave(logs, timer, rung)
            if not rung.cancelled():
                told()

        rung.add_done_callback(leave)
        return rung

    def _enter(self, logs: Sequence[Log], seconds: float, rung: asyncio.Future[None]) -> asyncio.TimerHandle:
        for log in logs:
            self._waiting.setdefault(log, set()).add(rung)
        if not self._is_watching:
            self._is_watching = True
            self._tasks.create_task(self._watch())
        self.parked_count += 1
        return asyncio.get_running_loop().call_later(max(seconds, 0.0), _wake, rung)

    def _leave(self, logs: Sequence[Log], timer: asyncio.TimerHandle, rung: asyncio.Future[None]) -> None:
        timer.cancel()
        self.parked_count -= 1
        for log in logs:
            waiting = self._waiting.get(log)
            if waiting is not None:
                waiting.discard(rung)
                if not waiting:
                    del self._waiting[log]

    def ring(self, log: Log) -> None:
        """The log has grown: whoever waits for it is woken."""
        for rung in self._waiting.pop(log, ()):
            _wake(rung)

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting and not self._is_stopped:
                seen = [(log, end) for log in list(self._waiting) if (end := self._end_of(log)) is not None]
                if not seen:
                    # Whoever was woken may want to wait for the same again.
                    await asyncio.sleep(RETRY_S)
                    continue
                try:
                    await loop.run_in_executor(self._thread, wait_for_any, seen, LOOK_S)
                except (WarrenError, OSError):
                    # One of them was deleted meanwhile: which one is seen below.
                    await asyncio.sleep(RETRY_S)
                for log, end in seen:
                    now = self._end_of(log)
                    if now is not None and now > end:
                        self.ring(log)
        finally:
            self._is_watching = False

    def _end_of(self, log: Log) -> int | None:
        """Where the log ends. Where it is gone, nobody waits for it any more: they are woken to see that."""
        try:
            return log.end
        except (WarrenError, OSError):
            self.ring(log)
            return None

    def stop(self) -> None:
        """Wake everybody: nobody waits any more."""
        self._is_stopped = True
        for log in list(self._waiting):
            self.ring(log)
        self._thread.shutdown(wait=False)


def _wake(rung: asyncio.Future[None]) -> None:
    if not rung.done():
        rung.set_result(None)
