"""Which messages a topic no longer keeps: by age, bytes, what every group has consumed, and what is archived."""

from __future__ import annotations

from collections.abc import Sequence

from warren.config import ARCHIVE_GROUP
from warren.queue.settings import TopicSettings
from warren.storage import Log
from warren.storage.inspection import BlockInfo


def retire(log: Log, settings: TopicSettings, now_us: int) -> None:
    """Removes the messages that the settings no longer keep.

    Files go in whole blocks, and the last block is ended early so that it can go, too. Messages that are to go and lie
    in a block with messages to keep are hidden. Version 1 can do neither: there the last block stays.
    """
    first = first_to_keep(log, settings, now_us)
    if log.version == 1:
        log.retire(before=first)
    else:
        log.retire(before=first, exactly=True, rolls=_ends_last_block(log, settings, first, now_us))


def _ends_last_block(log: Log, settings: TopicSettings, first: int, now_us: int) -> bool:
    """Whether the last block is to be ended: otherwise what is to go would stay on disk until the block is full."""
    blocks = log.inspect().blocks
    if not blocks or blocks[-1].base_number >= log.end:
        return False
    block = blocks[-1]
    if first >= log.end:
        return True
    if (
        settings.retention_age_s is not None
        and _first_by_age(log, settings.retention_age_s, now_us) > block.base_number
    ):
        return True
    return settings.retention_bytes is not None and block.end_offset - block.base_offset >= settings.retention_bytes


def _first_by_age(log: Log, age_s: float, now_us: int) -> int:
    return log.find_time(now_us - int(age_s * 1_000_000))


def first_to_keep(log: Log, settings: TopicSettings, now_us: int) -> int:
    """Returns the number of the first message to keep."""
    first = log.first
    if settings.retention_age_s is not None:
        first = max(first, _first_by_age(log, settings.retention_age_s, now_us))
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
