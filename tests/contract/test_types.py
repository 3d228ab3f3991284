"""mypy checks that embedded, remote and asyncio objects keep the contract of `warren.api`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    overload,
)

import pytest

import warren.aio.batching
import warren.aio.groups
import warren.aio.log
import warren.aio.store
import warren.aio.topic
from warren import api
from warren.aio.thread_bridge import Twin
from warren.client.broadcast import RemoteBroadcast
from warren.client.groups import QueueWorker, StreamMember
from warren.client.log import RemoteLog
from warren.client.store import RemoteStore
from warren.client.topic import RemoteTopic
from warren.client.transaction import RemoteTransaction
from warren.clock import Duration
from warren.message import Message, Place, TopicReceipt
from warren.queue.batching import Batching
from warren.queue.broadcast import Broadcast
from warren.queue.leases.queue_group import QueueGroup
from warren.queue.stream.stream_group import StreamGroup
from warren.queue.topic import Topic
from warren.storage.log import Log
from warren.transaction.store import Store
from warren.transaction.transaction import Transaction

P = ParamSpec("P")
R = TypeVar("R")

KINDS: Final[list[tuple[type, list[type]]]] = [
    (api.Store, [Store, RemoteStore, warren.aio.store.Store]),
    (api.Topic, [Topic, RemoteTopic, warren.aio.topic.Topic]),
    (api.Log, [Log, RemoteLog, warren.aio.log.Log]),
    (api.StreamGroup, [StreamGroup, StreamMember, warren.aio.groups.StreamGroup]),
    (api.QueueGroup, [QueueGroup, QueueWorker, warren.aio.groups.QueueGroup]),
    (api.Broadcast, [Broadcast, RemoteBroadcast, warren.aio.groups.Broadcast]),
    (api.Transaction, [Transaction, RemoteTransaction, warren.aio.store.Transaction]),
    (api.Batching, [Batching, Batching, warren.aio.batching.Batching]),
]


def names(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("promised", "kinds"), KINDS, ids=lambda each: getattr(each, "__name__", ""))
def test_every_kind_of_object_has_the_methods_of_the_contract(promised: type, kinds: list[type]) -> None:
    missing = {kind: names(promised) - names(kind) - attributes(kind) for kind in kinds}

    assert missing == {kind: set() for kind in kinds}


def attributes(kind: type) -> set[str]:
    """What instances get in `__init__`. mypy sees these; `dir` of the class does not."""
    return {"id", "is_closed", "name", "settings"}


@pytest.mark.parametrize("promised", [promised for promised, _ in KINDS], ids=lambda each: each.__name__)
def test_every_method_of_the_contract_has_a_docstring(promised: type) -> None:
    silent = [
        name
        for name, value in vars(promised).items()
        if not name.startswith("_") and callable(value) and name != "close" and not value.__doc__
    ]

    assert silent == []


if TYPE_CHECKING:

    def _embedded_objects_keep_the_contract(
        store: Store,
        topic: Topic,
        log: Log,
        stream: StreamGroup,
        queue: QueueGroup,
        broadcast: Broadcast,
        transaction: Transaction,
        batching: Batching,
    ) -> list[object]:
        a: api.Store = store
        b: api.Topic = topic
        c: api.Log = log
        d: api.StreamGroup = stream
        e: api.QueueGroup = queue
        f: api.Broadcast = broadcast
        g: api.Transaction = transaction
        h: api.Batching = batching
        return [a, b, c, d, e, f, g, h]

    def _remote_objects_keep_the_contract(
        store: RemoteStore,
        topic: RemoteTopic,
        log: RemoteLog,
        stream: StreamMember,
        queue: QueueWorker[RemoteTopic],
        broadcast: RemoteBroadcast,
        transaction: RemoteTransaction,
    ) -> list[object]:
        a: api.Store = store
        b: api.Topic = topic
        c: api.Log = log
        d: api.StreamGroup = stream
        e: api.QueueGroup = queue
        f: api.Broadcast = broadcast
        g: api.Transaction = transaction
        return [a, b, c, d, e, f, g]

    class Method(Generic[P, R]):
        """A method of the contract. Its type is known before an asyncio method is compared with it.

        In one call with both, mypy would look for a type that both have, and always find one.
        """

        def __init__(self, sync: Callable[Concatenate[Any, P], R]) -> None: ...

        def awaited(self, twin: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> None:
            """The asyncio method takes these parameters, and its result is the same when it is awaited."""

        def opened(self, twin: Callable[Concatenate[Any, P], Coroutine[Any, Any, Twin]]) -> None:
            """The asyncio method takes these parameters, and returns a twin of the result."""

    class Iteration(Generic[P, R]):
        """A method of the contract that returns an iterator."""

        def __init__(self, sync: Callable[Concatenate[Any, P], Iterator[R]]) -> None: ...

        def iterated(self, twin: Callable[Concatenate[Any, P], AsyncIterator[R]]) -> None:
            """The asyncio method takes these parameters, and yields the same items."""

    class AsyncTopic(Protocol):
        """The overloaded methods of `api.Topic`, as coroutines."""

        @overload
        def put(
            self, body: bytes, *, delay: None = None, deliver_at: None = None, **options: Unpack[api.PutOptions]
        ) -> Coroutine[Any, Any, TopicReceipt]: ...
        @overload
        def put(
            self, body: bytes, *, delay: Duration, deliver_at: None = None, **options: Unpack[api.PutOptions]
        ) -> Coroutine[Any, Any, api.Delayed]: ...
        @overload
        def put(
            self, body: bytes, *, delay: None = None, deliver_at: api.When, **options: Unpack[api.PutOptions]
        ) -> Coroutine[Any, Any, api.Delayed]: ...
        @overload
        def put_many(
            self,
            bodies: Sequence[bytes],
            *,
            delay: None = None,
            deliver_at: None = None,
            **options: Unpack[api.PutManyOptions],
        ) -> Coroutine[Any, Any, Sequence[Place]]: ...
        @overload
        def put_many(
            self,
            bodies: Sequence[bytes],
            *,
            delay: Duration,
            deliver_at: None = None,
            **options: Unpack[api.PutManyOptions],
        ) -> Coroutine[Any, Any, Sequence[api.Delayed]]: ...
        @overload
        def put_many(
            self,
            bodies: Sequence[bytes],
            *,
            delay: None = None,
            deliver_at: api.When,
            **options: Unpack[api.PutManyOptions],
        ) -> Coroutine[Any, Any, Sequence[api.Delayed]]: ...
        @overload
        def group(
            self, name: str, *, mode: Literal["stream"] = ..., **options: Unpack[api.GroupOptions]
        ) -> Coroutine[Any, Any, warren.aio.groups.StreamGroup]: ...
        @overload
        def group(
            self, name: str, *, mode: Literal["queue"], **options: Unpack[api.GroupOptions]
        ) -> Coroutine[Any, Any, warren.aio.groups.QueueGroup]: ...

    class AsyncQueueGroup(Protocol):
        """The overloaded method of `api.QueueGroup`, as a coroutine."""

        @overload
        def take(
            self, limit: None = ..., wait: Duration = ..., *, renew: bool = ...
        ) -> Coroutine[Any, Any, Message | None]: ...
        @overload
        def take(
            self, limit: int, wait: Duration = ..., *, renew: bool = ...
        ) -> Coroutine[Any, Any, list[Message]]: ...

    class AsyncPuts(Protocol):
        """`api.Transaction.put` and `put_many`, as coroutines."""

        def put(
            self,
            topic: str | warren.aio.topic.Topic,
            body: bytes,
            *,
            delay: Duration | None = ...,
            deliver_at: api.When | None = ...,
            **options: Unpack[api.MessageOptions],
        ) -> Coroutine[Any, Any, None]: ...
        def put_many(
            self, topic: str | warren.aio.topic.Topic, bodies: Sequence[bytes], **options: Unpack[api.PutManyOptions]
        ) -> Coroutine[Any, Any, None]: ...

    def _overloaded_asyncio_methods_keep_the_contract(
        topic: warren.aio.topic.Topic,
        queue: warren.aio.groups.QueueGroup,
        transaction: warren.aio.store.Transaction,
    ) -> list[object]:
        a: AsyncTopic = topic
        b: AsyncQueueGroup = queue
        c: AsyncPuts = transaction
        return [a, b, c]

    def _asyncio_methods_have_the_parameters_of_the_contract() -> None:
        # Not here: overloaded methods (put, put_many, group, take), which the protocols above check;
        # `Store.topic` and `Topic.configure`, whose settings may have any name, `self` included; and properties, which
        # are coroutines there.
        store = warren.aio.store.Store
        Method(api.Store.has_topic).awaited(store.has_topic)
        Method(api.Store.topics).awaited(store.topics)
        Method(api.Store.describe).awaited(store.describe)
        Method(api.Store.configure_topic).awaited(store.configure_topic)
        Method(api.Store.delete_topic).awaited(store.delete_topic)
        Method(api.Store.commit).awaited(store.commit)
        Method(api.Store.abort).awaited(store.abort)
        Method(api.Store.transaction_state).awaited(store.transaction_state)
        Method(api.Store.commit_batch).awaited(store.commit_batch)
        Method(api.Store.commit_all).awaited(store.commit_all)
        Method(api.Store.last_version).awaited(store.last_version)
        Method(api.Store.abort_prepared).awaited(store.abort_prepared)
        Method(api.Store.recover).awaited(store.recover)
        Method(api.Store.existing_topic).opened(store.existing_topic)
        Method(api.Store.transaction).opened(store.transaction)
        topic = warren.aio.topic.Topic
        Method(api.Topic.request).awaited(topic.request)
        Method(api.Topic.cancel).awaited(topic.cancel)
        Method(api.Topic.last).awaited(topic.last)
        Method(api.Topic.groups).awaited(topic.groups)
        Method(api.Topic.group_settings).awaited(topic.group_settings)
        Method(api.Topic.configure_group).awaited(topic.configure_group)
        Method(api.Topic.describe_group).awaited(topic.describe_group)
        Method(api.Topic.put_back).awaited(topic.put_back)
        Method(api.Topic.delete_group).awaited(topic.delete_group)
        Method(api.Topic.describe).awaited(topic.describe)
        Method(api.Topic.refresh).awaited(topic.refresh)
        Method(api.Topic.retire).awaited(topic.retire)
        Iteration(api.Topic.scheduled).iterated(topic.scheduled)
        Iteration(api.Topic.since).iterated(topic.since)
        Iteration(api.Topic.between).iterated(topic.between)
        Iteration(api.Topic.dead_letters).iterated(topic.dead_letters)
        Method(api.Topic.partition).opened(topic.partition)
        log = warren.aio.log.Log
        Method(api.Log.at).awaited(log.at)
        Method(api.Log.read).awaited(log.read)
        Method(api.Log.last).awaited(log.last)
        Method(api.Log.find_time).awaited(log.find_time)
        Method(api.Log.wait).awaited(log.wait)
        Iteration(api.Log.backwards).iterated(log.backwards)
        Iteration(api.Log.scan).iterated(log.scan)
        stream = warren.aio.groups.StreamGroup
        Method(api.StreamGroup.read).awaited(stream.read)
        Method(api.StreamGroup.commit).awaited(stream.commit)
        Method(api.StreamGroup.seek).awaited(stream.seek)
        Method(api.StreamGroup.rewind).awaited(stream.rewind)
        Method(api.StreamGroup.members).awaited(stream.members)
        Method(api.StreamGroup.position).awaited(stream.position)
        Method(api.StreamGroup.positions).awaited(stream.positions)
        Method(api.StreamGroup.lag).awaited(stream.lag)
        queue = warren.aio.groups.QueueGroup
        Method(api.QueueGroup.ack).awaited(queue.ack)
        Method(api.QueueGroup.ack_many).awaited(queue.ack_many)
        Method(api.QueueGroup.nack).awaited(queue.nack)
        Method(api.QueueGroup.reject).awaited(queue.reject)
        Method(api.QueueGroup.extend).awaited(queue.extend)
        Method(api.QueueGroup.extend_many).awaited(queue.extend_many)
        Method(api.QueueGroup.redrive).awaited(queue.redrive)
        Method(api.QueueGroup.lag).awaited(queue.lag)
        Method(api.QueueGroup.in_flight).awaited(queue.in_flight)
        broadcast = warren.aio.groups.Broadcast
        Method(api.Broadcast.read).awaited(broadcast.read)
        transaction = warren.aio.store.Transaction
        Method(api.Transaction.prepare).awaited(transaction.prepare)
        Method(api.Transaction.abort).awaited(transaction.abort)
        batching = warren.aio.batching.Batching
        Method(api.Batching.flush).awaited(batching.flush)
        Method(api.Batching.close).awaited(batching.close)
