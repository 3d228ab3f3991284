"""Requests about numbers (offsets): the start and end of a partition, the first message at a time, and deletions."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterator
from typing import Final, TypeVar

from warren.broker.kafka.errors import Code, code_of
from warren.broker.kafka.metadata import epoch_code
from warren.broker.net.request import Call
from warren.broker.services.batch_checks import TRIED_SIZES
from warren.broker.services.memory_budget import Hold
from warren.broker.services.read_memory import READ_COPIES
from warren.errors import NeedsMemory, Stopping, WarrenError
from warren.protocol.kafka_messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from warren.queue.topic import Topic
from warren.storage import Log
from warren.storage.format.allowance import allowed
from warren.storage.format.kafka_batch import UnpacksToMore, head_of, records_of, unpacked_size_bound
from warren.storage.format.kafka_records import time_deltas
from warren.storage.format.layout import KAFKA_BATCH_HEAD, KAFKA_COMPRESSION, KafkaBatchHead
from warren.storage.format.limits import RAW_SIZE_MAX
from warren.storage.read.raw_records import StoredRun

TIME_BATCHES_MAX: Final = 1000
TIME_SIZE_MAX: Final = 1 << 20
"""How many batches are searched for the first message of a time, and how many bytes of them are read together."""
TIME_LARGEST_BATCHES_MAX: Final = 10_000
"""How many batches, from the end of a partition backwards, are searched for the message with the largest time."""
TIME_LARGEST_MESSAGES_MAX: Final = 2_000_000
"""After this many messages, that search unpacks no further batch."""
TIME_MESSAGES_AT_ONCE: Final = 10_000
"""How many messages of a batch one step of a search looks at: about 10 ms."""
STEPS_AT_ONCE: Final = 10
"""How many steps of searches run on a thread before other requests get their turn."""
T = TypeVar("T")
Steps = Generator[int, None, T]
"""Work in steps of a bounded length, with its result at the end.

Each step but the last yields for how many unpacked bytes the next one needs memory. They include those that are kept
from the step before.
"""
NO_MEMORY: Final = 0
"""What a step yields if the next one reads small messages only, and keeps nothing."""

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
AT_ONCE: Final = (LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED)
"""Numbers that are known without reading a message."""
NONE: Final = -1
HIGH_WATERMARK: Final = -1
NOT_AVAILABLE_FROM: Final = 5
"""From this version on a client knows the error that an end is not known now."""
US_PER_MS: Final = 1000
TIME_STEP: Final = 1024
"""How many messages at the end are read first for the largest time. Each further step reads twice as many."""


def list_offsets(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Returns the number for a time, or for a special value such as start or end, for each partition."""
    if any(part.timestamp not in AT_ONCE for topic in request.topics for part in topic.partitions):
        return _list_in_turns(call, request)
    listed = _turn(_list_offsets(call, request), 1, NO_MEMORY)
    assert not isinstance(listed, int)
    return listed


async def _list_in_turns(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Searches on a thread, in turns, with memory of the budget for what it unpacks.

    One search holds one batch, or one message. It holds nothing while it waits for more memory.
    """
    broker, peer = call.broker, call.peer
    steps = _list_offsets(call, request)
    hold: Hold | None = None
    size = NO_MEMORY
    try:
        while isinstance(outcome := await broker.in_thread(_turn, steps, STEPS_AT_ONCE, size), int):
            if hold is not None and outcome < size:
                hold.resize(outcome)
            elif outcome > size:
                if hold is not None:
                    hold.release()
                hold = await broker.read_memory.hold(peer.owner, lambda: peer.is_gone, outcome)
            size = outcome
        return outcome
    finally:
        steps.close()
        if hold is not None:
            hold.release()


def _turn(steps: Steps[T], count_max: int, size: int) -> T | int:
    """Runs up to `count_max` steps, which may unpack `size` bytes.

    Returns the result, which is no number, or how many bytes the next step needs.
    """
    try:
        with allowed(size):
            for _ in range(count_max):
                needed = next(steps)
                if needed != size:
                    return needed
    except StopIteration as end:
        result: T = end.value
        return result
    return size


def _list_offsets(call: Call, request: ListOffsetsRequest) -> Steps[ListOffsetsResponse]:
    topics = []
    for topic in request.topics:
        opened = _topic_of(call, topic.name)
        partitions = []
        for part in topic.partitions:
            code = epoch_code(call.broker.leadership, part.current_leader_epoch)
            row = yield from _listed(call, code or opened, part.partition_index, part.timestamp)
            partitions.append(row)
        topics.append(ListOffsetsResponseTopic(topic.name, partitions))
    return ListOffsetsResponse(topics=topics)


def _listed(call: Call, opened: Topic | Code, partition: int, timestamp_ms: int) -> Steps[ListOffsetsResponsePartition]:
    row = ListOffsetsResponsePartition(partition_index=partition, timestamp=NONE, offset=NONE)
    if isinstance(opened, Code):
        row.error_code = opened
        return row
    try:
        log, leadership = opened.partition(partition), call.broker.leadership
        epoch = leadership.epoch
        if timestamp_ms not in (EARLIEST, EARLIEST_LOCAL) and leadership.refusal_of_ends() is not None:
            # A search by time needs the end, too: that no message is so late is an answer.
            row.error_code = (
                Code.OFFSET_NOT_AVAILABLE if call.version >= NOT_AVAILABLE_FROM else Code.LEADER_NOT_AVAILABLE
            )
        elif timestamp_ms == LATEST:
            row.offset, row.leader_epoch = log.end, epoch
        elif timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
            row.offset, row.leader_epoch = log.first, epoch
        elif timestamp_ms != LATEST_TIERED:
            search = largest_at(log) if timestamp_ms == MAX_TIMESTAMP else first_at(log, timestamp_ms)
            message = yield from _until_stopping(call, search)
            if message is not None:
                row.offset, row.timestamp = message
                row.leader_epoch = epoch
    except WarrenError as error:
        row.error_code = code_of(error)
    return row


def _until_stopping(call: Call, search: Steps[T]) -> Steps[T]:
    """Does what `search` does. Raises Stopping as soon as the broker stops, because that waits for open requests."""
    while not call.broker.is_stopping:
        try:
            needed = next(search)
        except StopIteration as end:
            result: T = end.value
            return result
        yield needed
    raise Stopping


def offset_for_leader_epoch(call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Returns the end of an epoch in each partition, or of the latest one before it."""
    topics, leadership = [], call.broker.leadership
    for topic in request.topics:
        partitions = []
        opened = _topic_of(call, topic.topic)
        for part in topic.partitions:
            row = OffsetForLeaderEpochResponsePartition(partition=part.partition)
            if isinstance(opened, Topic):
                try:
                    log = opened.partition(part.partition)
                    row.error_code = epoch_code(leadership, part.current_leader_epoch)
                    if not row.error_code and leadership.refusal_of_ends() is not None:
                        row.error_code = Code.NOT_LEADER_OR_FOLLOWER
                    if not row.error_code:
                        row.leader_epoch, row.end_offset = leadership.end_of_epoch(
                            str(opened.name), part.partition, part.leader_epoch, log.end
                        )
                except WarrenError as error:
                    row.error_code = code_of(error)
            else:
                row.error_code = opened
            partitions.append(row)
        topics.append(OffsetForLeaderEpochResponseTopic(topic.topic, partitions))
    return OffsetForLeaderEpochResponse(topics=topics)


async def delete_records(call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Deletes the messages before a number. If the log cannot cut within a block, the whole block stays."""
    topics = []
    for topic in request.topics:
        partitions = []
        for part in topic.partitions:
            row = DeleteRecordsResponsePartition(partition_index=part.partition_index, low_watermark=NONE)
            try:
                log = (await call.broker.opened_topic(topic.name)).partition(part.partition_index)
                before = log.end if part.offset == HIGH_WATERMARK else part.offset
                if not 0 <= before <= log.end:
                    row.error_code = Code.OFFSET_OUT_OF_RANGE
                else:
                    row.low_watermark = await call.broker.in_thread(_retired, log, before)
            except WarrenError as error:
                row.error_code = code_of(error)
            partitions.append(row)
        topics.append(DeleteRecordsResponseTopic(topic.name, partitions))
    return DeleteRecordsResponse(topics=topics)


def _retired(log: Log, before: int) -> int:
    return log.retire(before=before, exactly=log.format.retires_exactly)


def _topic_of(call: Call, name: str) -> Topic | Code:
    """Returns the topic, looked up once for all of its partitions, or the code of the error.

    The error itself is not returned, because it would form a cycle with the frame that holds it. A request for 10,000
    missing topics left 200,000 objects to the garbage collector, which stopped all threads for a tenth of a second.
    """
    try:
        return call.broker.topics.find(name)
    except WarrenError as error:
        return code_of(error)


# --- Messages by their time ---


def first_at(log: Log, timestamp_ms: int) -> Steps[tuple[int, int] | None]:
    """Returns number and time (in ms) of the first message at or after a time; None if there is none. Blocks.

    The time is the one that consumers see, which the producer gave. No message is stored before it was created, so
    those that were stored before that time are not read. If producers give times that are long past, the search ends
    after TIME_BATCHES_MAX batches, and returns the first message that was stored at or after the time.
    """
    start = log.find_time(timestamp_ms * US_PER_MS)
    number, read_count = start, 0
    while number < log.end and read_count < TIME_BATCHES_MAX:
        yield NO_MEMORY
        for stored in log.stored(number, bytes_max=TIME_SIZE_MAX):
            number = stored.number + stored.message_count
            read_count += 1
            if stored.batch is None:
                return (yield from stored_at(log, max(stored.number, start)))
            message = yield from _first_in(stored.batch, stored.number, start, timestamp_ms)
            if message is not None:
                return message
    if number < log.end:
        return (yield from stored_at(log, start))
    return None


def largest_at(log: Log) -> Steps[tuple[int, int] | None]:
    """Returns the number of the message with the largest time, and that time in ms; None if there is none. Blocks.

    Of several with that time it is the first. Only the last TIME_LARGEST_BATCHES_MAX batches are read: an older batch
    with a larger time was made by a client whose clock was far ahead. Each batch is unpacked once at most, and none
    after TIME_LARGEST_MESSAGES_MAX messages, because clients may send millions with the same time.
    """
    if not log.format.has_batches:
        # Only Kafka batches have times of their own, and times of storing never decrease.
        return (yield from stored_at(log, log.end - 1))
    best: tuple[int, int] | None = None
    end, step, batches_left, messages_left = log.end, TIME_STEP, TIME_LARGEST_BATCHES_MAX, TIME_LARGEST_MESSAGES_MAX
    while end > log.first and batches_left > 0 and messages_left > 0:
        # This many messages are in no more batches than may still be read, because a batch has at least one.
        start = max(log.first, end - min(step, batches_left))
        candidates = yield from _candidates(log, start, end)
        batches_left -= max(1, len(candidates))
        # The head of a batch names its largest time, so few batches have to be unpacked.
        for said_ms, stored in sorted(candidates, key=lambda each: (-each[0], each[1].number)):
            if messages_left <= 0 or (best is not None and said_ms < best[1]):
                break
            message = yield from _largest_in(log, stored)
            messages_left -= stored.message_count
            if message is not None and (best is None or (-message[1], message[0]) < (-best[1], best[0])):
                best = message
        # The first batch may begin before `start`. The next step ends before it, so that it is not read again.
        end, step = min(start, candidates[0][1].number) if candidates else start, 2 * step
    return best


def _candidates(log: Log, number: int, end: int) -> Steps[list[tuple[int, StoredRun]]]:
    """Returns the records from `number` up to `end`, each with the largest time that its messages can have."""
    candidates: list[tuple[int, StoredRun]] = []
    while number < end:
        yield NO_MEMORY
        for stored in log.stored(number, bytes_max=TIME_SIZE_MAX):
            if stored.number >= end:
                return candidates
            number = stored.number + stored.message_count
            if stored.batch is not None:
                candidates.append(
                    (KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(stored.batch)).max_timestamp, stored)
                )
            elif (last := (yield from stored_at(log, number - 1))) is not None:
                candidates.append((last[1], stored))
    return candidates


def _largest_in(log: Log, stored: StoredRun) -> Steps[tuple[int, int] | None]:
    """Returns the first message with the largest time of a record; None if it cannot be read."""
    if stored.batch is None:
        last = yield from stored_at(log, stored.number + stored.message_count - 1)
        # Times of storing never decrease, so the index finds the first message of that time.
        return None if last is None else (max(stored.number, log.find_time(last[1] * US_PER_MS), log.first), last[1])
    best: tuple[int, int] | None = None
    try:
        records, size = yield from _unpacked(stored.batch)
        for number, when_ms in _times_in(stored.batch, records, stored.number):
            if number % TIME_MESSAGES_AT_ONCE == 0:
                yield size
            if number >= log.first and (best is None or when_ms > best[1]):
                best = number, when_ms
    except (ValueError, IndexError):
        return None
    return best


def _unpacked(batch: memoryview) -> Steps[tuple[bytes | memoryview, int]]:
    """Returns the records of a Kafka batch, and how many bytes were unpacked. Raises ValueError if it is damaged.

    Memory is taken before. What a batch unpacks to is not known then, so several sizes are tried.
    """
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch))
    compression = head_of(batch, head.record_count).attributes & KAFKA_COMPRESSION
    if not compression:
        return records_of(batch, head.record_count), NO_MEMORY
    bound = unpacked_size_bound(batch[KAFKA_BATCH_HEAD.size :], compression)
    bound = RAW_SIZE_MAX if bound is None else min(bound, RAW_SIZE_MAX)
    for size in (*(size for size in TRIED_SIZES if size < bound), bound):
        yield size
        try:
            records = records_of(batch, head.record_count, size)
        except UnpacksToMore:
            if size == bound:
                raise
        else:
            yield len(records)
            return records, len(records)
    raise AssertionError("the last size raises")


def _times_in(batch: memoryview, records: bytes | memoryview, first: int) -> Iterator[tuple[int, int]]:
    """Yields number and time of each message of a Kafka batch. Raises ValueError or IndexError if it is damaged."""
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch))
    for number, delta in enumerate(time_deltas(records, head.record_count), first):
        yield number, head.base_timestamp + delta


def stored_at(log: Log, number: int) -> Steps[tuple[int, int] | None]:
    """Returns the number and the time at which the message was stored; None if there is no such message."""
    while True:
        try:
            message = log.at(number) if log.first <= number < log.end else None
        except NeedsMemory as error:
            needed = error.size * READ_COPIES
        else:
            return None if message is None else (number, message.timestamp // US_PER_MS)
        yield needed


def _first_in(batch: memoryview, first: int, start: int, timestamp_ms: int) -> Steps[tuple[int, int] | None]:
    """Returns the first message of a batch, from number `start` on, that was made at or after the time."""
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch))
    if head.max_timestamp < timestamp_ms:
        return None
    try:
        records, size = yield from _unpacked(batch)
        for number, when_ms in _times_in(batch, records, first):
            if number % TIME_MESSAGES_AT_ONCE == 0:
                yield size
            if number >= start and when_ms >= timestamp_ms:
                return number, when_ms
    except (ValueError, IndexError):
        # A consumer that fetches the batch gets the error.
        return max(first, start), head.max_timestamp
    return None
