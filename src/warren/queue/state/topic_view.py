"""Protocols of what groups, delays and queues use of a topic and its store, so that they import neither."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Protocol

from warren import api
from warren.clock import Clock
from warren.message import Origin
from warren.queue.state.housekeeping import Keeper
from warren.queue.state.session import Onlooker, Session
from warren.queue.state.settings import TopicSettings
from warren.queue.state.shared_lock import SharedLock
from warren.queue.state.wakeup import Wakeup
from warren.storage import Log
from warren.storage.disk.filesystem import FileSystem


class StoreView(Protocol):
    """The store of a topic. `Store` is the only implementation.

    `lock` is held while topics and groups are made or deleted, `session` says which processes are alive, and `wakeup`
    wakes the threads of all processes that wait for a change in the store.
    """

    @property
    def filesystem(self) -> FileSystem: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def lock(self) -> SharedLock: ...
    @property
    def session(self) -> Session | Onlooker: ...
    @property
    def wakeup(self) -> Wakeup: ...
    @property
    def keeper(self) -> Keeper: ...
    @property
    def path(self) -> str: ...
    @property
    def is_read_only(self) -> bool: ...

    def settle(self) -> None:
        """Finishes the committed transactions of dead sessions. The caller holds no lock."""
        ...

    def undecided(self, topic: str, group: str) -> Set[int]:
        """Returns the partitions of a topic in which the position of a group depends on an undecided transaction."""
        ...

    def check_open(self) -> None:
        """Raises StoreClosed if the store is closed."""
        ...

    def check_writable(self) -> None:
        """Raises StoreClosed if the store is closed, and ReadOnlyStore if it was opened for reading only."""
        ...

    def has_topic(self, name: str) -> bool:
        """Returns whether the topic exists."""
        ...

    def existing_topic(self, name: str) -> TopicView:
        """Returns the topic. Raises NoSuchTopic if it does not exist."""
        ...

    def opened_topic(self, name: str) -> TopicView | None:
        """Returns the topic if this process has it open, whatever other processes did to it; otherwise None."""
        ...

    def topic(self, name: str, partitions: int | None = None, **settings: Any) -> TopicView:
        """Returns the topic, which is made if it does not exist. Raises SettingsDiffer if it has other settings."""
        ...


class TopicView(api.Topic, Protocol):
    """A topic of an open store: the contract, and what groups and delays use besides. `Topic` implements it.

    Any thread may use it.
    """

    @property
    def name(self) -> Origin: ...
    @property
    def store(self) -> StoreView: ...
    @property
    def directory(self) -> str: ...
    @property
    def filesystem(self) -> FileSystem: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def settings(self) -> TopicSettings: ...
    @property
    def partition_count(self) -> int: ...

    @property
    def logs(self) -> Sequence[Log]:
        """The log of each partition. Raises StoreClosed if the store is closed."""
        ...

    def partition(self, number: int) -> Log:
        """Returns the log of one partition. Raises NoSuchPartition if it does not exist."""
        ...

    def see_partitions(self) -> int:
        """Returns the number of partitions, including those that another process has added."""
        ...

    def refresh(self) -> None:
        """Applies the settings that other processes changed."""
        ...

    def route(self, key: bytes | None) -> int:
        """Returns the partition of a message with this key. Without a key, partitions take turns."""
        ...

    def check_takes_puts(self) -> None:
        """Raises IsAQueue if only a durable queue may put here, and ReadOnlyStore if the store is read-only."""
        ...
