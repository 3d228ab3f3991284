"""ReadMemory: takes the memory for large messages from the budget before a thread reads and unpacks them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from warren.broker.services.memory_budget import Hold, MemoryBudget, MemoryKind
from warren.broker.threads import InThread
from warren.errors import NeedsMemory, TooMany
from warren.storage.format.allowance import allowed

if TYPE_CHECKING:
    from warren.broker.security.peer import Peer

T = TypeVar("T")
READ_UNASKED_SIZE_MAX: Final = 8 << 20
"""A read may use this many bytes of large messages without asking, because an answer has about this size."""
READ_COPIES: Final = 3
"""While an answer is made, a message is in memory unpacked, as a Python value, and packed again."""
READ_GROWTH: Final = 2
"""A read that needs more gets at least this many times as much, so that it is repeated only a few times."""
READ_LOOK_S: Final = 0.5
"""How often a read that waits for memory checks that its client is still there."""


class ReadMemory:
    """Reads messages within the budget. For the event loop's thread alone.

    A read begins with a small allowance. If a message is larger, the read stops with NeedsMemory, and begins again when
    the budget has room for what it needs. If that is more than half of the budget, it is the only large read then.
    """

    def __init__(self, budget: MemoryBudget, in_thread: InThread) -> None:
        self._budget, self._in_thread = budget, in_thread

    async def run(self, owner: str, is_gone: Callable[[], bool], work: Callable[[], T]) -> tuple[T, Hold | None]:
        """Calls `work` on a thread, again with more memory if it raises NeedsMemory.

        Returns its result, and the memory that was taken for it, which now counts as that of an answer; None if it
        needed none. The caller releases it. Raises TooMany if the client disconnects before there is memory.
        """
        size, hold = READ_UNASKED_SIZE_MAX, None
        while True:
            try:
                result = await self._in_thread(_within, size, work)
                return result, self._kept(hold, size if result else 0)
            except NeedsMemory as error:
                needed = max(error.size, size * READ_GROWTH)
                # Given back first, because two reads that wait for more would otherwise wait for each other.
                self._kept(hold, 0)
            except BaseException:
                self._kept(hold, 0)
                raise
            size, hold = needed, await self.hold(owner, is_gone, needed * READ_COPIES)

    async def for_answer(self, peer: Peer, is_gone: Callable[[], bool], work: Callable[[], T]) -> T:
        """Does what `run` does for an answer to `peer`, whose connection releases the memory with the answer."""
        result, hold = await self.run(peer.owner, is_gone, work)
        if hold is not None:
            peer.answer_memory.append(hold.release)
        return result

    async def hold(self, owner: str, is_gone: Callable[[], bool], size: int) -> Hold:
        """Takes `size` bytes for what a thread unpacks. Waits until the budget has room for them.

        The caller releases them. Raises TooMany if the client disconnects before there is room.
        """
        granted: asyncio.Future[Hold] = asyncio.get_running_loop().create_future()
        hold = self._budget.ask(granted, MemoryKind.UNPACKED, size, owner, granted.set_result)
        if hold is not None:
            return hold
        try:
            while not granted.done():
                await asyncio.wait((granted,), timeout=READ_LOOK_S)
                if not granted.done() and is_gone():
                    raise TooMany("bytes of messages being read", self._budget.size_max)
        except BaseException:
            self._budget.forget(granted)
            if granted.done():
                granted.result().release()
            raise
        return granted.result()

    def _kept(self, hold: Hold | None, size: int) -> Hold | None:
        """Keeps `size` bytes of a hold, as those of an answer, and gives the others back."""
        if hold is None:
            return None
        hold.move(MemoryKind.ANSWERS)
        hold.resize(min(hold.size, size))
        return hold if size else None


def _within(size: int, work: Callable[[], T]) -> T:
    with allowed(size):
        return work()
