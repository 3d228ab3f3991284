"""Trains: batches that follow one another and have the same sections, seen as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from warren.config import SCAN_ROWS_DEFAULT
from warren.message import NO_CORR_OFFSET
from warren.storage.block import Block
from warren.storage.checksum import crc32c
from warren.storage.columns import END, Columns, Ends, decoded
from warren.storage.layout import (
    CODEC_COLUMNS,
    NO_KEY,
    PAYLOAD_AT,
    RECORD_HEAD,
    SECTION_TAG_CODES,
    SIZE_WORD,
    STAMP_AT,
    STAMP_END,
    RecordHead,
    aligned,
)
from warren.storage.record import Damage, DiskMessage

BATCH_SIZE_MAX: Final = 512 << 10
"""A batch that is larger is worth a look by itself."""
TRAIN_SIZE_MAX: Final = 2 << 20
"""What was checked a moment ago is still near the processor when it is used."""


NO_KEY_NO_HEADERS: Final = [NO_KEY, 0]
SIZE_WORD_PLACE: Final = RecordHead._fields.index("size_word")
CHECKSUM_PLACE: Final = RecordHead._fields.index("checksum")
STAMP_CHECKSUM_PLACE: Final = RecordHead._fields.index("stamp_checksum")


class Train(Columns):
    """The columns of one batch, or of several one behind the other that have the same sections."""

    def __init__(self, records: Sequence[DiskMessage], columns: Sequence[Columns]) -> None:
        self.records, self._parts, self.kinds = records, columns, columns[0].kinds
        self.counts = [part.count for part in columns]
        self.count = sum(self.counts)

    def __len__(self) -> int:
        return self.count

    @property
    def first(self) -> DiskMessage:
        return self.records[0]

    @property
    def end(self) -> int:
        """Where the next blob starts."""
        return self.records[-1].end

    @property
    def size(self) -> int:
        return sum(len(record.area) for record in self.records)

    def batches(self) -> Iterator[Train]:
        """Each batch by itself."""
        for record, columns in zip(self.records, self._parts, strict=True):
            yield Train([record], [columns])

    def repeated(self, values: Sequence[int]) -> npt.NDArray[np.int64]:
        """A value for each batch, as one for each message."""
        return np.repeat(np.array(values, np.int64), self.counts)

    # --- Sections ---

    def __contains__(self, kind: int) -> bool:
        return kind in self.kinds

    def section(self, kind: int) -> bytes | memoryview:
        """The sections of all, back to back: of one batch where it lies."""
        if len(self._parts) == 1:
            return self._parts[0].section(kind)
        return b"".join([columns.section(kind) for columns in self._parts])

    def array(self, kind: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        return np.concatenate([columns.array(kind, dtype) for columns in self._parts])

    def ends(self, kind: int) -> Ends:
        """As if the sections of all were one."""
        if len(self._parts) == 1:
            return self._parts[0].ends(kind)
        ends, lasts = self._checked_ends(kind)
        sizes = ends[lasts]
        bases = np.cumsum(sizes, dtype=END) - sizes
        # The end of one batch is the 0 of the next.
        return np.delete(ends + np.repeat(bases, [count + 1 for count in self.counts]), lasts[:-1])

    def cuts(self, kind: int) -> Iterator[tuple[bytes | memoryview, bytes | memoryview]]:
        """For each batch its section of ends, and the section that they cut into pieces."""
        self._checked_ends(kind)
        return ((part.section(kind), part.section(kind + 1)) for part in self._parts)

    def _checked_ends(self, kind: int) -> tuple[Ends, npt.NDArray[np.int64]]:
        """The ends of all as they are, and the places of the last one of each batch."""
        sections = [part.section(kind) for part in self._parts]
        sizes = [len(part.section(kind + 1)) for part in self._parts]
        counts = np.array(self.counts) + 1
        if list(map(len, sections)) != (counts * END.itemsize).tolist():
            raise Damage(self.first.position, f"section {kind} has not one end for each message")
        ends: Ends = np.frombuffer(b"".join(sections), END)
        lasts = np.cumsum(counts) - 1
        # Where one batch follows another the ends start again at 0. There must be no other place where they decrease.
        decreases = sum(size > 0 for size in sizes[:-1])
        is_right = ends[lasts].tolist() == sizes and np.count_nonzero(ends[1:] < ends[:-1]) == decreases
        if not is_right or ends[lasts - counts + 1].any():
            raise Damage(self.first.position, f"section {kind} does not cut section {kind + 1} into pieces")
        return ends, lasts

    # --- Tags ---

    def _dictionaries(self) -> list[list[str]]:
        """The tags of each batch: those of its dictionary, or the one that all in it share."""
        if SECTION_TAG_CODES in self.kinds:
            return [columns.tags() for columns in self._parts]
        return [[record.tag] for record in self.records]

    def tags(self) -> list[str]:
        """The dictionaries of all, one behind the other."""
        return [tag for tags in self._dictionaries() for tag in tags]

    def tag_codes(self, tag_count: int) -> npt.NDArray[Any]:
        tag_counts = list(map(len, self._dictionaries()))
        bases = self.repeated(np.cumsum([0, *tag_counts[:-1]]).tolist())
        if SECTION_TAG_CODES not in self.kinds:
            return bases
        pairs = zip(self._parts, tag_counts, strict=True)
        codes: npt.NDArray[Any] = bases + np.concatenate([columns.tag_codes(count) for columns, count in pairs])
        return codes


class TrainFinder:
    """Finds trains in one block, of messages before `end`, and looks at nothing behind `limit`."""

    def __init__(self, block: Block, limit: int, end: int) -> None:
        self._block, self._limit, self._end = block, limit, end
        self._bytes = memoryview(block.view)

    def find(self, position: int, number: int) -> Train | None:
        """The train that starts with message `number`, the first of the batch at `position`.

        None where no two batches go together. Damage at the first batch that does not check.
        """
        position_end, number_end = (
            min(self._limit, position + TRAIN_SIZE_MAX),
            min(self._end, number + SCAN_ROWS_DEFAULT),
        )
        records: list[DiskMessage] = []
        columns: list[Columns] = []
        covered: list[memoryview] = []
        checksums: list[int] = []
        try:
            while position + RECORD_HEAD.size <= position_end:
                head = RECORD_HEAD.unpack_from(self._bytes, position)
                record = self._record(head, position, number, position_end)
                if record is None or number + record.message_count > number_end:
                    break
                part = Columns(record.area, record.message_count)
                if columns and part.kinds != columns[0].kinds:
                    break
                records.append(record)
                columns.append(part)
                covered += self._covered(position, head[SIZE_WORD_PLACE])
                checksums += head[STAMP_CHECKSUM_PLACE], head[CHECKSUM_PLACE]
                number, position = number + record.message_count, record.end
        except Damage:
            # What is wrong there is told by whoever reads that record by itself.
            pass
        if len(records) < 2:
            return None
        # All are checked in one go: nothing else runs meanwhile that would have to be fetched from memory again.
        found = list(map(crc32c, covered))
        if found != checksums:
            wrong = next(place for place, checksum in enumerate(checksums) if found[place] != checksum)
            what = "payload" if wrong % 2 else "stamp"
            raise Damage(records[wrong // 2].position, f"the {what} does not match its checksum")
        return Train(records, columns)

    def _record(self, head: tuple[int, ...], position: int, number: int, position_end: int) -> DiskMessage | None:
        """The batch with this head, not yet checked; None where it looks wrong, or has more in its head than a tag."""
        size_word, _, offset, at, timestamp, _, count, corr_offset, codec, id_size, tag_size, compression, *sizes = head
        is_right = at == number and offset == self._block.base_offset + position and size_word <= BATCH_SIZE_MAX
        is_plain = codec == CODEC_COLUMNS and corr_offset == NO_CORR_OFFSET and not compression and not id_size
        tag_at, area_end = position + RECORD_HEAD.size, position + SIZE_WORD.size + size_word
        end = aligned(area_end)
        if not is_right or not is_plain or sizes != NO_KEY_NO_HEADERS or not count or end > position_end:
            return None
        tag = decoded(self._bytes[tag_at : tag_at + tag_size]) if tag_size else ""
        area = self._bytes[aligned(tag_at + tag_size) : area_end]
        stamp = (position, end, offset, number, timestamp, count, codec)
        return tuple.__new__(DiskMessage, (*stamp, corr_offset, "", tag, None, b"", b"", area))

    def _covered(self, position: int, size: int) -> tuple[memoryview, memoryview]:
        """What the two checksums of a record cover: its stamp, and its payload."""
        end = position + SIZE_WORD.size + size
        return self._bytes[position + STAMP_AT : position + STAMP_END], self._bytes[position + PAYLOAD_AT : end]
