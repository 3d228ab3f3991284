"""The shortest append: what the long way does for one small message, with every call taken out of its way.

It serves version 2, while the writer stands at the end of the log and the record fits what was preallocated; in any
other case it changes nothing and takes the long way. The stores and their order are those of the long way. It is worth
its length: with durability `os` and `interval` an append costs a tenth of what the long way takes, and with `commit`,
where every line runs on caches that the sync before left cold, a third.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from warren.errors import BadInput, SyncFailed
from warren.message import NO_CORR_OFFSET, Receipt
from warren.storage.checksum import crc32c
from warren.storage.filesystem import Lock
from warren.storage.layout import (
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
from warren.storage.record import PLAIN_HEAD, Packed, check_body, pack_single, stamp
from warren.storage.writer import WRITE_SIZE_MIN

if TYPE_CHECKING:
    from warren.storage.commit import Commit


class Append(Protocol):
    """Appends one message."""

    def __call__(
        self,
        body: bytes,
        *,
        tag: str = "",
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        id: str = "",
        corr_offset: int = NO_CORR_OFFSET,
    ) -> Receipt: ...


def make_shortcut(  # noqa: C901  # one function on purpose: see above
    commit: Commit, now_ns: Callable[[], int], *, is_shared: bool, is_interval: bool, compression: int
) -> Append:
    """An `append` for one log. Its names are locals of this function: looking them up elsewhere costs a checksum.

    Where the lock is kept (`is_shared` is false) nobody else changes the index, and it need not be looked at.
    """
    writer, files, mutex, pid = commit.writer, commit.files, commit.files.mutex, commit.pid
    acquire, release = mutex.acquire, mutex.release
    pack_stamp, pack_stamped, checksum_of, plain_head = STAMP.pack, STAMPED.pack, crc32c, PLAIN_HEAD
    count_word, state_word, writing_word, waiting_word = WORD_MESSAGE_COUNT, WORD_STATE, WORD_WRITING, WORD_WAITING
    make, receipt_type, state_open, no_corr_offset = tuple.__new__, Receipt, STATE_OPEN, NO_CORR_OFFSET
    head_size, word_size, size_max = PAYLOAD_AT, SIZE_WORD.size, WRITE_SIZE_MIN

    def append(  # noqa: C901
        body: bytes,
        *,
        tag: str = "",
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        id: str = "",
        corr_offset: int = NO_CORR_OFFSET,
    ) -> Receipt:
        if compression or tag or id or key is not None or headers or corr_offset != no_corr_offset:
            payload, checksum, _ = pack_single(
                body, tag=tag, key=key, headers=headers, id=id, corr_offset=corr_offset, compression=compression
            )
        else:
            try:
                payload = plain_head + body
            except TypeError as error:
                raise BadInput(f"a body is bytes, not {type(body).__name__}") from error
            checksum = checksum_of(payload)
        size = len(payload) + head_size
        lock: Lock | None = None
        offset = timestamp = 0
        acquire()
        try:
            words, position, number = writer.words, writer.position, writer.number
            end = position + size
            is_short = end <= writer.room_end and commit.is_ready and size < size_max
            if is_shared and is_short:
                wanted = files.lock()
                try:
                    wanted.take()
                except BlockingIOError:
                    is_short = False
                else:
                    lock = wanted
                    if words[count_word] != number or words[writing_word] or words[state_word] != state_open:
                        is_short = False
                    else:
                        words[writing_word] = pid
            if is_short and number == writer.next_due:
                is_short = writer.lay_entry(size)
                position = writer.position
                end = position + size
                if is_shared and not is_short:
                    words[writing_word] = 0
            if is_short:
                timestamp = now_ns() // 1000
                if timestamp < writer.last_timestamp:
                    timestamp = writer.last_timestamp
                base_offset = writer.base_offset
                offset = base_offset + position
                place = pack_stamp(offset, number, timestamp)
                stamped = pack_stamped(size - word_size, checksum, place, checksum_of(place))
                writer.view[position:end] = stamped + payload
                writer.position = end = (end + 7) & -8
                writer.last_timestamp = timestamp
                words[writer.word_end_offset] = base_offset + end
                words[writer.word_updated] = timestamp
                writer.number = words[count_word] = number + 1
                if is_shared:
                    words[writing_word] = 0
        except BaseException:
            commit.tear()
            raise
        finally:
            if lock is not None:
                lock.release()
            release()
        if not is_short:
            check_body(body)
            return commit.put_one(Packed(payload, checksum, 1), id)
        if words[waiting_word]:
            commit.ring()
        if is_interval:
            commit.sync_later()
        return make(receipt_type, (number, offset, timestamp, id))

    return append


def make_synced_shortcut(commit: Commit, now_ns: Callable[[], int], *, is_shared: bool, compression: int) -> Append:
    """An `append` with durability `commit`: by itself where nobody else is about to commit, else with those who are.

    What a fork replaces is looked up each time: a child may have kept the `append` of its parent.
    """
    make, commit_alone = tuple.__new__, make_commit_alone(commit, now_ns, is_shared=is_shared)

    def append(
        body: bytes,
        *,
        tag: str = "",
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        id: str = "",
        corr_offset: int = NO_CORR_OFFSET,
    ) -> Receipt:
        if compression or tag or id or key is not None or headers or corr_offset != NO_CORR_OFFSET:
            packed = pack_single(
                body, tag=tag, key=key, headers=headers, id=id, corr_offset=corr_offset, compression=compression
            )
        else:
            check_body(body)
            payload = PLAIN_HEAD + body
            packed = make(Packed, (payload, crc32c(payload), 1))
        group, receipt = commit.group, None
        if group.try_lead():
            try:
                receipt = commit_alone(packed)
            finally:
                group.let_lead()
        if receipt is None:
            receipt = group.put((packed,))
        return receipt._replace(id=id) if id else receipt

    return append


PutPacked = Callable[[Packed], Receipt | None]
"""Appends one record; None, and nothing has changed, where only the long way will do."""


def make_commit_alone(  # noqa: C901  # like the other one
    commit: Commit, now_ns: Callable[[], int], *, is_shared: bool
) -> PutPacked:
    """A put with durability `commit` of one record that holds one message, for whoever leads the group."""
    writer, files, make = commit.writer, commit.files, tuple.__new__

    def commit_alone(packed: Packed) -> Receipt | None:  # noqa: C901
        """Commit one record with a sync of its own; None where only the long way will do."""
        size = len(packed.payload) + PAYLOAD_AT
        if packed.message_count != 1:
            return None
        lock: Lock | None = None
        with files.mutex:
            words, block, number = writer.words, writer.block, writer.number
            if block is None or not commit.is_ready or writer.position + size > writer.room_end:
                return None
            if size >= WRITE_SIZE_MIN:
                return None
            try:
                if is_shared:
                    wanted = files.lock()
                    try:
                        wanted.take()
                    except BlockingIOError:
                        return None
                    lock = wanted
                    if words[WORD_MESSAGE_COUNT] != number or words[WORD_WRITING] or words[WORD_STATE] != STATE_OPEN:
                        return None
                    words[WORD_WRITING] = commit.pid
                if number == writer.next_due and not writer.lay_entry(size):
                    if is_shared:
                        words[WORD_WRITING] = 0
                    return None
                position, timestamp = writer.position, max(now_ns() // 1000, writer.last_timestamp)
                offset = block.base_offset + position
                block.file.write(position, stamp(packed, offset, number, timestamp))
                commit.sync_up_to(block, number + 1)
                # Only now may readers see the message: the sync above is what the published end promises.
                writer.position, writer.last_timestamp = (position + size + 7) & -8, timestamp
                words[writer.word_end_offset] = block.base_offset + writer.position
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
        if words[WORD_WAITING]:
            commit.ring()
        return make(Receipt, (number, offset, timestamp, ""))

    return commit_alone


def make_packed_shortcut(  # noqa: C901  # like the other one
    commit: Commit, now_ns: Callable[[], int], *, is_shared: bool, is_interval: bool
) -> PutPacked:
    """What `make_shortcut` makes, for a small record of one message that was packed before."""
    writer, files, mutex, pid = commit.writer, commit.files, commit.files.mutex, commit.pid
    make = tuple.__new__

    def put(packed: Packed) -> Receipt | None:  # noqa: C901
        payload, checksum, message_count = packed
        size = len(payload) + PAYLOAD_AT
        if message_count != 1 or size >= WRITE_SIZE_MIN:
            return None
        lock: Lock | None = None
        with mutex:
            words, position, number = writer.words, writer.position, writer.number
            if position + size > writer.room_end or not commit.is_ready:
                return None
            try:
                if is_shared:
                    wanted = files.lock()
                    try:
                        wanted.take()
                    except BlockingIOError:
                        return None
                    lock = wanted
                    if words[WORD_MESSAGE_COUNT] != number or words[WORD_WRITING] or words[WORD_STATE] != STATE_OPEN:
                        return None
                    words[WORD_WRITING] = pid
                if number == writer.next_due and not writer.lay_entry(size):
                    if is_shared:
                        words[WORD_WRITING] = 0
                    return None
                position, timestamp = writer.position, max(now_ns() // 1000, writer.last_timestamp)
                base_offset = writer.base_offset
                offset = base_offset + position
                place = STAMP.pack(offset, number, timestamp)
                stamped = STAMPED.pack(size - SIZE_WORD.size, checksum, place, crc32c(place))
                writer.view[position : position + size] = stamped + payload
                writer.position, writer.last_timestamp = (position + size + 7) & -8, timestamp
                words[writer.word_end_offset] = base_offset + writer.position
                words[writer.word_updated] = timestamp
                writer.number = words[WORD_MESSAGE_COUNT] = number + 1
                if is_shared:
                    words[WORD_WRITING] = 0
            except BaseException:
                commit.tear()
                raise
            finally:
                if lock is not None:
                    lock.release()
        if words[WORD_WAITING]:
            commit.ring()
        if is_interval:
            commit.sync_later()
        return make(Receipt, (number, offset, timestamp, ""))

    return put
