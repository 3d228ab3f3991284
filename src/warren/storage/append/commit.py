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
from warren.storage.append.durability import Durability, Replication
from warren.storage.append.group_commit import GroupCommit, Ticket
from warren.storage.append.recovery import Recovery, cut, recover
from warren.storage.append.writer import QueueWriter
from warren.storage.disk.block import Block
from warren.storage.disk.filesystem import File, Lock
from warren.storage.disk.index import Index
from warren.storage.disk.log_files import LogFiles
from warren.storage.disk.shipping import Laid
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
        replication: Replication = "as synced",
    ) -> None:
        self.files, self._clock, self._background = files, clock, background
        self._durability, self.exclusive = durability, exclusive
        self.is_synced = durability.mode == "commit"
        self.shipping = files.filesystem.shipping
        """In the master of a replicated store: takes what is laid to the other replicas."""
        is_replicated = self.shipping is not None
        self.waits = is_replicated and (replication == "sync" or (replication == "as synced" and self.is_synced))
        """Whether a put waits for the other replicas."""
        self._asks_sync = is_replicated and replication != "as synced" and not self.is_synced
        """Whether the other replicas sync the log only when they are asked to."""
        self._unshipped = (0, 0)
        """Position and number from which on the other replicas do not have what is laid in the block of the writer."""
        self.has_shipped = False
        """Whether the present change has given records to the other replicas."""
        self._max_block_count = max_block_count
        self.pid = os.getpid()
        self.held: Lock | None = None
        self._is_usable: Callable[[], bool] = lambda: False
        self.is_ready = False
        """Whether the fast path of `Appender.put` may use the writer in its current state."""
        self._closed_because = ""
        self._has_failed = False
        """Whether puts are refused because a sync failed."""
        self._is_torn = False
        self.has_written = False
        self.has_sync_due = False
        self._has_sealed = False
        self._syncing = threading.Lock()
        """Held while the background syncs, so that `close` waits for the sync and then has the index to itself."""
        self._view = LogView(files)
        self.writer = QueueWriter(files, block_size, self._make_durable, self._ship_header)
        if self.is_synced:
            # After each sync, the first store to a page of the map takes a page fault, which costs more than a write.
            self.writer.stores_through_map = False
        self.group = GroupCommit(self._commit)
        self.recovery: Recovery | None = None

    # --- Puts ---

    def settle(self, tickets: Sequence[Ticket]) -> None:
        """Returns when each ticket, at least one, has its receipt or its error. If they wait, they join a group."""
        if self.is_synced or self.waits:
            self.group.settle(tickets)
        else:
            self._commit(tickets)

    def _commit(self, tickets: Sequence[Ticket]) -> None:
        """Lays the records of all tickets, syncs them if durability is `commit`, and publishes them.

        A ticket whose records do not fit gets its own error. If it is larger than a block, its first records may have
        been laid when the disk was full: they are complete, and are published.
        """
        with self.changing() as writer:
            writer.lay_group(tickets, self._clock.now_ns() // 1000)
            barrier = self.ship()
            if self.is_synced and writer.block is not None:
                self.sync_up_to(writer.block, writer.number)
            if self.shipping is not None:
                self._finish_barrier(barrier)
                if self.waits:
                    self.shipping.wait(self.files.directory)
            # Only now may readers see the records: the sync above is what the published end promises.
            writer.publish()
            self.has_shipped = False
        self.schedule_sync()

    def end_change(self) -> None:
        """Notes that a change of `ShippedCommit` is complete."""
        self.has_shipped = False
        if not self.exclusive:
            self.writer.index.writing = 0

    def tear(self) -> None:
        """Notes that a change was interrupted, so that the next one recovers the log first."""
        self._is_torn, self.is_ready = True, False
        if self.has_shipped and self.shipping is not None:
            # A recovery would cut here what the other replicas keep.
            self.shipping.broke(self.files.directory, "a change was interrupted after its records were sent")

    # --- The other replicas ---

    def ship(self) -> int | None:
        """Gives the other replicas what was laid in the last block. Returns its barrier, None if there is nothing."""
        writer = self.writer
        block, (position, first) = writer.block, self._unshipped
        if self.shipping is None or block is None or writer.position == position:
            return None
        self.has_shipped = True
        self._unshipped = writer.position, writer.number
        return self.shipping.laid(
            Laid(self.files.directory, block.base_offset, position, writer.position, first, writer.number)
        )

    def _ship_header(self) -> None:
        """Called when the writer stands in a new block: the other replicas begin it at the same place."""
        if self.shipping is not None:
            self._unshipped = 0, self.writer.number
            self._finish_barrier(self.ship())

    def _finish_barrier(self, barrier: int | None) -> None:
        """Reports that the records of a barrier are as durable here as they have to be."""
        if barrier is not None and self.shipping is not None:
            self.shipping.synced(barrier)

    def note_shipped(self, writer: QueueWriter) -> None:
        """Called at the start of a change: all that is published was shipped."""
        block, self.has_shipped = writer.block, False
        if block is not None:
            # With the first record of a block goes its header: another replica may not have begun the block.
            position = 0 if writer.position == block.start else writer.position
            self._unshipped = position, writer.number

    # --- The lock ---

    @contextmanager
    def changing(self) -> Iterator[QueueWriter]:
        """Yields the writer at the end of the log, with the lock held; releases the lock afterwards."""
        with self.files.mutex:
            if self._closed_because:
                raise LogClosed(self.files.directory, self._closed_because)
            self._acquire()
            writer, has_begun, is_torn = self.writer, False, False
            try:
                index = self._settled()
                index.writing, has_begun = self.pid, True
                self.has_written = self.is_ready = True
                if not writer.stands_in(index):
                    writer.catch_up(index)
                if self.shipping is not None:
                    self.note_shipped(writer)
                yield writer
            except (StorageFull, TooLarge):
                # Nothing has changed, unless it was a cut.
                is_torn = self._is_torn
                raise
            except SyncFailed as error:
                is_torn = True
                self.fail(error)
                raise
            except BaseException:
                is_torn = has_begun
                if has_begun:
                    self.tear()
                raise
            finally:
                # It stays set after a change that broke off, so that the next process recovers the log first.
                if has_begun and not is_torn and not self.exclusive:
                    writer.index.writing = 0
                self.release()
        self.ring()

    def _acquire(self) -> None:
        """Takes the writer lock. Raises LogLocked if an exclusive writer has it, or if it is not released in time."""
        if self.held is not None:
            return
        lock = self.files.lock()
        try:
            lock.take()
        except BlockingIOError:
            self._wait_for(lock)
        self.held = lock

    def _wait_for(self, lock: Lock) -> None:
        deadline, pause_s = self._clock.steady_s() + LOCK_WAIT_S_MAX, LOCK_PAUSE_S_MIN
        while not lock.try_acquire():
            holder = lock.holder()
            if (holder and _is_alive(holder)) or self._clock.steady_s() > deadline:
                raise LogLocked(self.files.directory, holder or self.files.index().writing)
            self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, LOCK_PAUSE_S_MAX)

    def release(self) -> None:
        if self.held is not None and not self.exclusive:
            self.held.release()
            self.held = None

    # --- What was left behind ---

    def _settled(self) -> Index:
        """Returns the index, ready for appending; recovers the log if it was not closed properly. The lock is held."""
        index = self.files.index()
        is_ours = self.exclusive and index.writing == self.pid
        if not self.files.is_vouched:
            # The files were closed in between, and other processes may have changed them. So this checks as `open`
            # does.
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
        """Recovers the log. The caller holds the lock."""
        new_index, self.recovery = recover(self.files, index, max_block_count=self._max_block_count, force=force)
        self._is_torn = False
        if self.held is not None and not self.exclusive:
            # An exclusive writer that was killed left its note behind.
            self.held.note_holder(0)
        return new_index

    def cut(self, number: int) -> None:
        """Ends the log at `number`, on disk, and takes the positions of readers back."""
        with self.changing() as writer:
            index = writer.index
            if number < index.message_count:
                writer.let_go()
                try:
                    index = cut(self.files, index, number)
                except StorageFull:
                    # Some of it may be gone.
                    self.tear()
                    raise
                writer.catch_up(index)

    def open(self, is_usable: Callable[[], bool], *, force: bool = False) -> None:
        """Takes the lock if the log is exclusive, or if the log has to be recovered before it is used."""
        self._is_usable = is_usable
        if not self.exclusive and not force and is_usable():
            self.files.vouch()
            return
        with self.files.mutex:
            self._acquire()
            try:
                if self.exclusive and self.held is not None:
                    self.held.note_holder(self.pid)
                # Checked again, because another process may have recovered while this one waited for the lock.
                if force or not is_usable():
                    self.recover(self._readable_index(), force=force)
                self.files.vouch()
                if self.exclusive:
                    index = self._settled()
                    index.writing = self.pid
                    self.has_written = True
            except BaseException:
                self._let_go_of_lock()
                raise
            self.release()

    def _readable_index(self) -> Index | None:
        if not self.files.has_index():
            return None
        try:
            return self.files.index()
        except (CorruptRecord, NotALog):
            return None

    # --- Syncs in the background ---

    def _make_durable(self, sealed: Block, number: int) -> None:
        """Called for a sealed block. With durability `commit` it is on disk when this returns, otherwise soon after."""
        barrier = self.ship()
        if self.is_synced:
            self.sync_up_to(sealed, number)
        else:
            self._has_sealed = True
        self._finish_barrier(barrier)

    def sync_up_to(self, block: Block, number: int) -> None:
        """Syncs everything below `number`, which ends in `block`, regardless of which process wrote it."""
        index = self.writer.index
        if index.synced < block.base_number:
            for file, _ in self._files_between(index, block.number):
                file.sync()
        block.file.sync()
        index.synced = number

    def _files_between(self, index: Index, block_number: int) -> list[tuple[File, int]]:
        """Returns the files of earlier blocks that may hold unsynced data, each with its end number."""
        blocks = self._view.slots()
        return [
            (self.files.block(number, slot).file, slot.end_number)
            for number, slot in enumerate(blocks.slots, blocks.start)
            if number < block_number and slot.end_number > index.synced
        ]

    def schedule_sync(self) -> None:
        """Schedules a sync if the durability requires one, or if a sealed block is not on disk.

        Called after each change.
        """
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
        if self._asks_sync and self.shipping is not None:
            self.shipping.ask_sync(self.files.directory)

    def sync(self) -> None:
        """Syncs everything that is published now. Callers that wait at the same time share one sync.

        In a replicated store: on the disks of all replicas that count.
        """
        self._sync_here()
        if self.shipping is not None:
            if self._asks_sync:
                self.shipping.ask_sync(self.files.directory)
            self.shipping.wait(self.files.directory)

    def _sync_here(self) -> None:
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
        """Syncs file by file, and stores `synced` after each, so that it never covers a block that is not on disk."""
        try:
            for file, number in due:
                file.sync()
                index.synced = max(index.synced, number)
            if has_sealed:
                # On disk as well: a recovery then starts after these blocks.
                index.sync()
        except SyncFailed as error:
            self.fail(error)
            raise

    # --- After a failed sync ---

    def fail(self, error: SyncFailed) -> None:
        """Refuses puts until `reopen`, because after a failed sync the system may consider lost pages clean."""
        self.close_because(str(error))
        self._has_failed = True
        if self.shipping is not None:
            self.shipping.broke(self.files.directory, str(error))
        # The process that recovers the log stores once more what it keeps.
        with suppress(CorruptRecord, NotALog, OSError):
            self.files.index().state = STATE_FAILED
        self.files.failed.add(self)

    def reopen(self) -> None:
        """Recovers a log in which a sync failed, so that it accepts puts again. Otherwise does nothing.

        Data that waited for the sync is cut, because its caller got an error. Data that was published before is stored
        and synced once more. If the disk still refuses, raises SyncFailed, and the log stays closed.
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
                if self.has_written and not self._closed_because:
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
        """Closes every file. Returns False, and keeps the files open, if the background still has to sync one."""
        if self.has_sync_due:
            return False
        self.writer.let_go()
        self._view.let_go()
        return True

    def _let_go_of_lock(self) -> None:
        if self.held is not None:
            if self.exclusive:
                self.held.note_holder(0)
            self.held.release()
            self.held = None

    def after_fork(self) -> None:
        """Resets the child of a fork: the parent continues to write, and the child takes the lock for itself."""
        self.pid, self.held = os.getpid(), None
        self.has_written = self.is_ready = self.has_sync_due = self._has_sealed = False
        self._syncing = threading.Lock()
        self._view.let_go()
        self.group = GroupCommit(self._commit)
        self.writer.let_go()
        if self.exclusive:
            self.close_because("it was opened with exclusive=True by the parent process")


def _is_alive(pid: int) -> bool:
    """Returns whether a process exists. The note of a killed process is outdated, and does not claim the log."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
