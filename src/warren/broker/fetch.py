"""Fetch: batches as they lie in the file, as many bytes as were asked for, and a wait where there are too few."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from warren.broker.call import Answer, Call, Later, Parked
from warren.broker.kafka_errors import Code, code_of
from warren.broker.partition_rows import last_of_each, pieces_of
from warren.broker.security.rights import Kind, Operation
from warren.config import LOOP_BUILT_MAX, LOOP_ROWS_AT_ONCE
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
    size_max = min(request.max_bytes, call.broker.limits.fetch_size_max)
    if call.broker.quotas.is_set:
        size_max = call.broker.quotas.answer_size_max(call.peer.user, call.request.client_id or "", size_max)
    wait_s = min(request.max_wait_ms / 1000, call.broker.limits.fetch_wait_s_max)
    asked: Sequence[AskedTopic] = request.topics
    if sum(len(topic.partitions) for topic in asked) > 1:
        asked = last_of_each(asked)
        if sum(len(topic.partitions) for topic in asked) > LOOP_ROWS_AT_ONCE:
            return _fetch_in_turns(call, asked, (request.min_bytes, size_max), wait_s)
    wanted = [_wanted_topic(call, topic) for topic in asked]
    try:
        found = _fetched(wanted, call.broker.budget.answer_size_max(size_max))
    except _TakesLong:
        return _fetch_in_turns(call, asked, (request.min_bytes, size_max), wait_s)
    if found.size >= request.min_bytes or found.is_urgent or wait_s <= 0 or call.broker.is_stopping:
        return _answer(call, found)
    return _parked(call, asked, wanted, (request.min_bytes, size_max), wait_s)


def _answer(call: Call, found: Fetched) -> Answer:
    if found.is_urgent:
        call.broker.metrics.failed(call.request.api_key)
    return encode_fetch_response(call.version, found.topics)


def _parked(
    call: Call, asked: Sequence[AskedTopic], wanted: Sequence[WantedTopic], sizes: tuple[int, int], wait_s: float
) -> Later:
    """The answer when there is enough, or the time is over: without a task, since most consumers wait most often."""
    loop, long_polls = asyncio.get_running_loop(), call.broker.long_polls
    later, (size_min, size_max) = Parked(), sizes
    deadline = loop.time() + wait_s
    logs = [part.log for topic in wanted for part in topic.partitions if part.log is not None]

    def look() -> None:
        if later.is_dropped:
            return
        try:
            found = _fetched(_still_allowed(call, wanted), call.broker.budget.answer_size_max(size_max))
            left_s = deadline - loop.time()
            if found.size >= size_min or found.is_urgent or left_s < TIME_STEP_S or call.broker.is_stopping:
                answer: Answer | BaseException = _answer(call, found)
            else:
                later.rung = long_polls.park(logs, left_s, look)
                return
        except _TakesLong:
            call.broker.tasks.create_task(_work(call, later, asked, sizes, deadline))
            return
        except Exception as error:  # noqa: BLE001  # It is told to whoever waits.
            answer = error
        later.told(answer)

    later.rung = long_polls.park(logs, wait_s, look)
    return later


# --- Many partitions, or much to do for one ---


class _TakesLong(Exception):
    """So many messages have to be made into batches that others would wait."""


def _fetch_in_turns(call: Call, asked: Sequence[AskedTopic], sizes: tuple[int, int], wait_s: float) -> Later:
    """The same as `fetch`, so that other requests are answered in between. Sizes are the least and the most bytes."""
    loop, later = asyncio.get_running_loop(), Parked()
    later.rung = loop.create_future()
    call.broker.tasks.create_task(_work(call, later, asked, sizes, loop.time() + wait_s))
    return later


async def _work(
    call: Call, later: Parked, asked: Sequence[AskedTopic], sizes: tuple[int, int], deadline: float
) -> None:
    loop, broker = asyncio.get_running_loop(), call.broker
    size_min, size_max = sizes
    answer: Answer | BaseException = None
    try:
        # Each topic again for each piece of it: its partitions are put together in the answer.
        pieces = list(pieces_of(asked))
        wanted = [(place, _wanted_topic(call, piece)) async for place, piece in broker.turns.over(pieces)]
        logs = [part.log for _, topic in wanted for part in topic.partitions if part.log is not None]
        while True:
            found = await _fetched_in_turns(call, asked, wanted, broker.budget.answer_size_max(size_max))
            left_s = deadline - loop.time()
            is_enough = found.size >= size_min or found.is_urgent or left_s < TIME_STEP_S or broker.is_stopping
            if later.is_dropped:
                return
            if is_enough:
                answer = await broker.aside(encode_fetch_response, call.version, found.topics)
                if found.is_urgent:
                    broker.metrics.failed(call.request.api_key)
                break
            later.rung = loop.create_future()
            await broker.long_polls.wait(logs, left_s, later.rung)
            allowed = _still_allowed(call, [topic for _, topic in wanted])
            wanted = [(place, topic) for (place, _), topic in zip(wanted, allowed, strict=True)]
    except Exception as error:  # noqa: BLE001  # It is told to the connection.
        answer = error
    if not later.is_dropped:
        later.told(answer)


async def _fetched_in_turns(
    call: Call, asked: Sequence[AskedTopic], wanted: Sequence[tuple[int, WantedTopic]], size_max: int
) -> Fetched:
    parts: list[list[PartitionFetched]] = [[] for _ in asked]
    size, is_urgent = 0, False
    async for place, topic in call.broker.turns.over(wanted):
        try:
            found = _fetched([topic], size_max, size)
        except _TakesLong:
            found = await call.broker.aside(_fetched, [topic], size_max, size, built_max=None)
        size, is_urgent = found.size, is_urgent or found.is_urgent
        parts[place] += found.topics[0].partitions
    topics = [TopicFetched(topic.name, topic.topic_id, part) for topic, part in zip(asked, parts, strict=True)]
    return Fetched(topics, size, is_urgent)


# --- What was asked for ---


def _still_allowed(call: Call, wanted: Sequence[WantedTopic]) -> Sequence[WantedTopic]:
    """What was asked for, but topics refused whose right is gone since: a fetch may wait for long."""
    if call.broker.rights is None:
        return wanted
    return [
        topic
        if call.may(Operation.READ, Kind.TOPIC, topic.name or _name_of(call, topic.topic_id))
        else topic._replace(partitions=[_refused(part) for part in topic.partitions])
        for topic in wanted
    ]


def _name_of(call: Call, topic_id: bytes) -> str:
    try:
        return str(call.broker.topics.recall_by_id(topic_id).name)
    except WarrenError:
        return ""


def _refused(part: Wanted) -> Wanted:
    return part._replace(log=None, error=Code.TOPIC_AUTHORIZATION_FAILED)


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
        call.denied(Operation.READ, Kind.TOPIC, str(topic.name))
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


def _fetched(
    wanted: Sequence[WantedTopic], size_max: int, size: int = 0, built_max: int | None = LOOP_BUILT_MAX
) -> Fetched:
    """What there is, `size` bytes of it already at hand. Raises _TakesLong if more than `built_max` are to be built."""
    topics, is_urgent = [], False
    for topic in wanted:
        parts = []
        for part in topic.partitions:
            found = _partition(part, min(part.size_max, size_max - size), built_max, is_first=not size)
            size += found.size
            is_urgent = is_urgent or found.error_code != Code.NONE
            parts.append(found)
        topics.append(TopicFetched(topic.name, topic.topic_id, parts))
    return Fetched(topics, size, is_urgent)


def _partition(wanted: Wanted, size_max: int, built_max: int | None, *, is_first: bool) -> PartitionFetched:
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
            records = _batches(log, wanted.number, max(size_max, 1), built_max)
        return PartitionFetched(wanted.partition, Code.NONE, end, end, first, records, sum(map(len, records)))
    except NumberRetired as error:
        return PartitionFetched(wanted.partition, Code.OFFSET_OUT_OF_RANGE, log.end, log.end, error.first)
    except WarrenError as error:
        return PartitionFetched(wanted.partition, code_of(error))


def _batches(log: Log, number: int, size_max: int, built_max: int | None) -> list[Buffer]:
    """Kafka's batches from where they lie; what was put otherwise is made into some."""
    buffers: list[Buffer] = []
    built_count = 0
    for stored in log.stored(number, bytes_max=size_max):
        if stored.batch is not None:
            buffers += numbered(stored.batch, stored.number)
        else:
            start = max(stored.number, number)
            built_count += stored.number + stored.message_count - start
            if built_max is not None and built_count > built_max:
                raise _TakesLong
            messages = log.read(start, limit=stored.number + stored.message_count - start)
            buffers += build(messages)
    return buffers
