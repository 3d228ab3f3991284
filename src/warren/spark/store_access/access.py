"""Access to a store from the processes of Spark: by its files, or through the broker that serves it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from warren import api

if TYPE_CHECKING:
    import pyarrow as pa


class TopicPartition(NamedTuple):
    """A partition of a topic, by name and number."""

    topic: str
    partition: int


class PartitionMessages(Protocol):
    """The messages of a partition from `first` up to `end`: those of its log, or of an archive and the log together."""

    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int: ...
    def find_time(self, when: int) -> int:
        """Returns the number of the first message at or after `when`, in µs; `end` if there is none."""
        ...


@runtime_checkable
class ReadableLog(PartitionMessages, Protocol):
    """The log of a partition: it also knows where its records lie, and returns its messages as Arrow."""

    def offset_of(self, number: int) -> int:
        """Returns the byte offset of the record that holds message `number`; for `end`, the end of the log."""
        ...

    def record_start(self, number: int) -> int:
        """Returns the nearest number, not above `number`, at which two tasks can share the log
        without reading twice.
        """
        ...

    def scan(self, start: int, end: int, columns: Sequence[str], tag: str | None) -> Iterator[pa.RecordBatch]:
        """Yields the messages from `start` up to `end` that pass the filter.

        Raises NumberRetired if some no longer exist.
        """
        ...

    def close(self) -> None: ...


class TopicCatalog(Protocol):
    """The topics of a store, as the planner of a query sees them. It never writes.

    It reads each topic once, and caches that until `refresh` is called.
    """

    def refresh(self) -> None:
        """Discards the cache, because topics may be created and deleted at any time."""
        ...

    def topics(self) -> list[str]:
        """Returns the names of all topics, sorted."""
        ...

    def topic_id(self, topic: str) -> str:
        """Returns the id that distinguishes a topic from a deleted one of the same name. Raises NoSuchTopic."""
        ...

    def partition_count(self, topic: str) -> int:
        """Returns how many partitions a topic has. Raises NoSuchTopic."""
        ...

    def open_log(self, topic: str, partition: int) -> ReadableLog:
        """Opens the log of a partition for reading. The caller closes it. Raises NoSuchTopic or NoSuchPartition."""
        ...


class GroupPositions(Protocol):
    """The positions of a stream group, set by a process that is not a member of it."""

    def store(self, topic: str, numbers: Mapping[int, int]) -> None:
        """Sets the next number of each partition. Creates the group if it does not exist."""
        ...

    def close(self) -> None: ...


class StoreAccess(Protocol):
    """A description of a store that can be sent to every process of Spark, which opens it there.

    Errors name the host on which they happened, because on a cluster each host may see other files.
    """

    def catalog(self) -> TopicCatalog:
        """Returns the topics of the store. Raises NotAStore if there is no store."""
        ...

    def store_id(self) -> str:
        """Returns the id of the store. Only the driver calls this."""
        ...

    def store(self, id: str) -> api.Store:
        """Returns the store, open for writing; this process keeps it open. Raises NotAStore if it has another id."""
        ...

    def drop(self) -> None:
        """Closes the store that `store` returned. The caller does so after a failure."""
        ...

    def positions(self, group: str) -> GroupPositions:
        """Returns the positions of a stream group."""
        ...
