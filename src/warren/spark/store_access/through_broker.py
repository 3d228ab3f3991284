"""A store that the processes of Spark access through its broker: each process has its own connections."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn
from uuid import UUID

import pyarrow as pa

from warren.client.log import RemoteLog
from warren.client.net.session import CLIENT_TIMEOUT_S_DEFAULT
from warren.client.store import RemoteStore, connect
from warren.client.topic import RemoteTopic
from warren.errors import BadInput, BadOption, BrokerUnreached, ConnectionLost, NoSuchPartition, NotAStore
from warren.protocol.native_messages import OpenTopicResponse
from warren.spark.columns.rebatch import SPARK_BATCH_ROWS_MIN
from warren.spark.store_access.store_cache import process_brokers
from warren.tls import tls_context


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAccess:
    """The store that the broker at `servers` serves. The password is sent only to the broker, and never shown.

    With a `rack` messages are read from a slave that stands there.
    """

    servers: str
    rack: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    is_tls: bool = False
    authority: str | None = None
    timeout_s: float = CLIENT_TIMEOUT_S_DEFAULT

    def __str__(self) -> str:
        return self.servers

    def connect(self) -> RemoteStore:
        """Returns a new client. Raises BrokerUnreached, which names the host, if the broker does not answer."""
        try:
            # Waits, because the broker may be restarting when a task begins, and Spark allows only a few failures.
            return connect(
                self.servers,
                timeout=self.timeout_s,
                wait=self.timeout_s,
                tls=self._tls(),
                user=self.user,
                password=self.password,
                rack=self.rack,
            )
        except ConnectionLost as error:
            self._complain(error)

    def _tls(self) -> ssl.SSLContext | None:
        """Returns the context of the connections; None if they do not use TLS. Raises BadOption,
        which names the host.
        """
        try:
            return tls_context(self.is_tls or None, self.authority, None, None)
        except BadInput as error:
            raise BadOption("tlsCa", f"{error}, on the host {socket.gethostname()}") from None

    def _complain(self, error: ConnectionLost) -> NoReturn:
        raise BrokerUnreached(self.servers, socket.gethostname(), error.reason) from error

    def client(self) -> RemoteStore:
        """Returns the client that this process keeps connected to the broker."""
        return process_brokers().get(self, self.connect, lambda client: True)

    def catalog(self) -> BrokerCatalog:
        return BrokerCatalog(self.client())

    def store_id(self) -> str:
        return self.client().id

    def store(self, id: str) -> RemoteStore:
        store = self.client()
        try:
            # A call that can be repeated shows whether the idle connection was closed. Not every later call can be
            # repeated.
            store.topics()
        except ConnectionLost as error:
            self._complain(error)
        if store.calls.store_id != id:
            raise NotAStore(self.servers, "the broker serves another store than when the query began")
        return store

    def drop(self) -> None:
        process_brokers().drop(self)

    def positions(self, group: str) -> BrokerPositions:
        return BrokerPositions(self, group)


class BrokerCatalog:
    """The topics of a store, as its broker describes them. Each topic is requested once, until `refresh`."""

    def __init__(self, store: RemoteStore) -> None:
        self._store = store
        self._topics: dict[str, RemoteTopic] = {}
        self._descriptions: dict[str, OpenTopicResponse] = {}

    def refresh(self) -> None:
        self._descriptions.clear()

    def topics(self) -> list[str]:
        return self._store.topics()

    def topic_id(self, topic: str) -> str:
        return str(UUID(bytes=bytes(self.described(topic).id)))

    def partition_count(self, topic: str) -> int:
        return len(self.described(topic).partitions)

    def open_log(self, topic: str, partition: int) -> BrokerLog:
        count = self.partition_count(topic)
        if partition not in range(count):
            raise NoSuchPartition(topic, partition, count)
        return BrokerLog(self, topic, partition)

    def described(self, topic: str) -> OpenTopicResponse:
        """Returns the broker's description of a topic. Raises NoSuchTopic."""
        description = self._descriptions.get(topic)
        if description is None:
            description = self._descriptions[topic] = self.topic(topic).current_state()
        return description

    def topic(self, name: str) -> RemoteTopic:
        """Returns a handle for a topic. Raises NoSuchTopic if it does not exist when it is first requested."""
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = self._store.existing_topic(name)
        return topic


class BrokerLog:
    """A log that a broker reads. Its `first` and `end` are those of the time when the catalog was refreshed."""

    def __init__(self, catalog: BrokerCatalog, topic: str, partition: int) -> None:
        self._catalog, self._topic, self._partition = catalog, topic, partition

    @property
    def first(self) -> int:
        return self._catalog.described(self._topic).partitions[self._partition].first

    @property
    def end(self) -> int:
        return self._catalog.described(self._topic).partitions[self._partition].end

    def find_time(self, when: int) -> int:
        return self._remote().find_time(when)

    def offset_of(self, number: int) -> int:
        """Returns the offset that the broker reports; for `end`, about the end of the last record."""
        end = self.end
        # A batch that cannot be read is skipped: then the offset is that of the next message.
        messages = self._remote().read(min(number, end - 1), limit=1) or self._remote().last()
        if not messages:
            return 0
        return messages[0].offset if number < end else messages[0].offset + len(messages[0].body)

    def record_start(self, number: int) -> int:
        """Returns `number`: the broker unpacks records, so a log can be cut anywhere."""
        return number

    def scan(self, start: int, end: int, columns: Sequence[str], tag: str | None) -> Iterator[pa.RecordBatch]:
        return self._remote().scan(start, end, columns=columns, tag=tag, rows_min=SPARK_BATCH_ROWS_MIN, skips=True)

    def _remote(self) -> RemoteLog:
        return self._catalog.topic(self._topic).partition(self._partition)

    def close(self) -> None:
        """There is nothing to close: the connections belong to the process."""


class BrokerPositions:
    """The positions of a group at a broker, set by a member that joins for a moment. One thread."""

    def __init__(self, access: BrokerAccess, group: str) -> None:
        self._access, self._group = access, group

    def store(self, topic: str, numbers: Mapping[int, int]) -> None:
        with self._access.client().existing_topic(topic).group(self._group, mode="stream") as member:
            member.commit(numbers)

    def close(self) -> None:
        """There is nothing to close: the connections belong to the process."""
