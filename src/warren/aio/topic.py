"""The asyncio versions of a topic and of its consumers: stream groups, queue groups and broadcast."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Literal, Unpack, overload

from warren.aio.log import PAGE, Log
from warren.aio.thread_bridge import Bridge, ClosingTwin, Twin, iterated, passed
from warren.api.values import GroupOptions, PutManyOptions, PutOptions, Where
from warren.clock import Duration, seconds_of
from warren.errors import GroupClosed, LeaseLost, StoreClosed
from warren.limits import READ_LIMIT_DEFAULT
from warren.message import Message, Place, TopicReceipt
from warren.queue import broadcast, topic
from warren.queue.delay.handles import Delayed, Scheduled
from warren.queue.leases import queue_group
from warren.queue.leases.dead_letter_views import Letter
from warren.queue.request import ask
from warren.queue.state.group_settings import GroupSettings
from warren.queue.state.settings import TopicSettings
from warren.queue.stream import stream_group

ITERATION_WAIT_S: Final = 60.0


class Topic(Twin):
    """One topic of an open store. Any task may use it."""

    sync: topic.Topic

    @property
    def name(self) -> str:
        return self.sync.name

    @property
    def settings(self) -> TopicSettings:
        """Returns the settings that this process last read."""
        return self.sync.settings

    @property
    def partition_count(self) -> int:
        return self.sync.partition_count

    async def partition(self, number: int) -> Log:
        """As `Topic.partition`: `log = await topic.partition(0)`."""
        return Log(await self._bridge.call(self.sync.partition, number), self._bridge)

    # --- Putting ---

    @overload
    async def put(
        self, body: bytes, *, delay: None = None, deliver_at: None = None, **options: Unpack[PutOptions]
    ) -> TopicReceipt: ...
    @overload
    async def put(
        self, body: bytes, *, delay: Duration, deliver_at: None = None, **options: Unpack[PutOptions]
    ) -> Delayed: ...
    @overload
    async def put(
        self, body: bytes, *, delay: None = None, deliver_at: datetime | float | int, **options: Unpack[PutOptions]
    ) -> Delayed: ...
    async def put(self, body: bytes, **options: Any) -> TopicReceipt | Delayed:
        """As `Topic.put`."""
        put: Callable[..., TopicReceipt | Delayed] = self.sync.put
        return await self._bridge.call(put, body, **options)

    @overload
    async def put_many(
        self, bodies: Sequence[bytes], *, delay: None = None, deliver_at: None = None, **options: Unpack[PutManyOptions]
    ) -> Sequence[Place]: ...
    @overload
    async def put_many(
        self, bodies: Sequence[bytes], *, delay: Duration, deliver_at: None = None, **options: Unpack[PutManyOptions]
    ) -> list[Delayed]: ...
    @overload
    async def put_many(
        self,
        bodies: Sequence[bytes],
        *,
        delay: None = None,
        deliver_at: datetime | float | int,
        **options: Unpack[PutManyOptions],
    ) -> list[Delayed]: ...
    async def put_many(self, bodies: Sequence[bytes], **options: Any) -> Sequence[Place] | list[Delayed]:
        """As `Topic.put_many`."""
        put_many: Callable[..., Sequence[Place] | list[Delayed]] = self.sync.put_many
        return await self._bridge.call(put_many, bodies, **options)

    async def request(
        self,
        body: bytes,
        *,
        timeout: Duration = 30.0,
        key: bytes | None = None,
        tag: str = "",
        headers: Mapping[str, bytes] | None = None,
    ) -> Message:
        """As `Topic.request`."""
        question = await self._bridge.call(ask, self.sync, body, timeout, key, tag, headers)
        answers = await self._bridge.wait(
            question.log.read_page, question.number, limit=1, tag=question.filter, seconds=timeout
        )
        return question.answer(answers)

    cancel = passed(topic.Topic.cancel)

    # --- Consuming ---

    @overload
    async def group(
        self, name: str, *, mode: Literal["stream"] = "stream", **options: Unpack[GroupOptions]
    ) -> StreamGroup: ...
    @overload
    async def group(self, name: str, *, mode: Literal["queue"], **options: Unpack[GroupOptions]) -> QueueGroup: ...
    async def group(self, name: str, *, mode: Any = "stream", **options: Any) -> StreamGroup | QueueGroup:
        """As `Topic.group`."""
        group: Callable[..., Any] = self.sync.group
        member = await self._bridge.call(group, name, mode=mode, **options)
        kind = QueueGroup if mode == "queue" else StreamGroup
        return kind(member, self._bridge)

    async def broadcast(
        self, *, tag: str | None = None, start: Where | Mapping[int, int] | None = None, wait: Duration | None = None
    ) -> Broadcast:
        """As `Topic.broadcast`."""
        listener = await self._bridge.call(self.sync.broadcast, tag=tag, start=start, wait=wait)
        return Broadcast(listener, self._bridge, seconds_of(wait))

    def dead_letters(self, group: str | None = None) -> AsyncIterator[Letter]:
        """As `Topic.dead_letters`."""
        return iterated(self._bridge, lambda: self.sync.dead_letters(group), PAGE)

    async def configure_group(self, name: str, **changes: Unpack[GroupOptions]) -> GroupSettings:
        """As `Topic.configure_group`."""
        return await self._bridge.call(self.sync.configure_group, name, **changes)

    groups = passed(topic.Topic.groups)
    group_settings = passed(topic.Topic.group_settings)
    describe_group = passed(topic.Topic.describe_group)
    put_back = passed(topic.Topic.put_back)
    delete_group = passed(topic.Topic.delete_group)

    # --- Reading by place and time ---

    last = passed(topic.Topic.last)

    def since(self, when: datetime | float | int, *, tag: str | None = None) -> AsyncIterator[Message]:
        """As `Topic.since`."""
        return iterated(self._bridge, lambda: self.sync.since(when, tag=tag), PAGE)

    def between(
        self, start: datetime | float | int, end: datetime | float | int, *, tag: str | None = None
    ) -> AsyncIterator[Message]:
        """As `Topic.between`."""
        return iterated(self._bridge, lambda: self.sync.between(start, end, tag=tag), PAGE)

    def scheduled(self, limit: int | None = None) -> AsyncIterator[Scheduled]:
        """As `Topic.scheduled`."""
        return iterated(self._bridge, lambda: self.sync.scheduled(limit), PAGE)

    async def configure(self, **changes: Any) -> TopicSettings:
        """As `Topic.configure`."""
        return await self._bridge.call(self.sync.configure, **changes)

    describe = passed(topic.Topic.describe)
    refresh = passed(topic.Topic.refresh)
    retire = passed(topic.Topic.retire)


class StreamGroup(ClosingTwin):
    """A member of a stream group. One task at a time."""

    sync: stream_group.StreamGroup

    @property
    def name(self) -> str:
        return self.sync.name

    async def read(self, limit: int = READ_LIMIT_DEFAULT, wait: Duration = 0.0) -> list[Message]:
        """As `StreamGroup.read`. If the task is cancelled, the messages that it had read are read again."""
        return await self._bridge.wait(self.sync.read, limit, seconds=wait, undo=self.sync.unread)

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Yields messages until the member or its store is closed.

        `commit` commits up to the last message that was yielded.
        """
        while True:
            try:
                messages = await self.read(1, ITERATION_WAIT_S)
            except (GroupClosed, StoreClosed):
                return
            for message in messages:
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

    @property
    def name(self) -> str:
        return self.sync.name

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
        """Yields messages until the group or its store is closed. The caller acknowledges each of them."""
        while True:
            try:
                message = await self.take(wait=ITERATION_WAIT_S)
            except (GroupClosed, StoreClosed):
                return
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
        return Topic(await self._bridge.call(lambda: self.sync.dead), self._bridge)


class Broadcast(Twin):
    """One listener. One task at a time."""

    sync: broadcast.Broadcast

    def __init__(self, sync: Any, bridge: Bridge, wait_s: float | None) -> None:
        super().__init__(sync, bridge)
        self._wait_s = wait_s

    async def read(self, limit: int = READ_LIMIT_DEFAULT, wait: Duration = 0.0) -> list[Message]:
        """As `Broadcast.read`. If the task is cancelled, the messages that it had read are lost for this listener."""
        return await self._bridge.wait(self.sync.read, limit, seconds=wait)

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Yields messages until none came for the `wait` that was passed to `Topic.broadcast`;
        without it, never ends.
        """
        while True:
            messages = await self.read(wait=ITERATION_WAIT_S if self._wait_s is None else self._wait_s)
            for message in messages:
                yield message
            if not messages and self._wait_s is not None:
                return
