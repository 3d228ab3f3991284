"""Lists the dead letters of a topic, and which of them were put back, without changing anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from warren.message import Message
from warren.queue.leases.dead_letters import HEADER_PREFIX, dead_letter_topic, picked_numbers
from warren.queue.leases.lease_state import Backoff, Leases
from warren.queue.state import paths
from warren.queue.state.ledger import Ledger
from warren.queue.state.topic_view import TopicView
from warren.storage import Log

PAGE: Final = 1_000
PAGE_SIZE_MAX: Final = 1 << 20
"""Letters are read in pages of at most this many messages, and of this many bytes, but always one message."""


class Letter(NamedTuple):
    """One dead letter: the message as it is in the dead-letter topic, and where it came from."""

    topic: str
    partition: int
    number: int
    group: str
    attempts: int
    reason: str
    message: Message


def letters(topic: TopicView, group: str | None, starts: Mapping[int, int] | None = None) -> Iterator[Letter]:
    """Yields the dead letters of a group of `topic`, or of all groups, that were not put back, the oldest first.

    `starts` holds the numbers to start from, by partition of the dead-letter topic.
    """
    name = dead_letter_topic(str(topic.name), topic.settings.dead_letter)
    if not topic.store.has_topic(name):
        return
    put_back_by_group: dict[str, PutBack] = {}
    for partition, log in enumerate(topic.store.existing_topic(name).logs):
        for letter in _letters(log, (starts or {}).get(partition, 0)):
            if letter.topic != topic.name or group not in (None, letter.group):
                continue
            if letter.group not in put_back_by_group:
                put_back_by_group[letter.group] = put_back(topic, letter.group)
            if not put_back_by_group[letter.group].has(partition, letter.message.number, log):
                yield letter


def _letters(log: Log, start: int) -> Iterator[Letter]:
    number, end = max(start, log.first), log.end
    while number < end:
        messages = log.read(number, limit=PAGE, bytes_max=PAGE_SIZE_MAX)
        if not messages:
            return
        number = messages[-1].number + 1
        for message in messages:
            letter = letter_of(message) if message.number < end else None
            if letter is not None:
                yield letter


def letter_of(message: Message) -> Letter | None:
    """Returns the letter that the headers describe, or None if the message is not a dead letter."""
    texts = {name: value.decode(errors="replace") for name, value in message.headers.items()}
    try:
        return Letter(
            topic=texts[HEADER_PREFIX + "topic"],
            partition=int(texts[HEADER_PREFIX + "partition"]),
            number=int(texts[HEADER_PREFIX + "number"]),
            group=texts[HEADER_PREFIX + "group"],
            attempts=int(texts[HEADER_PREFIX + "attempts"]),
            reason=texts[HEADER_PREFIX + "reason"],
            message=message,
        )
    except (KeyError, ValueError):
        return None


class PutBackPart(NamedTuple):
    """The letters of one partition of the dead-letter topic that were put back: all before `start`, and `numbers` after
    it.
    """

    partition: int
    start: int
    numbers: list[int]


class PutBack:
    """The dead letters of a group that were put back, according to its ledger."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases

    def start(self, partition: int, log: Log) -> int:
        """Returns the number before which all letters of a partition of the dead-letter topic were put back."""
        end = self._leases.redriven_ends.get(partition, 0)
        # The position is beyond the end of the log if the topic was deleted and this is a new one with the same name.
        return 0 if end > log.end else end

    def numbers(self, partition: int, log: Log) -> list[int]:
        """Returns the letters after `start` that were put back one by one."""
        return sorted(picked_numbers(self._leases, partition, log))

    def has(self, partition: int, number: int, log: Log) -> bool:
        """Returns whether the letter was put back."""
        return number < self.start(partition, log) or number in picked_numbers(self._leases, partition, log)


def put_back(topic: TopicView, group: str) -> PutBack:
    """Returns which letters of a group of `topic` were put back."""
    return PutBack(seen_leases(topic, group))


def seen_leases(topic: TopicView, group: str) -> Leases:
    """Returns the current state of a queue group's ledger, without creating or changing anything."""
    leases = Leases(Backoff(0, 0))
    directory = paths.leases_directory(paths.group_directory(topic.directory, group))
    if topic.filesystem.exists(directory):
        ledger = Ledger(directory, leases, topic.filesystem, topic.clock)
        try:
            ledger.look()
        finally:
            ledger.close()
    return leases


def put_back_parts(topic: TopicView, group: str) -> list[PutBackPart]:
    """Returns the letters that were put back, by partition of the dead-letter topic.

    Empty if that topic does not exist.
    """
    name = dead_letter_topic(str(topic.name), topic.settings.dead_letter)
    if not topic.store.has_topic(name):
        return []
    letters = put_back(topic, group)
    return [
        PutBackPart(number, letters.start(number, log), letters.numbers(number, log))
        for number, log in enumerate(topic.store.existing_topic(name).logs)
    ]
