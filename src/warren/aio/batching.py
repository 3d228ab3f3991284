"""The asyncio version of batching."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any, Unpack

from warren.aio.thread_bridge import Bridge, ClosingTwin, Twin
from warren.api.values import MessageOptions
from warren.clock import Duration
from warren.errors import BufferFull
from warren.limits import WAIT_S_MAX
from warren.message import Place
from warren.queue import batching
from warren.queue.batching import BATCHING_WAIT_S_DEFAULT, GatheredBatch, PutFuture


class Batching(ClosingTwin):
    """Gathers puts of tasks of one event loop. Closed, with all written, at the end of an `async with` block."""

    sync: batching.Batching

    def __init__(self, sync: Any, bridge: Bridge) -> None:
        super().__init__(sync, bridge)
        self._topics: dict[str, Any] = {}
        self._waiting: dict[GatheredBatch, list[tuple[int, asyncio.Future[Place]]]] = {}

    async def put(
        self,
        topic: str | Twin,
        body: bytes,
        *,
        wait: Duration = BATCHING_WAIT_S_DEFAULT,
        **options: Unpack[MessageOptions],
    ) -> asyncio.Future[Place]:
        """As `Batching.put`: `future = await puts.put("orders", b"…")`, and later `place = await future`."""
        target = await self._topic(topic) if isinstance(topic, str) else topic.sync
        try:
            future = self.sync.put(target, body, wait=0.0, **options)
        except BufferFull:
            late = await self._bridge.sliced(self._put, target, body, options, seconds=wait)
            if late is None:
                raise
            future = late
        return self._awaited(future)

    async def _topic(self, name: str) -> Any:
        if name not in self._topics:
            self._topics[name] = await self._bridge.call(self.sync.store.topic, name)
        return self._topics[name]

    def _put(self, topic: Any, body: bytes, options: MessageOptions, wait: float) -> PutFuture | None:
        try:
            return self.sync.put(topic, body, wait=wait, **options)
        except BufferFull:
            return None

    def _awaited(self, future: PutFuture) -> asyncio.Future[Place]:
        """Returns a future of the event loop for `future`. The futures of a batch share one callback to the loop."""
        loop, batch = asyncio.get_running_loop(), future.batch
        mine: asyncio.Future[Place] = loop.create_future()
        waiting = self._waiting.setdefault(batch, [])
        waiting.append((future.row, mine))
        if len(waiting) == 1:
            batch.when_ended(partial(_tell, loop, partial(self._end, batch)))
        return mine

    def _end(self, batch: GatheredBatch) -> None:
        for row, mine in self._waiting.pop(batch, ()):
            outcome = batch.outcome(row)
            if mine.done():
                continue
            if isinstance(outcome, Exception):
                mine.set_exception(outcome)
            else:
                mine.set_result(outcome)

    async def flush(self, wait: Duration = WAIT_S_MAX) -> bool:
        """As `Batching.flush`."""
        return await self._bridge.sliced(self.sync.flush, seconds=wait)

    async def close(self, wait: Duration = WAIT_S_MAX) -> bool:
        """As `Batching.close`."""
        return await self._bridge.sliced(self.sync.close, seconds=wait)


def _tell(loop: asyncio.AbstractEventLoop, call: Any) -> None:
    # If the loop is closed, no task awaits the puts any more.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)
