"""Log: the one interface to the index and blocks of a partition. Append, read by number, find, retire."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Self, Unpack

from warren.api.values import ColumnOptions
from warren.clock import SYSTEM_CLOCK, Clock, Duration, microseconds, seconds_of
from warren.errors import BadInput, NumberRetired, UnsupportedByVersion
from warren.limits import READ_LIMIT_DEFAULT, WAIT_S_MAX
from warren.message import NO_CORR_OFFSET, Message, Receipt
from warren.storage.append.append import Appender, numbers_of
from warren.storage.append.background_sync import BackgroundSync, background_of
from warren.storage.append.commit import Commit
from warren.storage.append.durability import Durability, Replication
from warren.storage.append.open import check_index, check_options, open_files, settle
from warren.storage.append.recovery import MAX_BLOCK_COUNT_DEFAULT, Recovery
from warren.storage.append.retire import remove_index, retire
from warren.storage.append.shipped_commit import ShippedCommit
from warren.storage.check.inspection import LogInfo, inspect, reader_names
from warren.storage.check.verification import Verified, verify
from warren.storage.disk import paths
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, FileSystem, remove_tree
from warren.storage.disk.index import extension_bytes
from warren.storage.disk.log_files import LogFiles
from warren.storage.disk.notify import SLEEP_S_MAX, Bell, sleep_on_any
from warren.storage.format.checksum import crc32c
from warren.storage.format.columns import Batch
from warren.storage.format.compression import compression_code
from warren.storage.format.layout import READER_FILE_SIZE
from warren.storage.format.limits import BLOCK_SIZE_DEFAULT, BODY_SIZE_MAX, SCAN_IN_PLACE_ROWS_MIN
from warren.storage.format.packing import pack_many, repack
from warren.storage.format.record import PLAIN_HEAD, Packed, check_body
from warren.storage.format.tags import TagFilter
from warren.storage.format.versions import VERSION_DEFAULT, Format
from warren.storage.read import messages
from warren.storage.read.log_view import LogView
from warren.storage.read.lookup import look_up
from warren.storage.read.markers import Marked, markers
from warren.storage.read.messages import Label, Page
from warren.storage.read.raw_records import StoredRun, read_packed, read_stored
from warren.storage.read.reader import BlockRange, QueueReader, ReaderCursor, find_standing, open_reader

if TYPE_CHECKING:
    import pyarrow


class Log:
    """A durable sequence of messages in one directory. Any number of processes and threads may use it at the same time.

    Messages are numbered from 0 without gaps. An append returns when the message is as durable as `durability` says;
    readers see it from then on, and never before. Opening a log after a crash recovers it. A log opened `read_only` is
    never written.
    """

    def __init__(
        self, files: LogFiles, commit: Commit, appender: Appender, label: Label, clock: Clock, compression: int
    ) -> None:
        self._files, self._commit, self._appender, self._label, self._clock = files, commit, appender, label, clock
        self._compression, self.is_synced = compression, False  # Appends, and readers' positions, wait for syncs.
        self.is_quick = False  # An append of packed records neither waits for a sync nor unpacks the records.
        self._has_batches = files.format.has_batches
        self._has_plain_records = self._has_batches and not compression
        self.is_shipped = self._has_batches and commit.waits  # Appends wait for other replicas, so `begin` is tried.
        self._view = LogView(files)
        files.before_rest, files.in_child = self._let_go, self._after_fork

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        version: int = VERSION_DEFAULT,
        durability: str = "commit",
        block_size: int = BLOCK_SIZE_DEFAULT,
        exclusive: bool = False,
        read_only: bool = False,
        compression: str = "none",
        max_block_count: int = MAX_BLOCK_COUNT_DEFAULT,
        topic: str = "",
        partition: int = 0,
        repair: bool = False,
        replication: Replication = "as synced",
        filesystem: FileSystem = SYSTEM_FILE_SYSTEM,
        clock: Clock = SYSTEM_CLOCK,
        background: BackgroundSync | None = None,
    ) -> Log:
        """Opens the log in the directory `path`, and creates it if it does not exist.

        `version` is that of a new log; an existing log keeps its own. `exclusive` keeps the writer lock until `close`.
        `repair` cuts the log at its first damage, if opening would otherwise refuse to lose messages.
        `replication` says what waits for slaves.
        """
        check_options(version, block_size, max_block_count, compression)
        if read_only and (exclusive or repair):
            raise BadInput("a log with read_only=True can be neither exclusive nor repaired")
        level, compression_number = Durability.parse(durability), compression_code(compression)
        is_writable = not (read_only or filesystem.is_read_only)
        files = open_files(os.fspath(path), filesystem, clock, version, max_block_count, writable=is_writable)
        if compression_number and not files.format.has_compression:
            raise UnsupportedByVersion("compression", files.format.version)
        commit = Commit(
            files,
            block_size=block_size,
            durability=level,
            exclusive=exclusive,
            max_block_count=max_block_count,
            clock=clock,
            background=background or background_of(filesystem),
            replication=replication,
        )
        settle(files, commit, force=repair) if files.writable else check_index(files)
        appender = Appender(commit, level, clock.now_ns, is_exclusive=exclusive)
        log = cls(files, commit, appender, Label(topic, partition), clock, compression_number)
        log.is_synced = level.mode == "commit" or filesystem.shipping is not None
        log.is_quick = log._has_batches and not log.is_synced
        return log

    def _let_go(self) -> bool:
        """Closes every file. Returns False, and keeps the files open, if the background still has to sync one."""
        if not self._commit.let_go():
            return False
        self._view.let_go()
        return True

    def _after_fork(self) -> None:
        self._view.let_go()
        self._commit.after_fork()

    # --- Appending ---

    def append(
        self,
        body: bytes,
        *,
        tag: str = "",
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        id: str = "",
        corr_offset: int = NO_CORR_OFFSET,
    ) -> Receipt:
        """Appends one message and returns its receipt when it is as durable as the log's durability says."""
        if tag or id or key is not None or headers or corr_offset != NO_CORR_OFFSET or not self._has_plain_records:
            payload, checksum, _ = self._files.format.pack_single(
                body, tag=tag, key=key, headers=headers, id=id, corr_offset=corr_offset, compression=self._compression
            )
        else:
            # The same as `pack_single`, without the call, which would cost as much as the rest of this function.
            if type(body) is not bytes or len(body) > BODY_SIZE_MAX:
                check_body(body)
            payload = PLAIN_HEAD + body
            checksum = crc32c(payload)
        return self._appender.put(payload, checksum, 1, id)

    def append_many(
        self,
        bodies: Sequence[bytes],
        *,
        tag: str = "",
        marker: bytes = b"",
        **columns: Unpack[ColumnOptions],
    ) -> range:
        """Appends messages with one commit, and returns their numbers. `tag` is for all, `tags` has one for each.

        Up to 65,536 messages or 4 MiB are one record, which is written completely or not at all. Each record carries
        the marker, so that `markers` shows whether a put with an unknown outcome was written.
        """
        batch = Batch(bodies, **columns)
        if tag and batch.tags is not None:
            raise BadInput("pass either tag, for all messages, or tags, one for each")
        packed = pack_many(self._files.format, batch, tag, self._compression, self.record_size_max, marker)
        if not packed:
            return range(self.end, self.end)
        return numbers_of(self._appender.put_all(packed), packed)

    def append_arrow(self, batch: pyarrow.RecordBatch, *, marker: bytes = b"") -> range:
        """Appends the rows of an Arrow record batch, as `append_many` does, without a Python loop over them.

        The batch has a column `body`, and any other columns of a `scan`; number, offset and timestamp are new. A null
        means that the message does not have that field.
        """
        from warren.storage.arrow.arrow_packing import pack_arrow

        self.format.check_batches("an Arrow batch")
        return self.append_packed(list(pack_arrow(batch, self._compression, self.record_size_max, marker)))

    def append_packed(self, records: Sequence[Packed]) -> range:
        """Appends records that were packed before, or that `packed` of another log yielded, and returns their numbers.

        A log without batches stores each message in its own record, and omits the markers.
        """
        if not self._has_batches:
            records = repack(self.format, records)
        if not records:
            return range(self.end, self.end)
        return numbers_of(self._appender.put_all(records), records)

    def append_record(self, packed: Packed) -> Receipt:
        """Appends one record that was packed before, and returns the receipt of its first message."""
        appender = self._appender
        return appender.put(*packed) if self._has_batches else appender.put_all(repack(self.format, (packed,)))

    def settle(self, puts: Sequence[Sequence[Packed]]) -> list[Receipt | BaseException]:
        """Appends several puts of packed records with one sync. Returns for each its first receipt, or its error."""
        return self._appender.settle(puts) if self._has_batches else self._appender.settle_repacked(puts)

    def begin(self, puts: Sequence[Sequence[Packed]]) -> ShippedCommit | None:
        """Begins what `settle` does, in a replicated store, without waiting. Returns None if that is not possible."""
        return ShippedCommit.begin(self._commit, puts) if self.is_shipped else None

    def has_room(self, size: int) -> bool:
        """Returns whether a record of `size` bytes fits into the last block. If not, an append makes or opens files."""
        writer = self._commit.writer
        return writer.position + size + writer.room_taken <= writer.room_end

    @property
    def record_size_max(self) -> int:
        """The size of the largest record that fits into a block, in bytes."""
        return self._commit.writer.record_size_max

    def sync(self) -> None:
        """Syncs everything that any process has appended up to now, for any durability of the log."""
        self._files.check_writable()
        self._commit.sync()

    def reopen(self) -> None:
        """Recovers the log after a SyncFailed, so that it accepts puts again. Otherwise does nothing."""
        self._commit.reopen()

    def check_writable(self) -> None:
        """Raises LogClosed if the log was opened for reading only."""
        self._files.check_writable()

    # --- Reading ---

    @property
    def path(self) -> str:
        return self._files.directory

    @property
    def format(self) -> Format:
        """The format of the log's version. It says which features the log has."""
        return self._files.format

    @property
    def version(self) -> int:
        return self._files.format.version

    @property
    def first(self) -> int:
        """The number of the first message that is not retired."""
        return self._view.first

    @property
    def end(self) -> int:
        """The number that the next message will get."""
        return self._files.index().readable_end

    @property
    def tail(self) -> int:
        """The number after the last message that is stored. On a slave readers may not see that far: see `end`."""
        return self._files.index().message_count

    def at(self, number: int) -> Message | None:
        """Returns message `number`, or None if it is past the end or in a batch that cannot be read."""
        return look_up(self._view, self._label, number)

    def read(
        self, number: int, *, limit: int = READ_LIMIT_DEFAULT, bytes_max: int | None = None, tag: str | None = None
    ) -> list[Message]:
        """Returns up to `limit` messages from `number` on that pass the filter: `bytes_max` bytes, or one message."""
        tag_filter = TagFilter.parse(tag) if tag is not None else None
        return messages.read(self._view, self._label, number, limit=limit, bytes_max=bytes_max, tag=tag_filter).messages

    def backwards(self, number: int | None = None) -> Iterator[Message]:
        """Yields the messages from `number`, or from the last one, down to the first."""
        end = self.end if number is None else min(number + 1, self.end)
        if number is not None and number < self.first:
            raise NumberRetired(number, self.first)
        yield from messages.read_backwards(self._view, self._label, end)

    def last(self, count: int = 1) -> list[Message]:
        """Returns the last `count` messages, in order."""
        return self.read(max(self.first, self.end - count), limit=count) if count > 0 else []

    def find_time(self, when: datetime | float | int) -> int:
        """Returns the first number at or after `when` (a datetime, float seconds or int µs); `end` if there is none."""
        return self._view.find_time(microseconds(when))

    def scan(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        tag: str | None = None,
        since: datetime | float | int | None = None,
        until: datetime | float | int | None = None,
        rows_min: int = SCAN_IN_PLACE_ROWS_MIN,
        skips: bool = False,
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yields the messages from `start` up to `end`, from `since` up to `until`, that pass the filter, as Arrow.

        Columns are number, offset, timestamp, id, tag, key, headers, corr_offset and body; `columns` selects and orders
        them, and the other columns cost nothing. Batches of fewer than `rows_min` messages are joined, which copies
        them. With `skips`, batches in which nothing passes are neither read from disk nor checked.
        """
        # Imported here, because importing PyArrow takes longer than opening a log.
        from warren.storage.arrow import scan

        tag_filter, view = TagFilter.parse(tag) if tag is not None else None, self._view
        return scan.scan(
            view, start, end, columns=columns, tag=tag_filter, since=since, until=until, rows_min=rows_min, skips=skips
        )

    def page(self, number: int, tag: TagFilter | None, *, limit: int, **sizes: int | None) -> Page:
        """Returns what `read` returns with this `limit` and these sizes, and the number to continue from."""
        return messages.read(self._view, self._label, number, limit=limit, tag=tag, **sizes)

    def read_page(self, number: int, *, limit: int, tag: TagFilter | None, wait: Duration) -> Page:
        """Returns a page from `number` on; if it is empty, waits up to `wait` seconds for a message that passes."""
        deadline = self._clock.steady_s() + min(seconds_of(wait), WAIT_S_MAX)
        while True:
            page = messages.read(self._view, self._label, number, limit=limit, tag=tag)
            left_s = deadline - self._clock.steady_s()
            if page.messages or left_s <= 0:
                return page
            number = page.next_number
            self.wait(number, left_s)

    def wait(self, number: int, seconds: Duration) -> bool:
        """Waits at most `seconds` until message `number` exists. Returns whether it does."""
        deadline = self._clock.steady_s() + min(seconds_of(seconds), WAIT_S_MAX)
        while True:
            bell, value = self._start_waiting()
            left_s = deadline - self._clock.steady_s()
            if self.end > number or left_s <= 0:
                return self.end > number
            bell.sleep(value, left_s)

    def _start_waiting(self) -> tuple[Bell, int]:
        """Returns the bell of the log, and its current value. Announces to writers that this process waits."""
        index = self._files.index()
        bell = index.bell(self._clock)
        if self._files.writable:
            index.waiting = self._clock.now_ns() // 1000 + int(2_000_000 * SLEEP_S_MAX)
        return bell, bell.value()

    def markers(self, start: int, other_than: bytes = b"") -> Iterator[Marked]:
        """Yields the records with a marker that hold messages from `start` on, in order.

        Skips records whose marker starts with `other_than`, without reading or checking their content.
        """
        return markers(self._view, start, other_than) if self.format.keeps_markers else iter(())

    def packed(self, start: int, end: int) -> Iterator[Packed]:
        """Yields the records of the messages from `start` up to `end`, checked, for `append_packed` of another log."""
        self.format.check_batches("reading records as they were packed")
        return read_packed(self._view, start, end)

    def stored(self, number: int, *, bytes_max: int, checked_max: int | None = None) -> list[StoredRun]:
        """Returns the Kafka batches and other records that hold the messages from `number` on: about `bytes_max` bytes.

        Kafka batches are not copied. Returns at least one record if there is one; the first may hold messages before
        `number`. Raises ChecksMore if more than `checked_max` bytes of them were not checked before.
        """
        if not self._has_batches:
            self.format.check_batches("reading records as they are stored")
        return read_stored(self._view, number, bytes_max, checked_max)

    # --- Readers ---

    def reader(self, name: str, *, tag: str | None = None) -> QueueReader:
        """Returns the reader `name`, and creates it at the start of the log if it does not exist.

        A `tag` becomes the filter in its file; None keeps the existing filter.
        """
        return open_reader(self, self._files, name, tag, is_synced=self.is_synced)

    def remove_reader(self, name: str) -> None:
        """Removes the reader `name` and its position, if it exists."""
        self.check_writable()
        path = paths.reader_path(self.path, name)
        if self._files.filesystem.exists(path):
            self._files.remove_reader(path, READER_FILE_SIZE)

    def readers(self) -> list[str]:
        """Returns the names of the readers, sorted."""
        return reader_names(self._files)

    def block_of(self, number: int) -> BlockRange:
        """Returns the block that holds message `number`."""
        block, limit, _ = self._view.locate(number, self._view.end)
        return BlockRange(block.number, block.base_offset, block.base_offset + limit)

    def standing(self, number: int) -> ReaderCursor:
        """Returns the block and position of message `number`; for `end`, the place after the last record."""
        return find_standing(self._view, number)

    def number_at(self, block_number: int, position: int) -> int:
        """Returns the number of the message at a place that `standing` returned."""
        return self._view.number_at(block_number, position)

    # --- Keeping house ---

    def retire(self, *, before: int, exactly: bool = False, rolls: bool = False) -> int:
        """Removes blocks whose messages all come before `before`, and returns the first number left.

        With `rolls` the last block is ended first. With `exactly` the remaining messages before `before` are hidden.
        """
        self.check_writable()
        retire(self._files, self._view, self._commit, before, exactly=exactly, rolls=rolls)
        return self.first

    def cut(self, number: int) -> None:
        """Removes the messages from `number` on, the first of its record, on disk. New messages get their numbers."""
        self.check_writable()
        self._commit.cut(number)

    def remove(self) -> None:
        """Removes the log from the disk. Every process that has it open gets NotALog from now on."""
        self.check_writable()
        remove_index(self._files, self._commit, self._clock)
        self._let_go()
        self._files.close()
        remove_tree(self._files.filesystem, self.path)

    def verify(self, progress: Callable[[int], None] | None = None) -> Verified:
        """Checks every byte. Raises CorruptRecord at the first damage. Calls `progress` with each number reached."""
        return verify(self._view, progress)

    def inspect(self) -> LogInfo:
        """Returns a description of the index and of the blocks as they are now."""
        return inspect(self._files, self._view)

    @property
    def flag(self) -> int:
        """A number for the user, kept in the index."""
        return self._files.index().flag

    @flag.setter
    def flag(self, value: int) -> None:
        if not 0 <= value < 1 << 32:
            raise BadInput(f"flag {value}: expected 0 to {(1 << 32) - 1}")
        self.check_writable()
        with self._commit.changing() as writer:
            writer.index.put_flag(value)
            writer.index.sync()

    @property
    def extension(self) -> Mapping[str, str]:
        """Key-value pairs for the user, kept in the index."""
        return self._files.index().extension()

    @extension.setter
    def extension(self, pairs: Mapping[str, str]) -> None:
        extension_bytes(pairs, self.version)
        self.check_writable()
        with self._commit.changing() as writer:
            writer.move_to(self._files.rewrite_index(writer.index, extension=pairs))

    @property
    def recovery(self) -> Recovery | None:
        """The result of the recovery when the log was opened; None if the log was closed properly."""
        return self._commit.recovery

    @property
    def recovered_us(self) -> int:
        """The time in µs of the last recovery during which no other process vouched; 0 if there was none."""
        return self._files.index().recovered_us

    def close(self) -> None:
        """Syncs and closes the log, so that the next process need not recover it. Closing twice does no harm."""
        if self._files.writable:
            self._commit.close()
        self._let_go()
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._files.is_closed:
            return f"<Log {self.path} closed>"
        return f"<Log {self.path} version {self.version}, messages {self.first} to {self.end}>"


def wait_for_any(ends: Sequence[tuple[Log, int]], seconds: float, clock: Clock = SYSTEM_CLOCK) -> bool:
    """Waits for the message of its number in one of the logs; SLEEP_S_MAX at most, as leases end without a bell."""
    bells = [log._start_waiting() for log, _ in ends]
    if any(log.end > number for log, number in ends):
        return True
    sleep_on_any(bells, min(seconds, SLEEP_S_MAX), clock)
    return any(log.end > number for log, number in ends)
