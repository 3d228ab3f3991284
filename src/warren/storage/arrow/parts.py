"""The parts of a scan, each with a method for every column: a batch, a run of single records, or a few records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warren.message import NO_CORR_OFFSET, NO_HEADERS
from warren.storage.arrow.arrays import (
    BINARY,
    HEADERS,
    ColumnPiece,
    RepeatedValue,
    cut,
    gathered,
    headers_array,
    text,
    with_nulls,
)
from warren.storage.format.columns import END, Columns
from warren.storage.format.layout import (
    SECTION_BODY_ENDS,
    SECTION_CORR_OFFSETS,
    SECTION_HEADERS_ENDS,
    SECTION_ID_ENDS,
    SECTION_KEY_ENDS,
    SECTION_TAG_CODES,
)
from warren.storage.format.record import Damage, DiskMessage, unpack_headers
from warren.storage.format.slices import RowSelection
from warren.storage.format.tags import TagFilter
from warren.storage.read.batch_runs import BatchRun
from warren.storage.read.single_runs import Run

LOOSE_ROWS_MAX: Final = 4096
LOOSE_SIZE_MAX: Final = 1 << 20


class Part(Protocol):
    """Consecutive messages, with a method for each column. The methods raise ValueError if bytes match their checksum
    but make no sense.

    `size` is about how many bytes the messages take. `culprit` returns the position of the first record that makes no
    sense.
    """

    @property
    def size(self) -> int: ...
    def __len__(self) -> int: ...
    def culprit(self) -> int: ...
    def number(self) -> ColumnPiece: ...
    def offset(self) -> ColumnPiece: ...
    def timestamp(self) -> ColumnPiece: ...
    def id(self) -> ColumnPiece: ...
    def tag(self) -> ColumnPiece: ...
    def key(self) -> ColumnPiece: ...
    def headers(self) -> ColumnPiece: ...
    def corr_offset(self) -> ColumnPiece: ...
    def body(self) -> ColumnPiece: ...


class BatchPart:
    """Some rows of a batch. Not copied if the rows are adjacent and the batch is not compressed."""

    def __init__(self, record: DiskMessage, columns: Columns, rows: RowSelection) -> None:
        self._record, self._columns, self._rows = record, columns, rows
        self._count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        return self._columns.size * self._count // self._columns.count

    def culprit(self) -> int:
        return self._record.position

    def _some(self, array: pa.Array) -> pa.Array:
        rows = self._rows
        if not isinstance(rows, slice):
            return array.take(pa.array(rows))
        return array if self._count == len(array) else array.slice(rows.start, self._count)

    def _cut(self, kind: int) -> pa.Array:
        return cut(self._columns.count, self._columns.ends(kind), self._columns.section(kind + 1))

    def number(self) -> ColumnPiece:
        rows, number = self._rows, self._record.number
        return range(number + rows.start, number + rows.stop) if isinstance(rows, slice) else rows + number

    def offset(self) -> ColumnPiece:
        return RepeatedValue(self._record.offset, self._count)

    def timestamp(self) -> ColumnPiece:
        return RepeatedValue(self._record.timestamp, self._count)

    def id(self) -> ColumnPiece:
        if SECTION_ID_ENDS not in self._columns:
            return RepeatedValue(self._record.id, self._count)
        return self._some(text(self._cut(SECTION_ID_ENDS)))

    def tag(self) -> ColumnPiece:
        if SECTION_TAG_CODES not in self._columns:
            return RepeatedValue(self._record.tag, self._count)
        tags = self._columns.tags()
        return pa.array(tags, pa.string()).take(pa.array(self._columns.tag_codes(len(tags))[self._rows]))

    def key(self) -> ColumnPiece:
        if SECTION_KEY_ENDS not in self._columns:
            return RepeatedValue(self._record.key, self._count)
        keys, is_present = self._cut(SECTION_KEY_ENDS), self._columns.keys_present()
        return self._some(keys if is_present is None else with_nulls(keys, is_present))

    def headers(self) -> ColumnPiece:
        if SECTION_HEADERS_ENDS not in self._columns:
            return RepeatedValue(NO_HEADERS, self._count)
        return headers_array(self._columns.blobs(SECTION_HEADERS_ENDS, self._rows))

    def corr_offset(self) -> ColumnPiece:
        if SECTION_CORR_OFFSETS not in self._columns:
            return RepeatedValue(self._record.corr_offset, self._count)
        return self._columns.corr_offsets()[self._rows]

    def body(self) -> ColumnPiece:
        return self._some(self._cut(SECTION_BODY_ENDS))


class BatchRunPart:
    """A run of batches, whose columns are copied into one array each."""

    def __init__(self, run: BatchRun) -> None:
        self.run, self._count = run, len(run)

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        return self.run.size

    def culprit(self) -> int:
        parts = map(BatchRunPart, self.run.single())
        return next((part.run.batches[0].position for part in parts if not _makes_sense(part)), 0)

    def _repeated(self, values: Sequence[int]) -> npt.NDArray[np.int64]:
        """Returns the value of its batch for each row."""
        return np.repeat(np.array(values, np.int64), self.run.counts)

    def number(self) -> ColumnPiece:
        return range(self.run.number, self.run.number + self._count)

    def offset(self) -> ColumnPiece:
        return self._repeated([batch.offset for batch in self.run.batches])

    def timestamp(self) -> ColumnPiece:
        return self._repeated([batch.timestamp for batch in self.run.batches])

    def id(self) -> ColumnPiece:
        return RepeatedValue("", self._count)

    def tag(self) -> ColumnPiece:
        tags = [str(batch.tag, "utf-8") for batch in self.run.batches]
        if len(set(tags)) == 1:
            return RepeatedValue(tags[0], self._count)
        return pa.array(tags, pa.string()).take(pa.array(self._repeated(range(len(tags)))))

    def key(self) -> ColumnPiece:
        return RepeatedValue(None, self._count)

    def headers(self) -> ColumnPiece:
        return RepeatedValue(NO_HEADERS, self._count)

    def corr_offset(self) -> ColumnPiece:
        return RepeatedValue(NO_CORR_OFFSET, self._count)

    def body(self) -> ColumnPiece:
        run = self.run
        sizes = run.ends[run.lasts]
        bases = np.cumsum(sizes, dtype=END) - sizes
        # The last end of a batch is also the 0 before the ends of the next one.
        ends = np.delete(run.ends + np.repeat(bases, run.counts + 1), run.lasts[:-1])
        bodies = b"".join([run.view[batch.bodies_at : batch.bodies_end] for batch in run.batches])
        return cut(self._count, ends, bodies)


class SpacedPart(BatchRunPart):
    """A run of batches whose bodies are not copied: between two batches is a row that belongs to no message.

    The body of such a row is everything between the two batches. `slices` yields which rows belong to messages.
    """

    def __init__(self, run: BatchRun) -> None:
        super().__init__(run)
        self._count += len(run.batches) - 1

    def slices(self) -> Iterator[tuple[int, int]]:
        """Yields the first row and the number of rows of each batch."""
        return zip((self.run.lasts - self.run.counts).tolist(), self.run.counts.tolist(), strict=True)

    def _repeated(self, values: Sequence[int]) -> npt.NDArray[np.int64]:
        return np.repeat(np.array(values, np.int64), self.run.counts + 1)[:-1]

    def number(self) -> ColumnPiece:
        counts = self.run.counts
        firsts = np.cumsum(counts) - counts + self.run.number
        if (counts == counts[0]).all():
            return (firsts[:, None] + np.arange(counts[0] + 1)).ravel()[:-1]
        return np.concatenate(
            [np.arange(first, first + count + 1) for first, count in zip(firsts, counts, strict=True)]
        )[:-1]

    def body(self) -> ColumnPiece:
        run, counts = self.run, self.run.counts
        starts = np.array([batch.bodies_at for batch in run.batches], END)
        if (counts == counts[0]).all():
            ends = (run.ends.reshape(len(starts), -1) + starts[:, None]).ravel()
        else:
            ends = run.ends + np.repeat(starts, counts + 1)
        return cut(self._count, ends, run.view)


class RunPart:
    """A run of single records, or a selection of them."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __len__(self) -> int:
        return len(self._run)

    @property
    def size(self) -> int:
        run = self._run
        if run.is_compressed:
            return int(run.body_sizes.sum())
        # If some records were left out, the others are assumed to have an equal share of the bytes.
        numbers = run.field("number")
        return (run.end - int(run.positions[0])) * len(run) // int(numbers[-1] - numbers[0] + 1)

    def culprit(self) -> int:
        rows = (self._run.picked(slice(row, row + 1)) for row in range(len(self)))
        return next((int(row.positions[0]) for row in rows if not _makes_sense(RunPart(row))), 0)

    def passing(self, tag: TagFilter) -> RunPart | None:
        """Returns the records that pass the filter, or None if none does. Matches each tag once."""
        tags = gathered(self._run.tags).dictionary_encode()
        passes = np.fromiter(map(tag.matches, text(tags.dictionary).to_pylist()), bool, len(tags.dictionary))
        rows = np.flatnonzero(passes[tags.indices.to_numpy()])
        if len(rows) == len(self):
            return self
        return RunPart(self._run.picked(rows)) if len(rows) else None

    def number(self) -> ColumnPiece:
        numbers = self._run.field("number")
        first, last = int(numbers[0]), int(numbers[-1])
        return range(first, last + 1) if last - first == len(numbers) - 1 else numbers

    def offset(self) -> ColumnPiece:
        return self._run.field("offset")

    def timestamp(self) -> ColumnPiece:
        return self._run.field("timestamp")

    def id(self) -> ColumnPiece:
        return text(gathered(self._run.ids)) if self._run.field("id_size").any() else RepeatedValue("", len(self))

    def tag(self) -> ColumnPiece:
        return text(gathered(self._run.tags)) if self._run.field("tag_size").any() else RepeatedValue("", len(self))

    def key(self) -> ColumnPiece:
        is_present = self._run.keys_present
        return with_nulls(gathered(self._run.keys), is_present) if is_present.any() else RepeatedValue(None, len(self))

    def headers(self) -> ColumnPiece:
        has_headers = self._run.field("headers_size").any()
        return headers_array(self._run.headers) if has_headers else RepeatedValue(NO_HEADERS, len(self))

    def corr_offset(self) -> ColumnPiece:
        return self._run.field("corr_offset")

    def body(self) -> ColumnPiece:
        if self._run.is_compressed:
            return pa.array(self._run.unpacked_bodies(), BINARY)
        return gathered(self._run.bodies)


class LoosePart:
    """Single records that were read one by one."""

    def __init__(self, *records: DiskMessage) -> None:
        self._records, self.size = list(records), sum(len(record.body) for record in records)

    def __len__(self) -> int:
        return len(self._records)

    @property
    def is_full(self) -> bool:
        return len(self) >= LOOSE_ROWS_MAX or self.size >= LOOSE_SIZE_MAX

    def add(self, record: DiskMessage) -> None:
        self._records.append(record)
        self.size += len(record.body)

    def culprit(self) -> int:
        return next((record.position for record in self._records if not _makes_sense(LoosePart(record))), 0)

    def number(self) -> ColumnPiece:
        return np.array([record.number for record in self._records])

    def offset(self) -> ColumnPiece:
        return np.array([record.offset for record in self._records])

    def timestamp(self) -> ColumnPiece:
        return np.array([record.timestamp for record in self._records])

    def id(self) -> ColumnPiece:
        return pa.array([record.id for record in self._records], pa.string())

    def tag(self) -> ColumnPiece:
        return pa.array([record.tag for record in self._records], pa.string())

    def key(self) -> ColumnPiece:
        return pa.array([record.key for record in self._records], BINARY)

    def headers(self) -> ColumnPiece:
        return pa.array([list(unpack_headers(record.headers).items()) for record in self._records], HEADERS)

    def corr_offset(self) -> ColumnPiece:
        return np.array([record.corr_offset for record in self._records])

    def body(self) -> ColumnPiece:
        return pa.array([record.body for record in self._records], BINARY)


def _makes_sense(part: Part) -> bool:
    try:
        for column in (part.id, part.tag, part.key, part.headers, part.corr_offset, part.body):
            column()
    except (Damage, ValueError):
        return False
    return True
