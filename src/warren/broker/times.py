"""The first message at or after a time: by the time that Kafka's clients find on it, which its producer gave it."""

from __future__ import annotations

from typing import Final

from warren.config import TIME_BATCHES_MAX, TIME_SIZE_MAX
from warren.storage import Log
from warren.storage.kafka_batch import records_of
from warren.storage.kafka_records import read_varint
from warren.storage.layout import KAFKA_BATCH_HEAD, KafkaBatchHead

US_PER_MS: Final = 1000


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
        records = bytes(records_of(batch, head.record_count))
        position = 0
        for number in range(first, first + head.record_count):
            length, position = read_varint(records, position)
            delta, _ = read_varint(records, position + 1)
            position += length
            if number >= start and head.base_timestamp + delta >= timestamp_ms:
                return number, head.base_timestamp + delta
    except (ValueError, IndexError):
        # What cannot be read is met by whoever fetches it.
        return max(first, start), head.max_timestamp
    return None
