"""A store that the processes of Spark reach through its broker: each has connections of its own."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn
from uuid import UUID

import pyarrow as pa

from warren.client.log import RemoteLog
from warren.client.store import RemoteStore, connect
from warren.client.topic import RemoteTopic
from warren.config import CLIENT_TIMEOUT_S_DEFAULT, SPARK_BATCH_ROWS_MIN
from warren.errors import BadOption, BrokerUnreached, ConnectionLost, NoSuchPartition, NotAStore
from warren.protocol.kafka_codec import Fields
from warren.spark.kept_brokers import process_brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReach:
    """The store that the broker at `servers` serves. The password is told to the broker, and to nobody else."""

    servers: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    is_tls: bool = False
    authority: str | None = None
    timeout_s: float = CLIENT_TIMEOUT_S_DEFAULT

    def __str__(self) -> str:
        return self.servers

    def connect(self) -> RemoteStore:
        """A client of its own. BrokerUnreached, naming the host, where the broker does not answer."""
        try:
            # With patience: a task may begin while the broker is restarted, and Spark gives it up after a few failures.
            return connect(
                self.servers,
                timeout=self.timeout_s,
                wait=self.timeout_s,
                tls=self._context(),
                user=self.user,
                password=self.password,
            )
        except ConnectionLost as error:
            self._complain(error)

    def _context(self) -> ssl.SSLContext | bool | None:
        if self.authority is None:
            return self.is_tls or None
        try:
            return ssl.create_default_context(cafile=self.authority)
        except (OSError, ssl.SSLError) as error:
            host = socket.gethostname()
            raise BadOption("tlsCa", f"{self.authority}, on the host {host}: {error.strerror or error}") from None

    def _complain(self, error: ConnectionLost) -> NoReturn:
        raise BrokerUnreached(self.servers, socket.gethostname(), error.reason) from error

    def topics(self) -> BrokerTopics:
        return BrokerTopics(process_brokers().get(self))

    def store_id(self) -> str:
        return process_brokers().get(self).id

    def store(self, id: str) -> RemoteStore:
        store = process_brokers().get(self)
        try:
            # A connection that ended while nobody used it is found out now: not all that follows can be sent twice.
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


class BrokerTopics:
    """What a broker says of its store: asked once for each topic, until the next `refresh`."""

    def __init__(self, store: RemoteStore) -> None:
        self._store = store
        self._topics: dict[str, RemoteTopic] = {}
        self._seen: dict[str, Fields] = {}

    def refresh(self) -> None:
        self._seen.clear()

    def topics(self) -> list[str]:
        return self._store.topics()

    def topic_id(self, topic: str) -> str:
        return str(UUID(bytes=bytes(self.seen(topic).id)))

    def partition_count(self, topic: str) -> int:
        return len(self.seen(topic).partitions)

    def held(self, topic: str, partition: int) -> BrokerLog:
        count = self.partition_count(topic)
        if partition not in range(count):
            raise NoSuchPartition(topic, partition, count)
        return BrokerLog(self, topic, partition)

    def seen(self, topic: str) -> Fields:
        """What the broker said of a topic; NoSuchTopic where there was none."""
        seen = self._seen.get(topic)
        if seen is None:
            seen = self._seen[topic] = self.topic(topic).shown()
        return seen

    def topic(self, name: str) -> RemoteTopic:
        """A topic that was there once, to ask the broker about."""
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = self._store.existing_topic(name)
        return topic


class BrokerLog:
    """A log that a broker reads. It begins and ends where it did when its topic was seen."""

    def __init__(self, topics: BrokerTopics, topic: str, partition: int) -> None:
        self._topics, self._topic, self._partition = topics, topic, partition

    @property
    def first(self) -> int:
        return int(self._topics.seen(self._topic).partitions[self._partition].first)

    @property
    def end(self) -> int:
        return int(self._topics.seen(self._topic).partitions[self._partition].end)

    def find_time(self, when: int) -> int:
        return self._remote().find_time(when)

    def offset_of(self, number: int) -> int:
        """As the broker tells it; behind the last record, about."""
        end = self.end
        # Behind a batch that cannot be read it is the next one that counts.
        found = self._remote().read(min(number, end - 1), limit=1) or self._remote().last()
        if not found:
            return 0
        return found[0].offset if number < end else found[0].offset + len(found[0].body)

    def record_start(self, number: int) -> int:
        """Any: the broker cuts records where it has to."""
        return number

    def scan(self, start: int, end: int, columns: Sequence[str], tag: str | None) -> Iterator[pa.RecordBatch]:
        return self._remote().scan(start, end, columns=columns, tag=tag, rows_min=SPARK_BATCH_ROWS_MIN, skips=True)

    def _remote(self) -> RemoteLog:
        return self._topics.topic(self._topic).partition(self._partition)

    def close(self) -> None:
        """The connections are those of the process."""


class BrokerPositions:
    """The positions of a group at a broker, which somebody who joins for a moment may move. One thread."""

    def __init__(self, reach: BrokerReach, group: str) -> None:
        self._reach, self._group = reach, group

    def store(self, topic: str, numbers: Mapping[int, int]) -> None:
        with process_brokers().get(self._reach).existing_topic(topic).group(self._group, mode="stream") as member:
            member.commit(numbers)

    def close(self) -> None:
        """The connections are those of the process."""
