"""Plans a run: the messages that the archive does not have yet, cut by day, in tasks of about the same size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

from warren.clock import EPOCH, microseconds
from warren.errors import BadInput, NotALog
from warren.spark.archive.errors import ArchiveGap, ArchiveOfAnother
from warren.spark.archive.manifest import Manifest
from warren.spark.store_access.access import TopicPartition
from warren.spark.store_access.files import FileCatalog
from warren.storage import Log
from warren.storage.check.inspection import BlockInfo

ARCHIVE_SPLIT_SIZE_MIN: Final = 16 << 20
ARCHIVE_SPLIT_SIZE_MAX: Final = 1 << 30
"""How many bytes of a log a task archives: the least, if there are as many, and the most."""


class DayRange(NamedTuple):
    """Messages of one partition and one day in UTC, from `first` up to `end`. `size` is about their size in the log."""

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
    catalog: FileCatalog, manifest: Manifest, archive: str, topics: Sequence[str], until_us: int | None = None
) -> list[DayRange]:
    """Returns the messages of the topics that are not archived yet, up to the time `until_us` if there is one.

    Raises ArchiveGap if messages were retired before they were archived, and ArchiveOfAnother if the archive has a
    different topic of that name.
    """
    ends = manifest.ends()
    day_ranges: list[DayRange] = []
    for topic in dict.fromkeys(topics):
        topic_id = catalog.topic_id(topic)
        if manifest.topic_id(topic) not in (None, topic_id):
            raise ArchiveOfAnother(archive, topic)
        for partition in range(catalog.settings(topic).partitions):
            with suppress(NotALog), catalog.log(topic, partition) as log:
                # A partition without messages has no log yet.
                start = ends.get(TopicPartition(topic, partition), log.first)
                end = log.end if until_us is None else min(log.end, log.find_time(until_us))
                if start < log.first:
                    raise ArchiveGap(topic, partition, start, log.first)
                blocks = log.inspect().blocks
                day_ranges += (
                    DayRange(topic, topic_id, partition, date, *numbers, size_between(blocks, *numbers))
                    for date, numbers in days(log, start, end)
                )
    return day_ranges


def days(log: Log, start: int, end: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yields the days in UTC on which messages from `start` up to `end` were put, and the numbers of each day."""
    while start < end:
        message = next(iter(log.read(start, limit=1)), None)
        if message is None or message.number >= end:
            # The remaining messages are in batches that cannot be read. The next run takes them together with later
            # messages.
            return
        day = (EPOCH + timedelta(microseconds=message.timestamp)).date()
        midnight = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)
        day_end = min(end, log.find_time(microseconds(midnight)))
        yield day.isoformat(), (start, day_end)
        start = day_end


def size_between(blocks: Sequence[BlockInfo], first: int, end: int) -> int:
    """Returns about how many bytes the messages from `first` up to `end` take, by the average size in their blocks."""
    size = 0.0
    for block in blocks:
        count = block.end_number - block.base_number
        shared = min(end, block.end_number) - max(first, block.base_number)
        if shared > 0:
            size += (block.end_offset - block.base_offset) * shared / count
    return round(size)


def tasks(day_ranges: Sequence[DayRange], cores: int) -> list[list[DayRange]]:
    """Returns about as many tasks of equal size as there are cores: large ranges are cut, small ones put together."""
    if cores < 1:
        raise BadInput(f"{cores} cores: expected at least 1")
    share = sum(day_range.size for day_range in day_ranges) / cores
    size_max = min(max(share, ARCHIVE_SPLIT_SIZE_MIN), ARCHIVE_SPLIT_SIZE_MAX)
    planned: list[list[DayRange]] = []
    sizes: list[int] = []
    parts = [part for day_range in day_ranges for part in _cut(day_range, size_max)]
    # The largest part first, each into the smallest task so far, so that tasks end at about the same time.
    for part in sorted(parts, key=lambda part: -part.size):
        least = min(range(len(planned)), key=sizes.__getitem__, default=None)
        if least is not None and (sizes[least] + part.size <= size_max):
            planned[least].append(part)
            sizes[least] += part.size
        else:
            planned.append([part])
            sizes.append(part.size)
    return planned


def _cut(day_range: DayRange, size_max: float) -> Iterator[DayRange]:
    # A range that is only a little larger than the share stays one part, and does not become two small ones.
    parts = max(1, min(day_range.messages, round(day_range.size / size_max + 0.3)))
    edges = [day_range.first + day_range.messages * part // parts for part in range(parts + 1)]
    for first, end in pairwise(edges):
        yield day_range._replace(first=first, end=end, size=day_range.size // parts)
