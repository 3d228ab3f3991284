"""Which dead letters of a group were put back, seen without making or changing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from warren.queue import store_paths
from warren.queue.dead_letter import dead_letter_topic, picked_numbers
from warren.queue.leases import Backoff, Leases
from warren.queue.ledger import Ledger
from warren.storage import Log

if TYPE_CHECKING:
    from warren.queue.topic import Topic


class PutBackPart(NamedTuple):
    """What was put back of one partition of the dead-letter topic: all before `start`, and these behind it."""

    partition: int
    start: int
    numbers: list[int]


class PutBack:
    """What the ledger of a group says of its letters."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases

    def start(self, partition: int, log: Log) -> int:
        """The number before which all letters were put back, in a partition of the dead-letter topic."""
        end = self._leases.redriven_ends.get(partition, 0)
        # Further than the log reaches: the topic was deleted, and this is another of the same name.
        return 0 if end > log.end else end

    def numbers(self, partition: int, log: Log) -> list[int]:
        """The letters behind that one which were put back, too."""
        return sorted(picked_numbers(self._leases, partition, log))

    def has(self, partition: int, number: int, log: Log) -> bool:
        """Whether the letter was put back."""
        return number < self.start(partition, log) or number in picked_numbers(self._leases, partition, log)


def put_back(topic: Topic, group: str) -> PutBack:
    """What was put back of the letters of a group of `topic`."""
    return PutBack(seen_leases(topic, group))


def seen_leases(topic: Topic, group: str) -> Leases:
    """What the ledger of a queue group says now. Nothing is made or changed for this."""
    leases = Leases(Backoff(0, 0))
    directory = store_paths.leases_directory(store_paths.group_directory(topic.directory, group))
    if topic.filesystem.exists(directory):
        ledger = Ledger(directory, leases, topic.filesystem, topic.clock)
        try:
            ledger.look()
        finally:
            ledger.close()
    return leases


def put_back_parts(topic: Topic, group: str) -> list[PutBackPart]:
    """The same by partition of the dead-letter topic; none where there is no such topic."""
    name = dead_letter_topic(str(topic.name), topic.settings.dead_letter)
    if not topic.store.has_topic(name):
        return []
    known = put_back(topic, group)
    return [
        PutBackPart(number, known.start(number, log), known.numbers(number, log))
        for number, log in enumerate(topic.store.existing_topic(name).logs)
    ]
