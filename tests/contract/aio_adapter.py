"""An asyncio store with the methods of a synchronous one, so that the same tests run on both.

The event loop runs in its own thread. Every call of the adapter runs there as a coroutine, and the caller waits.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from tests.support.patience import WAIT_S
from warren import api
from warren.aio.store import Opening
from warren.aio.thread_bridge import Twin

COROUTINES_FOR_PROPERTIES: Final = frozenset({"dead", "end", "first", "last_failure", "state"})
"""Properties of the contract that take a call, and so are coroutines in asyncio."""


class Adapter:
    """The object `twin` of `warren.aio`, as a synchronous object."""

    def __init__(self, loop: asyncio.AbstractEventLoop, twin: Any) -> None:
        self._loop, self._twin = loop, twin

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._twin, name)
        if name in COROUTINES_FOR_PROPERTIES:
            return self._run(value())
        if not callable(value) or isinstance(value, Twin):
            return value

        def call(*arguments: Any, **options: Any) -> Any:
            return self._run(_call(value, *map(_twin, arguments), **options))

        return call

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._adapted(asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * WAIT_S))

    def _adapted(self, value: Any) -> Any:
        if isinstance(value, Twin):
            return Adapter(self._loop, value)
        if isinstance(value, asyncio.Future):
            return AdaptedFuture(self._loop, value)
        return self._iterated(value) if isinstance(value, AsyncIterator) else value

    def __iter__(self) -> Iterator[Any]:
        return self._iterated(aiter(self._twin))

    def _iterated(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        while True:
            try:
                yield self._run(_call(anext, items))
            except StopAsyncIteration:
                return

    def __enter__(self) -> Adapter:
        self._run(self._twin.__aenter__())
        return self

    def __exit__(self, *error: Any) -> None:
        self._run(self._twin.__aexit__(*error))

    def __repr__(self) -> str:
        return repr(self._twin)


class AdaptedFuture:
    """A future of the event loop, for the thread of the test."""

    def __init__(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
        self._loop, self._future = loop, future

    def result(self, timeout: float | None = None) -> Any:
        async def wait() -> Any:
            return await asyncio.wait_for(self._future, timeout)

        return asyncio.run_coroutine_threadsafe(wait(), self._loop).result(2 * WAIT_S)


async def _call(function: Any, *arguments: Any, **options: Any) -> Any:
    """Calls `function` in the event loop, and awaits what it returns if that is a coroutine."""
    result = function(*arguments, **options)
    return await result if inspect.isawaitable(result) and not isinstance(result, asyncio.Future) else result


def _twin(value: Any) -> Any:
    return value._twin if isinstance(value, Adapter) else value


@contextmanager
def adapted(opening: Opening) -> Iterator[api.Store]:
    """Opens an asyncio store in its own event loop, and closes both at the end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="asyncio store")
    thread.start()

    async def opened() -> Any:
        return await opening

    try:
        with Adapter(loop, asyncio.run_coroutine_threadsafe(opened(), loop).result(WAIT_S)) as store:
            yield cast(api.Store, store)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
