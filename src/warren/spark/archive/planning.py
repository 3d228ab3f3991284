"""What there is to archive: the messages behind the end of the archive, cut by day, in tasks of about equal size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from warren.clock import EPOCH, microseconds
from warren.config import ARCHIVE_SPLIT_SIZE_MAX, ARCHIVE_SPLIT_SIZE_MIN
from warren.errors import BadInput, NotALog
from warren.spark.archive.errors import ArchiveGap, ArchiveOfAnother
from warren.spark.archive.manifest import Manifest
from warren.spark.catalog import Catalog
from warren.storage import Log
from warren.storage.inspection import BlockInfo


class Piece(NamedTuple):
    """Messages of one partition and one day in UTC, from `first` up to `end`; `size` is about that in the log."""

    topic: str
    topic_id: str
    partition: int
    date: str
    first: int
    end: int
    size: int

    @property
    def messages(self) -> int:
        return self.end - self.first


def plan(
    catalog: Catalog, manifest: Manifest, archive: str, topics: Sequence[str], until_us: int | None = None
) -> list[Piece]:
    """What of the topics is not archived yet, up to the time `until_us` where one is given.

    ArchiveGap where messages were retired that should have been archived, ArchiveOfAnother where the archive has a
    topic of that name which is not this one.
    """
    ends = manifest.ends()
    pieces: list[Piece] = []
    for topic in dict.fromkeys(topics):
        topic_id = catalog.topic_id(topic)
        if manifest.topic_id(topic) not in (None, topic_id):
            raise ArchiveOfAnother(archive, topic)
        for partition in range(catalog.settings(topic).partitions):
            with suppress(NotALog), catalog.log(topic, partition) as log:
                # A partition to which nobody has put anything yet has no log.
                start = ends.get((topic, partition), log.first)
                end = log.end if until_us is None else min(log.end, log.find_time(until_us))
                if start < log.first:
                    raise ArchiveGap(topic, partition, start, log.first)
                blocks = log.inspect().blocks
                pieces += (
                    Piece(topic, topic_id, partition, date, *numbers, size_between(blocks, *numbers))
                    for date, numbers in days(log, start, end)
                )
    return pieces


def days(log: Log, start: int, end: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """The days in UTC on which messages from `start` up to `end` were put, and the numbers of each."""
    while start < end:
        message = next(iter(log.read(start, limit=1)), None)
        if message is None or message.number >= end:
            # The rest is in batches that cannot be read: it goes with what comes next.
            return
        day = (EPOCH + timedelta(microseconds=message.timestamp)).date()
        midnight = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)
        day_end = min(end, log.find_time(microseconds(midnight)))
        yield day.isoformat(), (start, day_end)
        start = day_end


def size_between(blocks: Sequence[BlockInfo], first: int, end: int) -> int:
    """About how many bytes the messages from `first` up to `end` take: as many as any others in their block."""
    size = 0.0
    for block in blocks:
        count = block.end_number - block.base_number
        shared = min(end, block.end_number) - max(first, block.base_number)
        if shared > 0:
            size += (block.end_offset - block.base_offset) * shared / count
    return round(size)


def tasks(pieces: Sequence[Piece], cores: int) -> list[list[Piece]]:
    """The pieces, large ones cut and small ones put together, in about as many equal tasks as there are cores."""
    if cores < 1:
        raise BadInput(f"{cores} cores: expected at least 1")
    share = sum(piece.size for piece in pieces) / cores
    size_max = min(max(share, ARCHIVE_SPLIT_SIZE_MIN), ARCHIVE_SPLIT_SIZE_MAX)
    found: list[list[Piece]] = []
    sizes: list[int] = []
    parts = [part for piece in pieces for part in _cut(piece, size_max)]
    # The largest first, each where there is room for it: tasks end at about the same time.
    for part in sorted(parts, key=lambda part: -part.size):
        least = min(range(len(found)), key=sizes.__getitem__, default=None)
        if least is not None and (sizes[least] + part.size <= size_max):
            found[least].append(part)
            sizes[least] += part.size
        else:
            found.append([part])
            sizes.append(part.size)
    return found


def _cut(piece: Piece, size_max: float) -> Iterator[Piece]:
    # A little more than the share is still one part, rather than two small ones.
    parts = max(1, min(piece.messages, round(piece.size / size_max + 0.3)))
    edges = [piece.first + piece.messages * part // parts for part in range(parts + 1)]
    for first, end in pairwise(edges):
        yield piece._replace(first=first, end=end, size=piece.size // parts)
