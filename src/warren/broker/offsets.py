"""Questions about numbers: where partitions start and end, what was there at a time; and retiring on request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from warren.broker.call import Call
from warren.broker.kafka_errors import Code, code_of
from warren.broker.metadata import LEADER_EPOCH
from warren.broker.times import first_at, largest_at
from warren.errors import WarrenError
from warren.protocol.kafka_codec import Fields, Values
from warren.queue.topic import Topic
from warren.storage import Log

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
AT_ONCE: Final = (LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED)
"""What is known without looking at a message."""
NONE: Final = -1
HIGH_WATERMARK: Final = -1
TRUNCATION_FREE: Final = "NONE"


def list_offsets(call: Call, request: Fields) -> Values | Awaitable[Values]:
    """For each partition the number that belongs to a time, or to one of the words for start and end."""
    if any(asked.timestamp not in AT_ONCE for topic in request.topics for asked in topic.partitions):
        return call.broker.in_thread(_list_offsets, call, request)
    return _list_offsets(call, request)


def _list_offsets(call: Call, request: Fields) -> Values:
    return _for_each(call, request, lambda log, asked: _listed(log, asked.timestamp))


def _listed(log: Log, timestamp_ms: int) -> dict[str, Any]:
    if timestamp_ms == LATEST:
        return {"timestamp": NONE, "offset": log.end, "leader_epoch": LEADER_EPOCH}
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return {"timestamp": NONE, "offset": log.first, "leader_epoch": LEADER_EPOCH}
    if timestamp_ms == LATEST_TIERED:
        return {"timestamp": NONE, "offset": NONE}
    found = largest_at(log) if timestamp_ms == MAX_TIMESTAMP else first_at(log, timestamp_ms)
    if found is None:
        return {"timestamp": NONE, "offset": NONE}
    number, when_ms = found
    return {"timestamp": when_ms, "offset": number, "leader_epoch": LEADER_EPOCH}


def offset_for_leader_epoch(call: Call, request: Fields) -> Values:
    """Where an epoch ended: there has been one, and it lasts."""
    topics = []
    for topic in request.topics:
        partitions = []
        there = _topic_of(call, topic.topic)
        for asked in topic.partitions:
            found: dict[str, Any] = {"partition": asked.partition}
            if isinstance(there, Topic):
                try:
                    log = there.partition(asked.partition)
                    is_known = asked.leader_epoch == LEADER_EPOCH
                    found |= {"leader_epoch": LEADER_EPOCH, "end_offset": log.end} if is_known else {}
                except WarrenError as error:
                    found |= {"error_code": code_of(error)}
            else:
                found |= {"error_code": there}
            partitions.append(found)
        topics.append({"topic": topic.topic, "partitions": partitions})
    return {"topics": topics}


async def delete_records(call: Call, request: Fields) -> Values:
    """Delete the messages before a number; what is left starts with it, in a log of version 1 with its block."""
    topics = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            found: dict[str, Any] = {"partition_index": asked.partition_index}
            try:
                log = (await call.broker.opened_topic(topic.name)).partition(asked.partition_index)
                before = log.end if asked.offset == HIGH_WATERMARK else asked.offset
                if not 0 <= before <= log.end:
                    found |= {"low_watermark": NONE, "error_code": Code.OFFSET_OUT_OF_RANGE}
                else:
                    found |= {"low_watermark": await call.broker.in_thread(_retired, log, before)}
            except WarrenError as error:
                found |= {"low_watermark": NONE, "error_code": code_of(error)}
            partitions.append(found)
        topics.append({"name": topic.name, "partitions": partitions})
    return {"topics": topics}


def _retired(log: Log, before: int) -> int:
    return log.retire(before=before, exactly=log.version > 1)


def _topic_of(call: Call, name: str) -> Topic | Code:
    """The topic, which is looked for once for all of its partitions; or why it cannot be had.

    The error itself is not kept: it would be part of a cycle with the frame that keeps it. A request for 10,000 topics
    that are not there left 200,000 objects to the garbage collector, which stops all threads for a tenth of a second.
    """
    try:
        return call.broker.topics.find(name)
    except WarrenError as error:
        return code_of(error)


def _for_each(call: Call, request: Fields, find: Callable[[Log, Fields], dict[str, Any]]) -> Values:
    topics = []
    for topic in request.topics:
        partitions = []
        there = _topic_of(call, topic.name)
        for asked in topic.partitions:
            found: dict[str, Any] = {"partition_index": asked.partition_index}
            code = there if isinstance(there, Code) else Code.NONE
            if isinstance(there, Topic):
                try:
                    found |= find(there.partition(asked.partition_index), asked)
                except WarrenError as error:
                    code = code_of(error)
            if code is not Code.NONE:
                found |= {"error_code": code, "timestamp": NONE, "offset": NONE}
            partitions.append(found)
        topics.append({"name": topic.name, "partitions": partitions})
    return {"topics": topics}
