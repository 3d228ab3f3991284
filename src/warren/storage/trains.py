"""Trains: batches of plain messages that follow one another in a block, found and checked together, and seen as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from warren.config import SCAN_ROWS_DEFAULT
from warren.message import NO_CORR_OFFSET
from warren.storage.block import Block
from warren.storage.checksum import crc32c
from warren.storage.columns import END, Ends
from warren.storage.layout import (
    CODEC_COLUMNS,
    NO_KEY,
    PAYLOAD_AT,
    PLAIN_TABLE,
    RECORD_HEAD,
    SECTION,
    SECTION_BODIES,
    SECTION_BODY_ENDS,
    SECTION_MARKER,
    SIZE_WORD,
    STAMP_AT,
    STAMP_END,
    aligned,
)
from warren.storage.record import Damage

BATCH_SIZE_MAX: Final = 512 << 10
"""A batch that is larger is worth a look by itself."""
TRAIN_SIZE_MAX: Final = 4 << 20
PLAIN_COUNT: Final = 2
MARKED_COUNT: Final = 3
"""How many sections a batch of nothing but bodies has, and one with a marker."""


class Wagon(NamedTuple):
    """What is known of one batch of a train. `ends` are those of its bodies, which lie side by side."""

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


class Train:
    """Batches one behind the other, each of them checked, of messages that have bodies and nothing else of their own.

    Ends of bodies are believed only after `ends` has looked at them.
    """

    def __init__(self, view: memoryview, number: int, wagons: Sequence[Wagon]) -> None:
        self.view, self.number, self.wagons = view, number, wagons
        self.end = aligned(wagons[-1].end)
        self.counts = np.array([wagon.message_count for wagon in wagons])
        self._count = int(self.counts.sum())

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        return self.end - self.wagons[0].position

    def single(self) -> Iterator[Train]:
        """Each batch by itself."""
        number = self.number
        for wagon in self.wagons:
            yield Train(self.view, number, [wagon])
            number += wagon.message_count

    @cached_property
    def lasts(self) -> npt.NDArray[np.int64]:
        """The places of the last end of each batch among `ends`."""
        return np.cumsum(self.counts + 1) - 1

    @cached_property
    def ends(self) -> Ends:
        """The ends of the bodies of all batches, after a 0 for each batch; Damage where they cannot be."""
        ends: Ends = np.frombuffer(b"".join([wagon.ends for wagon in self.wagons]), END)
        sizes = [wagon.bodies_end - wagon.bodies_at for wagon in self.wagons]
        # Where one batch follows another the ends start again at 0. There must be no other place where they decrease.
        decreases = sum(size > 0 for size in sizes[:-1])
        is_right = ends[self.lasts].tolist() == sizes and not ends[self.lasts - self.counts].any()
        if not is_right or np.count_nonzero(ends[1:] < ends[:-1]) != decreases:
            raise Damage(self.wagons[0].position, "ends that do not cut the bodies into pieces")
        return ends


class TrainFinder:
    """Finds trains in one block, of messages before `end`, and looks at nothing behind `limit`."""

    def __init__(self, block: Block, limit: int, end: int) -> None:
        self._block, self._limit, self._end = block, limit, end
        self._bytes = memoryview(block.view)

    def find(self, position: int, number: int) -> Train | None:
        """The train that starts with message `number`, the first of the batch at `position`.

        None where no two batches go together. A train ends before the first batch that does not check.
        """
        first, number_end = number, min(self._end, number + SCAN_ROWS_DEFAULT)
        limit = min(self._limit, position + TRAIN_SIZE_MAX)
        wagons: list[Wagon] = []
        covered: list[memoryview] = []
        checksums: list[int] = []
        while (wagon := self._wagon(position, number, limit)) and number + wagon.message_count <= number_end:
            wagons.append(wagon)
            payload = self._bytes[position + PAYLOAD_AT : wagon.end]
            covered += self._bytes[position + STAMP_AT : position + STAMP_END], payload
            checksums += wagon.stamp_checksum, wagon.checksum
            number, position = number + wagon.message_count, aligned(wagon.end)
        if len(wagons) < 2:
            return None
        # All are checked in one go: nothing else runs meanwhile that would have to be fetched from memory again.
        found = list(map(crc32c, covered))
        if found != checksums:
            wrong = next(place for place, checksum in enumerate(checksums) if found[place] != checksum)
            del wagons[wrong // 2 :]
        return Train(self._bytes, first, wagons) if len(wagons) >= 2 else None

    def _wagon(self, position: int, number: int, limit: int) -> Wagon | None:
        """The batch at `position`, not yet checked; None where it looks wrong, or has more than bodies."""
        tag_at = position + RECORD_HEAD.size
        if tag_at > limit:
            return None
        (
            size_word,
            checksum,
            offset,
            at,
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
        ) = RECORD_HEAD.unpack_from(self._bytes, position)
        end, area_at = position + SIZE_WORD.size + size_word, aligned(tag_at + tag_size)
        is_next = at == number and offset == self._block.base_offset + position and size_word <= BATCH_SIZE_MAX
        is_plain = codec == CODEC_COLUMNS and key_size == NO_KEY and corr_offset == NO_CORR_OFFSET
        if not is_next or not is_plain or compression or id_size or headers_size:
            return None
        ends_at = area_at + PLAIN_TABLE.size
        if ends_at > end or aligned(end) > limit:
            return None
        section_count, _, ends_kind, ends_size, kind, size = PLAIN_TABLE.unpack_from(self._bytes, area_at)
        is_plain = ends_kind == SECTION_BODY_ENDS and kind == SECTION_BODIES
        if section_count == MARKED_COUNT and ends_at + SECTION.size <= end:
            # A marker says who put the messages, and nothing of what they are.
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
        return tuple.__new__(Wagon, fields)
