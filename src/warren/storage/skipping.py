"""Batches that a filter does not want, passed over by what stands at their heads: their bodies are not even fetched."""

from __future__ import annotations

from dataclasses import dataclass

from warren.storage.block import Block
from warren.storage.columns import Columns
from warren.storage.layout import (
    CODEC_COLUMNS,
    RECORD_HEAD,
    SECTION_TAG_CODES,
    SIZE_MASK,
    SIZE_WORD,
    RecordHead,
    aligned,
)
from warren.storage.record import Damage, peek_area, read_stamp
from warren.storage.tags import TagFilter


@dataclass(frozen=True, slots=True)
class Skipped:
    """A batch of `count` messages of which none passes the filter."""

    end: int
    count: int

    def __len__(self) -> int:
        return self.count


class SkipFinder:
    """Finds batches of one block that hold nothing a filter wants; looks at nothing behind `limit`.

    Of such a batch the stamp is checked, and that the next record follows it; its tags are believed. Whatever looks
    wrong is not skipped, but left to whoever reads and checks the whole record.
    """

    def __init__(self, block: Block, limit: int, tag: TagFilter) -> None:
        self._block, self._limit, self._tag = block, limit, tag

    def find(self, position: int, number: int) -> Skipped | None:
        """The batch at `position` that starts with message `number`, where it can be skipped."""
        block = self._block
        if not block.has_meta_data or position + RECORD_HEAD.size > self._limit:
            return None
        head = RecordHead._make(RECORD_HEAD.unpack_from(block.view, position))
        end = aligned(position + SIZE_WORD.size + (head.size_word & SIZE_MASK))
        if head.codec != CODEC_COLUMNS or end > self._limit:
            return None
        try:
            at, _, count = read_stamp(block.view, position, block.base_offset)
            is_wanted = any(map(self._tag.matches, self._tags(head, position)))
        except (Damage, ValueError):
            return None
        if is_wanted:
            block.will_need(position, end)
            return None
        return Skipped(end, count) if at == number and count else None

    def _tags(self, head: RecordHead, position: int) -> list[str]:
        """The tags of a batch; ValueError where they cannot be told without unpacking it."""
        if head.tag_size:
            tag_at = position + RECORD_HEAD.size + head.id_size
            return [str(self._block.view[tag_at : tag_at + head.tag_size], "utf-8")]
        area = peek_area(self._block.view, position)
        if area is None:
            raise ValueError("a batch that has to be unpacked")
        columns = Columns(*area)
        return columns.tags() if SECTION_TAG_CODES in columns else []
