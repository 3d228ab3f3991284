"""Merges the messages of several logs by time: the last ones, or those of ranges."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

from warren.limits import READ_LIMIT_DEFAULT
from warren.message import Message


class Reads(Protocol):
    """The part of a log, embedded or remote, that is read here."""

    def last(self, count: int = 1) -> list[Message]: ...
    def read(
        self, number: int, *, limit: int = READ_LIMIT_DEFAULT, bytes_max: int | None = None, tag: str | None = None
    ) -> list[Message]: ...


class Range(NamedTuple):
    """The messages of a log from `start` up to, but not including, `end`."""

    log: Reads
    start: int
    end: int


def last_by_time(logs: Iterable[Reads], count: int) -> list[Message]:
    """Returns the last `count` messages of all logs."""
    if count <= 0:
        return []
    return list(heapq.merge(*(log.last(count) for log in logs), key=attrgetter("timestamp")))[-count:]


def merged_by_time(ranges: Sequence[Range], tag: str | None) -> Iterator[Message]:
    """Yields the messages of the ranges that pass the filter, sorted by time. They are read page by page."""
    return heapq.merge(*(_messages(*each, tag) for each in ranges), key=attrgetter("timestamp"))


def _messages(log: Reads, start: int, end: int, tag: str | None) -> Iterator[Message]:
    while start < end:
        messages = log.read(start, limit=min(READ_LIMIT_DEFAULT, end - start), tag=tag)
        if not messages:
            return
        yield from (message for message in messages if message.number < end)
        start = messages[-1].number + 1
