"""Messages by number, forwards: the one path that everything stands on that reads."""

from __future__ import annotations

from typing import NamedTuple

from warren.errors import NumberRetired
from warren.message import Message
from warren.storage import columns
from warren.storage.block import Block
from warren.storage.columns import Columns
from warren.storage.layout import CODEC_COLUMNS
from warren.storage.record import Damage, DiskMessage, unpack_headers
from warren.storage.tags import TagFilter
from warren.storage.view import LogView


class Label(NamedTuple):
    """The topic and partition that messages of a log carry."""

    topic: str
    partition: int


class Page(NamedTuple):
    """Messages that were read, and the number to go on from: what lies between was looked at and left out."""

    messages: list[Message]
    next_number: int


def read(
    view: LogView,
    label: Label,
    number: int,
    *,
    limit: int,
    bytes_max: int | None = None,
    tag: TagFilter | None = None,
) -> Page:
    """Up to `limit` messages from `number` on that pass the filter, of `bytes_max` bytes of bodies in all.

    At least one is given, however large, where there is one. Past the published end the page is empty.
    """
    end, first = view.end, view.first
    if number < first:
        raise NumberRetired(number, first)
    messages: list[Message] = []
    room = bytes_max
    while number < end and len(messages) < limit and (room is None or room > 0 or not messages):
        block, block_limit, end_number = view.locate(number, end)
        position = block.find(number, block_limit)
        while number < min(end, end_number) and len(messages) < limit and (room is None or room > 0 or not messages):
            record = read_at(block, position, block_limit, number)
            row = number - record.number
            row_end = min(record.message_count, row + limit - len(messages), end - record.number)
            found = take(record, block, row, row_end, label, tag)
            if room is not None and found:
                fitting = _fitting(found, room, is_first=not messages)
                messages += fitting
                if len(fitting) < len(found):
                    return Page(messages, found[len(fitting)].number)
                room -= sum(len(message.body) for message in found)
            else:
                messages += found
            number = record.number + row_end
            if number == record.number + record.message_count:
                position = block.next_record(record.end, block_limit)
    return Page(messages, number)


def _fitting(messages: list[Message], room: int, *, is_first: bool) -> list[Message]:
    """As many of the messages as have room, and one in any case where it is the first of the page."""
    for place, message in enumerate(messages):
        room -= len(message.body)
        if room < 0:
            return messages[: max(place, 1 if is_first else 0)]
    return messages


def read_at(block: Block, position: int, limit: int, number: int) -> DiskMessage:
    """The record at `position`, which must hold message `number`."""
    record = block.read(position, limit)
    if not record.number <= number < record.number + record.message_count:
        damage = Damage(position, f"message {record.number} where {number} should be")
        raise block.corrupt(damage)
    return record


def take(
    record: DiskMessage, block: Block, row: int, row_end: int, label: Label, tag: TagFilter | None
) -> list[Message]:
    """The messages of a record from `row` up to `row_end` that pass the filter."""
    try:
        if record.codec != CODEC_COLUMNS:
            if tag is not None and not tag.matches(record.tag):
                return []
            return [single_message(record, label)]
        batch = Columns(record.area, record.message_count)
        rows = columns.passing_rows(record, batch, slice(row, row_end), tag)
        if rows is None:
            return []
        return columns.messages(record, batch, rows, topic=label.topic, partition=label.partition)
    except Damage as damage:
        raise block.corrupt(Damage(record.position, damage.reason)) from damage


def single_message(record: DiskMessage, label: Label) -> Message:
    """The message that is alone in its record."""
    try:
        headers = unpack_headers(record.headers)
    except ValueError as error:
        raise Damage(record.position, str(error)) from error
    return Message(
        record.number,
        record.offset,
        label.partition,
        label.topic,
        record.timestamp,
        record.id,
        record.tag,
        record.key,
        headers,
        record.corr_offset,
        record.body,
        0,
    )
