"""The asyncio version of one partition of a topic."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from warren.aio.thread_bridge import Twin, iterated, passed
from warren.clock import Duration
from warren.message import Message
from warren.storage import log

if TYPE_CHECKING:
    import pyarrow

PAGE: Final = 256
"""How many messages an iteration fetches at a time."""


class Log(Twin):
    """One partition of an open store. Any task may use it."""

    sync: log.Log

    append = passed(log.Log.append)
    append_many = passed(log.Log.append_many)
    append_arrow = passed(log.Log.append_arrow)
    at = passed(log.Log.at)
    read = passed(log.Log.read)
    last = passed(log.Log.last)
    find_time = passed(log.Log.find_time)

    async def first(self) -> int:
        """Returns the number of the first message that retention has kept."""
        return await self._bridge.call(lambda: self.sync.first)

    async def end(self) -> int:
        """Returns the number that the next message will get."""
        return await self._bridge.call(lambda: self.sync.end)

    async def wait(self, number: int, seconds: Duration) -> bool:
        """Waits up to `seconds` until message `number` exists. Returns whether it does."""
        return bool(await self._bridge.wait(self.sync.read_page, number, limit=1, tag=None, seconds=seconds))

    def backwards(self, number: int | None = None) -> AsyncIterator[Message]:
        """As `Log.backwards`."""
        return iterated(self._bridge, lambda: self.sync.backwards(number), PAGE)

    def scan(self, *arguments: Any, **options: Any) -> AsyncIterator[pyarrow.RecordBatch]:
        """As `Log.scan`."""
        return iterated(self._bridge, lambda: self.sync.scan(*arguments, **options), 1)
