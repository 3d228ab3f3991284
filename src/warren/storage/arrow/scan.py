"""Scans a range of a log as Arrow record batches, without a Python loop over its messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import pyarrow as pa

from warren.clock import microseconds
from warren.errors import BadInput, NumberRetired
from warren.storage.arrow.arrays import SCHEMA, ColumnPiece, as_array, joined
from warren.storage.arrow.parts import BatchPart, BatchRunPart, LoosePart, Part, RunPart, SpacedPart
from warren.storage.disk.block import Block
from warren.storage.format.columns import passing_rows
from warren.storage.format.kafka_columns import columns_of
from warren.storage.format.layout import CODEC_SINGLE
from warren.storage.format.limits import SCAN_IN_PLACE_ROWS_MIN, SCAN_ROWS_DEFAULT
from warren.storage.format.record import Damage, DiskMessage, Unreadable
from warren.storage.format.tags import TagFilter
from warren.storage.read.batch_runs import BatchRun, BatchRunFinder, SkipFinder, Skipped
from warren.storage.read.log_view import LogView, Stretch
from warren.storage.read.single_runs import Run, RunFinder
from warren.storage.read.walk import walk

ALONE_ROWS_MIN: Final = 8192
ALONE_SIZE_MIN: Final = 1 << 20
"""A part with this many rows or bytes becomes a record batch of its own, without a copy. Smaller ones are joined."""
SIZE_TARGET: Final = 8 << 20


def scan(
    view: LogView,
    start: int | None = None,
    end: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    tag: TagFilter | None = None,
    since: datetime | float | int | None = None,
    until: datetime | float | int | None = None,
    rows_min: int = SCAN_IN_PLACE_ROWS_MIN,
    skips: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yields the messages from `start` up to `end`, from the time `since` up to `until`, that pass the filter.

    Batches with fewer rows than `rows_min` are joined, which copies them; larger ones are not copied. With `skips`,
    batches without a tag that passes are neither read nor checked; their tags are not verified. Stops at the end of the
    log. Raises NumberRetired if `start` is before its first message.
    """
    schema = _picked_schema(columns)
    first, last_end = view.first, view.end
    start = first if start is None else start
    if start < first:
        raise NumberRetired(start, first)
    end = last_end if end is None else min(end, last_end)
    # Times never decrease in a log, so a range of time is a range of numbers. The slots of the index help to find it.
    if since is not None:
        start = max(start, view.find_time(microseconds(since)))
    if until is not None:
        end = min(end, view.find_time(microseconds(until)))
    return _batches(view, range(start, end), schema, tag, rows_min, skips=skips)


def _picked_schema(columns: Sequence[str] | None) -> pa.Schema:
    names = SCHEMA.names if columns is None else list(columns)
    unknown = [name for name in names if name not in SCHEMA.names]
    if unknown or not names or len(set(names)) < len(names):
        what = f"there is no {unknown[0]!r}" if unknown else "expected at least one, each once"
        raise BadInput(f"columns {names}: {what}; the columns are {', '.join(SCHEMA.names)}")
    return pa.schema([SCHEMA.field(name) for name in names])


def _batches(
    view: LogView, numbers: range, schema: pa.Schema, tag: TagFilter | None, rows_min: int, *, skips: bool
) -> Iterator[pa.RecordBatch]:
    heap = PendingParts(schema)
    number = numbers.start
    while number < numbers.stop:
        stretch = view.locate(number, numbers.stop)
        end = min(numbers.stop, stretch.end_number)
        for part in _parts(view, stretch, range(number, end), tag, rows_min, skips=skips):
            is_alone = len(part) >= _alone_rows_min(part, rows_min) or part.size >= ALONE_SIZE_MIN
            if len(heap) and (is_alone or heap.is_full):
                yield heap.take()
            try:
                if not is_alone:
                    heap.add(part)
                    continue
                together = heap.alone(part)
            except (Damage, ValueError) as error:
                raise stretch.block.corrupt(Damage(part.culprit(), _reason(error))) from error
            if isinstance(part, SpacedPart):
                yield from (together.slice(row, count) for row, count in part.slices())
            else:
                yield together
        number = end
    if len(heap):
        yield heap.take()


def _alone_rows_min(part: Part, rows_min: int) -> int:
    """Returns how many rows make a part a record batch of its own: fewer if it is then not copied."""
    return rows_min if isinstance(part, BatchPart | SpacedPart) else ALONE_ROWS_MIN


def _reason(error: Exception) -> str:
    return error.reason if isinstance(error, Damage) else str(error)


class PendingParts:
    """Parts that will be joined to one record batch. Keeps only the requested columns of each part."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema, self._names, self._kinds = schema, schema.names, schema.types
        self._clear()

    def _clear(self) -> None:
        self._pieces: list[list[ColumnPiece]] = [[] for _ in self._names]
        self._row_count = self._size = 0

    def __len__(self) -> int:
        return self._row_count

    @property
    def is_full(self) -> bool:
        return self._row_count >= SCAN_ROWS_DEFAULT or self._size >= SIZE_TARGET

    def alone(self, part: Part) -> pa.RecordBatch:
        """Returns a part as a record batch of its own."""
        arrays = [as_array(getattr(part, name)(), kind) for name, kind in zip(self._names, self._kinds, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def add(self, part: Part) -> None:
        for pieces, name in zip(self._pieces, self._names, strict=True):
            pieces.append(getattr(part, name)())
        self._row_count += len(part)
        self._size += part.size

    def take(self) -> pa.RecordBatch:
        """Returns all added parts as one record batch."""
        arrays = list(map(joined, self._pieces, self._kinds))
        self._clear()
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _parts(
    view: LogView, stretch: Stretch, numbers: range, tag: TagFilter | None, rows_min: int, *, skips: bool
) -> Iterator[Part]:
    """Yields the parts of one block with the messages of these numbers that pass the filter."""
    block, limit, _ = stretch
    runs = RunFinder(block, limit, numbers.stop, SIZE_TARGET)
    batches: BatchRunFinder | SkipFinder | None = BatchRunFinder(block, limit, numbers.stop) if tag is None else None
    if tag is not None and skips:
        batches = SkipFinder(block, limit, tag)
    else:
        block.will_read(numbers.start, numbers.stop, limit)

    def find(position: int, number: int) -> Run | BatchRun | Skipped | None:
        return runs.find(position, number) or (batches.find(position, number) if batches is not None else None)

    loose = LoosePart()
    for item in walk(block, limit, numbers.start, numbers.stop, find):
        is_loose = isinstance(item, DiskMessage) and item.codec == CODEC_SINGLE
        if len(loose) and (not is_loose or loose.is_full):
            yield loose
            loose = LoosePart()
        if isinstance(item, Run):
            yield from _run_parts(item, block, tag)
        elif isinstance(item, BatchRun):
            rows_a_batch = len(item) // len(item.batches)
            yield SpacedPart(item) if rows_a_batch >= rows_min else BatchRunPart(item)
        elif isinstance(item, DiskMessage) and not is_loose:
            part = _batch_part(view, item, block, numbers, tag)
            if part is not None:
                yield part
        elif isinstance(item, DiskMessage) and (tag is None or tag.matches(item.tag)):
            loose.add(item)
    if len(loose):
        yield loose


def _run_parts(run: Run, block: Block, tag: TagFilter | None) -> Iterator[Part]:
    try:
        for each in run.parts(SIZE_TARGET):
            part = RunPart(each) if tag is None else RunPart(each).passing(tag)
            if part is not None:
                yield part
    except ValueError as error:
        raise block.corrupt(Damage(RunPart(run).culprit(), str(error))) from error


def _batch_part(view: LogView, record: DiskMessage, block: Block, numbers: range, tag: TagFilter | None) -> Part | None:
    """Returns the rows of a batch that have these numbers and pass, or None if there are none or it cannot be read."""
    row, row_end = max(0, numbers.start - record.number), min(record.message_count, numbers.stop - record.number)
    try:
        columns = columns_of(record)
        rows = passing_rows(columns, record.tag, slice(row, row_end), tag)
    except Unreadable:
        view.passed_over += 1
        return None
    except Damage as damage:
        raise block.corrupt(Damage(record.position, damage.reason)) from damage
    return None if rows is None else BatchPart(record, columns, rows)
