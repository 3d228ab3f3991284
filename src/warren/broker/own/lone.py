"""Append of one record with one message: the shorter way for what is asked for most, to the same end."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from warren.broker.call import Answer, AnyHandler, Call, Handler, Later
from warren.broker.door import Outcome
from warren.broker.own.answering import refusal
from warren.broker.security.rights import Kind, Operation
from warren.config import MARKER_SIZE_MAX
from warren.errors import WarrenError
from warren.protocol.own_append import LoneAppend, lone_answer_bytes, read_lone_append
from warren.queue.topic import Topic
from warren.storage import Log
from warren.storage.lone import is_lone
from warren.storage.record import Packed


def shortly(whole: Handler) -> AnyHandler:
    """The handler of Append: what is out of the ordinary is left to `whole`."""

    def answer(call: Call) -> Answer | Awaitable[Answer] | Later:
        lone = read_lone_append(call.request.body)
        if lone is None:
            return whole(call)
        packed = Packed(lone.payload, lone.checksum, 1)
        topic = _fitting(call, lone, packed)
        if topic is None:
            return whole(call)
        log = topic.logs[lone.partition]
        if topic.settings.durability == "commit":
            return _soon(call, topic, log, lone, packed)
        try:
            receipt = call.broker.door.put_one(log, packed)
        except WarrenError as error:
            return refusal(call, error)
        return _answer(topic, lone.partition, receipt.number, receipt.offset, receipt.timestamp)

    return answer


def _fitting(call: Call, lone: LoneAppend, packed: Packed) -> Topic | None:
    """The topic, where nothing is to be looked at but what is at hand."""
    try:
        topic = call.broker.topics.recall(lone.topic)
    except WarrenError:
        return None
    if not call.may(Operation.WRITE, Kind.TOPIC, lone.topic):
        return None
    settings = topic.settings
    if settings.version == 1 or not 0 <= lone.partition < topic.partition_count or len(lone.marker) > MARKER_SIZE_MAX:
        return None
    if lone.is_retry or lone.marker in call.broker.appends.repeated:
        return None
    return topic if is_lone(packed, topic.put_size_max) else None


def _soon(call: Call, topic: Topic, log: Log, lone: LoneAppend, packed: Packed) -> Answer | Later:
    later, ended = Later(), call.broker.appends.begin(lone.marker)

    def answer(found: Outcome) -> Answer:
        ended()
        return _told(call, topic, lone, found)

    try:
        call.broker.door.put_soon(log, (packed,), partial(later.tell, answer))
    except WarrenError as error:
        ended()
        return refusal(call, error)
    return later


def _told(call: Call, topic: Topic, lone: LoneAppend, found: Outcome) -> Answer:
    if isinstance(found, WarrenError):
        return refusal(call, found)
    if isinstance(found, BaseException):
        raise found
    return _answer(topic, lone.partition, found.number, found.offset, found.timestamp)


def _answer(topic: Topic, partition: int, number: int, offset: int, timestamp: int) -> Answer:
    return [lone_answer_bytes(partition, number, offset, timestamp, topic.partition_count)]
