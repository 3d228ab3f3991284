"""The first message at or after a time: by the time that Kafka's clients find on it, which its producer gave it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from warren.config import TIME_BATCHES_MAX, TIME_LARGEST_BATCHES_MAX, TIME_SIZE_MAX
from warren.storage import Log
from warren.storage.kafka_batch import records_of
from warren.storage.kafka_records import read_varint
from warren.storage.layout import KAFKA_BATCH_HEAD, KafkaBatchHead
from warren.storage.stored import Stored

US_PER_MS: Final = 1000
TIME_STEP: Final = 1024
"""How many messages are looked at first, from the end on, for the largest time; then twice as many each time."""


def first_at(log: Log, timestamp_ms: int) -> tuple[int, int] | None:
    """Its number, and its time in ms; None where there is none. Blocks while it reads.

    Nothing is stored before it was made, so what was stored before that time is not looked at. Where producers give
    times that are long past, and so many batches would have to be looked into that it takes too long, the first message
    that was stored at or after the time is given.
    """
    start = log.find_time(timestamp_ms * US_PER_MS)
    number, looked_into = start, 0
    while number < log.end and looked_into < TIME_BATCHES_MAX:
        for stored in log.stored(number, bytes_max=TIME_SIZE_MAX):
            number = stored.number + stored.message_count
            looked_into += 1
            if stored.batch is None:
                return stored_at(log, max(stored.number, start))
            found = _first_in(stored.batch, stored.number, start, timestamp_ms)
            if found is not None:
                return found
    return stored_at(log, start) if number < log.end else None


def largest_at(log: Log) -> tuple[int, int] | None:
    """The message with the largest time, and that time in ms; None if there is none. Blocks while it reads.

    Of several with that time it is the first. Looked at are the last TIME_LARGEST_BATCHES_MAX batches: one that is
    older and has a larger time was made by a client whose clock was far ahead.
    """
    if log.version == 1:
        # It has no Kafka batches, and times of storing never decrease.
        return stored_at(log, log.end - 1)
    best: tuple[int, int] | None = None
    end, step, left = log.end, TIME_STEP, TIME_LARGEST_BATCHES_MAX
    while end > log.first and left > 0:
        # As many messages have no more batches than may still be looked at.
        start = max(log.first, end - min(step, left))
        candidates = list(_candidates(log, start, end))
        left -= max(1, len(candidates))
        # The head of a batch says what its largest time is: few of them have to be taken apart.
        for said_ms, stored in sorted(candidates, key=lambda each: (-each[0], each[1].number)):
            if best is not None and said_ms < best[1]:
                break
            found = _largest_in(log, stored)
            if found is not None and (best is None or (-found[1], found[0]) < (-best[1], best[0])):
                best = found
        end, step = start, 2 * step
    return best


def _candidates(log: Log, number: int, end: int) -> Iterator[tuple[int, Stored]]:
    """What holds the messages from `number` up to `end`, each with the largest time that it can have."""
    while number < end:
        for stored in log.stored(number, bytes_max=TIME_SIZE_MAX):
            if stored.number >= end:
                return
            number = stored.number + stored.message_count
            if stored.batch is not None:
                yield KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(stored.batch)).max_timestamp, stored
            elif (last := stored_at(log, number - 1)) is not None:
                yield last[1], stored


def _largest_in(log: Log, stored: Stored) -> tuple[int, int] | None:
    """The first message with the largest time among these; None if they cannot be read."""
    if stored.batch is None:
        last = stored_at(log, stored.number + stored.message_count - 1)
        # Times of storing never decrease: the first message of that time is found by it.
        return None if last is None else (max(stored.number, log.find_time(last[1] * US_PER_MS), log.first), last[1])
    try:
        times = [pair for pair in _times_in(stored.batch, stored.number) if pair[0] >= log.first]
    except (ValueError, IndexError):
        return None
    return max(times, key=lambda pair: (pair[1], -pair[0]), default=None)


def _times_in(batch: memoryview, first: int) -> Iterator[tuple[int, int]]:
    """Number and time of each message of a Kafka batch. Raises ValueError or IndexError if they cannot be read."""
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch))
    records, position = bytes(records_of(batch, head.record_count)), 0
    for number in range(first, first + head.record_count):
        length, position = read_varint(records, position)
        delta, _ = read_varint(records, position + 1)
        position += length
        yield number, head.base_timestamp + delta


def stored_at(log: Log, number: int) -> tuple[int, int] | None:
    """The message of this number, and when it was stored."""
    message = log.at(number) if log.first <= number < log.end else None
    return None if message is None else (number, message.timestamp // US_PER_MS)


def _first_in(batch: memoryview, first: int, start: int, timestamp_ms: int) -> tuple[int, int] | None:
    """The first message of a batch, from number `start` on, that was made at or after the time."""
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch))
    if head.max_timestamp < timestamp_ms:
        return None
    try:
        for number, when_ms in _times_in(batch, first):
            if number >= start and when_ms >= timestamp_ms:
                return number, when_ms
    except (ValueError, IndexError):
        # What cannot be read is met by whoever fetches it.
        return max(first, start), head.max_timestamp
    return None
