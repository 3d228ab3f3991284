"""Progress: counts what clients have not taken yet, and closes connections that hold memory and do not come on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

STALLED_PARTS: Final = 10
"""In each such time at least one of so many parts of a large request has to come."""
STALLED_LOOKS: Final = 4
"""How often in this time it is seen whether connections come on."""
STALLED_HURRY: Final = 6
"""So many times shorter is the time while another request waits for memory."""

COUNT_S: Final = 0.02
COUNT_EACH_S: Final = 0.0001
"""How long after an answer it is counted what is left of it, and how much later for each that waits for that."""


@dataclass(slots=True)
class Mark:
    """How far one connection had come at some time: what it is compared with the next time."""

    count: int = -1
    """Which large request it was."""
    filled: int = 0
    """How much of the request was there when it last had come on by a part."""
    filled_s: float = 0.0
    seen: int = 0
    """How much of it was there when a byte last came."""
    seen_s: float = 0.0
    unsent: int = 0
    unsent_s: float = 0.0

    def stalled(
        self, now_s: float, stalled_s: float, *, is_hurried: bool, frame: tuple[int, int, int], unsent: int
    ) -> str:
        """Why the connection should be closed; nothing if it should not.

        `frame` is the number of a large request, how much of it is there, and its size, 0 if there is none. If the
        connection `is_hurried`, another one waits for what it holds: then it must not stand still.
        """
        hurry_s = stalled_s / STALLED_HURRY if is_hurried else stalled_s
        count, filled, size = frame
        if not size or count != self.count:
            self.count, self.filled, self.seen = count, filled, filled
            self.filled_s = self.seen_s = now_s
        if filled > self.seen:
            self.seen, self.seen_s = filled, now_s
        if (filled - self.filled) * STALLED_PARTS >= size:
            self.filled, self.filled_s = filled, now_s
        # More than before is progress too: the client asked again, and was not read from if it took nothing.
        if not unsent or unsent != self.unsent:
            self.unsent_s = now_s
        self.unsent = unsent
        if now_s - self.filled_s >= stalled_s or now_s - self.seen_s >= hurry_s:
            return f"of a request of {size} bytes {filled} came, and then too little for too long"
        if now_s - self.unsent_s >= hurry_s:
            return f"{unsent} bytes of answers were not taken for too long"
        return ""


class WatchedConnection(Protocol):
    """The parts of a connection that the watch uses."""

    def see_unsent(self) -> bool:
        """Counts the bytes of answers that the client has not read. Returns whether they are many."""

    def check_progress(self, now_s: float) -> None:
        """Closes the connection if it holds memory and its client stalls."""


class ProgressWatch:
    """Looks at connections from time to time. For the event loop's thread alone."""

    def __init__(
        self, connections: Iterable[WatchedConnection], stalled_s: float, recount: Callable[[], None] = lambda: None
    ) -> None:
        self._connections, self._recount = connections, recount
        self._look_s = stalled_s / STALLED_LOOKS / STALLED_HURRY
        self._unsent: set[WatchedConnection] = set()
        self._timer: asyncio.TimerHandle | None = None

    def answered(self, connection: WatchedConnection) -> None:
        """A client was sent more than it took at once: it is counted again in a moment."""
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
