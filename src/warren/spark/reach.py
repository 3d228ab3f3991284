"""How the processes of Spark reach a store: by its files, or through the broker that serves it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

if TYPE_CHECKING:
    from warren.client.store import RemoteStore
    from warren.transaction.store import Store

AnyStore: TypeAlias = "Store | RemoteStore"


class Numbered(Protocol):
    """What has messages from `first` up to `end`, and finds them by time: a log, or an archive and a log as one."""

    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int: ...
    def find_time(self, when: int) -> int: ...


@runtime_checkable
class HeldLog(Numbered, Protocol):
    """The log of a partition: also where its records lie, and its messages as Arrow."""

    def offset_of(self, number: int) -> int:
        """The offset of the record that holds message `number`; where the log ends for its end."""
        ...

    def record_start(self, number: int) -> int:
        """The number, not above `number`, at which it does no harm to cut the log."""
        ...

    def scan(self, start: int, end: int, columns: Sequence[str], tag: str | None) -> Iterator[pa.RecordBatch]:
        """The messages from `start` up to `end` that pass the filter; NumberRetired where some are gone."""
        ...

    def close(self) -> None: ...


class Topics(Protocol):
    """What there is in a store, as the planning of a query sees it. Nothing is ever written; topics come and go."""

    def refresh(self) -> None:
        """From now on all is told as it is now."""
        ...

    def topics(self) -> list[str]:
        """The names of all topics, sorted."""
        ...

    def topic_id(self, topic: str) -> str:
        """What tells a topic from another that had its name before; NoSuchTopic where there is none."""
        ...

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has; NoSuchTopic where there is none."""
        ...

    def held(self, topic: str, partition: int) -> HeldLog:
        """The log of a partition, to be read. The caller closes it."""
        ...


class Positions(Protocol):
    """Where a stream group stands, moved by somebody who is no member of it."""

    def store(self, topic: str, numbers: Mapping[int, int]) -> None:
        """The group goes on there; it is made where there is none."""
        ...

    def close(self) -> None: ...


class Reach(Protocol):
    """A store, told so that it can be sent to every process of Spark. What goes wrong there names the host."""

    def topics(self) -> Topics:
        """What there is in the store."""
        ...

    def store_id(self) -> str:
        """The id of the store, asked for by the driver, and by nobody else."""
        ...

    def store(self, id: str) -> AnyStore:
        """The store with this id, to write to it; this process keeps it open. NotAStore where it is another."""
        ...

    def drop(self) -> None:
        """Close what `store` gave: something went wrong with it."""
        ...

    def positions(self, group: str) -> Positions:
        """The positions of a group."""
        ...
