"""Turns: long requests share the event loop, so that none of them holds up the others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, TypeVar

from warren.protocol.wire_struct import WireStruct

LOOP_REQUEST_SIZE_MAX: Final = 16 << 10
"""Up to this size a request is decoded on the event loop, above it on a thread."""
LOOP_CARRIED_SIZE_MAX: Final = 1 << 20
"""The same limit for requests of Warren's own protocol that carry messages."""
LOOP_ROWS_AT_ONCE: Final = 64
"""Up to this many rows a request is handled, and an answer encoded, without a pause for other requests."""
SCANNED_SIZE_MAX: Final = 16 << 20
"""About how many bytes of a log a request scans in one step for messages that match its filter."""
LOOP_SLICE_S: Final = 0.01
"""How long a request with more rows works on the event loop before others get their turn."""


T = TypeVar("T")


class Turns:
    """Gives the event loop to one long request at a time, for LOOP_SLICE_S. For the event loop's thread alone.

    Invariant: in one turn of the loop at most one waiting request continues. All other work of the loop runs in
    between.
    """

    def __init__(self, now_s: Callable[[], float], slice_s: float = LOOP_SLICE_S) -> None:
        self._now_s, self._slice_s = now_s, slice_s
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.count = 0
        """How many turns were given."""

    async def over(self, items: Sequence[T]) -> AsyncIterator[T]:
        """Yields each of the items. The caller handles them on the event loop and pauses after each slice.

        A few items are yielded without a pause. If there are many, the caller first waits for its turn, because
        requests that begin together would otherwise run for one slice each in the same turn of the loop.
        """
        until_s = await self._next() if len(items) > LOOP_ROWS_AT_ONCE else self._now_s() + self._slice_s
        for item in items:
            if self._now_s() >= until_s:
                until_s = await self._next()
            yield item

    async def _next(self) -> float:
        """Waits for a turn. Returns when it ends."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            loop.call_soon(self._give)
        await turn
        self.count += 1
        return self._now_s() + self._slice_s

    def _give(self) -> None:
        """Gives a turn to the request that has waited longest; the next one gets it in the next turn of the loop."""
        while self._waiting:
            turn = self._waiting.popleft()
            # The task that waited for it may have been cancelled.
            if not turn.done():
                turn.set_result(None)
                break
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._give)


def is_long(answer: WireStruct) -> bool:
    """Returns whether an answer has more rows, nested rows included, than the event loop encodes in one step."""
    return _rows_left(answer, LOOP_ROWS_AT_ONCE) < 0


def _rows_left(answer: WireStruct, rows_max: int) -> int:
    """Returns `rows_max` less the rows of the answer. Stops as soon as the result is below 0."""
    for rows in (getattr(answer, name) for name in answer.__slots__):
        if isinstance(rows, WireStruct):
            rows_max = _rows_left(rows, rows_max)
        elif isinstance(rows, list | tuple):
            rows_max -= len(rows)
            if rows_max >= 0 and rows and isinstance(rows[0], WireStruct):
                for row in rows:
                    rows_max = _rows_left(row, rows_max)
        if rows_max < 0:
            break
    return rows_max
