"""A broker that checks rights, its users, and their rights, for tests of rights."""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tests.support.broker.calls import Caller
from tests.support.broker.http import Http, running_http
from tests.support.broker.running import PATIENCE_S
from tests.support.message_values import Fields
from warren.broker.broker import Broker
from warren.broker.net.request import Call
from warren.broker.security.needs import NeedsRow
from warren.broker.security.peer import Peer
from warren.broker.security.rights import CLUSTER_NAME, Operation, Pattern, Permission, ResourceKind, Right
from warren.broker.settings import BrokerSettings
from warren.protocol.headers import Request
from warren.protocol.native_schemas import NativeKey
from warren.protocol.wire_struct import WireStruct, fields_of

PASSWORD = "the password"
USER = "ann"
DENIED = {29, 30, 31, 53}
"""Kafka's error codes for a missing right."""
T = TypeVar("T")


class Thing(NamedTuple):
    """An operation on a resource."""

    operation: Operation
    kind: ResourceKind
    name: str

    def right(self, user: str = USER) -> Right:
        return Right(
            self.kind, self.name, Pattern.LITERAL, f"User:{user}", "*", self.operation, Permission.ALLOW
        ).checked()


ALL = [
    Thing(Operation.ALL, kind, "*" if kind is not ResourceKind.CLUSTER else CLUSTER_NAME)
    for kind in ResourceKind
    if kind is not ResourceKind.ANY
]


class Tenants:
    """One broker, root who may do everything, and ann, who has the rights that a test gives."""

    def __init__(self, http: Http) -> None:
        self.http = http
        self.broker: Broker = http.broker
        self._counter = count()
        for user in (USER, "root"):
            self.broker.users.create(user, PASSWORD)
        self.http.login = USER, PASSWORD
        self.ann = self.caller(USER)
        self.ann.call(NativeKey.OPEN_SESSION, 0, {"session": uuid.uuid4().bytes, "software": "test"})

    def caller(self, user: str) -> Caller:
        """A connection of a user."""
        made = Caller(self.http.running)
        assert made.login(user, PASSWORD) == 0
        return made

    def fresh(self, prefix: str) -> str:
        """Returns a name that was not used before."""
        return f"{prefix}{next(self._counter)}"

    def allow(self, needs: Iterable[Thing]) -> None:
        """From now on ann may do these operations, and nothing else."""
        rights = self.broker.rights
        assert rights is not None
        rights.file.remove(lambda right: True)
        rights.file.add([need.right() for need in needs])
        refreshed = rights.refresh(self.broker.in_thread)
        asyncio.run_coroutine_threadsafe(refreshed, self.http.running.loop).result(PATIENCE_S)

    def on_loop(self, work: Callable[[], T]) -> T:
        """Returns the result of `work` on the broker's own thread."""

        async def run() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self.http.running.loop).result(PATIENCE_S)

    @property
    def peer(self) -> Peer:
        """Returns the end of ann's connection, as the broker sees it."""
        (peer,) = {id(each.peer): each.peer for each in self.broker.connections if each.peer.user == USER}.values()
        return peer

    def needed(self, row: NeedsRow, key: int, version: int, request: Fields) -> list[Thing]:
        """Returns the rights that a request of ann needs, according to the table."""

        def find() -> list[Thing]:
            call = Call(self.broker, self.peer, Request(key, version, 0, "", memoryview(b"")))
            needs = []
            for need in row.needs:
                rows: Any = (getattr(request, need.source.rows) or ()) if need.source.rows else (request,)
                names = [name for each in rows for name in need.source.names(call, each)]
                needs += [Thing(need.operation, need.source.kind, name) for name in names]
            return list(dict.fromkeys(needs))

        return self.on_loop(find)


@contextmanager
def tenants(path: Path) -> Iterator[Tenants]:
    settings = BrokerSettings(sasl=True, rights=True, super_users=frozenset({"root"}))
    with running_http(path, settings=settings) as http:
        made = Tenants(http)
        with made.ann:
            yield made


def implied(right: Thing, others: Iterable[Thing]) -> bool:
    """Returns whether one of `others` gives the same right as well."""
    implying = {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    return right.operation is Operation.DESCRIBE and any(
        other.operation in implying and other[1:] == right[1:] for other in others if other != right
    )


def is_denied(answer: Any) -> bool:
    """Whether one of the error codes in an answer of Kafka's tells of a missing right."""
    if isinstance(answer, WireStruct):
        codes = {value for name, value in fields_of(answer).items() if name.endswith("error_code")}
        return bool(codes & DENIED) or any(is_denied(value) for value in fields_of(answer).values())
    return isinstance(answer, list | tuple) and any(map(is_denied, answer))


def topic_id(world: Tenants, name: str = "orders") -> bytes:
    topics = world.broker.topics
    return world.on_loop(lambda: topics.id_of(topics.find(name)))


def subscription(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)
