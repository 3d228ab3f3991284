"""Which messages a topic no longer keeps: by age, bytes, what every group has consumed, and what is archived."""

from __future__ import annotations

from collections.abc import Sequence

from warren.config import ARCHIVE_GROUP
from warren.queue.settings import TopicSettings
from warren.storage import Log
from warren.storage.inspection import BlockInfo


def first_to_keep(log: Log, settings: TopicSettings, now_us: int) -> int:
    """The number of the first message to keep; what comes before it may go, in whole blocks."""
    first = log.first
    if settings.retention_age_s is not None:
        first = max(first, log.find_time(now_us - int(settings.retention_age_s * 1_000_000)))
    if settings.retention_bytes is not None:
        first = max(first, _first_within(log.inspect().blocks, settings.retention_bytes))
    if settings.retention_consumed:
        # A filter may have let a reader pass over messages: what it passed over is consumed as well.
        positions = [log.reader(name).position for name in log.readers()]
        first = max(first, min(positions, default=first))
    if first > log.first and ARCHIVE_GROUP in log.readers():
        # Whatever the settings say: what is not archived yet is to be found nowhere else.
        first = min(first, log.reader(ARCHIVE_GROUP).position)
    return first


def _first_within(blocks: Sequence[BlockInfo], bytes_min: int) -> int:
    """The first number of the block with which the newest ones have `bytes_min` bytes: older ones are not needed."""
    size = 0
    for block in reversed(blocks):
        size += block.end_offset - block.base_offset
        if size >= bytes_min:
            return block.base_number
    return blocks[0].base_number if blocks else 0
