"""Numbering: how a put of a producer tells its number, in the marker of its records or in the ids of its messages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Final, NamedTuple, Self

from warren.storage import Log

SEQUENCE_MAX: Final = (1 << 40) - 1
ROWS_MAX: Final = (1 << 20) - 1
"""How many messages one put to a topic of version 1 may have: more do not fit their ids."""
MARKER: Final = re.compile(rb"producer ([A-Za-z0-9._-]+) (\d+) (\d+) (\d+)")
ID: Final = re.compile(r"([0-9a-f]{10})-([0-9a-f]+)-([0-9a-f]+)-([0-9a-f]+)-([0-9a-f]+)")


class Numbered(NamedTuple):
    """One put: its number, how many messages it has in all, and among how many partitions they were shared out."""

    sequence: int
    message_count: int
    partition_count: int

    def marker(self, producer: str) -> bytes:
        """What the records of the put carry."""
        return f"producer {producer} {self.sequence} {self.message_count} {self.partition_count}".encode()

    def id(self, producer: str, row: int) -> str:
        """The id of one of its messages in a topic of version 1."""
        numbers = (self.sequence, row, self.message_count, self.partition_count)
        return "-".join((_digest(producer), *(f"{number:x}" for number in numbers)))

    @classmethod
    def of_marker(cls, marker: bytes, producer: str) -> Self | None:
        """The put whose marker this is; None for that of anything else."""
        found = MARKER.fullmatch(marker)
        if found is None or found[1] != producer.encode():
            return None
        return cls(int(found[2]), int(found[3]), int(found[4]))

    @classmethod
    def of_id(cls, id: str, producer: str) -> Self | None:
        """The put to which a message with this id belongs; None for that of anything else."""
        found = ID.fullmatch(id)
        if found is None or found[1] != _digest(producer):
            return None
        return cls(int(found[2], 16), int(found[4], 16), int(found[5], 16))


def find_puts(log: Log, producer: str, since: int) -> Iterator[tuple[Numbered, int]]:
    """The puts of a producer in a log from `since` on, each with a number of its messages."""
    if log.version == 2:
        for marked in log.markers(since):
            numbered = Numbered.of_marker(marked.marker, producer)
            if numbered is not None:
                yield numbered, marked.message_count
        return
    number = max(since, log.first)
    while messages := log.read(number):
        for message in messages:
            numbered = Numbered.of_id(message.id, producer)
            if numbered is not None:
                yield numbered, 1
        number = messages[-1].number + 1


def _digest(producer: str) -> str:
    return hashlib.sha256(producer.encode()).hexdigest()[:10]
