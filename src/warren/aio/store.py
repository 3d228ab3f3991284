"""The asyncio versions of a store, embedded or behind a broker, and of its transactions."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from warren.aio.batching import Batching
from warren.aio.durable_queue import DurableQueue
from warren.aio.producer import Producer
from warren.aio.thread_bridge import Bridge, ClosingTwin, Twin, passed, sync_of
from warren.aio.topic import QueueGroup, StreamGroup, Topic
from warren.api.values import BatchingOptions, MessageOptions, PutManyOptions, When
from warren.clock import Duration
from warren.limits import TRANSACTION_TIMEOUT_S_DEFAULT
from warren.message import Message
from warren.transaction import store, transaction
from warren.transaction.states import State

if TYPE_CHECKING:
    import pyarrow


class Transaction(Twin):
    """A transaction. It is committed at the end of an `async with` block, and aborted by an exception."""

    sync: transaction.Transaction

    @property
    def id(self) -> str:
        return self.sync.id

    async def state(self) -> State:
        """Returns the current state."""
        return await self._bridge.call(lambda: self.sync.state)

    async def put(
        self,
        topic: str | Topic,
        body: bytes,
        *,
        delay: Duration | None = None,
        deliver_at: When | None = None,
        **options: Unpack[MessageOptions],
    ) -> None:
        """As `Transaction.put`."""
        await self._bridge.call(self.sync.put, sync_of(topic), body, delay=delay, deliver_at=deliver_at, **options)

    async def put_many(self, topic: str | Topic, bodies: Sequence[bytes], **options: Unpack[PutManyOptions]) -> None:
        """As `Transaction.put_many`."""
        await self._bridge.call(self.sync.put_many, sync_of(topic), bodies, **options)

    async def put_columns(
        self, topic: str | Topic, batch: pyarrow.RecordBatch, *, partition: int | None = None
    ) -> None:
        """As `Transaction.put_columns`."""
        await self._bridge.call(self.sync.put_columns, sync_of(topic), batch, partition=partition)

    prepare = passed(transaction.Transaction.prepare)
    abort = passed(transaction.Transaction.abort)

    async def commit(self, group: StreamGroup | None = None, positions: Mapping[int, int] | None = None) -> None:
        """As `Transaction.commit`. With a group it adds positions to the transaction."""
        await self._bridge.call(self.sync.commit, sync_of(group), positions)

    async def ack(self, group: QueueGroup, messages: Message | Sequence[Message]) -> None:
        """As `Transaction.ack`."""
        await self._bridge.call(self.sync.ack, sync_of(group), messages)

    async def __aenter__(self) -> Self:
        await self._bridge.call(self.sync.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._bridge.call(self.sync.__exit__, kind, error, trace)


class Store(ClosingTwin):
    """A data directory, for the tasks of one event loop."""

    sync: store.Store

    @property
    def id(self) -> str:
        """Returns the id of the store."""
        return self.sync.id

    @property
    def is_closed(self) -> bool:
        return self.sync.is_closed

    async def topic(self, name: str, partitions: int | None = None, **settings: Any) -> Topic:
        """As `Store.topic`."""
        return Topic(await self._bridge.call(self.sync.topic, name, partitions, **settings), self._bridge)

    async def existing_topic(self, name: str) -> Topic:
        """As `Store.existing_topic`."""
        return Topic(await self._bridge.call(self.sync.existing_topic, name), self._bridge)

    async def producer(self, name: str) -> Producer:
        """As `Store.producer`: `async with await store.producer("loader-1") as producer`."""
        return Producer(await self._bridge.call(self.sync.producer, name), self._bridge)

    async def last_failure(self) -> str:
        """As `Store.last_failure`."""
        return await self._bridge.call(lambda: self.sync.last_failure)

    async def queue(self, name: str, maxsize: int = 0, **settings: Any) -> DurableQueue:
        """As `Store.queue`."""
        return DurableQueue(await self._bridge.call(self.sync.queue, name, maxsize, **settings), self._bridge)

    async def transaction(
        self,
        timeout: Duration = TRANSACTION_TIMEOUT_S_DEFAULT,
        id: str | None = None,
        prepared_timeout: Duration | None = None,
    ) -> Transaction:
        """As `Store.transaction`: `async with await store.transaction() as tx`."""
        return Transaction(await self._bridge.call(self.sync.transaction, timeout, id, prepared_timeout), self._bridge)

    def batching(self, **options: Unpack[BatchingOptions]) -> Batching:
        """As `Store.batching`: `async with store.batching() as puts`."""
        return Batching(self.sync.batching(**options), self._bridge)

    topics = passed(store.Store.topics)
    has_topic = passed(store.Store.has_topic)
    delete_topic = passed(store.Store.delete_topic)
    describe = passed(store.Store.describe)
    configure_topic = passed(store.Store.configure_topic)
    commit = passed(store.Store.commit)
    abort = passed(store.Store.abort)
    transaction_state = passed(store.Store.transaction_state)
    recover = passed(store.Store.recover)
    commit_batch = passed(store.Store.commit_batch)
    commit_all = passed(store.Store.commit_all)
    last_version = passed(store.Store.last_version)
    abort_prepared = passed(store.Store.abort_prepared)

    async def close(self) -> None:
        """Closes all topics, and ends the threads of the store. Closing twice does no harm."""
        if not self.is_closed:
            await self._bridge.call(self.sync.close)
        self._bridge.close(repr(self.sync))


class Opening:
    """A store that is about to be opened, by `await` or with `async with`."""

    def __init__(self, open_store: Callable[[], Any], make_bridge: Callable[[], Bridge]) -> None:
        self._open, self._make_bridge = open_store, make_bridge
        self._store: Store | None = None

    async def _opened(self) -> Store:
        bridge = self._make_bridge()
        try:
            self._store = Store(await bridge.call(self._open), bridge)
        except BaseException:
            bridge.close()
            raise
        return self._store

    def __await__(self) -> Generator[Any, None, Store]:
        return self._opened().__await__()

    async def __aenter__(self) -> Store:
        return await self._opened()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            await self._store.close()


def open(path: str | os.PathLike[str], **options: Any) -> Opening:
    """Returns the store in the directory `path`, and creates it if it does not exist: `async with
    warren.aio.open("data") as store`.
    """
    return Opening(functools.partial(store.open, path, **options), Bridge)


def connect(address: str, **options: Any) -> Opening:
    """Returns the store behind the broker at `address`: `async with warren.aio.connect("host:9092") as store`.

    The options are those of `warren.connect`.
    """
    # Imported here because a program that only opens embedded stores needs no network.
    from warren.aio.remote_bridge import RemoteBridge
    from warren.client.store import connect

    return Opening(functools.partial(connect, address, **options), RemoteBridge)
