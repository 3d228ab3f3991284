"""Fetch: batches as they lie in the file, as many bytes as were asked for, and a wait where there are too few."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from warren.broker.call import Answer, Call, Later, Parked
from warren.broker.kafka_errors import Code, code_of
from warren.broker.security.rights import Kind, Operation
from warren.errors import NoSuchTopic, NumberRetired, WarrenError
from warren.protocol.codec import Buffer
from warren.protocol.fetch import PartitionFetched, TopicFetched, decode_fetch, encode_fetch_response
from warren.protocol.fetch import WantedPartition as AskedPartition
from warren.protocol.fetch import WantedTopic as AskedTopic
from warren.protocol.record_batch import build
from warren.storage import Log
from warren.storage.kafka_batch import numbered

TOPIC_IDS_FROM: Final = 13
NO_EPOCH: Final = -1
TIME_STEP_S: Final = 0.001
"""The event loop's clock moves in such steps."""


class Wanted(NamedTuple):
    """One partition that was asked for; without a log where there is an error instead."""

    partition: int
    number: int
    size_max: int
    log: Log | None = None
    error: Code = Code.NONE


class WantedTopic(NamedTuple):
    """The partitions of one topic that were asked for."""

    name: str
    topic_id: bytes
    partitions: Sequence[Wanted]


class Fetched(NamedTuple):
    """What there is now: the answers, how many bytes of messages, and whether one of them is an error."""

    topics: list[TopicFetched]
    size: int
    is_urgent: bool


def fetch(call: Call) -> Answer | Later:
    """Messages from given numbers on. Where there are fewer bytes than the least wanted, waits for more."""
    request = decode_fetch(call.version, call.request.body)
    wanted = [_wanted_topic(call, topic) for topic in request.topics]
    size_max = min(request.max_bytes, call.broker.limits.fetch_size_max)
    found = _fetched(wanted, call.broker.budget.answer_size_max(size_max))
    wait_s = min(request.max_wait_ms / 1000, call.broker.limits.fetch_wait_s_max)
    if found.size >= request.min_bytes or found.is_urgent or wait_s <= 0 or call.broker.is_stopping:
        return _answer(call, found)
    return _parked(call, wanted, size_max, request.min_bytes, wait_s)


def _answer(call: Call, found: Fetched) -> Answer:
    if found.is_urgent:
        call.broker.metrics.failed(call.request.api_key)
    return encode_fetch_response(call.version, found.topics)


def _parked(call: Call, wanted: Sequence[WantedTopic], size_max: int, size_min: int, wait_s: float) -> Later:
    """The answer when there is enough, or the time is over: without a task, since most consumers wait most often."""
    loop, long_polls = asyncio.get_running_loop(), call.broker.long_polls
    later = Parked()
    deadline = loop.time() + wait_s
    logs = [part.log for topic in wanted for part in topic.partitions if part.log is not None]

    def look() -> None:
        if later.is_dropped:
            return
        try:
            found = _fetched(wanted, call.broker.budget.answer_size_max(size_max))
            left_s = deadline - loop.time()
            if found.size >= size_min or found.is_urgent or left_s < TIME_STEP_S or call.broker.is_stopping:
                answer: Answer | BaseException = _answer(call, found)
            else:
                later.rung = long_polls.park(logs, left_s, look)
                return
        except Exception as error:  # noqa: BLE001  # It is told to whoever waits.
            answer = error
        later.told(answer)

    later.rung = long_polls.park(logs, wait_s, look)
    return later


def _wanted_topic(call: Call, asked: AskedTopic) -> WantedTopic:
    is_by_id = call.version >= TOPIC_IDS_FROM
    name, topic_id, _ = asked
    topics = call.broker.topics
    try:
        topic = topics.recall_by_id(topic_id) if is_by_id else topics.recall(name)
    except NoSuchTopic:
        code = Code.UNKNOWN_TOPIC_ID if is_by_id else Code.UNKNOWN_TOPIC_OR_PARTITION
        return WantedTopic(name, topic_id, [_not_there(part, code) for part in asked.partitions])
    except WarrenError as error:
        return WantedTopic(name, topic_id, [_not_there(part, code_of(error)) for part in asked.partitions])
    if not call.may(Operation.READ, Kind.TOPIC, topic.name):
        refused = [_not_there(part, Code.TOPIC_AUTHORIZATION_FAILED) for part in asked.partitions]
        return WantedTopic(name, topic_id, refused)
    parts = []
    for part in asked.partitions:
        try:
            if part.partition >= topic.partition_count:
                topic.see_partitions()
            log = topic.partition(part.partition)
            parts.append(Wanted(part.partition, part.fetch_offset, part.bytes_max, log))
        except WarrenError as error:
            parts.append(_not_there(part, code_of(error)))
    return WantedTopic(name, topic_id, parts)


def _not_there(part: AskedPartition, code: Code) -> Wanted:
    return Wanted(part.partition, part.fetch_offset, 0, None, code)


def _fetched(wanted: Sequence[WantedTopic], size_max: int) -> Fetched:
    topics, size, is_urgent = [], 0, False
    for topic in wanted:
        parts = []
        for part in topic.partitions:
            found = _partition(part, min(part.size_max, size_max - size), is_first=not size)
            size += found.size
            is_urgent = is_urgent or found.error_code != Code.NONE
            parts.append(found)
        topics.append(TopicFetched(topic.name, topic.topic_id, parts))
    return Fetched(topics, size, is_urgent)


def _partition(wanted: Wanted, size_max: int, *, is_first: bool) -> PartitionFetched:
    log = wanted.log
    if log is None:
        return PartitionFetched(wanted.partition, wanted.error)
    try:
        first, end = log.first, log.end
        if not first <= wanted.number <= end:
            return PartitionFetched(wanted.partition, Code.OFFSET_OUT_OF_RANGE, end, end, first)
        records: list[Buffer] = []
        # The first batch of a response is given however large it is: a client that asks for too little gets on.
        if wanted.number < end and (size_max > 0 or is_first):
            records = _batches(log, wanted.number, max(size_max, 1))
        return PartitionFetched(wanted.partition, Code.NONE, end, end, first, records, sum(map(len, records)))
    except NumberRetired as error:
        return PartitionFetched(wanted.partition, Code.OFFSET_OUT_OF_RANGE, log.end, log.end, error.first)
    except WarrenError as error:
        return PartitionFetched(wanted.partition, code_of(error))


def _batches(log: Log, number: int, size_max: int) -> list[Buffer]:
    """Kafka's batches from where they lie; what was put otherwise is made into some."""
    buffers: list[Buffer] = []
    for stored in log.stored(number, bytes_max=size_max):
        if stored.batch is not None:
            buffers += numbered(stored.batch, stored.number)
        else:
            start = max(stored.number, number)
            messages = log.read(start, limit=stored.number + stored.message_count - start)
            buffers += build(messages)
    return buffers
