"""Runs of batches: adjacent plain batches, which are checked together, and batches that a filter skips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from warren.message import NO_CORR_OFFSET
from warren.storage.disk.block import Block
from warren.storage.format.checksum import crc32c
from warren.storage.format.columns import END, Columns, Ends
from warren.storage.format.layout import (
    CODEC_COLUMNS,
    NO_KEY,
    PAYLOAD_AT,
    PLAIN_TABLE,
    RECORD_HEAD,
    SECTION,
    SECTION_BODIES,
    SECTION_BODY_ENDS,
    SECTION_MARKER,
    SECTION_TAG_CODES,
    SIZE_MASK,
    SIZE_WORD,
    STAMP_AT,
    STAMP_END,
    RecordHead,
    aligned,
)
from warren.storage.format.limits import SCAN_ROWS_DEFAULT
from warren.storage.format.record import UNPACK_HEAD, Damage, check_stamp, peek_area, unpack_head
from warren.storage.format.tags import TagFilter

BATCH_SIZE_MAX: Final = 512 << 10
"""A larger batch is read by itself, because reading it in a run saves nothing."""
BATCH_RUN_SIZE_MAX: Final = 4 << 20
PLAIN_COUNT: Final = 2
MARKED_COUNT: Final = 3
"""The number of sections in a batch that has only bodies, and in one that also has a marker."""


class RunBatch(NamedTuple):
    """One batch of a run. `ends` are the ends of its bodies, which are adjacent."""

    position: int
    end: int
    offset: int
    timestamp: int
    message_count: int
    stamp_checksum: int
    checksum: int
    tag: bytes
    ends: memoryview
    bodies_at: int
    bodies_end: int


class BatchRun:
    """Adjacent batches, each of them checked, whose messages have only bodies.

    The ends of the bodies are not checked before the first use of `ends`.
    """

    def __init__(self, view: memoryview, number: int, batches: Sequence[RunBatch]) -> None:
        self.view, self.number, self.batches = view, number, batches
        self.end = aligned(batches[-1].end)
        self.counts = np.array([batch.message_count for batch in batches])
        self._count = int(self.counts.sum())

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        return self.end - self.batches[0].position

    def single(self) -> Iterator[BatchRun]:
        """Yields each batch as a run of its own."""
        number = self.number
        for batch in self.batches:
            yield BatchRun(self.view, number, [batch])
            number += batch.message_count

    @cached_property
    def lasts(self) -> npt.NDArray[np.int64]:
        """The places in `ends` of the last end of each batch."""
        return np.cumsum(self.counts + 1) - 1

    @cached_property
    def ends(self) -> Ends:
        """The ends of the bodies of all batches, with a 0 before those of each batch.

        Raises Damage if they cannot be right.
        """
        ends: Ends = np.frombuffer(b"".join([batch.ends for batch in self.batches]), END)
        sizes = [batch.bodies_end - batch.bodies_at for batch in self.batches]
        # At the start of each batch the ends start again at 0. They must not decrease anywhere else.
        decreases = sum(size > 0 for size in sizes[:-1])
        is_right = ends[self.lasts].tolist() == sizes and not ends[self.lasts - self.counts].any()
        if not is_right or np.count_nonzero(ends[1:] < ends[:-1]) != decreases:
            raise Damage(self.batches[0].position, "the ends do not match the bodies")
        return ends


class BatchRunFinder:
    """Finds runs of messages before `end` in one block. Reads nothing past `limit`."""

    def __init__(self, block: Block, limit: int, end: int) -> None:
        self._block, self._limit, self._end = block, limit, end
        self._bytes = memoryview(block.view)

    def find(self, position: int, number: int) -> BatchRun | None:
        """Returns the run that starts with message `number`, the first of the batch at `position`.

        Returns None if fewer than two batches can be read together. A run ends before the first batch that fails a
        check.
        """
        first, number_end = number, min(self._end, number + SCAN_ROWS_DEFAULT)
        limit = min(self._limit, position + BATCH_RUN_SIZE_MAX)
        batches: list[RunBatch] = []
        covered: list[memoryview] = []
        checksums: list[int] = []
        while (batch := self._batch(position, number, limit)) and number + batch.message_count <= number_end:
            batches.append(batch)
            payload = self._bytes[position + PAYLOAD_AT : batch.end]
            covered += self._bytes[position + STAMP_AT : position + STAMP_END], payload
            checksums += batch.stamp_checksum, batch.checksum
            number, position = number + batch.message_count, aligned(batch.end)
        if len(batches) < 2:
            return None
        # All are checked in one loop, so that the batches stay in the processor cache.
        computed = list(map(crc32c, covered))
        if computed != checksums:
            wrong = next(place for place, checksum in enumerate(checksums) if computed[place] != checksum)
            del batches[wrong // 2 :]
        return BatchRun(self._bytes, first, batches) if len(batches) >= 2 else None

    def _batch(self, position: int, number: int, limit: int) -> RunBatch | None:
        """Returns the batch at `position`, unchecked, or None if it looks wrong or its messages have more than bodies.

        The bytes that this steps over, every part on an 8-byte boundary:

            | head        | tag | table: count, spare, (kind, size) × 2 or 3 | ends        | bodies   | marker |
            ^ position    ^ tag_at ^ area_at                                 ^ ends_at     ^ bodies_at
              RECORD_HEAD            PLAIN_TABLE, and SECTION of a marker      (count + 1) × u32

        It unpacks the head with the Struct of `unpack_head`, in the order of RecordHead, and without its call: a scan
        of batches of 10 messages would take 4.2 µs for each instead of 3.8 µs.
        """
        tag_at = position + RECORD_HEAD.size
        if tag_at > limit:
            return None
        (
            size_word,
            checksum,
            offset,
            first,
            timestamp,
            stamp_checksum,
            count,
            corr_offset,
            codec,
            id_size,
            tag_size,
            compression,
            key_size,
            headers_size,
        ) = UNPACK_HEAD(self._bytes, position)
        end, area_at = position + SIZE_WORD.size + size_word, aligned(tag_at + tag_size)
        is_next = first == number and offset == self._block.base_offset + position and size_word <= BATCH_SIZE_MAX
        is_plain = codec == CODEC_COLUMNS and key_size == NO_KEY and corr_offset == NO_CORR_OFFSET
        if not is_next or not is_plain or compression or id_size or headers_size:
            return None
        ends_at = area_at + PLAIN_TABLE.size
        if ends_at > end or aligned(end) > limit:
            return None
        section_count, _, ends_kind, ends_size, kind, size = PLAIN_TABLE.unpack_from(self._bytes, area_at)
        is_plain = ends_kind == SECTION_BODY_ENDS and kind == SECTION_BODIES
        if section_count == MARKED_COUNT and ends_at + SECTION.size <= end:
            # A marker names the put that wrote the messages, and does not change them.
            is_plain = is_plain and SECTION.unpack_from(self._bytes, ends_at)[0] == SECTION_MARKER
            ends_at += SECTION.size
        elif section_count != PLAIN_COUNT:
            return None
        ends_end = ends_at + ends_size
        bodies_at = aligned(ends_end)
        if not is_plain or ends_size != (count + 1) * END.itemsize or bodies_at + size > end or not count:
            return None
        tag = bytes(self._bytes[tag_at : tag_at + tag_size]) if tag_size else b""
        ends, bodies_end = self._bytes[ends_at:ends_end], bodies_at + size
        fields = (position, end, offset, timestamp, count, stamp_checksum, checksum, tag, ends, bodies_at, bodies_end)
        return tuple.__new__(RunBatch, fields)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A batch of `count` messages none of which passes the filter."""

    end: int
    count: int

    def __len__(self) -> int:
        return self.count


class SkipFinder:
    """Finds the batches of one block in which no message passes a filter. Reads nothing past `limit`.

    For a batch that it skips, it checks the stamp and that the next record follows, but not the tags. A batch that
    looks wrong is not skipped: the reader reads and checks the whole record.
    """

    def __init__(self, block: Block, limit: int, tag: TagFilter) -> None:
        self._block, self._limit, self._tag = block, limit, tag

    def find(self, position: int, number: int) -> Skipped | None:
        """Returns the batch at `position` that starts with message `number` if it can be skipped, otherwise None."""
        block = self._block
        if not block.has_meta_data or position + RECORD_HEAD.size > self._limit:
            return None
        head = unpack_head(block.view, position)
        end = aligned(position + SIZE_WORD.size + (head.size_word & SIZE_MASK))
        if head.codec != CODEC_COLUMNS or end > self._limit:
            return None
        try:
            check_stamp(head, block.view, position, block.base_offset)
            is_wanted = any(map(self._tag.matches, self._tags(head, position)))
        except (Damage, ValueError):
            return None
        if is_wanted:
            block.will_need(position, end)
            return None
        return Skipped(end, head.message_count) if head.number == number and head.message_count else None

    def _tags(self, head: RecordHead, position: int) -> list[str]:
        """Returns the tags of a batch. Raises ValueError if the batch is compressed."""
        if head.tag_size:
            tag_at = position + RECORD_HEAD.size + head.id_size
            return [str(self._block.view[tag_at : tag_at + head.tag_size], "utf-8")]
        area = peek_area(self._block.view, position)
        if area is None:
            raise ValueError("the batch has to be unpacked")
        columns = Columns(*area)
        return columns.tags() if SECTION_TAG_CODES in columns else []
