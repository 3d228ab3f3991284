"""Long polls: requests that wait until a log grows, by an append of any process, or until their time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, NamedTuple, TypeVar

from warren.errors import WarrenError
from warren.storage import Log
from warren.storage.log import wait_for_any

T = TypeVar("T")
WATCH_S: Final = 0.5
"""How long the thread that waits for appends of other processes sleeps before it gets a new list of logs."""
RETRY_S: Final = 0.05
"""How long it sleeps if a log that is waited for was deleted."""


class PollResult(NamedTuple, Generic[T]):
    """The result of one attempt of a long poll.

    `is_done` ends the long poll. `is_more` repeats the attempt without a wait, because there is more to search, and no
    log announces messages that were appended before the wait.
    """

    result: T
    is_done: bool
    is_more: bool = False


class LongPolls:
    """Which requests wait for which logs. For the event loop's thread alone.

    An append through this broker wakes them immediately. One thread sleeps until another process appends to any of
    these logs. So a thousand requests that wait cost one thread and no polling.
    """

    def __init__(self, tasks: asyncio.TaskGroup, *, watches: bool = True) -> None:
        """Without `watches` no thread looks for appends of other processes: the owner rings."""
        self._tasks, self._watches = tasks, watches
        self._waiting: dict[Log, set[asyncio.Future[bool]]] = {}
        self.parked_count = 0
        self._is_watching = self._is_stopped = False
        self._thread = ThreadPoolExecutor(1, "warren-watch")

    async def until(
        self,
        attempt: Callable[[bool], Awaitable[PollResult[T]]],
        logs: Callable[[], Iterable[Log]],
        deadline_s: float,
        poll_s: Callable[[], float] | None = None,
        *,
        waits: Callable[[asyncio.Future[bool]], None] = lambda woken: None,
        resumes: Callable[[], None] = lambda: None,
    ) -> T:
        """Returns the result of the last `attempt`: repeated until it is done, the time is over, or the broker stops.

        Between two attempts it sleeps until one of `logs()` grows, or for `poll_s()` seconds, because no log announces
        a lease that runs out. `attempt` gets False if only the passing of time is its reason. `waits` gets a future
        that ends the sleep when it is set. `resumes` runs after each sleep; what it raises ends the long poll.
        """
        loop, is_rung = asyncio.get_running_loop(), True
        while True:
            poll = await attempt(is_rung)
            left_s = deadline_s - loop.time()
            if poll.is_done or left_s <= 0 or self._is_stopped:
                return poll.result
            if poll.is_more:
                is_rung = True
                continue
            woken: asyncio.Future[bool] = loop.create_future()
            waits(woken)
            is_rung = await self.wait(logs(), left_s if poll_s is None else min(left_s, poll_s()), woken)
            resumes()

    async def wait(self, logs: Iterable[Log], seconds: float, rung: asyncio.Future[bool] | None = None) -> bool:
        """Sleeps until one of the logs grows, `rung` is set, or `seconds` are over. Returns False for the last.

        The caller reads the logs before and after this.
        """
        if self._is_stopped:
            return False
        if rung is None:
            rung = asyncio.get_running_loop().create_future()
        parked = tuple(logs)
        timer = self._enter(parked, seconds, rung)
        try:
            return await rung
        finally:
            self._leave(parked, timer, rung)

    def park(self, logs: Sequence[Log], seconds: float, on_done: Callable[[], None]) -> asyncio.Future[bool]:
        """Waits as `wait` does, but without a task, for requests that are many. Calls `on_done` on the event loop.

        If the caller cancels the future that this returns, `on_done` is not called.
        """
        rung: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if self._is_stopped:
            rung.add_done_callback(lambda _: on_done())
            rung.set_result(False)
            return rung
        timer = self._enter(logs, seconds, rung)

        def leave(rung: asyncio.Future[bool]) -> None:
            self._leave(logs, timer, rung)
            if not rung.cancelled():
                on_done()

        rung.add_done_callback(leave)
        return rung

    def _enter(self, logs: Sequence[Log], seconds: float, rung: asyncio.Future[bool]) -> asyncio.TimerHandle:
        for log in logs:
            self._waiting.setdefault(log, set()).add(rung)
        if self._watches and not self._is_watching:
            self._is_watching = True
            self._tasks.create_task(self._watch())
        self.parked_count += 1
        return asyncio.get_running_loop().call_later(max(seconds, 0.0), _wake, rung, False)

    def _leave(self, logs: Sequence[Log], timer: asyncio.TimerHandle, rung: asyncio.Future[bool]) -> None:
        timer.cancel()
        self.parked_count -= 1
        for log in logs:
            waiting = self._waiting.get(log)
            if waiting is not None:
                waiting.discard(rung)
                if not waiting:
                    del self._waiting[log]

    def ring(self, log: Log) -> None:
        """Wakes the requests that wait for the log, because it has grown."""
        for rung in self._waiting.pop(log, ()):
            _wake(rung, True)

    def ring_in(self, directories: Set[str]) -> None:
        """Wakes the requests that wait for the logs in these directories."""
        for log in [log for log in self._waiting if log.path in directories]:
            self.ring(log)

    def ring_all(self) -> None:
        """Wakes all requests."""
        for log in list(self._waiting):
            self.ring(log)

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting and not self._is_stopped:
                log_ends = [(log, end) for log in list(self._waiting) if (end := self._end_of(log)) is not None]
                if not log_ends:
                    # A request that was woken may wait for the same log again.
                    await asyncio.sleep(RETRY_S)
                    continue
                try:
                    await loop.run_in_executor(self._thread, wait_for_any, log_ends, WATCH_S)
                except (WarrenError, OSError):
                    # One of them was deleted in the meantime; the loop below finds which.
                    await asyncio.sleep(RETRY_S)
                for log, end in log_ends:
                    now = self._end_of(log)
                    if now is not None and now > end:
                        self.ring(log)
        finally:
            self._is_watching = False

    def _end_of(self, log: Log) -> int | None:
        """Returns the end of the log. If the log was removed, returns None, and wakes the requests that wait for it."""
        try:
            return log.end
        except (WarrenError, OSError):
            self.ring(log)
            return None

    def stop(self) -> None:
        """Wakes all requests. From now on none waits."""
        self._is_stopped = True
        self.ring_all()
        self._thread.shutdown(wait=False)


def _wake(rung: asyncio.Future[bool], is_rung: bool) -> None:
    if not rung.done():
        rung.set_result(is_rung)
