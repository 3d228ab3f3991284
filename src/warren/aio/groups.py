"""The asyncio twins of the consumers: stream groups, queue groups and broadcast."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, overload

from warren.aio.thread_bridge import ClosingTwin, Twin, passed
from warren.clock import Duration
from warren.errors import LeaseLost
from warren.limits import READ_LIMIT_DEFAULT
from warren.message import Message
from warren.queue import broadcast
from warren.queue.leases import queue_group
from warren.queue.stream import stream_group

if TYPE_CHECKING:
    from warren.aio.topic import Topic

ITERATION_WAIT_S: Final = 60.0


class StreamGroup(ClosingTwin):
    """A member of a stream group. One task at a time."""

    sync: stream_group.StreamGroup

    async def read(self, limit: int = READ_LIMIT_DEFAULT, wait: Duration = 0.0) -> list[Message]:
        """As `StreamGroup.read`. If the task is cancelled, what it had read is read again."""
        return await self._bridge.wait(self.sync.read, limit, seconds=wait, undo=self.sync.unread)

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Yields messages without end. `commit` commits up to the last one yielded."""
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
        """Returns the id of this member."""
        return self.sync.id

    @property
    def partitions(self) -> list[int]:
        """Returns the partitions that this member owns; of a remote store, those that it owned at its last read."""
        return self.sync.owned()


class QueueGroup(ClosingTwin):
    """A member of a queue group. Any task may take."""

    sync: queue_group.QueueGroup

    @overload
    async def take(self, limit: None = None, wait: Duration = 0.0, *, renew: bool = True) -> Message | None: ...
    @overload
    async def take(self, limit: int, wait: Duration = 0.0, *, renew: bool = True) -> list[Message]: ...
    async def take(
        self, limit: int | None = None, wait: Duration = 0.0, *, renew: bool = True
    ) -> Message | list[Message] | None:
        """As `QueueGroup.take`. If the task is cancelled, the messages that it had taken are given back."""
        count = 1 if limit is None else limit
        messages: list[Message] = await self._bridge.wait(
            self.sync.take, count, seconds=wait, undo=self._give_back, renew=renew
        )
        if limit is None:
            return messages[0] if messages else None
        return messages

    def _give_back(self, messages: Sequence[Message]) -> None:
        for message in messages:
            with suppress(LeaseLost):
                self.sync.nack(message, delay=0.0, reason="the task that took it was cancelled")

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Yields messages without end. The caller acknowledges each of them."""
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
        """As `Broadcast.read`. If the task is cancelled, this listener does not get again what the task had read."""
        return await self._bridge.wait(self.sync.read, limit, seconds=wait)

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Yields every message from now on, without end."""
        while True:
            for message in await self.read(wait=ITERATION_WAIT_S):
                yield message
