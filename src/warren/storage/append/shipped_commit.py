"""ShippedCommit: a commit of a replicated log in steps, so that no thread waits while the other replicas work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from warren.errors import SyncFailed
from warren.message import Receipt
from warren.storage.append.commit import Commit
from warren.storage.append.group_commit import Ticket
from warren.storage.format.layout import ALIGNMENT, INDEX_SPACING, PAYLOAD_AT, STATE_OPEN
from warren.storage.format.record import Packed

SIZE_MAX: Final = 16 << 10
"""Larger puts take so long to store that a thread has to do it."""
COUNT_MAX: Final = 8 * INDEX_SPACING
"""So many messages need at most one index message: the smallest has 8 entries. With two, the block might be full, and a
new one waits for the disk and the replicas."""


class ShippedCommit:
    """Puts whose records are laid and on their way to the other replicas. Made by `begin`; the caller does the rest:

    1. `begin` takes the lock of the log, lays the records and gives them to the other replicas. It never waits.
    2. `sync`, on a thread, syncs them here as the durability says, while the replicas work.
    3. When every replica that counts has them, and `sync` is done, `done` is called, by any thread.
    4. `finish`, by any thread, publishes them, and returns what became of each put.

    This is `Commit.settle` in steps: the same bytes, the same order, and the same promise. `settle` needs a thread that
    takes over the put, one that waits for the replicas, and one that takes over the answer, and each hop costs as much
    as storing the record. Between `begin` and `finish` the log is locked, as it is during `settle`. If the mastership
    ends in between, `done` is never called: the process ends.
    """

    def __init__(self, commit: Commit, tickets: Sequence[Ticket], barrier: int) -> None:
        self._commit, self._tickets, self._barrier = commit, tickets, barrier
        self._failure: Exception | None = None

    @classmethod
    def begin(cls, commit: Commit, puts: Sequence[Sequence[Packed]]) -> ShippedCommit | None:
        """Returns None, and has changed nothing, if the puts wait for no replica, or if any of this would wait.

        Then `Commit.settle` has to do it.
        """
        if not commit.waits:
            return None
        size = sum(len(packed.payload) + PAYLOAD_AT + ALIGNMENT for records in puts for packed in records)
        count = sum(packed.message_count for records in puts for packed in records)
        if size > SIZE_MAX or count > COUNT_MAX or not commit.group.try_lead():
            return None
        begun = None
        has_mutex = commit.files.mutex.acquire(blocking=False)
        try:
            if has_mutex and commit.is_ready and _has_room(commit, size) and _holds(commit):
                begun = cls._begin_held(commit, puts)
        finally:
            if begun is None:
                _let_go(commit, has_mutex=has_mutex)
        return begun

    @classmethod
    def _begin_held(cls, commit: Commit, puts: Sequence[Sequence[Packed]]) -> ShippedCommit | None:
        files, writer = commit.files, commit.writer
        index = files.index()
        is_free = not index.writing or (commit.exclusive and index.writing == commit.pid)
        if not files.is_vouched or index.state != STATE_OPEN or not is_free or not writer.stands_in(index):
            # Another process has appended, or died in the middle of a change, or a sync failed.
            return None
        tickets = [Ticket(records) for records in puts]
        index.writing, commit.has_written = commit.pid, True
        try:
            commit.note_shipped(writer)
            writer.lay_group(tickets, files.clock.now_ns() // 1000)
            barrier = commit.ship()
        except BaseException:
            commit.tear()
            raise
        if barrier is None:
            # Nothing had room.
            commit.end_change()
            return None
        return cls(commit, tickets, barrier)

    def sync(self, done: Callable[[], None]) -> bool:
        """Syncs the records here, as durable as they have to be. `done` is called then, or later.

        Returns False if that failed: `done` is never called, and `finish` has to be called instead.
        """
        commit = self._commit
        shipping, block = commit.shipping, commit.writer.block
        assert shipping is not None
        assert block is not None
        try:
            shipping.when(self._barrier, done)
            if commit.is_synced:
                commit.sync_up_to(block, commit.writer.number)
            shipping.synced(self._barrier)
        except SyncFailed as error:
            self._failure = error
            commit.fail(error)
        except Exception as error:  # noqa: BLE001  # the puts get it
            self._failure = error
            commit.tear()
        return self._failure is None

    def finish(self) -> list[Receipt | BaseException]:
        """Publishes the records, frees the log, and returns the receipt or the error of each put."""
        commit, failure = self._commit, self._failure
        try:
            if failure is None:
                # Only now may readers see the records: here and on every replica that counts they are on disk.
                commit.writer.publish()
                commit.end_change()
        except BaseException:
            commit.tear()
            raise
        finally:
            _let_go(commit, has_mutex=True)
        commit.ring()
        commit.schedule_sync()
        if failure is not None:
            return [failure] * len(self._tickets)
        # A settled ticket has a receipt or an error.
        return [each.receipt if each.error is None else each.error for each in self._tickets]  # type: ignore[misc]


def _has_room(commit: Commit, size: int) -> bool:
    """Returns whether the block has room for `size` bytes, and for an index message between the records."""
    writer = commit.writer
    return writer.block is not None and writer.position + size + writer.room_taken <= writer.room_end


def _holds(commit: Commit) -> bool:
    """Takes the lock of the log, unless another process has it."""
    if commit.held is None:
        lock = commit.files.lock()
        try:
            lock.take()
        except BlockingIOError:
            return False
        commit.held = lock
    return True


def _let_go(commit: Commit, *, has_mutex: bool) -> None:
    if has_mutex:
        commit.release()
        commit.files.mutex.release()
    commit.group.let_lead()
