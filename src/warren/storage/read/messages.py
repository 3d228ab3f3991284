"""Reads messages by number, forwards. All other ways to read messages use this module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from warren.errors import NeedsMemory, NumberRetired
from warren.message import NO_HEADERS, Message
from warren.storage.disk.block import Block
from warren.storage.format import columns
from warren.storage.format.kafka_columns import columns_of
from warren.storage.format.layout import CODEC_SINGLE, SECTION_BODY_ENDS
from warren.storage.format.record import Damage, DiskMessage, Unreadable, unpack_headers
from warren.storage.format.slices import RowSelection
from warren.storage.format.tags import TagFilter
from warren.storage.read.log_view import LogView
from warren.storage.read.single_runs import Run, RunFinder
from warren.storage.read.walk import walk

RUN_SIZE_MIN: Final = 64 << 10
RUN_SIZE_MAX: Final = 4 << 20
BACKWARDS_STEP: Final = 256
BACKWARDS_SIZE: Final = 1 << 20
"""Going backwards, a page has at most BACKWARDS_STEP messages, and about this many bytes."""
UNREADABLE_KNOWN_MAX: Final = 1000
"""A block remembers at most this many batches that cannot be read, so that they are not unpacked again."""


class Label(NamedTuple):
    """The topic and partition that messages of a log carry."""

    topic: str
    partition: int


class Page(NamedTuple):
    """Messages that were read, and the number to continue from. Messages in between did not pass the filter."""

    messages: list[Message]
    next_number: int
    scanned: int = 0
    """About how many bytes were read, if that is limited."""

    def __bool__(self) -> bool:
        """Returns whether the page has a message."""
        return bool(self.messages)


class ScanRoom:
    """How many bytes a call may still search with a filter, over several pages; None for no limit.

    At the limit, some messages may not have been searched. The next call continues from there.
    """

    __slots__ = ("left",)

    def __init__(self, left: int | None = None) -> None:
        self.left = left

    @property
    def is_used_up(self) -> bool:
        return self.left is not None and self.left <= 0

    def use(self, page: Page) -> None:
        """Subtracts the bytes that were searched for a page."""
        if self.left is not None:
            self.left -= page.scanned


def read(
    view: LogView,
    label: Label,
    number: int,
    *,
    limit: int,
    bytes_max: int | None = None,
    tag: TagFilter | None = None,
    scanned_max: int | None = None,
) -> Page:
    """Returns up to `limit` messages from `number` on that pass the filter, with at most `bytes_max` bytes of bodies.

    Returns at least one message, of any size, if one passes within about the first `scanned_max` bytes. Past the
    published end the page is empty. Without a filter, numbers have gaps only where a batch that cannot be read was
    skipped.
    """
    end, first = view.end, view.first
    if number < first:
        raise NumberRetired(number, first)
    filling = Filling(label, limit, bytes_max, tag, scanned_max)
    while number < end and not filling.is_full:
        block, block_limit, end_number = view.locate(number, end)
        try:
            number = filling.take_from(block, block_limit, number, min(end, end_number))
        except NeedsMemory:
            if not filling.is_cut_before_large():
                raise
            number = filling.messages[-1].number + 1
    view.passed_over += filling.passed_over
    return Page(filling.messages, number, filling.scanned)


def read_backwards(view: LogView, label: Label, end: int) -> Iterator[Message]:
    """Yields the messages before number `end`, down to the first."""
    step = 1
    while end > view.first:
        start = max(view.first, end - step)
        try:
            page = read(view, label, start, limit=end - start).messages
        except NeedsMemory:
            if step == 1:
                raise
            step = 1
            continue
        # After a batch that cannot be read, a page continues with messages that were yielded before.
        messages = [message for message in page if message.number < end]
        yield from reversed(messages)
        # A log is read forwards, so the size of the next page can only be estimated from the messages read so far.
        size = max(1, sum(len(message.body) for message in messages))
        step = max(1, min(2 * step, BACKWARDS_STEP, step * BACKWARDS_SIZE // size))
        end = start


class Filling:
    """A page that is being filled. It is full when it has enough messages, or if the next one is too large for it."""

    def __init__(
        self,
        label: Label,
        limit: int,
        bytes_max: int | None,
        tag: TagFilter | None,
        scanned_max: int | None = None,
    ) -> None:
        self._label, self._limit, self._room, self._tag = label, limit, bytes_max, tag
        self._scanned_max, self.scanned = scanned_max, 0
        self.messages: list[Message] = []
        self.passed_over = 0
        """How many records were skipped because their content, from a client, cannot be read."""
        self.is_full = limit <= 0

    def is_cut_before_large(self) -> bool:
        """Returns whether the page may end before a record that is too large for the thread; then it is full.

        It may if it has messages, and its caller can do with fewer than it requested.
        """
        self.is_full = bool(self.messages) and self._room is not None
        return self.is_full

    def take_from(self, block: Block, limit: int, number: int, end: int) -> int:
        """Adds messages from `number` up to `end`, all in one block, while there is room.

        Returns the number to continue from.
        """
        if self._tag is None:
            end = min(end, number + self._limit - len(self.messages))
        rooms = [room for room in (self._room, self._scanned_max) if room is not None]
        size_max = max(RUN_SIZE_MIN, min(*rooms, RUN_SIZE_MAX)) if rooms else RUN_SIZE_MAX
        for item in walk(block, limit, number, end, RunFinder(block, limit, end, size_max).find):
            if isinstance(item, Run):
                number = self._take_run(item, block, limit)
            else:
                number = self._take_record(item, block, number, end)
            if self._scanned_max is not None:
                self._count_scanned(item, self._scanned_max)
            if self.is_full:
                break
        return number

    def _count_scanned(self, item: Run | DiskMessage, scanned_max: int) -> None:
        """Counts the unpacked size of the records that were read, whether they passed the filter or not."""
        if isinstance(item, Run):
            self.scanned += item.end - int(item.positions[0])
        else:
            self.scanned += max(item.end - item.position, len(item.body), len(item.area))
        if self.scanned >= scanned_max:
            self.is_full = True

    def _take_run(self, run: Run, block: Block, limit: int) -> int:
        before = self._room, self.is_full
        try:
            return self._take_whole_run(run)
        except ValueError:
            self._room, self.is_full = before
        # A record matches its checksums, but its fields make no sense. The records before it are good, and may be
        # enough.
        number = run.number
        for position in run.positions.tolist():
            number = self._take_record(block.read(position, limit), block, number, number + 1)
            if self.is_full:
                break
        return number

    def _take_whole_run(self, run: Run) -> int:
        rows: RowSelection = slice(0, len(run))
        if self._tag is not None:
            rows = _passing(run, self._tag)
        count = self._fitting(_count(rows, len(run)), lambda: run.body_sizes[rows])
        self.messages += _run_messages(run.picked(_first(rows, count)), self._label)
        return run.number + _row_behind(rows, count, len(run))

    def _take_record(self, record: DiskMessage, block: Block, number: int, end: int) -> int:
        try:
            if record.codec == CODEC_SINGLE:
                return self._take_single(record)
            return self._take_batch(record, block, number, end)
        except Unreadable:
            self.passed_over += 1
            # Continues after the whole record, even if fewer messages are requested, because it may have a million
            # numbers.
            return record.number + record.message_count
        except (Damage, ValueError) as error:
            reason = error.reason if isinstance(error, Damage) else str(error)
            raise block.corrupt(Damage(record.position, reason)) from error

    def _take_batch(self, record: DiskMessage, block: Block, number: int, end: int) -> int:
        every = slice(number - record.number, min(record.message_count, end - record.number))
        batch = _columns(record, block)
        rows = columns.passing_rows(batch, record.tag, every, self._tag)
        if rows is None:
            return record.number + every.stop
        count = self._fitting(_count(rows, every.stop), lambda: np.diff(batch.ends(SECTION_BODY_ENDS))[rows])
        topic, partition = self._label
        self.messages += columns.messages(record, batch, _first(rows, count), topic=topic, partition=partition)
        return record.number + _row_behind(rows, count, every.stop)

    def _take_single(self, record: DiskMessage) -> int:
        if self._tag is not None and not self._tag.matches(record.tag):
            return record.number + 1
        if not self._fitting(1, lambda: np.array([len(record.body)])):
            return record.number
        self.messages.append(single_message(record, self._label))
        return record.number + 1

    def _fitting(self, count: int, sizes: Callable[[], npt.NDArray[Any]]) -> int:
        """Returns how many of the next `count` messages fit the page, by the sizes of their bodies.

        The first always fits.
        """
        fitting = min(count, self._limit - len(self.messages))
        if self._room is not None and fitting:
            ends = np.cumsum(sizes()[:fitting], dtype=np.int64)
            fitting = int(np.searchsorted(ends, self._room, "right"))
            if not fitting and not self.messages:
                fitting = 1
            self._room -= int(ends[fitting - 1]) if fitting else 0
        is_over = self._room is not None and self._room < 0
        self.is_full = fitting < count or is_over or len(self.messages) + fitting == self._limit
        return fitting


def _columns(record: DiskMessage, block: Block) -> columns.Columns:
    """Returns the columns of a batch. Raises Unreadable, without unpacking if the batch is known to be unreadable."""
    place = record.position, record.number, record.timestamp
    if place in block.unreadable:
        raise Unreadable(record.position, "known to be unreadable")
    try:
        return columns_of(record)
    except Unreadable:
        if len(block.unreadable) < UNREADABLE_KNOWN_MAX:
            block.unreadable.add(place)
        raise


# --- Rows: a slice of them, or their places ---


def _count(rows: RowSelection, end: int) -> int:
    return end - rows.start if isinstance(rows, slice) else len(rows)


def _first(rows: RowSelection, count: int) -> RowSelection:
    return slice(rows.start, rows.start + count) if isinstance(rows, slice) else rows[:count]


def _row_behind(rows: RowSelection, count: int, end: int) -> int:
    """Returns the row to continue from after the first `count` of `rows`, which are before `end`, were added."""
    if count == _count(rows, end):
        return end
    return rows.start + count if isinstance(rows, slice) else int(rows[count])


# --- Messages ---


def single_message(record: DiskMessage, label: Label) -> Message:
    """Returns the message of a record that holds one. Raises ValueError if its headers make no sense."""
    return Message(
        record.number,
        record.offset,
        label.partition,
        label.topic,
        record.timestamp,
        record.id,
        record.tag,
        record.key,
        unpack_headers(record.headers),
        record.corr_offset,
        record.body,
        0,
    )


def _passing(run: Run, tag: TagFilter) -> npt.NDArray[np.intp]:
    """Returns which records of the run pass the filter. Matches each tag once; a record without a tag never passes."""
    if not run.field("tag_size").any():
        return np.empty(0, np.intp)
    tags = run.tags.to_list()
    passes = {text: tag.matches(text.decode()) for text in set(tags)}
    return np.flatnonzero(np.fromiter(map(passes.__getitem__, tags), bool, len(tags)))


def _run_messages(run: Run, label: Label) -> list[Message]:
    """Returns the messages of a run. Raises ValueError if one makes no sense."""
    ids: Iterable[str] = repeat("")
    if run.field("id_size").any():
        ids = map(bytes.decode, run.ids.to_list())
    tags: Iterable[str] = repeat("")
    if run.field("tag_size").any():
        tags = map(bytes.decode, run.tags.to_list())
    keys: Iterable[bytes | None] = repeat(None)
    if (is_present := run.keys_present).any():
        pairs = zip(run.keys.to_list(), is_present.tolist(), strict=True)
        keys = [key if here else None for key, here in pairs]
    headers: Iterable[Mapping[str, bytes]] = repeat(NO_HEADERS)
    if run.field("headers_size").any():
        headers = map(unpack_headers, run.headers.to_list())
    fields = zip(
        run.field("number").tolist(),
        run.field("offset").tolist(),
        repeat(label.partition),
        repeat(label.topic),
        run.field("timestamp").tolist(),
        ids,
        tags,
        keys,
        headers,
        run.field("corr_offset").tolist(),
        run.unpacked_bodies(),
        repeat(0),
    )
    return columns.made_of(fields)
