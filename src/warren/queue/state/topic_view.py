"""Protocols of the parts of a topic and its store that groups, delays and queues use, so that they import neither."""

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

    `lock` is held while topics and groups are created or deleted. `session` shows which processes are alive. `wakeup`
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

    @property
    def is_replicated(self) -> bool:
        """Whether this process is the master of a store that has slaves."""
        ...

    @property
    def life(self) -> str:
        """What is new if unsynced data may have been lost: another start of the machine, or another master."""
        ...

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
        """Returns the topic if this process has it open, even if another process deleted it; otherwise None."""
        ...

    def topic(self, name: str, partitions: int | None = None, **settings: Any) -> TopicView:
        """Returns the topic, and creates it if it does not exist. Raises SettingsDiffer if it has other settings."""
        ...


class TopicView(api.Topic, Protocol):
    """A topic of an open store: the contract, and the further methods that groups and delays use. `Topic` implements
    it.

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
    def waits_for_replicas(self) -> bool:
        """Whether clients may outlive this process as master, so that every answer is first on the whole set."""
        ...

    @property
    def syncs_answers(self) -> bool:
        """Whether a call returns only after the sync of what it changed: the rule that answered means synced."""
        ...

    @property
    def loses_nothing(self) -> bool:
        """Whether a put that returned survives every crash and fail-over, without another sync."""
        ...

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
