"""An event loop in a thread, for clients that need one, driven from a thread that has none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class AsyncSide:
    """Runs coroutines, one after the other, for its owner."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Returns the result of the coroutine. Raises TimeoutError, and cancels it, if it takes too long."""

        async def limited() -> T:
            async with asyncio.timeout(timeout_s):
                return await work

        return asyncio.run_coroutine_threadsafe(limited(), self._loop).result(timeout_s * 2)

    def begun(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """The same for the first call: if it fails, the loop is closed."""
        try:
            return self.run(work, timeout_s)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
