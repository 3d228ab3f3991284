"""Commit: the writer lock, the syncs, and the order block bytes, sync, published end, reply."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from warren.clock import Clock
from warren.errors import CorruptRecord, LogClosed, LogLocked, NotALog, StorageFull, SyncFailed, TooLarge
from warren.limits import LOCK_WAIT_S_MAX
from warren.storage.append.background_sync import BackgroundSync
from warren.storage.append.durability import Durability
from warren.storage.append.group_commit import GroupCommit, Ticket
from warren.storage.append.recovery import Recovery, recover
from warren.storage.append.writer import QueueWriter
from warren.storage.disk.block import Block
from warren.storage.disk.filesystem import File, Lock
from warren.storage.disk.index import Index
from warren.storage.disk.log_files import LogFiles
from warren.storage.format.layout import STATE_CLEAN, STATE_FAILED, STATE_OPEN
from warren.storage.read.log_view import LogView

LOCK_PAUSE_S_MIN: Final = 0.00005
LOCK_PAUSE_S_MAX: Final = 0.002


class Commit:
    """Orders the changes of a log one after another. Any thread may call; the writer lock orders the processes.

    Invariant: a change that fails in the middle leaves `writing` set in the index, and the next process that takes the
    lock recovers the log before it appends.
    """

    def __init__(
        self,
        files: LogFiles,
        *,
        block_size: int,
        durability: Durability,
        exclusive: bool,
        max_block_count: int,
        clock: Clock,
        background: BackgroundSync,
    ) -> None:
        self.files, self._clock, self._background = files, clock, background
        self._durability, self._exclusive = durability, exclusive
        self._is_synced = durability.mode == "commit"
        self._max_block_count = max_block_count
        self.pid = os.getpid()
        self._held: Lock | None = None
        self._is_usable: Callable[[], bool] = lambda: False
        self.is_ready = False
        """Whether the fast path of `Appender.put` may use the writer as it is."""
        self._closed_because = ""
        self._has_failed = False
        """Whether puts are refused because a sync failed."""
        self._is_torn = False
        self._has_written = False
        self.has_sync_due = False
        self._has_sealed = False
        self._syncing = threading.Lock()
        """Held while the background syncs, so that `close` waits for the sync and then has the index to itself."""
        self._view = LogView(files)
        self.writer = QueueWriter(files, block_size, self._make_durable)
        if self._is_synced:
            # After each sync the first store to a page of the map takes a page fault, which costs more than a write.
            self.writer.stores_through_map = False
        self.group = GroupCommit(self._commit)
        self.recovery: Recovery | None = None

    # --- Puts ---

    def settle(self, tickets: Sequence[Ticket]) -> None:
        """Returns when each ticket, at least one, has its receipt or its error. With `commit` they join a group."""
        if self._is_synced:
            self.group.settle(tickets)
        else:
            self._commit(tickets)

    def _commit(self, tickets: Sequence[Ticket]) -> None:
        """Lays the records of all tickets, syncs them if durability is `commit`, and publishes them.

        A ticket whose records do not fit gets its own error. If it is larger than a block, its first records may have
        been laid when the disk was full: they are whole, and are published.
        """
        with self.changing() as writer:
            writer.lay_group(tickets, self._clock.now_ns() // 1000)
            if self._is_synced and writer.block is not None:
                self.sync_up_to(writer.block, writer.number)
            # Only now may readers see the records: the sync above is what the published end promises.
            writer.publish()
        self.schedule_sync()

    def tear(self) -> None:
        """Notes that a change broke off in the middle, so that the next one recovers the log first."""
        self._is_torn, self.is_ready = True, False

    # --- The lock ---

    @contextmanager
    def changing(self) -> Iterator[QueueWriter]:
        """Yields the writer at the end of the log, with the lock held; releases the lock afterwards."""
        with self.files.mutex:
            writer = self._enter()
            try:
                yield writer
            except (StorageFull, TooLarge):
                self._leave(writer)
                raise
            except SyncFailed as error:
                self.fail(error)
                self._release()
                raise
            except BaseException:
                self.tear()
                self._release()
                raise
            else:
                self._leave(writer)
        self.ring()

    def _enter(self) -> QueueWriter:
        if self._closed_because:
            raise LogClosed(self.files.directory, self._closed_because)
        self._acquire()
        try:
            index = self._settled()
        except BaseException as error:
            if isinstance(error, SyncFailed):
                self.fail(error)
            self._release()
            raise
        index.writing = self.pid
        self._has_written = self.is_ready = True
        writer = self.writer
        if not writer.stands_in(index):
            writer.catch_up(index)
        return writer

    def _leave(self, writer: QueueWriter) -> None:
        if not self._exclusive:
            writer.index.writing = 0
        self._release()

    def _acquire(self) -> None:
        """Takes the writer lock. Raises LogLocked if an exclusive writer has it, or if it is not released in time."""
        if self._held is not None:
            return
        lock = self.files.lock()
        if not lock.try_acquire():
            self._wait_for(lock)
        self._held = lock

    def _wait_for(self, lock: Lock) -> None:
        deadline, pause_s = self._clock.steady_s() + LOCK_WAIT_S_MAX, LOCK_PAUSE_S_MIN
        while not lock.try_acquire():
            holder = lock.holder()
            if (holder and _is_alive(holder)) or self._clock.steady_s() > deadline:
                raise LogLocked(self.files.directory, holder or self.files.index().writing)
            self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, LOCK_PAUSE_S_MAX)

    def _release(self) -> None:
        if self._held is not None and not self._exclusive:
            self._held.release()
            self._held = None

    # --- What was left behind ---

    def _settled(self) -> Index:
        """Returns the index, fit for appending; recovers the log if it was not left properly. The lock is held."""
        index = self.files.index()
        is_ours = self._exclusive and index.writing == self.pid
        if not self.files.is_vouched:
            # The files were closed in between, and other processes may have changed them: check as `open` does.
            if not is_ours and not self._is_usable():
                index = self.recover(self._readable_index())
            self.files.vouch()
        if index.state == STATE_OPEN and not self._is_torn and (is_ours or not index.writing):
            return index
        if self._is_torn or not index.is_clean():
            return self.recover(index)
        index.open_for(self.files.filesystem.boot_id(), STATE_OPEN)
        return index

    def recover(self, index: Index | None, *, force: bool = False) -> Index:
        """Makes the log whole. The caller holds the lock."""
        new_index, self.recovery = recover(self.files, index, max_block_count=self._max_block_count, force=force)
        self._is_torn = False
        if self._held is not None and not self._exclusive:
            # An exclusive writer that was killed left its note behind.
            self._held.note_holder(0)
        return new_index

    def open(self, is_usable: Callable[[], bool], *, force: bool = False) -> None:
        """Takes the lock if it is kept, or if the log has to be recovered before it is used."""
        self._is_usable = is_usable
        if not self._exclusive and not force and is_usable():
            self.files.vouch()
            return
        with self.files.mutex:
            self._acquire()
            try:
                if self._exclusive and self._held is not None:
                    self._held.note_holder(self.pid)
                # Checked again, because another process may have recovered while this one waited for the lock.
                if force or not is_usable():
                    self.recover(self._readable_index(), force=force)
                self.files.vouch()
                if self._exclusive:
                    index = self._settled()
                    index.writing = self.pid
                    self._has_written = True
            except BaseException:
                self._let_go_of_lock()
                raise
            self._release()

    def _readable_index(self) -> Index | None:
        if not self.files.has_index():
            return None
        try:
            return self.files.index()
        except (CorruptRecord, NotALog):
            return None

    # --- Syncs in the background ---

    def _make_durable(self, sealed: Block, number: int) -> None:
        """Called for a sealed block. With durability `commit` it is on disk when this returns, else soon."""
        if self._is_synced:
            self.sync_up_to(sealed, number)
        else:
            self._has_sealed = True

    def sync_up_to(self, block: Block, number: int) -> None:
        """Puts on disk all below `number`, which ends in `block`, whichever process wrote it."""
        index = self.writer.index
        if index.synced < block.base_number:
            for file, _ in self._files_between(index, block.number):
                file.sync()
        block.file.sync()
        index.synced = number

    def _files_between(self, index: Index, block_number: int) -> list[tuple[File, int]]:
        """Returns the files of earlier blocks that may hold what is not on disk, each with its end number."""
        blocks = self._view.slots()
        return [
            (self.files.block(number, slot).file, slot.end_number)
            for number, slot in enumerate(blocks.slots, blocks.start)
            if number < block_number and slot.end_number > index.synced
        ]

    def schedule_sync(self) -> None:
        """Schedules a sync if the durability asks for one, or if a sealed block is not on disk. After each change."""
        if self._has_sealed or self._durability.mode == "interval":
            self.sync_later()

    def sync_later(self) -> None:
        """Schedules a sync unless one is due already. The caller does not hold the mutex."""
        if not self.has_sync_due:
            self.has_sync_due = True
            self._background.schedule(self._durability.interval_s, self._sync_now)

    def _sync_now(self) -> None:
        """Syncs what is due: sealed blocks always, the last block if durability is `interval`."""
        with self._syncing:
            with self.files.mutex:
                self.has_sync_due = self._has_sealed = False
                block = self.writer.block
                if block is None or self._closed_because:
                    return
                index = self.writer.index
                due = self._files_between(index, block.number) if index.synced < block.base_number else []
                has_sealed = bool(due)
                if self._durability.mode == "interval":
                    due.append((block.file, self.writer.number))
            with suppress(SyncFailed):
                self._sync_in_order(index, due, has_sealed=has_sealed)

    def sync(self) -> None:
        """Puts on disk all that is published now. Callers that wait at the same time share one sync."""
        end = self.files.index().message_count
        with self._syncing:
            if self.files.index().synced >= end:
                return
            with self.changing() as writer:
                index, block = writer.index, writer.block
                if block is None:
                    return
                sealed = self._files_between(index, block.number) if index.synced < block.base_number else []
                due = [*sealed, (block.file, writer.number)]
            self._sync_in_order(index, due, has_sealed=bool(sealed))

    def _sync_in_order(self, index: Index, due: Sequence[tuple[File, int]], *, has_sealed: bool) -> None:
        """Syncs file by file, and stores `synced` after each, so that it never runs ahead of a block not on disk."""
        try:
            for file, number in due:
                file.sync()
                index.synced = max(index.synced, number)
            if has_sealed:
                # On disk as well: a recovery then starts behind these blocks.
                index.sync()
        except SyncFailed as error:
            self.fail(error)
            raise

    # --- After a failed sync ---

    def fail(self, error: SyncFailed) -> None:
        """Refuses puts until `reopen`, because after a failed sync the system may call lost pages clean."""
        self.close_because(str(error))
        self._has_failed = True
        # The process that recovers the log stores once more what it keeps.
        with suppress(CorruptRecord, NotALog, OSError):
            self.files.index().state = STATE_FAILED
        self.files.failed.add(self)

    def reopen(self) -> None:
        """Recovers a log in which a sync failed, so that it takes puts again. Otherwise does nothing.

        What waited for the sync is cut, because its caller got an error. What was published before is stored
        and synced once more. Raises SyncFailed, and the log stays closed, if the disk still refuses.
        """
        with self.files.mutex:
            if self._has_failed:
                self._has_failed, self._closed_because, self._is_torn = False, "", True
        if self._is_torn:
            with self.changing():
                pass
        if not self._has_failed:
            self.files.failed.discard(self)

    @property
    def directory(self) -> str:
        return self.files.directory

    # --- The rest ---

    def ring(self) -> None:
        """Wakes the readers that wait for messages."""
        index = self.files.index()
        if index.waiting > self._clock.now_ns() // 1000:
            index.bell(self._clock).ring()

    def close(self) -> None:
        """Syncs and leaves the log clean, so that the next process to open it need not recover."""
        with self._syncing:
            try:
                if self._has_written and not self._closed_because:
                    with self.changing() as writer:
                        self._leave_clean(writer)
            finally:
                self.close_because(self._closed_because or "close() was called")
                self.has_sync_due = self._has_failed = False
                self.files.failed.discard(self)
                self._let_go_of_lock()

    def close_because(self, reason: str) -> None:
        self._closed_because, self.is_ready = reason, False

    def _leave_clean(self, writer: QueueWriter) -> None:
        index, block = writer.index, writer.block
        if block is not None:
            self.sync_up_to(block, writer.number)
            slot = index.slot(block.number)
            end_offset = block.base_offset + writer.position
            slot = slot._replace(end_offset=end_offset, end_number=writer.number, last_timestamp=writer.last_timestamp)
            index.put_slot(block.number, slot)
        index.writing = 0
        index.open_for(self.files.filesystem.boot_id(), STATE_CLEAN)

    def let_go(self) -> bool:
        """Closes every file. Returns False, and keeps them, if the background still has to sync one."""
        if self.has_sync_due:
            return False
        self.writer.let_go()
        self._view.let_go()
        return True

    def _let_go_of_lock(self) -> None:
        if self._held is not None:
            if self._exclusive:
                self._held.note_holder(0)
            self._held.release()
            self._held = None

    def after_fork(self) -> None:
        """Resets the child of a fork: the parent goes on writing, and the child takes the lock for itself."""
        self.pid, self._held = os.getpid(), None
        self._has_written = self.is_ready = self.has_sync_due = self._has_sealed = False
        self._syncing = threading.Lock()
        self._view.let_go()
        self.group = GroupCommit(self._commit)
        self.writer.let_go()
        if self._exclusive:
            self.close_because("it was opened with exclusive=True by the parent process")


def _is_alive(pid: int) -> bool:
    """Returns whether a process exists. The note of a killed process is out of date, not a claim."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def is_sound(index: Index, boot_id: bytes) -> bool:
    """Returns whether the log can be used without a recovery.

    If it was not closed, another process must have had it open since it was whole. The same boot id proves nothing,
    because data that was not synced may be lost without a restart of the machine.
    """
    if index.is_clean():
        return True
    is_left_whole = index.state == STATE_OPEN and index.boot_id == boot_id and not index.writing
    return is_left_whole and index.is_vouched() is not False
