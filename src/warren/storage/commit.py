"""Durability: the writer lock, and the order block bytes, sync, published end, reply. All who wait share one sync."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from warren.clock import Clock
from warren.config import LOCK_WAIT_S_MAX, Durability
from warren.errors import CorruptRecord, LogClosed, LogLocked, NotALog, StorageFull, SyncFailed, TooLarge
from warren.message import Receipt
from warren.storage.background import Background
from warren.storage.block import Block
from warren.storage.files import LogFiles
from warren.storage.filesystem import File, Lock
from warren.storage.group_commit import GroupCommit, Ticket
from warren.storage.index import Index
from warren.storage.layout import STATE_CLEAN, STATE_FAILED, STATE_OPEN
from warren.storage.record import Packed
from warren.storage.recovery import Recovery, recover
from warren.storage.shortcut import (
    Append,
    PutPacked,
    make_commit_alone,
    make_packed_shortcut,
    make_shortcut,
    make_synced_shortcut,
)
from warren.storage.view import LogView
from warren.storage.writer import QueueWriter

LOCK_PAUSE_S_MIN: Final = 0.00005
LOCK_PAUSE_S_MAX: Final = 0.002


class Commit:
    """The only way to change a log. Any thread may call; between processes the writer lock decides whose turn it is.

    Invariant: a put that returned is published, and on disk where durability is `commit`. Whatever goes wrong in the
    middle leaves `writing` set in the index, and the next one to take the lock recovers before it appends.
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
        background: Background,
    ) -> None:
        self.files, self._clock, self._background = files, clock, background
        self._durability, self._exclusive = durability, exclusive
        self._is_synced = durability.mode == "commit"
        self._max_block_count = max_block_count
        self.pid = os.getpid()
        self._held: Lock | None = None
        self._is_usable: Callable[[], bool] = lambda: False
        self.is_ready = False
        """Whether the shortcut may use the writer as it stands."""
        self._closed_because = ""
        self._has_failed = False
        """Whether that was because of a failed sync."""
        self._is_torn = False
        self._has_written = False
        self.has_sync_due = False
        self._has_sealed = False
        self._syncing = threading.Lock()
        """Held while the background syncs: whoever closes the log waits for it, and finds the index its own."""
        self._view = LogView(files)
        self.writer = QueueWriter(files, block_size, self._make_durable)
        if durability.mode == "commit":
            # After each sync the first store to a page of the map takes a fault, which costs more than a write.
            self.writer.stores_through_map = False
        self.group = GroupCommit(self._commit)
        self._put_shortly = self._make_put()
        self.recovery: Recovery | None = None

    # --- Putting ---

    def put(self, batch: Sequence[Packed]) -> Receipt:
        """Append the records of `batch`. The receipt of the first message, when all are as durable as was asked for.

        StorageFull leaves the log as it was, or, where the batch is larger than a block, with whole records of it.
        """
        if self._durability.mode == "commit":
            return self.group.put(batch)
        if len(batch) == 1 and (shortly := self._put_shortly(batch[0])) is not None:
            return shortly
        with self.changing() as writer:
            receipt = self._lay(writer, batch)
        if self._has_sealed or self._durability.mode == "interval":
            self.sync_later()
        return receipt

    def put_record(self, packed: Packed) -> Receipt:
        """The same for one record."""
        if self._is_synced:
            return self.group.put((packed,))
        return self._put_shortly(packed) or self.put((packed,))

    def settle(self, tickets: Sequence[Ticket]) -> None:
        """Append what each of the tickets, at least one, brings, with one sync for all; what goes wrong they tell."""
        if self._durability.mode == "commit":
            if len(tickets) > 1 or not self._settle_alone(tickets[0]):
                self.group.settle(tickets)
            return
        with self.changing() as writer:
            writer.lay_group(tickets, self._clock.now_ns() // 1000)
            writer.publish()
        if self._has_sealed or self._durability.mode == "interval":
            self.sync_later()

    def _settle_alone(self, ticket: Ticket) -> bool:
        """Commit one message where nobody else is about to commit; whether that was done."""
        if len(ticket.batch) > 1 or ticket.batch[0].message_count > 1 or not self.group.try_lead():
            return False
        try:
            ticket.receipt = self._put_shortly(ticket.batch[0])
        finally:
            self.group.let_lead()
        return ticket.receipt is not None

    def put_one(self, packed: Packed, id: str) -> Receipt:
        """Append one record that holds one message, the long way."""
        receipt = self.put((packed,))
        return receipt._replace(id=id) if id else receipt

    def _lay(self, writer: QueueWriter, batch: Sequence[Packed]) -> Receipt:
        try:
            receipt = writer.lay_all(batch, self._clock.now_ns() // 1000)
        except StorageFull:
            writer.publish()
            raise
        writer.publish()
        return receipt

    def _commit(self, group: Sequence[Ticket]) -> None:
        with self.changing() as writer:
            now_us = self._clock.now_ns() // 1000
            writer.lay_group(group, now_us)
            if writer.block is not None:
                self.sync_up_to(writer.block, writer.number)
            # Only now may readers see the group: the sync above is what the published end promises.
            writer.publish()

    def make_append(self, compression: int) -> Append | None:
        """The shortest append for this log; None where only the long way will do."""
        if self.files.format.version == 1:
            return None
        if self._durability.mode == "commit":
            return make_synced_shortcut(
                self, self._clock.now_ns, is_shared=not self._exclusive, compression=compression
            )
        return make_shortcut(
            self,
            self._clock.now_ns,
            is_shared=not self._exclusive,
            is_interval=self._durability.mode == "interval",
            compression=compression,
        )

    def _make_put(self) -> PutPacked:
        """The shortest put of one small record."""
        now_ns, is_shared = self._clock.now_ns, not self._exclusive
        if self.files.format.version == 1:
            return lambda packed: None
        if self._durability.mode == "commit":
            return make_commit_alone(self, now_ns, is_shared=is_shared)
        return make_packed_shortcut(self, now_ns, is_shared=is_shared, is_interval=self._durability.mode == "interval")

    def tear(self) -> None:
        """Something broke in the middle of a change: recover before the next one."""
        self._is_torn, self.is_ready = True, False

    # --- The lock ---

    @contextmanager
    def changing(self) -> Iterator[QueueWriter]:
        """The writer, standing at the end of the log, for as long as the lock is held."""
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
        """Take the writer lock; LogLocked where an exclusive writer has it, or nobody gives it up in time."""
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
        """The index, fit for appending: made anew where the log was not left as it should be. The lock is held."""
        index = self.files.index()
        is_ours = self._exclusive and index.writing == self.pid
        if not self.files.is_vouched:
            # The files were given up in between, and who knows what became of them: as when the log is opened.
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
        """Make the log whole; the lock is held."""
        new_index, self.recovery = recover(self.files, index, max_block_count=self._max_block_count, force=force)
        self._is_torn = False
        if self._held is not None and not self._exclusive:
            # An exclusive writer that was killed left its note behind.
            self._held.note_holder(0)
        return new_index

    def open(self, is_usable: Callable[[], bool], *, force: bool = False) -> None:
        """Take the lock where it is kept, or where the log has to be recovered before anybody uses it."""
        self._is_usable = is_usable
        if not self._exclusive and not force and is_usable():
            self.files.vouch()
            return
        with self.files.mutex:
            self._acquire()
            try:
                if self._exclusive and self._held is not None:
                    self._held.note_holder(self.pid)
                # Asked again: somebody else may have recovered while we waited for the lock.
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

    # --- Syncs that nobody waits for ---

    def _make_durable(self, sealed: Block, number: int) -> None:
        """A block was sealed. With durability `commit` it is on disk when this returns, else soon."""
        if self._durability.mode == "commit":
            self.sync_up_to(sealed, number)
        else:
            self._has_sealed = True

    def sync_up_to(self, block: Block, number: int) -> None:
        """Make everything below `number`, which ends in `block`, durable, whoever wrote it and however it was meant."""
        index = self.writer.index
        if index.synced < block.base_number:
            for file, _ in self._files_between(index, block.number):
                file.sync()
        block.file.sync()
        index.synced = number

    def _files_between(self, index: Index, block_number: int) -> list[tuple[File, int]]:
        """The files of the blocks before one that may hold what is not on disk, each with its end number."""
        blocks = self._view.slots()
        return [
            (self.files.block(number, slot).file, slot.end_number)
            for number, slot in enumerate(blocks.slots, blocks.start)
            if number < block_number and slot.end_number > index.synced
        ]

    def sync_later(self) -> None:
        """Schedule the sync of what was written, unless one is due already. Not called with the mutex held."""
        if not self.has_sync_due:
            self.has_sync_due = True
            self._background.schedule(self._durability.interval_s, self._sync_now)

    def _sync_now(self) -> None:
        """Make durable what is due: sealed blocks always, the last one where durability is `interval`."""
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
        """Everything that is published now is on disk when this returns. Those who wait at once share a sync."""
        wanted = self.files.index().message_count
        with self._syncing:
            if self.files.index().synced >= wanted:
                return
            with self.changing() as writer:
                index, block = writer.index, writer.block
                if block is None:
                    return
                sealed = self._files_between(index, block.number) if index.synced < block.base_number else []
                due = [*sealed, (block.file, writer.number)]
            self._sync_in_order(index, due, has_sealed=bool(sealed))

    def _sync_in_order(self, index: Index, due: Sequence[tuple[File, int]], *, has_sealed: bool) -> None:
        """Sync file by file, and say so after each: `synced` never runs ahead of a block that is not on disk."""
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
        """A sync failed: nothing more is written until `reopen`. The system may call pages clean that it has lost."""
        self.close_because(str(error))
        self._has_failed = True
        # The process that recovers the log stores once more what it keeps.
        with suppress(CorruptRecord, NotALog, OSError):
            self.files.index().state = STATE_FAILED
        self.files.failed.add(self)

    def reopen(self) -> None:
        """Recovers a log in which a sync failed, so that it takes puts again. Otherwise does nothing.

        What waited for the sync is cut, since its caller was told that it failed. What was published before is stored
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
        """Wake who waits for messages."""
        index = self.files.index()
        if index.waiting > self._clock.now_ns() // 1000:
            index.bell(self._clock).ring()

    def close(self) -> None:
        """Leave the log so that the next one to open it need not recover."""
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
        """Hold no file; False where the background still has to sync one."""
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
        """The parent goes on writing; a child takes the lock for itself, or finds it taken."""
        self.pid, self._held = os.getpid(), None
        self._has_written = self.is_ready = self.has_sync_due = self._has_sealed = False
        self._syncing = threading.Lock()
        self._view.let_go()
        self.group, self._put_shortly = GroupCommit(self._commit), self._make_put()
        self.writer.let_go()
        if self._exclusive:
            self.close_because("it was opened with exclusive=True by the parent process")


def _is_alive(pid: int) -> bool:
    """Whether a process is there. The note of one that was killed is out of date, not a claim."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def is_sound(index: Index, boot_id: bytes) -> bool:
    """Whether the log can be used as it lies, without a recovery.

    If it was not closed, another process must have had it open since it was whole. That the machine was not started
    since proves nothing: what was not synced may be lost all the same.
    """
    if index.is_clean():
        return True
    is_left_whole = index.state == STATE_OPEN and index.boot_id == boot_id and not index.writing
    return is_left_whole and index.is_vouched() is not False
