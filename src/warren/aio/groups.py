"""The asyncio twins of those who consume: stream groups, queue groups and broadcast."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, overload

from warren.aio.bridge import Twin, passed
from warren.clock import Duration
from warren.config import READ_LIMIT_DEFAULT
from warren.errors import LeaseLost
from warren.message import Message
from warren.queue import broadcast, queue_group, stream_group

if TYPE_CHECKING:
    from warren.aio.topic import Topic

ITERATION_WAIT_S: Final = 60.0


class _Consumer(Twin):
    """Closed at the end of an `async with` block."""

    async def close(self) -> None:
        await self._bridge.call(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class StreamGroup(_Consumer):
    """A member of a stream group. One task at a time."""

    sync: stream_group.StreamGroup

    async def read(self, limit: int = READ_LIMIT_DEFAULT, wait: Duration = 0.0) -> list[Message]:
        """As `StreamGroup.read`. What a task that is cancelled had read is read again."""
        return await self._bridge.wait(self.sync.read, limit, seconds=wait, undo=self.sync.unread)

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Message after message, without end. `commit` commits up to the message that was given last."""
        while True:
            for message in await self.read(1, ITERATION_WAIT_S):
                yield message

    commit = passed(stream_group.StreamGroup.commit)
    seek = passed(stream_group.StreamGroup.seek)
    rewind = passed(stream_group.StreamGroup.rewind)
    position = passed(stream_group.StreamGroup.position)
    positions = passed(stream_group.StreamGroup.positions)
    lag = passed(stream_group.StreamGroup.lag)
    members = passed(stream_group.StreamGroup.members)

    @property
    def id(self) -> str:
        """The id of this member."""
        return self.sync.id

    @property
    def partitions(self) -> list[int]:
        """The partitions that this member owns; over the network, those that it owned when it read last."""
        return self.sync.owned()


class QueueGroup(_Consumer):
    """A member of a queue group. Any task may take."""

    sync: queue_group.QueueGroup

    @overload
    async def take(self, limit: None = None, wait: Duration = 0.0, *, renew: bool = True) -> Message | None: ...
    @overload
    async def take(self, limit: int, wait: Duration = 0.0, *, renew: bool = True) -> list[Message]: ...
    async def take(
        self, limit: int | None = None, wait: Duration = 0.0, *, renew: bool = True
    ) -> Message | list[Message] | None:
        """As `QueueGroup.take`. What a task that is cancelled had taken is given back."""
        count = 1 if limit is None else limit
        found: list[Message] = await self._bridge.wait(
            self.sync.take, count, seconds=wait, undo=self._give_back, renew=renew
        )
        if limit is None:
            return found[0] if found else None
        return found

    def _give_back(self, messages: Sequence[Message]) -> None:
        for message in messages:
            with suppress(LeaseLost):
                self.sync.nack(message, delay=0.0, reason="the task that took it was cancelled")

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Message after message, without end; each is to be acknowledged."""
        while True:
            message = await self.take(wait=ITERATION_WAIT_S)
            if message is not None:
                yield message

    ack = passed(queue_group.QueueGroup.ack)
    ack_many = passed(queue_group.QueueGroup.ack_many)
    nack = passed(queue_group.QueueGroup.nack)
    reject = passed(queue_group.QueueGroup.reject)
    extend = passed(queue_group.QueueGroup.extend)
    extend_many = passed(queue_group.QueueGroup.extend_many)
    redrive = passed(queue_group.QueueGroup.redrive)
    lag = passed(queue_group.QueueGroup.lag)
    in_flight = passed(queue_group.QueueGroup.in_flight)

    async def dead(self) -> Topic:
        """As `QueueGroup.dead`: the topic of the dead letters."""
        # Imported here: a topic gives groups.
        from warren.aio.topic import Topic

        return Topic(await self._bridge.call(lambda: self.sync.dead), self._bridge)


class Broadcast(Twin):
    """One listener. One task at a time."""

    sync: broadcast.Broadcast

    async def read(self, limit: int = READ_LIMIT_DEFAULT, wait: Duration = 0.0) -> list[Message]:
        """As `Broadcast.read`. What a task that is cancelled had read is gone for this listener."""
        return await self._bridge.wait(self.sync.read, limit, seconds=wait)

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Everything from now on."""
        while True:
            for message in await self.read(wait=ITERATION_WAIT_S):
                yield message
