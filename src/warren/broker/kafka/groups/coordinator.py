"""The coordinator: finds the groups with Kafka members, and runs their timers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from warren.broker.kafka.errors import Code
from warren.broker.kafka.groups.classic import ClassicGroup
from warren.broker.kafka.groups.consumer import ConsumerGroup
from warren.broker.kafka.groups.limits import GROUPS_MAX, MemberMemory
from warren.broker.kafka.groups.partition_locks import Holdings
from warren.broker.kafka.groups.share_groups import ShareGroups
from warren.broker.services.memory_budget import MemoryBudget
from warren.transaction.store import Store

if TYPE_CHECKING:
    from warren.broker.threads import InThread

AnyGroup = ClassicGroup | ConsumerGroup
G = TypeVar("G", ClassicGroup, ConsumerGroup)


class GroupCoordinator:
    """Finds groups and runs their timers. For the event loop's thread alone.

    A group without members is dropped from memory, because its positions are in the store. The owner locks of the
    topics that members subscribe to are held for them, see Holdings.
    """

    def __init__(self, store: Store, in_thread: InThread, tasks: asyncio.TaskGroup, budget: MemoryBudget) -> None:
        self._loop = asyncio.get_running_loop()
        self._groups: dict[str, AnyGroup] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._is_stopped = False
        self.holdings = Holdings(store, in_thread, tasks, self._topics_of)
        self.memory = MemberMemory(budget)
        self.shares = ShareGroups(store, in_thread, tasks, self.memory)

    def _topics_of(self, name: str) -> frozenset[str]:
        group = self._groups.get(name)
        return frozenset() if group is None else group.topics

    def find(self, name: str) -> AnyGroup | None:
        """Returns the group if it has members or a client is about to join; None otherwise."""
        return self._groups.get(name)

    def find_classic(self, name: str) -> ClassicGroup | None:
        """Returns the group if it is a classic one, whose members assign partitions themselves."""
        group = self._groups.get(name)
        return group if isinstance(group, ClassicGroup) else None

    def find_consumer(self, name: str) -> ConsumerGroup | None:
        """Returns the group if it is one for which the broker assigns partitions."""
        group = self._groups.get(name)
        return group if isinstance(group, ConsumerGroup) else None

    def groups(self) -> list[AnyGroup]:
        """Returns all groups with members."""
        return list(self._groups.values())

    def open_classic(self, name: str) -> ClassicGroup | Code:
        """Returns the group, created if it does not exist; an error if it is of the other kind or
        there are too many.
        """
        group = self._groups.get(name)
        if self._is_stopped:
            return Code.COORDINATOR_NOT_AVAILABLE
        if isinstance(group, ConsumerGroup) and group.members:
            return Code.INCONSISTENT_GROUP_PROTOCOL
        return group if isinstance(group, ClassicGroup) else self._opened(ClassicGroup(name, self._loop.time))

    def open_consumer(self, name: str) -> ConsumerGroup | Code:
        """Returns the group, created if it does not exist; an error if it is of the other kind or
        there are too many.
        """
        group = self._groups.get(name)
        if self._is_stopped:
            return Code.COORDINATOR_NOT_AVAILABLE
        if isinstance(group, ClassicGroup) and group.members:
            return Code.GROUP_ID_NOT_FOUND
        return group if isinstance(group, ConsumerGroup) else self._opened(ConsumerGroup(name, self._loop.time))

    def _opened(self, group: G) -> G | Code:
        if len(self._groups) >= GROUPS_MAX:
            return Code.COORDINATOR_NOT_AVAILABLE
        old = self._groups.get(group.name)
        if old is not None:
            self.memory.forget(old)
        self._groups[group.name] = group
        return group

    def changed(self, group: AnyGroup) -> None:
        """Updates the timer, the memory and the owner locks of a group that changed."""
        if self._groups.get(group.name) is not group:
            return
        timer = self._timers.pop(group.name, None)
        if timer is not None:
            timer.cancel()
        if self._is_stopped:
            group.stop()
        wake_s = group.wake_s()
        self.memory.changed(group)
        if wake_s is None:
            del self._groups[group.name]
            self.memory.forget(group)
        elif not self._is_stopped:
            self._timers[group.name] = self._loop.call_at(wake_s, self._tick, group)
        self.holdings.changed(group.name)

    def _tick(self, group: AnyGroup) -> None:
        group.tick()
        self.changed(group)

    def stop(self) -> None:
        """Stops the timers of the groups, and ends all waits."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for group in self._groups.values():
            group.stop()
        self.shares.stop()

    def close(self) -> None:
        """Releases all owner locks."""
        self.holdings.close()
        self.shares.close()
