"""Requests about numbers (offsets): the start and end of a partition, the first message at a time, and deletions."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterator
from typing import Final, TypeVar

from warren.broker.kafka.errors import Code, code_of
from warren.broker.kafka.metadata import LEADER_EPOCH
from warren.broker.net.request import Call
from warren.errors import Stopping, WarrenError
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
from warren.storage.format.kafka_batch import records_of
from warren.storage.format.kafka_records import read_varint
from warren.storage.format.layout import KAFKA_BATCH_HEAD, KafkaBatchHead
from warren.storage.read.raw_records import StoredRun

TIME_BATCHES_MAX: Final = 1000
TIME_SIZE_MAX: Final = 1 << 20
"""How many batches are searched for the first message of a time, and how many bytes of them are read at once."""
TIME_LARGEST_BATCHES_MAX: Final = 10_000
"""How many batches, from the end of a partition backwards, are searched for the message with the largest time."""
TIME_LARGEST_MESSAGES_MAX: Final = 2_000_000
"""After so many messages no further batch is unpacked in that search."""
TIME_MESSAGES_AT_ONCE: Final = 10_000
"""How many messages of a batch one step of a search looks at: about 10 ms."""
STEPS_AT_ONCE: Final = 10
"""How many steps of searches run on a thread before other requests get their turn."""
T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work in steps of a bounded length, with its result at the end."""

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
AT_ONCE: Final = (LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED)
"""Numbers that are known without reading a message."""
NONE: Final = -1
HIGH_WATERMARK: Final = -1
US_PER_MS: Final = 1000
TIME_STEP: Final = 1024
"""How many messages at the end are read first for the largest time. Each further step reads twice as many."""


def list_offsets(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Returns the number for a time, or for a special value such as start or end, for each partition."""
    if any(part.timestamp not in AT_ONCE for topic in request.topics for part in topic.partitions):
        return _list_in_turns(call, request)
    listed = _turn(_list_offsets(call, request), None)
    assert listed is not None
    return listed


async def _list_in_turns(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    steps = _list_offsets(call, request)
    while (listed := await call.broker.in_thread(_turn, steps, STEPS_AT_ONCE)) is None:
        pass
    return listed


def _turn(steps: Steps[T], count_max: int | None) -> T | None:
    """Runs up to `count_max` steps, or all. Returns the result, which is never None, or None if there is more to do."""
    try:
        while count_max is None or count_max > 0:
            next(steps)
            count_max = None if count_max is None else count_max - 1
    except StopIteration as end:
        result: T = end.value
        return result
    return None


def _list_offsets(call: Call, request: ListOffsetsRequest) -> Steps[ListOffsetsResponse]:
    topics = []
    for topic in request.topics:
        opened = _topic_of(call, topic.name)
        partitions = []
        for part in topic.partitions:
            row = yield from _listed(call, opened, part.partition_index, part.timestamp)
            partitions.append(row)
        topics.append(ListOffsetsResponseTopic(topic.name, partitions))
    return ListOffsetsResponse(topics=topics)


def _listed(call: Call, opened: Topic | Code, partition: int, timestamp_ms: int) -> Steps[ListOffsetsResponsePartition]:
    row = ListOffsetsResponsePartition(partition_index=partition, timestamp=NONE, offset=NONE)
    if isinstance(opened, Code):
        row.error_code = opened
        return row
    try:
        log = opened.partition(partition)
        if timestamp_ms == LATEST:
            row.offset, row.leader_epoch = log.end, LEADER_EPOCH
        elif timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
            row.offset, row.leader_epoch = log.first, LEADER_EPOCH
        elif timestamp_ms != LATEST_TIERED:
            search = largest_at(log) if timestamp_ms == MAX_TIMESTAMP else first_at(log, timestamp_ms)
            message = yield from _until_stopping(call, search)
            if message is not None:
                row.offset, row.timestamp = message
                row.leader_epoch = LEADER_EPOCH
    except WarrenError as error:
        row.error_code = code_of(error)
    return row


def _until_stopping(call: Call, search: Steps[T]) -> Steps[T]:
    """Does what `search` does. Raises Stopping as soon as the broker stops, because that waits for open requests."""
    while not call.broker.is_stopping:
        try:
            next(search)
        except StopIteration as end:
            result: T = end.value
            return result
        yield
    raise Stopping


def offset_for_leader_epoch(call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Returns the end of an epoch. There is only one epoch, so its end is that of the log."""
    topics = []
    for topic in request.topics:
        partitions = []
        opened = _topic_of(call, topic.topic)
        for part in topic.partitions:
            row = OffsetForLeaderEpochResponsePartition(partition=part.partition)
            if isinstance(opened, Topic):
                try:
                    log = opened.partition(part.partition)
                    if part.leader_epoch == LEADER_EPOCH:
                        row.leader_epoch, row.end_offset = LEADER_EPOCH, log.end
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

    The time is the one that consumers see, which the producer gave. No message is stored before it was made, so those
    that were stored before that time are not read. If producers give times that are long past, the search ends after
    TIME_BATCHES_MAX batches, and returns the first message that was stored at or after the time.
    """
    start = log.find_time(timestamp_ms * US_PER_MS)
    number, read_count = start, 0
    while number < log.end and read_count < TIME_BATCHES_MAX:
        yield
        for stored in log.stored(number, bytes_max=TIME_SIZE_MAX):
            number = stored.number + stored.message_count
            read_count += 1
            if stored.batch is None:
                return stored_at(log, max(stored.number, start))
            message = _first_in(stored.batch, stored.number, start, timestamp_ms)
            if message is not None:
                return message
    return stored_at(log, start) if number < log.end else None


def largest_at(log: Log) -> Steps[tuple[int, int] | None]:
    """Returns the number of the message with the largest time, and that time in ms; None if there is none. Blocks.

    Of several with that time it is the first. Only the last TIME_LARGEST_BATCHES_MAX batches are read: an older batch
    with a larger time was made by a client whose clock was far ahead. Each batch is unpacked once at most, and none
    after TIME_LARGEST_MESSAGES_MAX messages, because clients may send millions with the same time.
    """
    if not log.format.has_batches:
        # Only Kafka batches have times of their own, and times of storing never decrease.
        return stored_at(log, log.end - 1)
    best: tuple[int, int] | None = None
    end, step, left, messages_left = log.end, TIME_STEP, TIME_LARGEST_BATCHES_MAX, TIME_LARGEST_MESSAGES_MAX
    while end > log.first and left > 0 and messages_left > 0:
        # This many messages are in no more batches than may still be read, because a batch has at least one.
        start = max(log.first, end - min(step, left))
        candidates = yield from _candidates(log, start, end)
        left -= max(1, len(candidates))
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
        yield
        for stored in log.stored(number, bytes_max=TIME_SIZE_MAX):
            if stored.number >= end:
                return candidates
            number = stored.number + stored.message_count
            if stored.batch is not None:
                candidates.append(
                    (KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(stored.batch)).max_timestamp, stored)
                )
            elif (last := stored_at(log, number - 1)) is not None:
                candidates.append((last[1], stored))
    return candidates


def _largest_in(log: Log, stored: StoredRun) -> Steps[tuple[int, int] | None]:
    """Returns the first message with the largest time of a record; None if it cannot be read."""
    if stored.batch is None:
        last = stored_at(log, stored.number + stored.message_count - 1)
        # Times of storing never decrease, so the index finds the first message of that time.
        return None if last is None else (max(stored.number, log.find_time(last[1] * US_PER_MS), log.first), last[1])
    best: tuple[int, int] | None = None
    try:
        for number, when_ms in _times_in(stored.batch, stored.number):
            if number % TIME_MESSAGES_AT_ONCE == 0:
                yield
            if number >= log.first and (best is None or when_ms > best[1]):
                best = number, when_ms
    except (ValueError, IndexError):
        return None
    return best


def _times_in(batch: memoryview, first: int) -> Iterator[tuple[int, int]]:
    """Yields number and time of each message of a Kafka batch. Raises ValueError or IndexError if it is damaged.

    A record begins with its length, one byte of attributes, and its time as the difference to that of the batch:

        length (varint) | attributes (1 byte) | time delta (varint) | …
    """
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch))
    records, position = bytes(records_of(batch, head.record_count)), 0
    for number in range(first, first + head.record_count):
        length, position = read_varint(records, position)
        delta, _ = read_varint(records, position + 1)
        position += length
        yield number, head.base_timestamp + delta


def stored_at(log: Log, number: int) -> tuple[int, int] | None:
    """Returns the number and the time at which the message was stored; None if there is no such message."""
    message = log.at(number) if log.first <= number < log.end else None
    return None if message is None else (number, message.timestamp // US_PER_MS)


def _first_in(batch: memoryview, first: int, start: int, timestamp_ms: int) -> tuple[int, int] | None:
    """Returns the first message of a batch, from number `start` on, that was made at or after the time."""
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch))
    if head.max_timestamp < timestamp_ms:
        return None
    try:
        for number, when_ms in _times_in(batch, first):
            if number >= start and when_ms >= timestamp_ms:
                return number, when_ms
    except (ValueError, IndexError):
        # A consumer that fetches the batch gets the error.
        return max(first, start), head.max_timestamp
    return None
