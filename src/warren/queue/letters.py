"""The dead letters of a topic that were not put back yet, seen without making or changing anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from warren.message import Message
from warren.queue.dead_letter import HEADER_PREFIX, dead_letter_topic
from warren.queue.put_back import PutBack, put_back
from warren.storage import Log

if TYPE_CHECKING:
    from warren.queue.topic import Topic

PAGE: Final = 1_000


class Letter(NamedTuple):
    """One dead letter: the message as it lies in the dead-letter topic, and where it was before."""

    topic: str
    partition: int
    number: int
    group: str
    attempts: int
    reason: str
    message: Message


def letters(topic: Topic, group: str | None, starts: Mapping[int, int] | None = None) -> Iterator[Letter]:
    """The dead letters of one group of `topic`, or of all, the oldest first. Those that were put back are left out.

    `starts` are the numbers from which the partitions of the dead-letter topic are looked through.
    """
    name = dead_letter_topic(str(topic.name), topic.settings.dead_letter)
    if not topic.store.has_topic(name):
        return
    known: dict[str, PutBack] = {}
    for partition, log in enumerate(topic.store.existing_topic(name).logs):
        for letter in _letters(log, (starts or {}).get(partition, 0)):
            if letter.topic != topic.name or group not in (None, letter.group):
                continue
            if letter.group not in known:
                known[letter.group] = put_back(topic, letter.group)
            if not known[letter.group].has(partition, letter.message.number, log):
                yield letter


def _letters(log: Log, start: int) -> Iterator[Letter]:
    number, end = max(start, log.first), log.end
    while number < end:
        messages = log.read(number, limit=PAGE)
        if not messages:
            return
        number = messages[-1].number + 1
        for message in messages:
            letter = letter_of(message) if message.number < end else None
            if letter is not None:
                yield letter


def letter_of(message: Message) -> Letter | None:
    """What the headers say; None where somebody else put the message there."""
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
