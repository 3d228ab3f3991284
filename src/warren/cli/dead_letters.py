"""The dead letters of a topic that were not put back yet, seen without making or changing anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from warren.cli.lines import json_fields
from warren.cli.messages import pages
from warren.message import Message
from warren.queue.dead_letter import HEADER_PREFIX
from warren.queue.put_back import PutBack, put_back
from warren.queue.topic import Topic
from warren.storage import Log


class Letter(NamedTuple):
    """One dead letter: the message as it lies in the dead-letter topic, and where it was before."""

    topic: str
    partition: int
    number: int
    group: str
    attempts: int
    reason: str
    message: Message

    def to_json(self) -> dict[str, Any]:
        """As one JSON object: the message as it was, why it died, and where it lies now."""
        message = self.message
        own = {name: value for name, value in message.headers.items() if not name.startswith(HEADER_PREFIX)}
        fields = json_fields(message._replace(headers=own))
        lies = {"topic": message.topic, "partition": message.partition}
        lies |= {name: fields.pop(name) for name in ("number", "offset", "timestamp")}
        came_from = {"topic": self.topic, "partition": self.partition, "number": self.number}
        return {
            **came_from,
            "group": self.group,
            "attempts": self.attempts,
            "reason": self.reason,
            **fields,
            "dead": lies,
        }


def dead_topic(topic: Topic) -> Topic | None:
    """Where the dead letters of `topic` are; None where none has died yet."""
    name = topic.settings.dead_letter or f"{topic.name}.dead"
    return topic.store.existing_topic(name) if topic.store.has_topic(name) else None


def letters(topic: Topic, group: str | None) -> Iterator[Letter]:
    """The dead letters of one group of `topic`, or of all, the oldest first. Those that were put back are left out."""
    found = dead_topic(topic)
    if found is None:
        return
    known: dict[str, PutBack] = {}
    for log in found.logs:
        for letter in _letters(log):
            if letter.topic != topic.name or group not in (None, letter.group):
                continue
            if letter.group not in known:
                known[letter.group] = put_back(topic, letter.group)
            if not known[letter.group].has(letter.message.partition, letter.message.number, log):
                yield letter


def _letters(log: Log) -> Iterator[Letter]:
    for page in pages(log, log.first, log.end, None):
        for message in page:
            letter = _letter(message)
            if letter is not None:
                yield letter


def _letter(message: Message) -> Letter | None:
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
