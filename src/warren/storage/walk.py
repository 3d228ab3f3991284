"""The records of a block from one message on, in order: in runs where they are single ones, else one by one."""

from __future__ import annotations

from collections.abc import Iterator

from warren.storage.block import Block
from warren.storage.record import Damage, DiskMessage
from warren.storage.runs import RUN_ROWS_MIN, Run, RunFinder


def walk(block: Block, limit: int, number: int, end: int, *, size_max: int) -> Iterator[Run | DiskMessage]:
    """What holds the messages from `number` up to `end`, in a block of which nothing behind `limit` is looked at.

    Every record is checked, and follows the one before without a gap. The first may hold messages before `number`, and
    the last ones from `end` on. A run is at most `size_max` bytes long, or one record.
    """
    position = block.find(number, limit)
    finder = RunFinder(block, limit) if end - number >= RUN_ROWS_MIN else None
    first = number
    while number < end:
        run = _find_run(finder, block, position, number, end, size_max) if finder is not None else None
        if run is not None:
            yield run
            number, position = number + len(run), int(run.ends[-1])
        else:
            record = block.read(position, limit)
            if record.number != number and not (record.number < number == first < record.number + record.message_count):
                raise block.corrupt(Damage(position, f"message {record.number} where {number} should be"))
            yield record
            number, position = record.number + record.message_count, record.end
        if number < end:
            position = block.next_record(position, limit)


def _find_run(finder: RunFinder, block: Block, position: int, number: int, end: int, size_max: int) -> Run | None:
    try:
        return finder.find(position, number, end, size_max)
    except Damage as damage:
        raise block.corrupt(damage) from damage
