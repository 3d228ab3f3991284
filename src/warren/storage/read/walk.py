"""The records of a block from one message on, in order: together if many can be read at once, else one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from warren.storage.disk.block import Block
from warren.storage.format.record import Damage, DiskMessage


class Together(Protocol):
    """Records one behind the other, each of them checked, that were read at once."""

    @property
    def end(self) -> int:
        """Where the next blob starts."""
        ...

    def __len__(self) -> int:
        """How many messages they hold."""
        ...


AnyTogether = TypeVar("AnyTogether", bound=Together)


def walk(
    block: Block, limit: int, number: int, end: int, find: Callable[[int, int], AnyTogether | None]
) -> Iterator[AnyTogether | DiskMessage]:
    """What holds the messages from `number` up to `end`, in a block of which nothing behind `limit` is looked at.

    Every record is checked, and follows the one before without a gap. The first may hold messages before `number`, and
    the last ones from `end` on. `find` is given the position of a record and the number of the message it should start
    with, and tells what can be read together with it. It goes no further than what checks: damage is raised when the
    walk reaches it, and not before.
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
                raise block.corrupt(Damage(position, f"message {record.number} where {number} should be"))
            yield record
            number, position = record.number + record.message_count, record.end
        if number < end:
            position = block.next_record(position, limit)
