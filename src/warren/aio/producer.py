"""The asyncio twin of a producer."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from warren.aio.bridge import Twin
from warren.message import Place, TopicReceipt
from warren.transaction import producer


class Producer(Twin):
    """Numbers its puts. Closed at the end of an `async with` block; any task may use it."""

    sync: producer.Producer

    @property
    def name(self) -> str:
        return self.sync.name

    async def sequence(self) -> int:
        """The number of the last put that was written, with all before it; 0 before the first."""
        return await self._bridge.call(lambda: self.sync.sequence)

    async def put(self, topic: str | Twin, body: bytes, **options: Any) -> TopicReceipt | None:
        """As `Producer.put`."""
        return await self._bridge.call(self.sync.put, _sync(topic), body, **options)

    async def put_many(self, topic: str | Twin, bodies: Sequence[bytes], **options: Any) -> Sequence[Place] | None:
        """As `Producer.put_many`."""
        return await self._bridge.call(self.sync.put_many, _sync(topic), bodies, **options)

    async def close(self) -> None:
        """As `Producer.close`."""
        await self._bridge.call(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _sync(topic: str | Twin) -> Any:
    return topic.sync if isinstance(topic, Twin) else topic
