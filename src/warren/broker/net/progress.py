"""Progress: counts unsent answers, and closes connections that hold memory and make no progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

STALLED_PARTS: Final = 10
"""A large request must make 1/N of its progress in each period."""
STALLED_LOOKS: Final = 4
"""How often per period progress is checked."""
STALLED_HURRY: Final = 6
"""The period is this many times shorter while another request waits for memory."""

COUNT_S: Final = 0.02
COUNT_EACH_S: Final = 0.0001
"""How long after an answer its unsent bytes are counted, and the extra delay per connection that has some."""


@dataclass(slots=True)
class Mark:
    """The progress of one connection at its last check."""

    count: int = -1
    """The number of the large request."""
    filled: int = 0
    """How many of its bytes had arrived when it last made 1/N of its progress."""
    filled_s: float = 0.0
    arrived: int = 0
    """How many of its bytes had arrived when the last byte came."""
    arrived_s: float = 0.0
    unsent: int = 0
    unsent_s: float = 0.0

    def stalled(
        self, now_s: float, stalled_s: float, *, is_hurried: bool, frame: tuple[int, int, int], unsent: int
    ) -> str:
        """Returns why the connection should be closed; an empty text if it should not.

        `frame` is the number of a large request, how many of its bytes have arrived, and its size, 0 if there is none.
        If the connection `is_hurried`, another one waits for the memory that it holds, so that it may not pause.
        """
        hurry_s = stalled_s / STALLED_HURRY if is_hurried else stalled_s
        count, filled, size = frame
        if not size or count != self.count:
            self.count, self.filled, self.arrived = count, filled, filled
            self.filled_s = self.arrived_s = now_s
        if filled > self.arrived:
            self.arrived, self.arrived_s = filled, now_s
        if (filled - self.filled) * STALLED_PARTS >= size:
            self.filled, self.filled_s = filled, now_s
        # A larger count is progress too: the client sent another request, which is read only if it has received
        # answers.
        if not unsent or unsent != self.unsent:
            self.unsent_s = now_s
        self.unsent = unsent
        if now_s - self.filled_s >= stalled_s or now_s - self.arrived_s >= hurry_s:
            return f"{filled} of {size} bytes of a request arrived, and then too few for too long"
        if now_s - self.unsent_s >= hurry_s:
            return f"{unsent} bytes of answers were not read for too long"
        return ""


class WatchedConnection(Protocol):
    """The parts of a connection that the watch uses."""

    def see_unsent(self) -> bool:
        """Counts the bytes of answers that the client has not read. Returns whether they are many."""

    def check_progress(self, now_s: float) -> None:
        """Closes the connection if it holds memory and its client stalls."""


class ProgressWatch:
    """Checks connections from time to time. For the event loop's thread alone."""

    def __init__(
        self, connections: Iterable[WatchedConnection], stalled_s: float, recount: Callable[[], None] = lambda: None
    ) -> None:
        self._connections, self._recount = connections, recount
        self._look_s = stalled_s / STALLED_LOOKS / STALLED_HURRY
        self._unsent: set[WatchedConnection] = set()
        self._timer: asyncio.TimerHandle | None = None

    def answered(self, connection: WatchedConnection) -> None:
        """Counts the unsent bytes of a connection again in a moment, because its client did not receive all bytes
        immediately.
        """
        self._unsent.add(connection)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(COUNT_S, self._count)

    def _count(self) -> None:
        self._unsent = {connection for connection in self._unsent if connection.see_unsent()}
        self._timer = None
        if self._unsent:
            pause_s = COUNT_S + len(self._unsent) * COUNT_EACH_S
            self._timer = asyncio.get_running_loop().call_later(pause_s, self._count)

    async def watch(self) -> None:
        """Closes connections that stall, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._look_s)
            self._recount()
            now_s = loop.time()
            for connection in list(self._connections):
                connection.check_progress(now_s)
