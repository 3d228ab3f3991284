"""Numbering: how a put of a producer tells its number, in the marker of its records or in the ids of its messages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Final, NamedTuple, Self

from warren.storage import Log
from warren.storage.checksum import crc32c

SEQUENCE_MAX: Final = (1 << 40) - 1
ROWS_MAX: Final = (1 << 20) - 1
"""How many messages one put to a topic of version 1 may have: more do not fit their ids."""
MARKER: Final = re.compile(rb"producer ([A-Za-z0-9._-]+) (\d+) (\d+) (\d+)")
ID: Final = re.compile(r"([0-9a-f]{10})([0-9a-z]{7})?-([0-9a-z]+)-([0-9a-z]+)-([0-9a-z]+)-([0-9a-z]+)")
"""Without the second part it is of an earlier release: numbers are hexadecimal, and nothing tells a torn message."""
DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class Content(NamedTuple):
    """What a message of version 1 says besides its id."""

    body: bytes
    tag: str
    corr_offset: int


class Numbered(NamedTuple):
    """One put: its number, how many messages it has in all, and among how many partitions they were shared out."""

    sequence: int
    message_count: int
    partition_count: int

    def marker(self, producer: str) -> bytes:
        """What the records of the put carry."""
        return f"producer {producer} {self.sequence} {self.message_count} {self.partition_count}".encode()

    def id(self, producer: str, row: int, content: Content) -> str:
        """The id of one of its messages in a topic of version 1, with a checksum of what the message says."""
        numbers = (self.sequence, row, self.message_count, self.partition_count)
        return "-".join((_digest(producer) + _checksum(content), *map(_to_base_36, numbers)))

    @classmethod
    def of_marker(cls, marker: bytes, producer: str) -> Self | None:
        """The put whose marker this is; None for that of anything else."""
        found = MARKER.fullmatch(marker)
        if found is None or found[1] != producer.encode():
            return None
        return cls(int(found[2]), int(found[3]), int(found[4]))

    @classmethod
    def of_id(cls, id: str, producer: str, content: Content) -> Self | None:
        """The put to which a message with this id belongs; None for that of anything else, and for a torn message."""
        found = ID.fullmatch(id)
        if found is None or found[1] != _digest(producer) or found[2] not in (None, _checksum(content)):
            return None
        base = 16 if found[2] is None else len(DIGITS)
        return cls(int(found[3], base), int(found[5], base), int(found[6], base))


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
            content = Content(message.body, message.tag, message.corr_offset)
            numbered = Numbered.of_id(message.id, producer, content)
            if numbered is not None:
                yield numbered, 1
        number = messages[-1].number + 1


def _checksum(content: Content) -> str:
    body, tag, corr_offset = content
    return _to_base_36(crc32c(f"{corr_offset} {len(tag)} {tag}".encode() + body)).rjust(7, "0")


def _to_base_36(number: int) -> str:
    """Shorter than hexadecimal digits: an id of version 1 has 39 bytes."""
    digits = ""
    while number or not digits:
        number, digit = divmod(number, len(DIGITS))
        digits = DIGITS[digit] + digits
    return digits


def _digest(producer: str) -> str:
    return hashlib.sha256(producer.encode()).hexdigest()[:10]
