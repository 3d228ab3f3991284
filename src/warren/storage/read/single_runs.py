"""Runs: adjacent single records of a block that are found and checked together and read as columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from mmap import mmap
from typing import Final

import numpy as np
import numpy.typing as npt

from warren.storage.disk.block import Block
from warren.storage.format.checksum import crc32c
from warren.storage.format.compression import decompress
from warren.storage.format.layout import (
    ALIGNMENT,
    CODEC_SINGLE,
    INDEX_SPACING,
    META_DATA,
    NO_KEY,
    PAYLOAD_AT,
    RAW_SIZE,
    RECORD_HEAD,
    SIZE_MASK,
    SIZE_WORD,
    STAMP_AT,
    STAMP_END,
    RecordHead,
    aligned,
)
from warren.storage.format.slices import Blobs, Positions, RowSelection, fields_type

HEAD: Final = fields_type(RECORD_HEAD, RecordHead._fields)
HEAD_WORDS: Final = RECORD_HEAD.size // ALIGNMENT
ALIGNMENT_BITS: Final = ALIGNMENT.bit_length() - 1
CODEC_AT: Final = int(HEAD.fields["codec"][1]) if HEAD.fields else 0

LANES_MIN: Final = 16
LANES_MAX: Final = 256
"""The columns of this many groups of 64 records still fit the processor cache."""
RUN_ROWS_MIN: Final = 24
"""A shorter run is read faster record by record."""
GROUP_SIZE_MAX: Final = 1 << 20
"""In a group that is larger than this, a checksum for each record costs little."""

Words = npt.NDArray[np.int64]
Heads = npt.NDArray[np.void]


class Run:
    """Adjacent single records, each of them checked, or a selection of them, as columns over the mapped block."""

    def __init__(self, view: mmap, positions: Positions, heads: Heads) -> None:
        self.view, self.positions, self.heads = view, positions, heads

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def end(self) -> int:
        """The position of the next blob."""
        return aligned(int(self.positions[-1]) + SIZE_WORD.size + int(self.heads["size_word"][-1]))

    def picked(self, rows: RowSelection) -> Run:
        """Returns a run of only these rows."""
        return Run(self.view, self.positions[rows], self.heads[rows])

    @property
    def number(self) -> int:
        """The number of the first message."""
        return int(self.heads["number"][0])

    @property
    def is_compressed(self) -> bool:
        """Whether at least one body is compressed."""
        return bool(self._sizes("compression").any())

    @property
    def body_sizes(self) -> Positions:
        """The size of each body when it is unpacked."""
        sizes = self._body_end - self._body_at
        if self.is_compressed:
            packed = np.flatnonzero(self.field("compression"))
            if (sizes[packed] < RAW_SIZE.size).any():
                raise ValueError("no size before the compressed bytes")
            sizes[packed] = self.bodies.picked(packed).windows(RAW_SIZE.size).view("<u4")
        return sizes

    def parts(self, size_max: int) -> Iterator[Run]:
        """Yields the records in runs of at most `size_max` bytes of unpacked bodies, or of one record."""
        if not self.is_compressed:
            yield self
            return
        ends = np.cumsum(self.body_sizes)
        row, size = 0, 0
        while row < len(self):
            row_end = max(row + 1, int(np.searchsorted(ends, size + size_max, "right")))
            yield self.picked(slice(row, row_end))
            row, size = row_end, int(ends[row_end - 1])

    def field(self, name: str) -> npt.NDArray[np.int64]:
        """Returns one field of every head, with its width in the head."""
        field: npt.NDArray[np.int64] = self.heads[name]
        return field

    @cached_property
    def _is_even(self) -> bool:
        """Whether all heads have the same codec and sizes, which are their last word."""
        words = self.heads.view("<i8").reshape(-1, HEAD_WORDS)[:, -1]
        return bool((words == words[:1]).all())

    def _sizes(self, name: str) -> npt.NDArray[np.int64]:
        """Returns a size from the heads: one value for each record, or a single one if all are equal."""
        return self.field(name)[:1] if self._is_even else self.field(name)

    @cached_property
    def _tag_at(self) -> Positions:
        return self.positions + (RECORD_HEAD.size + self._sizes("id_size").astype(np.int64))

    @cached_property
    def _key_at(self) -> Positions:
        return self._tag_at + self._sizes("tag_size") if self._sizes("tag_size").any() else self._tag_at

    @cached_property
    def _headers_at(self) -> Positions:
        sizes = self._sizes("key_size")
        sizes = np.where(sizes == NO_KEY, 0, sizes)
        return self._key_at + sizes if sizes.any() else self._key_at

    @cached_property
    def _body_at(self) -> Positions:
        return self._headers_at + self._sizes("headers_size") if self._sizes("headers_size").any() else self._headers_at

    @cached_property
    def _body_end(self) -> Positions:
        return self.positions + SIZE_WORD.size + self.field("size_word")

    @property
    def ids(self) -> Blobs:
        return Blobs(self.view, self.positions + RECORD_HEAD.size, self._tag_at)

    @property
    def tags(self) -> Blobs:
        return Blobs(self.view, self._tag_at, self._key_at)

    @property
    def keys(self) -> Blobs:
        return Blobs(self.view, self._key_at, self._headers_at)

    @property
    def keys_present(self) -> npt.NDArray[np.bool_]:
        """Which records have a key, which may be empty."""
        is_present: npt.NDArray[np.bool_] = self.field("key_size") != NO_KEY
        return is_present

    @property
    def headers(self) -> Blobs:
        return Blobs(self.view, self._headers_at, self._body_at)

    @property
    def bodies(self) -> Blobs:
        """The bodies as they are on disk: compressed if `compression` says so."""
        return Blobs(self.view, self._body_at, self._body_end)

    def unpacked_bodies(self) -> list[bytes]:
        """Returns the unpacked bodies as Python values. Raises ValueError if one cannot be unpacked."""
        bodies = self.bodies.to_list()
        if self.is_compressed:
            pairs = zip(bodies, self.field("compression").tolist(), strict=True)
            bodies = [decompress(body, code) if code else body for body, code in pairs]
        return bodies

    def fitting(self, limit: int) -> npt.NDArray[np.bool_]:
        """Returns which records are as long as the sizes in their heads say, and end before `limit`."""
        key_sizes = self._sizes("key_size").astype(np.int64)
        needed = RECORD_HEAD.size - SIZE_WORD.size + np.where(key_sizes == NO_KEY, 0, key_sizes)
        for name in ("id_size", "tag_size", "headers_size"):
            needed += self._sizes(name)
        sizes = self.field("size_word")
        is_fitting: npt.NDArray[np.bool_] = sizes >= needed
        if self.positions[-1] + SIZE_WORD.size + int(sizes.max()) > limit:
            is_fitting &= self._body_end <= limit
        return is_fitting


class RunFinder:
    """Finds runs in one block, and reads nothing past `limit`. For one reader that goes forwards.

    The index holds the position of every 64th message, so that all groups of 64 are walked at the same time. Its
    entries are hints: a run continues as long as each record starts where the one before it ends, and has the expected
    offset and number.
    """

    def __init__(self, block: Block, limit: int, end: int, size_max: int) -> None:
        self._block, self._limit, self._end, self._size_max = block, limit, end, size_max
        self._lanes = LANES_MIN
        self._next_try = 0

    @cached_property
    def _bytes(self) -> memoryview:
        return memoryview(self._block.view)

    @cached_property
    def _words(self) -> Words:
        return np.frombuffer(self._block.view, "<i8", self._limit // ALIGNMENT)

    def find(self, position: int, number: int) -> Run | None:
        """Returns the run that starts with message `number`, whose record stands at `position`, and ends before `end`.

        Returns None if that record is better read by itself. A run ends before the first record that does not check. It
        has at least one record, and only the first may start `size_max` bytes or more past `position`.

        The index of the block names every 64th record. Each entry starts a lane, and all lanes are walked together, one
        numpy operation for each step:

            entry 0 -> | rec 0 | rec 1 | … | rec 63 |          rec n: | size word | … head … | payload | padding |
            entry 1 -> | rec 64 | rec 65 | … | rec 127 |       the size word says where rec n + 1 starts
            entry 2 -> | rec 128 | …                           the end of a lane must be the start of the next one
        """
        index, end = self._block.index, self._end
        if index is None or number < self._next_try or end - number < RUN_ROWS_MIN:
            return None
        if position + RECORD_HEAD.size > self._limit or self._bytes[position + CODEC_AT] != CODEC_SINGLE:
            return None
        base_number = self._block.base_number
        group = (number - base_number) // INDEX_SPACING
        group_number = base_number + group * INDEX_SPACING
        group_count = min(self._lanes, -(-(end - group_number) // INDEX_SPACING))
        entries = self._usable(index.entries(group, group + group_count), position + self._size_max)
        rows = slice(number - group_number, min(end - group_number, len(entries) * INDEX_SPACING))
        # The groups are checked before they are walked, so that the walk finds them in the processor cache.
        is_good = self._check_groups(entries, entries[1:, 0])
        lanes = self._walk(entries[:, 0] // ALIGNMENT, rows.stop)
        run, good_count = self._look(lanes, rows, position, number)
        if good_count and good_count == len(run):
            self._lanes = min(self._lanes * 2, LANES_MAX)
        else:
            self._lanes = LANES_MIN
            self._next_try = number + good_count
            self._next_try += INDEX_SPACING - (self._next_try - base_number) % INDEX_SPACING
            if good_count < RUN_ROWS_MIN:
                return None
        count = min(good_count, int(np.searchsorted(run.positions, position + self._size_max)))
        if count < len(run):
            run = run.picked(slice(count))
        checked = self._count_checked(run, rows.start, lanes[:, -1] * ALIGNMENT, entries, is_good)
        if checked < count:
            return run.picked(slice(checked)) if checked else None
        return run

    def _usable(self, entries: Words, position_end: int) -> Words:
        """Returns the entries before the first that cannot be right, or that is at or past `position_end`."""
        positions = entries[:, 0]
        is_usable = (positions > 0) & (positions % ALIGNMENT == 0) & (positions < min(self._limit, position_end))
        return entries[: count_true(is_usable)]

    # --- Walking ---

    def _walk(self, starts: Words, row_count: int) -> Words:
        """Returns for each lane the places of its records and the end of the last one, in words of 8 bytes.

        Places after the first `row_count` records may be wrong.
        """
        steps = self._steps(starts)[:, None]
        lanes = starts[:, None] + steps * np.arange(INDEX_SPACING + 1)
        # Records often have the same size: then the first of a lane gives the places of all.
        is_even = self._steps(lanes[:, :-1]) == steps
        is_even.ravel()[row_count:] = True
        uneven = np.flatnonzero(~is_even.all(axis=1))
        if len(uneven):
            lanes[uneven] = self._walk_in_step(starts[uneven])
        return lanes

    def _walk_in_step(self, starts: Words) -> Words:
        places = np.empty((INDEX_SPACING + 1, len(starts)), np.int64)
        places[0] = starts
        for row in range(INDEX_SPACING):
            np.add(places[row], self._steps(places[row]), out=places[row + 1])
        return places.T

    def _steps(self, places: Words) -> Words:
        """Returns the size of the blob at each place in words of 8 bytes; any number if there is no blob."""
        steps = self._words.take(places, mode="clip")
        steps &= SIZE_MASK
        steps += SIZE_WORD.size + ALIGNMENT - 1
        steps >>= ALIGNMENT_BITS
        return steps

    # --- Believing ---

    def _look(self, lanes: Words, rows: slice, position: int, number: int) -> tuple[Run, int]:
        """Returns the run in these rows of the lanes, and how many of its first records are at the expected places."""
        positions = lanes[:, :-1].ravel()[rows] * ALIGNMENT
        heads = heads_at(self._block.view, self._limit, positions)
        run = Run(self._block.view, positions, heads)
        if not len(run) or positions[0] != position:
            return run, 0
        conditions = [
            heads["size_word"] < META_DATA,
            heads["message_count"] == 1,
            heads["codec"] == CODEC_SINGLE,
            heads["offset"] == positions + self._block.base_offset,
            heads["number"] == np.arange(number, number + len(run)),
            run.fitting(self._limit),
        ]
        joined = self._count_joined(lanes) * INDEX_SPACING - rows.start
        return run, min(joined, *map(count_true, conditions))

    def _count_joined(self, lanes: Words) -> int:
        """Returns how many of the first lanes end where the next one starts. An index message may be in between."""
        ends, starts = lanes[:-1, -1], lanes[1:, 0]
        for lane in np.flatnonzero(ends != starts).tolist():
            is_meta = ends[lane] < len(self._words) and self._words[ends[lane]] & META_DATA
            if not is_meta or ends[lane] + self._steps(ends[lane : lane + 1])[0] != starts[lane]:
                return lane + 1
        return len(lanes)

    def _check_groups(self, entries: Words, ends: Positions) -> npt.NDArray[np.bool_]:
        """Returns which groups match their checksum in the index. A group without a checksum or an end does not."""
        is_good = np.zeros(len(entries), np.bool_)
        starts, checksums = entries[: len(ends)].T
        is_known = (checksums != 0) & (starts < ends) & (ends <= self._limit) & (ends - starts <= GROUP_SIZE_MAX)
        groups = np.flatnonzero(is_known)
        places = zip(starts[groups].tolist(), ends[groups].tolist(), strict=True)
        computed = list(map(crc32c, [self._bytes[start:end] for start, end in places]))
        is_good[groups] = checksums[groups] == np.array(computed, np.int64)
        return is_good

    def _count_checked(
        self, run: Run, skipped: int, group_ends: Positions, entries: Words, is_good: npt.NDArray[np.bool_]
    ) -> int:
        """Returns how many of the first records match their checksums. The run omits `skipped` records of the first
        group.

        `is_good` marks the groups that end where the next one starts and match their checksum: their records are good.
        """
        for group in np.flatnonzero(~is_good[: -(-(skipped + len(run)) // INDEX_SPACING)]).tolist():
            rows = slice(max(0, group * INDEX_SPACING - skipped), (group + 1) * INDEX_SPACING - skipped)
            # An index message may be between a group and the next one.
            if not self._check_groups(entries[group : group + 1], group_ends[group : group + 1])[0]:
                count = count_matching(self._bytes, run.positions[rows], run.heads[rows])
                if count < len(run.positions[rows]):
                    return rows.start + count
        return len(run)


def count_matching(view: memoryview, positions: Positions, heads: Heads) -> int:
    """Returns how many of these records, before the first that does not, match their checksums."""
    fields = [heads[name].tolist() for name in ("size_word", "checksum", "stamp_checksum")]
    pairs = enumerate(zip(positions.tolist(), *fields, strict=True))
    for place, (position, size, checksum, stamp_checksum) in pairs:
        if crc32c(view[position + STAMP_AT : position + STAMP_END]) != stamp_checksum:
            return place
        if crc32c(view[position + PAYLOAD_AT : position + SIZE_WORD.size + size]) != checksum:
            return place
    return len(positions)


def heads_at(view: mmap, limit: int, positions: Positions) -> Heads:
    """Returns the heads of the records at these positions.

    A head that would exceed `limit` is read from another place.
    """
    count = max(1, limit // ALIGNMENT - HEAD_WORDS + 1)
    heads: Heads = np.ndarray((count,), f"V{HEAD.itemsize}", view, 0, (ALIGNMENT,))
    gathered: Heads = heads[np.minimum(positions >> ALIGNMENT_BITS, count - 1)].view(HEAD)
    return gathered


def count_true(conditions: npt.NDArray[np.bool_]) -> int:
    """Returns how many conditions hold before the first that does not."""
    return int(conditions.argmin()) if not conditions.all() else len(conditions)
