"""KnownEnds: how far the partitions reach at least, as a client knows from its puts, its reads and the master."""

from __future__ import annotations

import threading
from collections.abc import Mapping


class KnownEnds:
    """By topic and partition, a number up to which all messages are committed. Any thread may use it.

    It never goes back, so a client that reads from replicas that are behind each other sees no log become shorter.
    """

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], int] = {}
        self.after_fork()

    def after_fork(self) -> None:
        """Makes it usable in the child of a fork, in which no thread holds its lock."""
        self._mutex = threading.Lock()

    def note(self, topic: str, ends: Mapping[int, int]) -> None:
        """Notes that the partitions reach at least up to these numbers."""
        with self._mutex:
            for partition, end in ends.items():
                if end > self._ends.get((topic, partition), 0):
                    self._ends[topic, partition] = end

    def are_past(self, topic: str, positions: Mapping[int, int]) -> bool:
        """Returns whether a message is known at one of the positions, which are numbers by partition."""
        return any(number < self._ends.get((topic, partition), 0) for partition, number in positions.items())

    def forget(self, topic: str) -> None:
        """Forgets a topic, because it was deleted."""
        with self._mutex:
            self._ends = {place: end for place, end in self._ends.items() if place[0] != topic}
