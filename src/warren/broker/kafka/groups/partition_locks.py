"""Owner locks that the broker holds for groups with Kafka members, so that no embedded member owns a partition too."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from warren.broker.kafka.errors import Code, code_of
from warren.errors import BadName, NoSuchTopic, SettingsDiffer, WarrenError
from warren.queue.state import paths as store_paths
from warren.queue.state.group_settings import open_settings, read_settings
from warren.queue.stream.membership import Membership
from warren.queue.topic import Topic
from warren.storage.disk.filesystem import Lock
from warren.transaction.store import Store

if TYPE_CHECKING:
    import asyncio

    from warren.broker.threads import InThread

LOGGER: Final = logging.getLogger("warren.broker")


class Held(NamedTuple):
    """A topic all of whose partitions are locked, with the lock of each."""

    topic: Topic
    locks: Mapping[str, Lock]


class Holding:
    """The owner locks of one group. Any thread may call; `topics` is set by the event loop's thread.

    Invariant: the partitions of a topic are locked together or not at all. `settle` uses the value of `topics` at the
    time it runs, so the last run is right. Embedded members that are alive keep what they own: Kafka clients get a
    retryable error and try again silently.
    """

    def __init__(self, store: Store, group: str) -> None:
        self._store, self._group = store, group
        self._mutex = threading.Lock()
        self._held: dict[str, Held] = {}
        self.topics: frozenset[str] = frozenset()

    def settle(self) -> dict[str, Code]:
        """Takes the locks that are needed and releases the others. Returns the errors by topic."""
        with self._mutex:
            topics, refused = self.topics, {}
            for name in self._held.keys() - topics:
                self._free(name)
            for name in topics:
                try:
                    self._hold(name)
                except (NoSuchTopic, BadName):
                    self._free(name)
                except SettingsDiffer:
                    refused[name] = Code.INCONSISTENT_GROUP_PROTOCOL
                except WarrenError as error:
                    refused[name] = code_of(error)
                except BlockingIOError:
                    refused[name] = Code.COORDINATOR_LOAD_IN_PROGRESS
                except OSError as error:
                    LOGGER.warning("partitions of %s cannot be locked for group %s: %s", name, self._group, error)
                    refused[name] = Code.COORDINATOR_LOAD_IN_PROGRESS
            return refused

    def _hold(self, name: str) -> None:
        topic = self._store.existing_topic(name)
        partition_count = topic.see_partitions()
        begin(topic, self._group)
        directory = store_paths.group_directory(topic.directory, self._group)
        paths = [store_paths.owner_lock(directory, partition) for partition in range(partition_count)]
        held = self._held.get(name)
        if held is not None and (held.topic is not topic or not all(map(topic.filesystem.exists, held.locks))):
            # The topic or the group was deleted, so no lock is left to release.
            self._free(name)
            held = None
        locks = {} if held is None else dict(held.locks)
        new_locks = self._taken(topic, [path for path in paths if path not in locks])
        self._held[name] = Held(topic, locks | new_locks)
        if new_locks:
            # The previous owner may have died while it applied a transaction that it had committed.
            self._store.settle()

    def _taken(self, topic: Topic, paths: list[str]) -> dict[str, Lock]:
        locks: dict[str, Lock] = {}
        try:
            for path in paths:
                lock = locks[path] = topic.filesystem.lock(path)
                lock.take()
        except BaseException:
            for lock in locks.values():
                lock.close()
            raise
        return locks

    def _free(self, name: str) -> None:
        held = self._held.pop(name, None)
        if held is not None:
            for lock in held.locks.values():
                lock.close()
            self._store.wakeup.ring()

    def close(self) -> None:
        """Releases all locks."""
        self.topics = frozenset()
        self.settle()


class Holdings:
    """The owner locks of all groups. For the event loop's thread alone; `topics_of` returns the topics of a group."""

    def __init__(
        self, store: Store, in_thread: InThread, tasks: asyncio.TaskGroup, topics_of: Callable[[str], frozenset[str]]
    ) -> None:
        self._store, self._in_thread, self._tasks, self._topics_of = store, in_thread, tasks, topics_of
        self._holdings: dict[str, Holding] = {}
        self._coming: dict[str, Counter[str]] = {}
        """The topics of members that are about to join, by group."""

    @asynccontextmanager
    async def held_for(self, group: str, topics: frozenset[str]) -> AsyncIterator[Mapping[str, Code]]:
        """Locks all partitions of these topics for a member that joins. Yields the errors by topic."""
        if not topics:
            yield {}
            return
        coming = self._coming.setdefault(group, Counter())
        coming.update(topics)
        holding = self._holdings.setdefault(group, Holding(self._store, group))
        holding.topics = self._needed_topics(group)
        try:
            refused = await self._in_thread(holding.settle)
            yield {name: error for name, error in refused.items() if name in topics}
        finally:
            coming.subtract(topics)
            self._coming[group] = +coming
            self.changed(group)

    def _needed_topics(self, group: str) -> frozenset[str]:
        return self._topics_of(group).union(self._coming.get(group, ()))

    def changed(self, group: str) -> None:
        """Releases, after some time, the locks that no member needs any more, because members joined or left."""
        holding = self._holdings.get(group)
        if holding is None:
            return
        topics = self._needed_topics(group)
        if topics != holding.topics:
            holding.topics = topics
            self._tasks.create_task(self._settle(group, holding))

    async def settled(self, group: str) -> None:
        """Releases the locks that only removed members needed."""
        holding = self._holdings.get(group)
        if holding is not None:
            await self._in_thread(holding.settle)

    async def _settle(self, group: str, holding: Holding) -> None:
        # If the broker's threads have ended, the broker releases everything itself.
        with suppress(RuntimeError):
            await self._in_thread(holding.settle)
        if not holding.topics and self._holdings.get(group) is holding:
            del self._holdings[group]
            self._coming.pop(group, None)

    def close(self) -> None:
        """Releases all locks."""
        for holding in self._holdings.values():
            holding.close()
        self._holdings.clear()


def begin(topic: Topic, group: str) -> None:
    """Makes the stream group if there is none. Raises SettingsDiffer if it is a queue group, which has leases."""
    settings = read_settings(topic.filesystem, topic.directory, group)
    if settings is None:
        settings = open_settings(topic.filesystem, topic.directory, group, {"mode": "stream"}, topic.store.lock)
    if settings.mode != "stream":
        raise SettingsDiffer(f"group {group!r}", "mode", "stream", settings.mode, "use another name")


def has_embedded_members(topic: Topic, group: str) -> bool:
    """Returns whether the group has a member that did not come through a broker."""
    return bool(Membership(topic.store, store_paths.group_directory(topic.directory, group)).living())
