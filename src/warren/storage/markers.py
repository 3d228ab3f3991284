"""Markers: bytes that a batch carries for whoever put it, so that a put of unknown outcome can be looked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from warren.storage.columns import Columns
from warren.storage.layout import CODEC_COLUMNS, SECTION_MARKER
from warren.storage.read import RUN_SIZE_MAX
from warren.storage.record import Damage, DiskMessage
from warren.storage.runs import RunFinder
from warren.storage.view import LogView
from warren.storage.walk import walk


class Marked(NamedTuple):
    """One record that carries a marker: the number of its first message, how many it holds, and the marker."""

    number: int
    message_count: int
    marker: bytes


def markers(view: LogView, start: int) -> Iterator[Marked]:
    """The marked records that hold messages from `start` up to the published end, in order."""
    number, end = max(start, view.first), view.end
    while number < end:
        block, limit, end_number = view.locate(number, end)
        end_here = min(end, end_number)
        for found in walk(block, limit, number, end_here, RunFinder(block, limit, end_here, RUN_SIZE_MAX).find):
            if isinstance(found, DiskMessage) and found.codec == CODEC_COLUMNS:
                try:
                    marker = Columns(found.area, found.message_count).section(SECTION_MARKER)
                except Damage as damage:
                    raise block.corrupt(Damage(found.position, damage.reason)) from damage
                if marker:
                    yield Marked(found.number, found.message_count, bytes(marker))
        number = end_here
