"""All classic groups of the broker, and the clock that they run by."""

from __future__ import annotations

import asyncio

from warren.broker.groups.classic import ClassicGroup, State
from warren.broker.kafka_errors import Code
from warren.config import GROUPS_MAX


class Coordinator:
    """Finds groups, and lets time pass for them. For the event loop's thread alone.

    A group without members is forgotten: where it stands is in the store, and not here.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._groups: dict[str, ClassicGroup] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def find(self, name: str) -> ClassicGroup | None:
        """The group, where it has members."""
        return self._groups.get(name)

    def groups(self) -> list[ClassicGroup]:
        """All that have members."""
        return list(self._groups.values())

    def open(self, name: str) -> ClassicGroup | Code:
        """The group, made where it has none; an error where there are too many."""
        group = self._groups.get(name)
        if group is None:
            if len(self._groups) >= GROUPS_MAX:
                return Code.COORDINATOR_NOT_AVAILABLE
            group = self._groups[name] = ClassicGroup(name, self._loop.time)
        return group

    def changed(self, group: ClassicGroup) -> None:
        """Something happened to the group: its next time may be another one."""
        timer = self._timers.pop(group.name, None)
        if timer is not None:
            timer.cancel()
        wake_s = group.wake_s()
        if wake_s is not None:
            self._timers[group.name] = self._loop.call_at(wake_s, self._tick, group)
        elif group.state in (State.EMPTY, State.DEAD) and self._groups.get(group.name) is group:
            del self._groups[group.name]

    def _tick(self, group: ClassicGroup) -> None:
        group.tick()
        self.changed(group)

    def stop(self) -> None:
        """Time stands still: nobody is removed any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
