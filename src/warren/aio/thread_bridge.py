"""Runs calls of the synchronous objects in threads for the event loop. A thread runs one call at a time."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from warren.clock import SYSTEM_CLOCK, Duration, seconds_of
from warren.errors import BadInput, StoreClosed
from warren.limits import WAIT_S_MAX

P = ParamSpec("P")
R = TypeVar("R")

CALL_THREADS: Final = 8
WAIT_THREADS: Final = 32
"""Tasks that wait share these threads, so that a put never queues behind them."""
SLICE_S: Final = 0.1
"""How long a thread waits at a time. So a cancelled task ends after at most this time."""


def nothing(result: object) -> None:
    """The `undo` of a method whose result needs none."""


def checked_seconds(duration: Duration) -> float:
    """Returns the duration in seconds. Raises BadInput if it is negative or above WAIT_S_MAX."""
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
        """Calls `function` in a thread and returns its result. The call continues if the task is cancelled."""
        return await self._begin(self._calls, functools.partial(function, *arguments, **options))

    def _begin(self, threads: ThreadPoolExecutor, work: Callable[[], R]) -> asyncio.Future[R]:
        try:
            return asyncio.get_running_loop().run_in_executor(threads, work)
        except RuntimeError as error:
            raise StoreClosed(self._name) from error

    async def wait(self, method: Callable[..., R], *arguments: Any, seconds: Duration, **options: Any) -> R:
        """Returns what `method` returns when it waits for up to `seconds`. Uses `sliced`."""
        return await self.sliced(method, *arguments, seconds=seconds, **options)

    async def sliced(
        self,
        method: Callable[..., R],
        *arguments: Any,
        seconds: Duration,
        undo: Callable[[R], object] = nothing,
        **options: Any,
    ) -> R:
        """Calls `method` with a part of `seconds` as `wait` until its result is true or the time is over.

        Returns the last result. If the task is cancelled in the meantime, `undo` gets a result that is true.
        """
        end_s = SYSTEM_CLOCK.steady_s() + checked_seconds(seconds)
        while True:
            left_s = max(0.0, end_s - SYSTEM_CLOCK.steady_s())
            slice_of = functools.partial(method, *arguments, **options, wait=min(left_s, SLICE_S))
            future = self._begin(self._waits, slice_of)
            try:
                result = await asyncio.shield(future)
            except asyncio.CancelledError:
                result = await future
                if result:
                    await self.call(undo, result)
                raise
            if result or left_s <= SLICE_S:
                return result

    def close(self, name: str = "") -> None:
        """Ends each thread after its current call. A call after this raises StoreClosed with the store's `name`."""
        self._name = name
        self._calls.shutdown(wait=False)
        self._waits.shutdown(wait=False)


class Twin:
    """The asyncio version of the object `sync`: it has the same methods, as coroutines."""

    def __init__(self, sync: Any, bridge: Bridge) -> None:
        self.sync, self._bridge = sync, bridge

    def __repr__(self) -> str:
        return f"<aio {self.sync!r}>"


class ClosingTwin(Twin):
    """The asyncio version of an object with a `close`, which the end of an `async with` block calls."""

    async def close(self) -> object:
        """Closes the object. Closing twice does no harm."""
        return await self._bridge.call(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def sync_of(value: Any) -> Any:
    """Returns the synchronous object of a twin (the asyncio version of an object). Returns any
    other value unchanged.
    """
    return value.sync if isinstance(value, Twin) else value


async def iterated(bridge: Bridge, begin: Callable[[], Iterator[R]], count: int) -> AsyncIterator[R]:
    """Yields the items of the iterator that `begin` returns. A thread fetches `count` of them at a time."""
    items = await bridge.call(begin)
    while page := await bridge.call(lambda: list(islice(items, count))):
        for item in page:
            yield item


def passed(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Returns a method for a Twin that calls the method of this name of its synchronous object in a thread."""
    name = method.__name__

    @functools.wraps(method)
    async def call(twin: Any, /, *arguments: P.args, **options: P.kwargs) -> R:
        # By name, because the object may belong to the client, which has the same methods in another class.
        result: R = await twin._bridge.call(getattr(twin.sync, name), *arguments, **options)
        return result

    return call
