"""Checks every byte of a log: checksum, position, number and time of each record, and the header of each block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from warren.errors import CorruptRecord
from warren.storage.disk.block import HEADER_SIZE_MAX, Block, BlockHeader
from warren.storage.format.kafka_columns import columns_of
from warren.storage.format.layout import CODEC_SINGLE, SECTION_BODY_ENDS
from warren.storage.format.record import Damage, DiskMessage, Unreadable
from warren.storage.read.log_view import LogView, Stretch

UNREADABLE_SHOWN_MAX: Final = 100
"""A verification lists at most this many batches that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableBatch:
    """A batch that matches its checksum, but that a Kafka client packed in a way that cannot be read."""

    path: str
    position: int
    number: int
    message_count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The result of a verification without damage. Lists the first batches that cannot be read."""

    messages: int
    records: int
    blocks: int
    bytes: int
    unreadable_count: int
    unreadable: Sequence[UnreadableBatch]


def verify(view: LogView, progress: Callable[[int], None] | None = None) -> Verified:
    """Reads the whole log. Raises CorruptRecord at the first damage. Calls `progress` with the count checked so far."""
    first, end, slots = view.first, view.end, view.slots().slots
    # Deleted messages of the first block are checked as well.
    start = slots[0].base_number if slots else first
    number, timestamp, records, blocks, size = start, 0, 0, 0, 0
    unreadable = _Unreadable()
    for stretch, _ in view.stretches(start, end):
        number, timestamp, count = _verify_block(stretch, number, end, timestamp, unreadable, progress)
        records, blocks, size = records + count, blocks + 1, size + stretch.limit
    if number != end:
        raise CorruptRecord(view.directory, 0, f"the blocks end at message {number}, but the index at {end}")
    return Verified(
        messages=end - first,
        records=records,
        blocks=blocks,
        bytes=size,
        unreadable_count=unreadable.count,
        unreadable=unreadable.first,
    )


class _Unreadable:
    """Counts the batches that cannot be read, and keeps the first ones."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[UnreadableBatch] = []

    def add(self, block: Block, record: DiskMessage, reason: str) -> None:
        self.count += 1
        if len(self.first) < UNREADABLE_SHOWN_MAX:
            self.first.append(
                UnreadableBatch(
                    path=block.path,
                    position=record.position,
                    number=record.number,
                    message_count=record.message_count,
                    reason=reason,
                )
            )


def _verify_block(
    stretch: Stretch,
    number: int,
    end: int,
    timestamp: int,
    unreadable: _Unreadable,
    progress: Callable[[int], None] | None,
) -> tuple[int, int, int]:
    """Returns the end number and last timestamp of the block, and how many records it has."""
    block, limit, end_number = stretch
    if block.has_meta_data and BlockHeader.parse(block.view[:HEADER_SIZE_MAX]) is None:
        raise CorruptRecord(block.path, 0, "the header of the block does not match its checksum")
    position, records = block.next_record(block.start, limit), 0
    while position < limit and number < end:
        record = block.read(position, limit)
        if record.number != number or record.timestamp < timestamp:
            reason = f"message {record.number} of time {record.timestamp}, but expected {number} after {timestamp}"
            raise block.corrupt(Damage(position, reason))
        if record.codec != CODEC_SINGLE:
            _verify_columns(stretch, record, unreadable)
        number, timestamp = number + record.message_count, record.timestamp
        position, records = block.next_record(record.end, limit), records + 1
        if progress is not None and not records % 1024:
            progress(number)
    if number != end_number:
        raise block.corrupt(Damage(position, f"the block ends at message {number}, but its index says {end_number}"))
    if progress is not None:
        progress(number)
    return number, timestamp, records


def _verify_columns(stretch: Stretch, record: DiskMessage, unreadable: _Unreadable) -> None:
    try:
        columns_of(record).ends(SECTION_BODY_ENDS)
    except Unreadable as error:
        unreadable.add(stretch.block, record, error.reason)
    except Damage as damage:
        raise stretch.block.corrupt(Damage(record.position, damage.reason)) from damage
