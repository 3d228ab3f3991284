"""From the event loop to the threads behind it: the synchronous objects are called there, one call at a time each."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from warren.clock import SYSTEM_CLOCK, Duration, seconds_of
from warren.config import WAIT_S_MAX
from warren.errors import BadInput, StoreClosed

P = ParamSpec("P")
R = TypeVar("R")

CALL_THREADS: Final = 8
WAIT_THREADS: Final = 32
"""Those who wait take turns in these, and so never keep anybody from putting."""
SLICE_S: Final = 0.1
"""How long a thread waits at a stretch: a task that is cancelled ends no later."""


def nothing(found: object) -> None:
    """What was found needs no undoing."""


def checked_seconds(duration: Duration) -> float:
    """For how many seconds a task may wait; else BadInput."""
    seconds = seconds_of(duration)
    if not 0 <= seconds <= WAIT_S_MAX:
        raise BadInput(f"wait {seconds!r}: expected seconds from 0 to {WAIT_S_MAX:.0f}")
    return seconds


class Bridge:
    """The threads of one store. Tasks of one event loop may call it."""

    def __init__(self) -> None:
        self._calls = ThreadPoolExecutor(CALL_THREADS, "warren-aio")
        self._waits = ThreadPoolExecutor(WAIT_THREADS, "warren-aio-wait")
        self._name = ""

    async def call(self, function: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
        """Call `function` in a thread. A task that is cancelled meanwhile does not undo it."""
        return await self._begin(self._calls, functools.partial(function, *arguments, **options))

    def _begin(self, threads: ThreadPoolExecutor, work: Callable[[], R]) -> asyncio.Future[R]:
        try:
            return asyncio.get_running_loop().run_in_executor(threads, work)
        except RuntimeError as error:
            raise StoreClosed(self._name) from error

    async def wait(self, method: Callable[..., R], *arguments: Any, seconds: Duration, **options: Any) -> R:
        """What `method` gives when it waits for up to `seconds`, as `sliced` says."""
        return await self.sliced(method, *arguments, seconds=seconds, **options)

    async def sliced(
        self,
        method: Callable[..., R],
        *arguments: Any,
        seconds: Duration,
        undo: Callable[[R], object] = nothing,
        **options: Any,
    ) -> R:
        """Call `method` with a part of `seconds` at a time until it gives something that is true, or they are over.

        They are its argument `wait`. What it gave to a task that was cancelled meanwhile is handed to `undo`.
        """
        end_s = SYSTEM_CLOCK.steady_s() + checked_seconds(seconds)
        while True:
            left_s = max(0.0, end_s - SYSTEM_CLOCK.steady_s())
            slice_of = functools.partial(method, *arguments, **options, wait=min(left_s, SLICE_S))
            future = self._begin(self._waits, slice_of)
            try:
                found = await asyncio.shield(future)
            except asyncio.CancelledError:
                found = await future
                if found:
                    await self.call(undo, found)
                raise
            if found or left_s <= SLICE_S:
                return found

    def close(self, name: str = "") -> None:
        """No thread is left when what they do has ended. Whoever comes later is told that store `name` is closed."""
        self._name = name
        self._calls.shutdown(wait=False)
        self._waits.shutdown(wait=False)


class Twin:
    """The asyncio twin of the object `sync`: the same methods, to be awaited."""

    def __init__(self, sync: Any, bridge: Bridge) -> None:
        self.sync, self._bridge = sync, bridge

    def __repr__(self) -> str:
        return f"<aio {self.sync!r}>"


async def iterated(bridge: Bridge, begin: Callable[[], Iterator[R]], count: int) -> AsyncIterator[R]:
    """What the iterator that `begin` gives yields, fetched by a thread, `count` at a time."""
    found = await bridge.call(begin)
    while page := await bridge.call(lambda: list(islice(found, count))):
        for item in page:
            yield item


def passed(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """The method of a Twin that calls the method of this name of its synchronous object in a thread."""
    name = method.__name__

    @functools.wraps(method)
    async def call(twin: Any, /, *arguments: P.args, **options: P.kwargs) -> R:
        # That object may be one over the network, which has the same methods and another class.
        result: R = await twin._bridge.call(getattr(twin.sync, name), *arguments, **options)
        return result

    return call
