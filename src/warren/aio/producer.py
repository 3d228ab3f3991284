"""The asyncio version of a producer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from warren.aio.thread_bridge import ClosingTwin, Twin, sync_of
from warren.api.values import ColumnOptions, MessageOptions
from warren.message import Place, TopicReceipt
from warren.transaction import producer


class Producer(ClosingTwin):
    """Numbers its puts. Closed at the end of an `async with` block; any task may use it."""

    sync: producer.Producer

    @property
    def name(self) -> str:
        return self.sync.name

    async def sequence(self) -> int:
        """Returns the number of the last put that was written, as were all before it; 0 if there was none."""
        return await self._bridge.call(lambda: self.sync.sequence)

    async def put(
        self, topic: str | Twin, body: bytes, *, sequence: int | None = None, **options: Unpack[MessageOptions]
    ) -> TopicReceipt | None:
        """As `Producer.put`."""
        return await self._bridge.call(self.sync.put, sync_of(topic), body, sequence=sequence, **options)

    async def put_many(
        self,
        topic: str | Twin,
        bodies: Sequence[bytes],
        *,
        sequence: int | None = None,
        partition: int | None = None,
        **columns: Unpack[ColumnOptions],
    ) -> Sequence[Place] | None:
        """As `Producer.put_many`."""
        put_many = self.sync.put_many
        return await self._bridge.call(
            put_many, sync_of(topic), bodies, sequence=sequence, partition=partition, **columns
        )
