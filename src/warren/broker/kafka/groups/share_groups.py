"""All share groups, their timers, and the queue groups that their members take from."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from warren.broker.kafka.errors import Code
from warren.broker.kafka.groups.limits import GROUPS_MAX, MemberMemory
from warren.broker.kafka.groups.share import ShareGroup
from warren.broker.kafka.groups.share_sessions import release
from warren.errors import SettingsDiffer, WarrenError
from warren.message import Message
from warren.queue.leases.queue_group import QueueGroup
from warren.queue.topic import Topic
from warren.transaction.store import Store

if TYPE_CHECKING:
    from warren.broker.threads import InThread


class ShareGroups:
    """Finds share groups and runs their timers. For the event loop's thread alone.

    A group without members is dropped from memory, because its acknowledgements are in the ledgers of its queue groups.
    """

    def __init__(self, store: Store, in_thread: InThread, tasks: asyncio.TaskGroup, memory: MemberMemory) -> None:
        self._memory = memory
        self._store, self._in_thread, self._tasks = store, in_thread, tasks
        self._loop = asyncio.get_running_loop()
        self._groups: dict[str, ShareGroup] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._is_stopped = False

    def find(self, name: str) -> ShareGroup | None:
        """Returns the group if it has members; None otherwise."""
        return self._groups.get(name)

    def groups(self) -> list[ShareGroup]:
        """Returns all groups with members."""
        return list(self._groups.values())

    def open(self, name: str) -> ShareGroup | Code:
        """Returns the group, created if it does not exist. Returns an error if there are too many."""
        group = self._groups.get(name)
        if group is None:
            if self._is_stopped or len(self._groups) >= GROUPS_MAX:
                return Code.COORDINATOR_NOT_AVAILABLE
            group = self._groups[name] = ShareGroup(name, self._loop.time)
        return group

    async def open_queues(self, group: ShareGroup, names: set[str]) -> None:
        """Opens the queue groups of these topics. Raises SettingsDiffer if one of them is a stream group."""
        missing = sorted(names - group.queues.keys())
        if missing:
            opened: Mapping[str, QueueGroup] = await self._in_thread(self._opened, group.name, missing)
            for name, queue in opened.items():
                # Two requests may have opened it at the same time. Closing one of the objects does not disturb the
                # other.
                group.queues.setdefault(name, queue)

    def _opened(self, group: str, names: list[str]) -> dict[str, QueueGroup]:
        return {name: _queue_group(self._store.existing_topic(name), group) for name in names}

    async def drop_queue(self, group: ShareGroup, name: str) -> None:
        """Closes the queue group of a deleted topic. The next member opens the topic that then has this name."""
        queue = group.queues.pop(name, None)
        if queue is not None:
            await self._in_thread(_close, [queue])

    def changed(self, group: ShareGroup) -> None:
        """Updates the timer and the memory of a group that changed."""
        timer = self._timers.pop(group.name, None)
        if timer is not None:
            timer.cancel()
        wake_s = group.wake_s()
        self._memory.changed(group)
        if wake_s is not None and not self._is_stopped:
            self._timers[group.name] = self._loop.call_at(wake_s, self._tick, group)
        elif wake_s is None and self._groups.get(group.name) is group:
            del self._groups[group.name]
            self._memory.forget(group)
            queues, group.queues = list(group.queues.values()), {}
            self._tasks.create_task(self._closed(queues))

    def _tick(self, group: ShareGroup) -> None:
        messages = [message for session in group.tick() for message in session.messages]
        if messages:
            self._tasks.create_task(self._released(group, messages))
        else:
            self.changed(group)

    async def _released(self, group: ShareGroup, messages: list[Message]) -> None:
        # Released first, because the queue groups are closed if no member is left.
        with suppress(RuntimeError):
            await self._in_thread(release, dict(group.queues), messages)
        self.changed(group)

    async def _closed(self, queues: list[QueueGroup]) -> None:
        try:
            await self._in_thread(_close, queues)
        except RuntimeError:
            # The broker's threads have ended.
            _close(queues)

    def stop(self) -> None:
        """Stops the timers."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def close(self) -> None:
        """Gives back the messages that members have taken, and closes all queue groups."""
        for group in self._groups.values():
            release(group.queues, [message for each in group.sessions.values() for message in each.messages])
            _close(list(group.queues.values()))
        self._groups.clear()


def _queue_group(topic: Topic, name: str) -> QueueGroup:
    """Opens a queue group. A new one redelivers a message immediately, as a share group of Kafka does.

    A group that was created in another way keeps its backoff.
    """
    if name not in topic.groups():
        # Another process may create it at this moment, with other settings.
        with suppress(SettingsDiffer):
            return topic.group(name, mode="queue", backoff=0.0)
    return topic.group(name, mode="queue")


def _close(queues: list[QueueGroup]) -> None:
    for queue in queues:
        with suppress(WarrenError, OSError):
            queue.close()
