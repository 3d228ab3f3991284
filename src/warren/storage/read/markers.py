"""Markers: bytes that a batch carries for its sender, which can find a put with an unknown outcome by them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from warren.storage.disk.block import Block
from warren.storage.format.columns import Columns
from warren.storage.format.layout import CODEC_KAFKA, CODEC_SINGLE, SECTION_MARKER
from warren.storage.format.record import Damage, DiskMessage, next_blob, peek_area, peek_marker, read_stamp
from warren.storage.read.log_view import LogView
from warren.storage.read.messages import RUN_SIZE_MAX
from warren.storage.read.single_runs import Run, RunFinder
from warren.storage.read.walk import walk


class Marked(NamedTuple):
    """One record that carries a marker: the number of its first message, how many it holds, and the marker."""

    number: int
    message_count: int
    marker: bytes


def markers(view: LogView, start: int, other_than: bytes = b"") -> Iterator[Marked]:
    """Yields the marked records that hold messages from `start` up to the published end, in order.

    Skips records whose marker starts with `other_than`.
    """
    number, end = max(start, view.first), view.end
    while number < end:
        block, limit, end_number = view.locate(number, end)
        end_here = min(end, end_number)
        finder = Finder(block, limit, end_here, other_than)
        for item in walk(block, limit, number, end_here, finder.find):
            if isinstance(item, DiskMessage) and item.codec != CODEC_SINGLE:
                marker = _marker(item, block)
                if marker and not (other_than and marker.startswith(other_than)):
                    yield Marked(item.number, item.message_count, marker)
        number = end_here


def _marker(record: DiskMessage, block: Block) -> bytes:
    if record.codec == CODEC_KAFKA:
        return record.headers
    try:
        return bytes(Columns(record.area, record.message_count).section(SECTION_MARKER))
    except Damage as damage:
        raise block.corrupt(Damage(record.position, damage.reason)) from damage


@dataclass(frozen=True, slots=True)
class Passed:
    """A record that is skipped: where the next blob starts, and how many messages the record holds."""

    end: int
    message_count: int

    def __len__(self) -> int:
        return self.message_count


class Finder:
    """Skips runs of single records and unwanted records while searching for markers.

    Checks that the stamp of a skipped record is right, and that the record follows the one before. Does not check its
    payload.
    """

    def __init__(self, block: Block, limit: int, end: int, other_than: bytes) -> None:
        self._block, self._limit, self._other_than = block, limit, other_than
        self._runs = RunFinder(block, limit, end, RUN_SIZE_MAX)

    def find(self, position: int, number: int) -> Run | Passed | None:
        if self._other_than and self._block.has_meta_data:
            passed = self._pass_by(position, number)
            if passed is not None:
                return passed
        return self._runs.find(position, number)

    def _pass_by(self, position: int, number: int) -> Passed | None:
        block = self._block
        try:
            end, is_data = next_blob(block.view, position, self._limit)
            if not is_data or read_stamp(block.view, position, block.base_offset)[0] != number:
                return None
            peeked = _peek(block, position)
        except Damage:
            return None
        if peeked is None:
            return None
        marker, count = peeked
        return Passed(end, count) if marker.startswith(self._other_than) and count else None


def _peek(block: Block, position: int) -> tuple[bytes, int] | None:
    """Returns marker and message count of the batch at `position`, or None if the batch must be read."""
    kafka = peek_marker(block.view, position)
    if kafka is not None:
        return kafka
    peeked = peek_area(block.view, position)
    if peeked is None:
        return None
    area, count = peeked
    return bytes(Columns(area, count).section(SECTION_MARKER)), count
