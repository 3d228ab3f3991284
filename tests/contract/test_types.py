"""mypy checks that embedded, remote and asyncio objects keep the contract of `warren.api`."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import textwrap
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
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

if TYPE_CHECKING:
    import pyarrow

P = ParamSpec("P")
R = TypeVar("R")

SOURCE: Final = Path(__file__).read_text()
KINDS: Final[list[tuple[type, list[type]]]] = [
    (api.Store, [Store, RemoteStore, warren.aio.store.Store]),
    (api.Topic, [Topic, RemoteTopic, warren.aio.topic.Topic]),
    (api.Log, [Log, RemoteLog, warren.aio.log.Log]),
    (api.StreamGroup, [StreamGroup, StreamMember, warren.aio.topic.StreamGroup]),
    (api.QueueGroup, [QueueGroup, QueueWorker, warren.aio.topic.QueueGroup]),
    (api.Broadcast, [Broadcast, RemoteBroadcast, warren.aio.topic.Broadcast]),
    (api.Transaction, [Transaction, RemoteTransaction, warren.aio.store.Transaction]),
    (api.Batching, [Batching, Batching, warren.aio.batching.Batching]),
]


def names(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def compared_methods() -> set[str]:
    """Returns, as `Topic.put`, what this file compares for asyncio: in `Method`, in `Iteration` and in a protocol."""
    calls = re.findall(r"\b(?:Method|Iteration)\(api\.(\w+\.\w+)\)", SOURCE)
    return {*calls, *(f"{kind}.{name}" for kind, name, _ in async_methods())}


def async_methods() -> Iterator[tuple[str, str, ast.arguments]]:
    """Yields the class of the contract, the name and the parameters of each method of a protocol `Async…` below."""
    for kind in ast.walk(ast.parse(SOURCE)):
        if isinstance(kind, ast.ClassDef) and kind.name.startswith("Async"):
            for method in kind.body:
                if isinstance(method, ast.FunctionDef):
                    yield kind.name.removeprefix("Async"), method.name, method.args


@pytest.mark.parametrize(("promised", "kinds"), KINDS, ids=lambda each: getattr(each, "__name__", ""))
def test_every_kind_of_object_has_the_methods_of_the_contract(promised: type, kinds: list[type]) -> None:
    missing = {kind: names(promised) - names(kind) - attributes(kind) for kind in kinds}

    assert missing == {kind: set() for kind in kinds}


def attributes(kind: type) -> set[str]:
    """Returns what instances of `kind` get by assignments to `self`. mypy sees these; `dir` of the class does not."""
    return {
        node.attr
        for base in kind.__mro__
        if base.__module__.startswith("warren.")
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(base))))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


@pytest.mark.parametrize("promised", [promised for promised, _ in KINDS], ids=lambda each: each.__name__)
def test_every_method_of_the_contract_has_a_docstring(promised: type) -> None:
    silent = [
        name
        for name, value in vars(promised).items()
        if not name.startswith("_") and callable(value) and name != "close" and not value.__doc__
    ]

    assert silent == []


def test_everything_in_the_contract_is_compared_for_asyncio() -> None:
    promised = {f"{kind.__name__}.{name}" for kind, _ in KINDS for name in names(kind)}

    assert promised - compared_methods() == set()


def test_the_protocols_for_asyncio_have_the_parameters_of_the_contract() -> None:
    for kind, name, arguments in async_methods():
        promised = getattr(getattr(api, kind), name.replace("__aiter__", "__iter__"))
        if not isinstance(promised, property):
            wildcards = [each.arg for each in (arguments.vararg, arguments.kwarg) if each is not None]
            written = [each.arg for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]
            assert written + wildcards == list(inspect.signature(promised).parameters), f"{kind}.{name}"


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
        """The properties of `api.Topic`, and its methods that are overloaded or return a twin, as coroutines."""

        @property
        def name(self) -> str: ...
        @property
        def settings(self) -> api.TopicSettings: ...
        @property
        def partition_count(self) -> int: ...
        def broadcast(
            self,
            *,
            tag: str | None = ...,
            start: api.Where | Mapping[int, int] | None = ...,
            wait: Duration | None = ...,
        ) -> Coroutine[Any, Any, warren.aio.topic.Broadcast]: ...
        # `Method` below cannot compare it, because its options may have any name, `self` included.
        def configure(self, **changes: Any) -> Coroutine[Any, Any, api.TopicSettings]: ...
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
        ) -> Coroutine[Any, Any, warren.aio.topic.StreamGroup]: ...
        @overload
        def group(
            self, name: str, *, mode: Literal["queue"], **options: Unpack[api.GroupOptions]
        ) -> Coroutine[Any, Any, warren.aio.topic.QueueGroup]: ...

    class AsyncLog(Protocol):
        """The properties of `api.Log` as coroutines, because they take a call."""

        def first(self) -> Coroutine[Any, Any, int]: ...
        def end(self) -> Coroutine[Any, Any, int]: ...

    class AsyncStreamGroup(Protocol):
        """The properties of `api.StreamGroup`, and its iteration."""

        @property
        def name(self) -> str: ...
        @property
        def id(self) -> str: ...
        @property
        def partitions(self) -> list[int]: ...
        def __aiter__(self) -> AsyncIterator[Message]: ...

    class AsyncBroadcast(Protocol):
        """The iteration of `api.Broadcast`."""

        def __aiter__(self) -> AsyncIterator[Message]: ...

    class AsyncQueueGroup(Protocol):
        """The properties and the overloaded method of `api.QueueGroup`, and its iteration."""

        @property
        def name(self) -> str: ...
        def dead(self) -> Coroutine[Any, Any, warren.aio.topic.Topic]: ...
        def __aiter__(self) -> AsyncIterator[Message]: ...
        @overload
        def take(
            self, limit: None = ..., wait: Duration = ..., *, renew: bool = ...
        ) -> Coroutine[Any, Any, Message | None]: ...
        @overload
        def take(
            self, limit: int, wait: Duration = ..., *, renew: bool = ...
        ) -> Coroutine[Any, Any, list[Message]]: ...

    class AsyncTransaction(Protocol):
        """The properties of `api.Transaction`, and its methods that take a twin, as coroutines."""

        @property
        def id(self) -> str: ...
        def state(self) -> Coroutine[Any, Any, str]: ...
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
        def put_columns(
            self, topic: str | warren.aio.topic.Topic, batch: pyarrow.RecordBatch, *, partition: int | None = ...
        ) -> Coroutine[Any, Any, None]: ...
        def ack(
            self, group: warren.aio.topic.QueueGroup, messages: Message | Sequence[Message]
        ) -> Coroutine[Any, Any, None]: ...
        def commit(
            self, group: warren.aio.topic.StreamGroup | None = ..., positions: Mapping[int, int] | None = ...
        ) -> Coroutine[Any, Any, None]: ...

    class AsyncBatching(Protocol):
        """`api.Batching.put`, as a coroutine of a future of the event loop."""

        def put(
            self,
            topic: str | warren.aio.topic.Topic,
            body: bytes,
            *,
            wait: Duration = ...,
            **options: Unpack[api.MessageOptions],
        ) -> Coroutine[Any, Any, asyncio.Future[Place]]: ...

    class AsyncStore(Protocol):
        """The properties of `api.Store`, and its methods that `Method` below cannot compare."""

        @property
        def id(self) -> str: ...
        @property
        def is_closed(self) -> bool: ...
        def last_failure(self) -> Coroutine[Any, Any, str]: ...
        def topic(
            self, name: str, partitions: int | None = ..., **settings: Any
        ) -> Coroutine[Any, Any, warren.aio.topic.Topic]: ...
        # Not a coroutine: nothing is done before the first put.
        def batching(self, **options: Unpack[api.BatchingOptions]) -> warren.aio.batching.Batching: ...

    def _asyncio_objects_keep_the_protocols(
        store: warren.aio.store.Store,
        topic: warren.aio.topic.Topic,
        log: warren.aio.log.Log,
        stream: warren.aio.topic.StreamGroup,
        queue: warren.aio.topic.QueueGroup,
        broadcast: warren.aio.topic.Broadcast,
        transaction: warren.aio.store.Transaction,
        batching: warren.aio.batching.Batching,
    ) -> list[object]:
        a: AsyncStore = store
        b: AsyncTopic = topic
        c: AsyncLog = log
        d: AsyncStreamGroup = stream
        e: AsyncQueueGroup = queue
        f: AsyncBroadcast = broadcast
        g: AsyncTransaction = transaction
        h: AsyncBatching = batching
        return [a, b, c, d, e, f, g, h]

    def _asyncio_methods_have_the_parameters_of_the_contract() -> None:
        # The protocols above check the others.
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
        Method(api.Store.close).awaited(store.close)
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
        stream = warren.aio.topic.StreamGroup
        Method(api.StreamGroup.read).awaited(stream.read)
        Method(api.StreamGroup.commit).awaited(stream.commit)
        Method(api.StreamGroup.seek).awaited(stream.seek)
        Method(api.StreamGroup.rewind).awaited(stream.rewind)
        Method(api.StreamGroup.members).awaited(stream.members)
        Method(api.StreamGroup.position).awaited(stream.position)
        Method(api.StreamGroup.positions).awaited(stream.positions)
        Method(api.StreamGroup.close).awaited(stream.close)
        Method(api.StreamGroup.lag).awaited(stream.lag)
        queue = warren.aio.topic.QueueGroup
        Method(api.QueueGroup.ack).awaited(queue.ack)
        Method(api.QueueGroup.ack_many).awaited(queue.ack_many)
        Method(api.QueueGroup.nack).awaited(queue.nack)
        Method(api.QueueGroup.reject).awaited(queue.reject)
        Method(api.QueueGroup.extend).awaited(queue.extend)
        Method(api.QueueGroup.extend_many).awaited(queue.extend_many)
        Method(api.QueueGroup.redrive).awaited(queue.redrive)
        Method(api.QueueGroup.close).awaited(queue.close)
        Method(api.QueueGroup.lag).awaited(queue.lag)
        Method(api.QueueGroup.in_flight).awaited(queue.in_flight)
        broadcast = warren.aio.topic.Broadcast
        Method(api.Broadcast.read).awaited(broadcast.read)
        transaction = warren.aio.store.Transaction
        Method(api.Transaction.prepare).awaited(transaction.prepare)
        Method(api.Transaction.abort).awaited(transaction.abort)
        batching = warren.aio.batching.Batching
        Method(api.Batching.flush).awaited(batching.flush)
        Method(api.Batching.close).awaited(batching.close)
