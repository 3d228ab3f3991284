"""Records as they were packed: read from one log, checked, and fit to be appended to another."""

from __future__ import annotations

from collections.abc import Iterator

from warren.errors import BadInput, NumberRetired, UnsupportedByVersion
from warren.storage.record import Damage, Packed
from warren.storage.view import LogView


def read_packed(view: LogView, version: int, start: int, end: int) -> Iterator[Packed]:
    """The records that hold the messages from `start` up to `end`, and no others: BadInput where a record does.

    What lies past the published end is not there.
    """
    if version == 1:
        raise UnsupportedByVersion("reading records as they were packed", 1)
    first, end = view.first, min(end, view.end)
    if start < first:
        raise NumberRetired(start, first)
    return _packed(view, start, end)


def _packed(view: LogView, number: int, end: int) -> Iterator[Packed]:
    start = number
    while number < end:
        block, limit, end_number = view.locate(number, end)
        end_here, position = min(end, end_number), block.find(number, limit)
        while number < end_here:
            position = block.next_record(position, limit)
            packed, at, behind = block.read_packed(position, limit)
            if number == start and at < number:
                raise BadInput(f"message {number} is in a record that starts with message {at}")
            if at != number:
                raise block.corrupt(Damage(position, f"message {at} where {number} should be"))
            if number + packed.message_count > end:
                raise BadInput(f"message {end} is in a record that starts with message {number}")
            yield packed
            number, position = number + packed.message_count, behind
