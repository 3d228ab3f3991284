"""The only way into a log: every put goes through `Appender`, for every durability.

`put` takes one record. Nearly always the record fits after the published end of the block that this process wrote last,
and `put` stores it there itself: that is the fast path. Everything else (a batch, a large record, a full block, another
writer, a log that needs recovery, version 1) is the ordinary path: `Commit` takes the lock and catches up, and
`QueueWriter` writes the records. Both paths store the same bytes in the same order and return the same receipts;
`tests/property/test_append_paths_model.py` runs both on the same inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from warren.errors import BadInput, SyncFailed
from warren.message import Receipt
from warren.storage.append.commit import Commit
from warren.storage.append.durability import Durability
from warren.storage.append.group_commit import Ticket
from warren.storage.append.writer import WRITE_SIZE_MIN
from warren.storage.format.checksum import crc32c
from warren.storage.format.layout import (
    PAYLOAD_AT,
    SIZE_WORD,
    STAMP,
    STAMPED,
    STATE_OPEN,
    WORD_MESSAGE_COUNT,
    WORD_STATE,
    WORD_WAITING,
    WORD_WRITING,
)
from warren.storage.format.packing import repack
from warren.storage.format.record import Packed

SIZE_WORD_SIZE: Final = SIZE_WORD.size
PACK_STAMP: Final = STAMP.pack
PACK_STAMPED: Final = STAMPED.pack
NEW_TUPLE: Final = tuple.__new__


class Appender:
    """Appends records to one log. Any thread may call.

    Invariant: when a method returns a receipt, its messages are published, and on disk if durability is `commit`. A put
    that raises StorageFull or TooLarge has changed nothing. Only a put that is larger than a block may have appended
    some of its records, each of them complete.
    """

    __slots__ = ("_commit", "_files", "_is_interval", "_is_shared", "_is_synced", "_now_ns", "_size_max", "_writer")

    def __init__(
        self, commit: Commit, durability: Durability, now_ns: Callable[[], int], *, is_exclusive: bool
    ) -> None:
        self._commit, self._files, self._writer, self._now_ns = commit, commit.files, commit.writer, now_ns
        self._is_shared = not is_exclusive
        self._is_synced, self._is_interval = durability.mode == "commit", durability.mode == "interval"
        # In a replicated store a put waits for other replicas, and several share the wait as they share a sync.
        is_replicated = commit.files.filesystem.shipping is not None
        self._size_max = WRITE_SIZE_MIN if commit.files.format.has_meta_data and not is_replicated else 0
        """Records below this size may take the fast path."""

    def put(  # noqa: C901  # one function on purpose: see its docstring
        self, payload: bytes | memoryview, checksum: int, message_count: int = 1, id: str = ""
    ) -> Receipt:
        """Appends one record, the fields of a `Packed`, and returns the receipt of its first message with `id` in it.

        The fast path costs 5 µs instead of 11 µs with durability `os` or `interval`, and 15 µs instead of 36 µs without
        the sync, with `commit`. It is one function because calls cost that much here: small methods, or a `Packed` that
        is made and unpacked again, cost a quarter to a half of the speed. It stores, `p` being `writer.position`:

            before  block:  … record | record | 0 0 0 0 0 0 0 0 0 …     (preallocated zeros, up to room_end)
                                              ^ p: the published end
                    index:  message_count = n, slot.end_offset = base_offset + p

            after   block:  … record | record | size word, checksum | stamp, its checksum | payload | padding | 0 0 …
                                              ^ old p                                     ^ PAYLOAD_AT        ^ p
                    index:  slot.end_offset = base_offset + p, slot.updated, and last message_count = n + 1

        Readers believe nothing past `message_count`, so that its store, the last one, publishes the record.
        """
        size = len(payload) + PAYLOAD_AT
        commit, is_shared, is_synced = self._commit, self._is_shared, self._is_synced
        group = commit.group
        if message_count != 1 or size >= self._size_max or (is_synced and not group.try_lead()):
            return self._put_ordinary((Packed(payload, checksum, message_count),), id)
        writer, mutex, lock = self._writer, self._files.mutex, None
        offset = timestamp = 0
        try:
            mutex.acquire()
            try:
                words, number, position = writer.words, writer.number, writer.position
                is_fast = position + size <= writer.room_end and commit.is_ready
                if is_shared and is_fast:
                    free_lock = self._files.lock()
                    try:
                        free_lock.take()
                    except BlockingIOError:
                        is_fast = False
                    else:
                        lock = free_lock
                        # If another process appended, it moved the count. If one died in the middle of a change, it
                        # left `writing` set. If a sync failed, that changed the state.
                        if (
                            words[WORD_MESSAGE_COUNT] != number
                            or words[WORD_WRITING]
                            or words[WORD_STATE] != STATE_OPEN
                        ):
                            is_fast = False
                        else:
                            words[WORD_WRITING] = commit.pid
                if is_fast and number == writer.next_due:
                    is_fast = writer.lay_entry(size)
                    position = writer.position
                    if is_shared and not is_fast:
                        # The index entry for the record has no room here. Nothing was stored.
                        words[WORD_WRITING] = 0
                if is_fast:
                    timestamp = self._now_ns() // 1000
                    if timestamp < writer.last_timestamp:
                        timestamp = writer.last_timestamp
                    base_offset = writer.base_offset
                    offset = base_offset + position
                    stamp = PACK_STAMP(offset, number, timestamp)
                    data = PACK_STAMPED(size - SIZE_WORD_SIZE, checksum, stamp, crc32c(stamp)) + payload
                    if is_synced:
                        block = writer.block
                        assert block is not None, "a writer without a block has no room"
                        # Written, not stored through the map: the first store to a mapped page after a sync takes a
                        # page fault, which costs more than the write.
                        block.file.write(position, data)
                        # The published end promises that the record is on disk, so the sync comes before it.
                        commit.sync_up_to(block, number + 1)
                    else:
                        writer.view[position : position + size] = data
                    writer.position = end = (position + size + 7) & -8
                    writer.last_timestamp = timestamp
                    words[writer.word_end_offset] = base_offset + end
                    words[writer.word_updated] = timestamp
                    writer.number = words[WORD_MESSAGE_COUNT] = number + 1
                    if is_shared:
                        words[WORD_WRITING] = 0
            except SyncFailed as error:
                commit.fail(error)
                raise
            except BaseException:
                commit.tear()
                raise
            finally:
                if lock is not None:
                    lock.release()
                mutex.release()
        finally:
            if is_synced:
                group.let_lead()
        if not is_fast:
            return self._put_ordinary((Packed(payload, checksum, message_count),), id)
        if words[WORD_WAITING]:
            commit.ring()
        if self._is_interval:
            commit.sync_later()
        return NEW_TUPLE(Receipt, (number, offset, timestamp, id))

    def put_all(self, records: Sequence[Packed]) -> Receipt:
        """Appends the records of one put, at least one, and returns the receipt of the first message."""
        return self.put(*records[0]) if len(records) == 1 else self._put_ordinary(records)

    def settle(self, puts: Sequence[Sequence[Packed]]) -> list[Receipt | BaseException]:
        """Appends several puts, each of at least one record, with one sync for all of them.

        Returns for each put the receipt of its first message, or the error that the put ended with. A put that fails
        does not make the others fail.
        """
        try:
            if len(puts) == 1:
                return [self.put_all(puts[0])]
            tickets = [Ticket(records) for records in puts]
            self._files.check_writable()
            if not tickets:
                return []
            self._commit.settle(tickets)
        except Exception as error:  # noqa: BLE001  # it is the outcome of each put
            return [error] * len(puts)
        # A settled ticket has a receipt or an error.
        return [ticket.receipt if ticket.error is None else ticket.error for ticket in tickets]  # type: ignore[misc]

    def settle_repacked(self, puts: Sequence[Sequence[Packed]]) -> list[Receipt | BaseException]:
        """Does what `settle` does, for a log without batches: unpacks the records into single messages first."""
        parts = [self._repack(records) for records in puts]
        settled = iter(self.settle([part for part in parts if isinstance(part, list)]))
        return [next(settled) if isinstance(part, list) else part for part in parts]

    def _repack(self, records: Sequence[Packed]) -> list[Packed] | BadInput:
        try:
            return repack(self._files.format, records)
        except BadInput as error:
            return error

    def _put_ordinary(self, records: Sequence[Packed], id: str = "") -> Receipt:
        """Appends the records of one put through `Commit` and `QueueWriter`, if the fast path cannot take them."""
        self._files.check_writable()
        ticket = Ticket(records)
        self._commit.settle((ticket,))
        receipt = ticket.result()
        return receipt._replace(id=id) if id else receipt


def numbers_of(receipt: Receipt, records: Sequence[Packed]) -> range:
    """Returns the numbers of the messages of a put whose first message has this receipt."""
    return range(receipt.number, receipt.number + sum(packed.message_count for packed in records))
