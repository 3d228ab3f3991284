"""The asyncio twin of a store, here or behind a broker, and of its transactions."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any, Self, Unpack

from warren.aio.batching import Batching
from warren.aio.bridge import Bridge, Twin, passed
from warren.aio.durable_queue import DurableQueue
from warren.aio.producer import Producer
from warren.aio.topic import Topic
from warren.queue.batching import BatchingOptions
from warren.transaction import store, transaction
from warren.transaction.states import State


class Transaction(Twin):
    """Committed at the end of an `async with` block, aborted by an exception. Its methods are those of its twin."""

    sync: transaction.Transaction

    @property
    def id(self) -> str:
        return self.sync.id

    async def state(self) -> State:
        """Where it stands now."""
        return await self._bridge.call(lambda: self.sync.state)

    put = passed(transaction.Transaction.put)
    put_many = passed(transaction.Transaction.put_many)
    put_columns = passed(transaction.Transaction.put_columns)
    prepare = passed(transaction.Transaction.prepare)
    abort = passed(transaction.Transaction.abort)

    async def commit(self, *arguments: Any) -> None:
        """Without a group: commit the transaction. With one: commit its positions with the transaction."""
        await self._bridge.call(self.sync.commit, *map(_sync, arguments))

    async def ack(self, group: Any, messages: Any) -> None:
        """Acknowledge messages of a queue group with the transaction."""
        await self._bridge.call(self.sync.ack, _sync(group), messages)

    async def __aenter__(self) -> Self:
        await self._bridge.call(self.sync.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._bridge.call(self.sync.__exit__, kind, error, trace)


def _sync(value: Any) -> Any:
    return value.sync if isinstance(value, Twin) else value


class Store(Twin):
    """A data directory, for the tasks of one event loop."""

    sync: store.Store

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

    async def transaction(self, **options: Any) -> Transaction:
        """As `Store.transaction`: `async with await store.transaction() as tx`."""
        return Transaction(await self._bridge.call(self.sync.transaction, **options), self._bridge)

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
        """Close all topics."""
        await self._bridge.call(self.sync.close)
        self._bridge.close(repr(self.sync))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Opening:
    """A store that is about to be opened: to be awaited, or used with `async with`."""

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
    """The store in the directory `path`, made where there is none: `async with warren.aio.open("data") as store`."""
    return Opening(functools.partial(store.open, path, **options), Bridge)


def connect(address: str, **options: Any) -> Opening:
    """The store behind the broker at `address`: `async with warren.aio.connect("host:9092") as store`.

    The options are those of `warren.connect`.
    """
    # Imported here: whoever works on files of their own needs no network.
    from warren.aio.remote import RemoteBridge
    from warren.client.store import connect

    return Opening(functools.partial(connect, address, **options), RemoteBridge)
