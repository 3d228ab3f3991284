"""All groups with Kafka members, and the clock that they run by."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from warren.broker.budget import Budget
from warren.broker.groups.classic import ClassicGroup
from warren.broker.groups.consumer import ConsumerGroup
from warren.broker.groups.holding import Holdings
from warren.broker.groups.member_memory import MemberMemory
from warren.broker.groups.share_groups import ShareGroups
from warren.broker.kafka_errors import Code
from warren.config import GROUPS_MAX
from warren.transaction.store import Store

if TYPE_CHECKING:
    from warren.broker.producers import InThread

Group = ClassicGroup | ConsumerGroup
G = TypeVar("G", ClassicGroup, ConsumerGroup)


class Coordinator:
    """Finds groups, and lets time pass for them. For the event loop's thread alone.

    A group without members is forgotten: where it stands is in the store, and not here. What members of a group
    subscribe to is held for them, see Holdings.
    """

    def __init__(self, store: Store, in_thread: InThread, tasks: asyncio.TaskGroup, budget: Budget) -> None:
        self._loop = asyncio.get_running_loop()
        self._groups: dict[str, Group] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._is_stopped = False
        self.holdings = Holdings(store, in_thread, tasks, self._topics_of)
        self.memory = MemberMemory(budget)
        self.shares = ShareGroups(store, in_thread, tasks, self.memory)

    def _topics_of(self, name: str) -> frozenset[str]:
        group = self._groups.get(name)
        return frozenset() if group is None else group.topics

    def find(self, name: str) -> Group | None:
        """The group, where somebody is in it or about to be."""
        return self._groups.get(name)

    def find_classic(self, name: str) -> ClassicGroup | None:
        """The same, where its members share out by themselves."""
        group = self._groups.get(name)
        return group if isinstance(group, ClassicGroup) else None

    def find_consumer(self, name: str) -> ConsumerGroup | None:
        """The same, where the broker shares out."""
        group = self._groups.get(name)
        return group if isinstance(group, ConsumerGroup) else None

    def groups(self) -> list[Group]:
        """All in which somebody is."""
        return list(self._groups.values())

    def open_classic(self, name: str) -> ClassicGroup | Code:
        """The group, made where there is none; an error where it is of the other kind, or there are too many."""
        group = self._groups.get(name)
        if self._is_stopped:
            return Code.COORDINATOR_NOT_AVAILABLE
        if isinstance(group, ConsumerGroup) and group.members:
            return Code.INCONSISTENT_GROUP_PROTOCOL
        return group if isinstance(group, ClassicGroup) else self._opened(ClassicGroup(name, self._loop.time))

    def open_consumer(self, name: str) -> ConsumerGroup | Code:
        """The group, made where there is none; an error where it is of the other kind, or there are too many."""
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

    def changed(self, group: Group) -> None:
        """Something happened to the group: its next time may be another one, and so may what it wants."""
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

    def _tick(self, group: Group) -> None:
        group.tick()
        self.changed(group)

    def stop(self) -> None:
        """Time stands still, and nobody waits any more."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for group in self._groups.values():
            group.stop()
        self.shares.stop()

    def close(self) -> None:
        """Hold nothing any more."""
        self.holdings.close()
        self.shares.close()
