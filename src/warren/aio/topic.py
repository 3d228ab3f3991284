"""The asyncio twin of a topic."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Unpack, overload

from warren.aio.groups import Broadcast, QueueGroup, StreamGroup
from warren.aio.log import PAGE, Log
from warren.aio.thread_bridge import Twin, iterated, passed
from warren.api.values import GroupOptions, PutManyOptions, PutOptions, Where
from warren.clock import Duration
from warren.message import Message, Place, TopicReceipt
from warren.queue import topic
from warren.queue.delay.handles import Delayed, Scheduled
from warren.queue.leases.dead_letter_views import Letter
from warren.queue.request import ask
from warren.queue.state.group_settings import GroupSettings
from warren.queue.state.settings import TopicSettings


class Topic(Twin):
    """One topic of an open store. Any task may use it."""

    sync: topic.Topic

    @property
    def name(self) -> str:
        return self.sync.name

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

    async def broadcast(self, *, tag: str | None = None, start: Where | Mapping[int, int] | None = None) -> Broadcast:
        """As `Topic.broadcast`, without an end."""
        return Broadcast(await self._bridge.call(self.sync.broadcast, tag=tag, start=start), self._bridge)

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
