"""Walks the records of a block in order, from one message on: many together if possible, otherwise one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from warren.storage.disk.block import Block
from warren.storage.format.record import Damage, DiskMessage


class Together(Protocol):
    """Adjacent records, each of them checked, that were read together."""

    @property
    def end(self) -> int:
        """The position of the next blob."""
        ...

    def __len__(self) -> int:
        """Returns how many messages the records hold."""
        ...


AnyTogether = TypeVar("AnyTogether", bound=Together)


def walk(
    block: Block, limit: int, number: int, end: int, find: Callable[[int, int], AnyTogether | None]
) -> Iterator[AnyTogether | DiskMessage]:
    """Yields the records of messages `number` to `end` of a block, and reads nothing past `limit`.

    Every record is checked, and follows the one before without a gap. The first may hold messages before `number`, and
    the last may hold messages from `end` on. The walk calls `find` with the position of a record and the number of its
    first message; `find` returns the records that can be read together from there, or None. It stops before damage, so
    that the walk raises CorruptRecord when it reaches the damage, and not before.
    """
    position, first = block.find(number, limit), number
    while number < end:
        together = find(position, number)
        if together is not None:
            yield together
            number, position = number + len(together), together.end
        else:
            record = block.read(position, limit)
            if record.number != number and not (record.number < number == first < record.number + record.message_count):
                raise block.corrupt(Damage(position, f"message {record.number} was found where {number} was expected"))
            yield record
            number, position = record.number + record.message_count, record.end
        if number < end:
            position = block.next_record(position, limit)
