"""Checks of the batches that clients send: which are checked record by record, and how large ones are decompressed.

Batches that may decompress to much are decompressed one at a time, and the budget counts them during that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from warren.broker.security.peer import Peer
from warren.broker.services.memory_budget import MemoryBudget, MemoryKind
from warren.errors import TooLarge
from warren.storage.format.kafka_batch import UnpacksToMore
from warren.storage.format.limits import RAW_SIZE_MAX

T = TypeVar("T")
TRIED_SIZES: Final = (16 << 20, 64 << 20)
"""The size of a batch is known only after it was decompressed, so these limits are tried one after the other."""
UNPACKED_KEPT_SIZE_MAX: Final = TRIED_SIZES[0]
"""While unpacked batches that are being put have this size, no other batch is unpacked."""
BATCHES_LOOKED_INTO_FIRST: Final = 2
BATCHES_LOOKED_INTO_EACH: Final = 64
"""The first batches of a connection are checked record by record, and then one of this many."""


def is_validated_next(peer: Peer) -> bool:
    """Returns whether every record of a client's next batch is checked, and not only the checksum of the batch.

    Checking every record costs many times as much as the rest of the work for a batch. A client that packs records
    wrongly does so from its first batch on, so the first ones are checked, and then one of many. Readers skip
    wrong batches that were not checked (decision 27).
    """
    count = peer.batch_count
    return count < BATCHES_LOOKED_INTO_FIRST or count % BATCHES_LOOKED_INTO_EACH == 0


class BatchChecks:
    """Unpacks one batch at a time, on one thread, even if many clients send small batches that unpack to much.

    It does not wait for memory of the budget, because the requests that wait for their turn hold some themselves, and
    would wait for each other. So one batch may exceed the budget, and may not unpack to more than the budget. For the
    event loop's thread.
    """

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._size_max = min(RAW_SIZE_MAX, max(budget.size_max, TRIED_SIZES[0]))
        self._thread = ThreadPoolExecutor(1, "warren-unpacking")
        self._turn = asyncio.Lock()
        self._kept_size = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def run(self, owner: str, work: Callable[[int], T]) -> T:
        """Calls `work` on the thread with the number of bytes that it may unpack, and returns its result.

        If `work` raises UnpacksToMore, it is called again with a larger number. Raises TooLarge if the batch unpacks to
        more than the broker has memory for.
        """
        async with self._turn:
            return await self._run(owner, work)

    @asynccontextmanager
    async def kept(self, owner: str, work: Callable[[int], T], size_of: Callable[[T], int]) -> AsyncIterator[T]:
        """Does what `run` does for a `with` block that uses the result, which counts until the end of the block.

        The next batch is unpacked when such results have less than UNPACKED_KEPT_SIZE_MAX bytes. So the block must not
        call `run` or `kept`.
        """
        async with self._turn:
            await self._has_room.wait()
            result = await self._run(owner, work)
            size = size_of(result)
            hold = self._budget.hold(MemoryKind.UNPACKED, size, owner)
            self._keep(size)
        try:
            yield result
        finally:
            hold.release()
            self._keep(-size)

    def _keep(self, size: int) -> None:
        self._kept_size += size
        if self._kept_size < UNPACKED_KEPT_SIZE_MAX:
            self._has_room.set()
        else:
            self._has_room.clear()

    async def _run(self, owner: str, work: Callable[[int], T]) -> T:
        loop = asyncio.get_running_loop()
        for size in (*(size for size in TRIED_SIZES if size < self._size_max), self._size_max):
            hold = self._budget.hold(MemoryKind.UNPACKED, size, owner)
            try:
                return await loop.run_in_executor(self._thread, work, size)
            except UnpacksToMore:
                continue
            finally:
                hold.release()
        raise TooLarge("unpacked batch", self._size_max + 1, self._size_max)

    def close(self) -> None:
        """Begins no more work, and waits for the running work."""
        self._thread.shutdown(cancel_futures=True)
