"""Decides which messages a topic no longer keeps: by age, bytes, what every group has consumed, and the archive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from warren.queue.state.settings import TopicSettings
from warren.storage import Log
from warren.storage.check.inspection import BlockInfo

ARCHIVE_GROUP: Final = "warren.archive"
"""The group whose position says how far a topic is archived and verified. Retention goes no further."""


def retire(log: Log, settings: TopicSettings, now_us: int) -> None:
    """Removes the messages that the settings no longer keep.

    Disk space is freed in whole blocks. The last block is sealed early, so that it can be removed too. If a block also
    holds messages to keep, the others in it are hidden. A log whose format cannot retire exactly does neither.
    """
    first, is_exact = first_to_keep(log, settings, now_us), log.format.retires_exactly
    log.retire(before=first, exactly=is_exact, rolls=is_exact and _ends_last_block(log, settings, first, now_us))


def _ends_last_block(log: Log, settings: TopicSettings, first: int, now_us: int) -> bool:
    """Returns whether to seal the last block. Otherwise its old messages would stay on disk until the block is full."""
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
        # A filter may make a reader skip messages. Skipped messages count as consumed.
        positions = [log.reader(name).position for name in log.readers()]
        first = max(first, min(positions, default=first))
    if first > log.first and ARCHIVE_GROUP in log.readers():
        # Messages that are not archived yet are kept regardless of the settings, because no other copy exists.
        first = min(first, log.reader(ARCHIVE_GROUP).position)
    return first


def _first_within(blocks: Sequence[BlockInfo], bytes_min: int) -> int:
    """Returns the first number of the block from which on the blocks have `bytes_min` bytes.

    Older blocks may be removed.
    """
    size = 0
    for block in reversed(blocks):
        size += block.end_offset - block.base_offset
        if size >= bytes_min:
            return block.base_number
    return blocks[0].base_number if blocks else 0
