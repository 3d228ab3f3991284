"""Log: the index and blocks of one partition, behind one door. Append, read by number, find, retire."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from warren.clock import SYSTEM_CLOCK, Clock, Duration, microseconds, seconds_of
from warren.config import (
    BLOCK_SIZE_DEFAULT,
    MAX_BLOCK_COUNT_DEFAULT,
    READ_LIMIT_DEFAULT,
    SCAN_IN_PLACE_ROWS_MIN,
    VERSION_DEFAULT,
    WAIT_S_MAX,
    Durability,
)
from warren.errors import BadInput, LogClosed, NotALog, NumberRetired, UnsupportedByVersion
from warren.message import NO_CORR_OFFSET, Message, Receipt
from warren.storage import paths, read
from warren.storage.background import AtOnce, Background, process_background
from warren.storage.bell import SLEEP_S_MAX, Bell, sleep_on_any
from warren.storage.columns import Batch
from warren.storage.commit import Commit
from warren.storage.compression import compression_code
from warren.storage.files import LogFiles
from warren.storage.filesystem import SYSTEM_FILE_SYSTEM, FileSystem, remove_tree
from warren.storage.index import extension_bytes
from warren.storage.inspection import LogInfo, inspect, reader_names
from warren.storage.layout import READER_FILE_SIZE, STATE_REPLACED
from warren.storage.lookup import look_up
from warren.storage.markers import Marked, markers
from warren.storage.opening import check_index, check_options, find_log, settle
from warren.storage.packed import read_packed
from warren.storage.packing import pack_many
from warren.storage.read import Label, Page
from warren.storage.reader import (
    BlockRange,
    QueueReader,
    Standing,
    check_filter,
    find_standing,
    new_reader_bytes,
    reader_file,
    write_reader,
)
from warren.storage.record import Packed
from warren.storage.recovery import Recovery
from warren.storage.residents import process_residents
from warren.storage.retiring import retire
from warren.storage.stored import Stored, read_stored
from warren.storage.tags import TagFilter
from warren.storage.verification import Verified, verify
from warren.storage.view import LogView

if TYPE_CHECKING:
    import pyarrow


class Log:
    """A durable sequence of messages in one directory. Any number of processes and threads may use it at once.

    Messages are numbered from 0 without gaps. An append returns when the message is as durable as `durability` says;
    readers see it from then on, and never before. Opening a log that was left by a crash recovers it, unless it is
    opened `read_only`: then nothing is ever written.
    """

    def __init__(self, files: LogFiles, commit: Commit, label: Label, clock: Clock, compression: int) -> None:
        self._files, self._commit, self._label, self._clock = files, commit, label, clock
        self._compression, self._is_synced = compression, False
        self._view = LogView(files)
        self.settle, self.put_record = commit.settle, commit.put_record
        files.before_rest, files.in_child = self._let_go, self._after_fork
        self._shorten_append()

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
        filesystem: FileSystem = SYSTEM_FILE_SYSTEM,
        clock: Clock = SYSTEM_CLOCK,
        background: Background | None = None,
    ) -> Log:
        """The log in the directory `path`, made where there is none.

        `version` is that of a new log; one that is there keeps its own. `exclusive` keeps the writer lock until
        `close`. `repair` cuts the log at its first damage where opening would otherwise refuse to lose messages.
        """
        check_options(version, block_size, max_block_count, compression)
        if read_only and (exclusive or repair):
            raise BadInput("a log opened read_only can be neither exclusive nor repaired")
        level, compression_number = Durability.parse(durability), compression_code(compression)
        files = LogFiles(os.fspath(path), filesystem, clock, process_residents())
        files.writable = not (read_only or filesystem.is_read_only)
        find_log(files, version, max_block_count)
        if files.has_index():
            files.see_version()
        if files.format.version == 1 and compression_number:
            raise UnsupportedByVersion("compression", 1)
        commit = Commit(
            files,
            block_size=block_size,
            durability=level,
            exclusive=exclusive,
            max_block_count=max_block_count,
            clock=clock,
            background=background or (process_background() if filesystem is SYSTEM_FILE_SYSTEM else AtOnce()),
        )
        settle(files, commit, force=repair) if files.writable else check_index(files)
        log = cls(files, commit, Label(topic, partition), clock, compression_number)
        log._is_synced = level.mode == "commit"
        return log

    def _shorten_append(self) -> None:
        """Put the shortest `append` before the method of that name: even the call in between would be felt."""
        shortcut = self._commit.make_append(self._compression) if self._files.writable else None
        if shortcut is not None:
            self.append = shortcut  # type: ignore[method-assign]

    def _let_go(self) -> bool:
        """Hold no file; False where the background still has to sync one."""
        if not self._commit.let_go():
            return False
        self._view.let_go()
        return True

    def _after_fork(self) -> None:
        self._view.let_go()
        self._commit.after_fork()
        self._shorten_append()

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
        """Append one message."""
        packed = self._files.format.pack_single(
            body, tag=tag, key=key, headers=headers, id=id, corr_offset=corr_offset, compression=self._compression
        )
        self.check_writable()
        return self._commit.put_one(packed, id)

    def append_many(
        self,
        bodies: Sequence[bytes],
        *,
        tag: str = "",
        tags: Sequence[str] | None = None,
        keys: Sequence[bytes | None] | None = None,
        ids: Sequence[str] | None = None,
        headers: Sequence[Mapping[str, bytes] | None] | None = None,
        corr_offsets: Sequence[int] | None = None,
        marker: bytes = b"",
    ) -> range:
        """Append messages together, with one commit for all. `tag` is what all share, `tags` one for each.

        The numbers they got. Up to 65,536 messages or 4 MiB are one record, and there wholly or not at all. Each of
        the records carries the marker, by which `markers` tells whether a put of unknown outcome was written.
        """
        if tag and tags is not None:
            raise BadInput("give either tag, for all, or tags, one for each")
        batch = Batch(bodies, tags, keys, ids, headers, corr_offsets)
        packed = pack_many(self._files.format, batch, tag, self._compression, self.record_size_max, marker)
        if not packed:
            return range(self.end, self.end)
        self.check_writable()
        receipt = self._commit.put(packed)
        return range(receipt.number, receipt.number + len(bodies))

    def append_arrow(self, batch: pyarrow.RecordBatch, *, marker: bytes = b"") -> range:
        """Append the rows of an Arrow record batch, as `append_many` does, without a Python loop over them.

        It has a column `body`, and any that `scan` gives; number, offset and timestamp are given anew. A null is none.
        """
        from warren.storage.arrow_packing import pack_arrow

        self._check_batches("an Arrow batch")
        return self.append_packed(list(pack_arrow(batch, self._compression, self.record_size_max, marker)))

    def append_packed(self, records: Sequence[Packed]) -> range:
        """Append records that were packed before, or that `packed` of another log gave, together; their numbers."""
        self._check_batches("a packed record")
        if not records:
            return range(self.end, self.end)
        self.check_writable()
        receipt = self._commit.put(records)
        return range(receipt.number, receipt.number + sum(packed.message_count for packed in records))

    def _check_batches(self, what: str) -> None:
        if self.version == 1:
            raise UnsupportedByVersion(what, 1)

    @property
    def record_size_max(self) -> int:
        """The largest record that is taken."""
        return self._commit.writer.record_size_max

    def sync(self) -> None:
        """What was appended up to now, by anybody, is on disk when this returns, whatever the log's durability."""
        self.check_writable()
        self._commit.sync()

    def reopen(self) -> None:
        """After a SyncFailed: recovers the log, so that it takes puts again. Otherwise does nothing."""
        self._commit.reopen()

    def check_writable(self) -> None:
        """LogClosed where the log was opened for reading only."""
        if not self._files.writable:
            raise LogClosed(self.path, "it was opened with read_only=True")

    # --- Reading ---

    @property
    def path(self) -> str:
        return self._files.directory

    @property
    def version(self) -> int:
        return self._files.format.version

    @property
    def first(self) -> int:
        """The number of the first message that is still there."""
        return self._view.first

    @property
    def end(self) -> int:
        """The number that the next message will get."""
        return self._view.end

    def at(self, number: int) -> Message | None:
        """Message `number`; None past the end, and if it is in a batch that cannot be read."""
        return look_up(self._view, self._label, number)

    def read(
        self, number: int, *, limit: int = READ_LIMIT_DEFAULT, bytes_max: int | None = None, tag: str | None = None
    ) -> list[Message]:
        """Up to `limit` messages from `number` on that pass the filter, of `bytes_max` bytes or one message."""
        tag_filter = TagFilter.parse(tag) if tag is not None else None
        return read.read(self._view, self._label, number, limit=limit, bytes_max=bytes_max, tag=tag_filter).messages

    def backwards(self, number: int | None = None) -> Iterator[Message]:
        """Messages from `number` down to the first; from the last one where no number is given."""
        end = self.end if number is None else min(number + 1, self.end)
        if number is not None and number < self.first:
            raise NumberRetired(number, self.first)
        yield from read.read_backwards(self._view, self._label, end)

    def last(self, count: int = 1) -> list[Message]:
        """The last `count` messages, in order."""
        return self.read(max(self.first, self.end - count), limit=count) if count > 0 else []

    def find_time(self, when: datetime | float | int) -> int:
        """The first number at or after `when`, or `end`: a datetime, seconds since the epoch as float, or µs as int."""
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
        """The messages from `start` up to `end`, from `since` up to `until`, that pass the filter, as Arrow.

        Columns are number, offset, timestamp, id, tag, key, headers, corr_offset and body; `columns` picks and orders
        them, and what is not asked for costs nothing. Batches of fewer than `rows_min` messages are put together,
        which copies them. With `skips`, batches in which nothing passes are not fetched from disk, and not checked.
        """
        # Imported here: PyArrow takes longer to import than a log to open.
        from warren.storage import scan

        wanted, view = TagFilter.parse(tag) if tag is not None else None, self._view
        return scan.scan(
            view, start, end, columns=columns, tag=wanted, since=since, until=until, rows_min=rows_min, skips=skips
        )

    def page(self, number: int, tag: TagFilter | None, *, limit: int, **sizes: int | None) -> Page:
        """What `read` gives with this `limit`, `bytes_max` and `scanned_max`, and how far it looked."""
        return read.read(self._view, self._label, number, limit=limit, tag=tag, **sizes)

    def read_page(self, number: int, *, limit: int, tag: TagFilter | None, wait: Duration) -> Page:
        """A page from `number` on; where it is empty, waits up to `wait` seconds for a message that passes."""
        deadline = self._clock.steady_s() + min(seconds_of(wait), WAIT_S_MAX)
        while True:
            page = read.read(self._view, self._label, number, limit=limit, tag=tag)
            left_s = deadline - self._clock.steady_s()
            if page.messages or left_s <= 0:
                return page
            number = page.next_number
            self.wait(number, left_s)

    def wait(self, number: int, seconds: Duration) -> bool:
        """Wait until message `number` is there, at most `seconds`; whether it is."""
        deadline = self._clock.steady_s() + min(seconds_of(seconds), WAIT_S_MAX)
        while True:
            bell, value = self._start_waiting()
            left_s = deadline - self._clock.steady_s()
            if self.end > number or left_s <= 0:
                return self.end > number
            bell.sleep(value, left_s)

    def _start_waiting(self) -> tuple[Bell, int]:
        """The bell that rings when the log grows, and what it shows now. Who appends knows that it is waited for."""
        index = self._files.index()
        bell = index.bell(self._clock)
        if self._files.writable:
            index.waiting = self._clock.now_ns() // 1000 + int(2_000_000 * SLEEP_S_MAX)
        return bell, bell.value()

    def markers(self, start: int, other_than: bytes = b"") -> Iterator[Marked]:
        """The records with a marker that hold messages from `start` on, in order.

        Those whose marker starts with `other_than` are stepped over: what they hold is neither read nor checked.
        """
        return markers(self._view, start, other_than)

    def packed(self, start: int, end: int) -> Iterator[Packed]:
        """The records that hold the messages from `start` up to `end`, checked, for `append_packed` of another log."""
        return read_packed(self._view, self.version, start, end)

    def stored(self, number: int, *, bytes_max: int) -> list[Stored]:
        """What holds the messages from `number` on, of about `bytes_max` bytes: Kafka batches as they lie in the file.

        At least one record where there is one; the first may hold messages before `number`.
        """
        return read_stored(self._view, self.version, number, bytes_max)

    # --- Readers ---

    def reader(self, name: str, *, tag: str | None = None) -> QueueReader:
        """The reader `name`, made at the start of the log where there is none.

        Its filter is kept in its file: giving another one changes it, giving none leaves it.
        """
        path = paths.reader_path(self.path, name)
        text = TagFilter.parse(tag).text if tag is not None else None
        check_filter(text or "", self.version)
        if not self._files.filesystem.exists(path):
            self.check_writable()
            write_reader(self._files.filesystem, path, new_reader_bytes(self.version, self.standing(self.first)))
        reader = QueueReader(self, name, reader_file(self._files, path, is_synced=self._is_synced))
        if text is not None and reader.tag != text:
            reader.filter_by(text)
        return reader

    def remove_reader(self, name: str) -> None:
        """There is no reader `name` any more, nor a trace of where it stood."""
        self.check_writable()
        path = paths.reader_path(self.path, name)
        if self._files.filesystem.exists(path):
            self._files.remove_reader(path, READER_FILE_SIZE)

    def readers(self) -> list[str]:
        """The names of the readers, sorted."""
        return reader_names(self._files)

    def block_of(self, number: int) -> BlockRange:
        """The block that message `number` is in."""
        block, limit, _ = self._view.locate(number, self._view.end)
        return BlockRange(block.number, block.base_offset, block.base_offset + limit)

    def standing(self, number: int) -> Standing:
        """The block and position of message `number`; where the log ends for its end."""
        return find_standing(self._view, number)

    def number_at(self, block_number: int, position: int) -> int:
        """The number of the message at a place that `standing` gave."""
        return self._view.number_at(block_number, position)

    # --- Keeping house ---

    def retire(self, *, before: int, exactly: bool = False, rolls: bool = False) -> int:
        """Removes blocks before `before`; `rolls`: the last one ends first; `exactly`: hides what is left before it.

        Returns the first number left."""
        self.check_writable()
        retire(self._files, self._view, self._commit, before, exactly=exactly, rolls=rolls)
        return self.first

    def remove(self) -> None:
        """Take the log off the disk, whoever has it open: all get NotALog from now on."""
        self.check_writable()
        filesystem, directory = self._files.filesystem, self.path
        # The bell of a log that is gone cannot be rung.
        with suppress(NotALog), self._commit.changing() as writer:
            filesystem.remove(paths.index_path(directory))
            filesystem.sync_directory(directory)
            writer.index.state = STATE_REPLACED
            writer.index.bell(self._clock).ring()
        self._let_go()
        self._files.close()
        remove_tree(filesystem, directory)

    def verify(self, progress: Callable[[int], None] | None = None) -> Verified:
        """Check every byte. CorruptRecord at the first damage; `progress` is told how far it got, in numbers."""
        return verify(self._view, progress)

    def inspect(self) -> LogInfo:
        """The index and the blocks as they are now."""
        return inspect(self._files, self._view)

    @property
    def flag(self) -> int:
        """A number of the user's, kept in the index."""
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
        """Key-value pairs of the user's, kept in the index."""
        return self._files.index().extension()

    @extension.setter
    def extension(self, pairs: Mapping[str, str]) -> None:
        extension_bytes(pairs, self.version)
        self.check_writable()
        with self._commit.changing() as writer:
            writer.move_to(self._files.rewrite_index(writer.index, extension=pairs))

    @property
    def recovery(self) -> Recovery | None:
        """What opening the log had to recover; None where it was left as it should be."""
        return self._commit.recovery

    @property
    def recovered_us(self) -> int:
        """When the log was last recovered with no other process to vouch for it, in µs; 0 if never."""
        return self._files.index().recovered_us

    def close(self) -> None:
        """Leave the log as the next one to open it likes it. Closing twice does no harm."""
        if self._files.writable:
            self._commit.close()
        self._let_go()
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._files.is_closed:
            return f"<Log {self.path} closed>"
        return f"<Log {self.path} version {self.version}, messages {self.first} to {self.end}>"


def wait_for_any(ends: Sequence[tuple[Log, int]], seconds: float, clock: Clock = SYSTEM_CLOCK) -> bool:
    """Wait until one of the logs has the message of the number beside it, at most `seconds`; whether one has.

    Returns a little early now and then, so that whoever waits can also look at what no log tells.
    """
    bells = [log._start_waiting() for log, _ in ends]
    if any(log.end > number for log, number in ends):
        return True
    sleep_on_any(bells, min(seconds, SLEEP_S_MAX), clock)
    return any(log.end > number for log, number in ends)
