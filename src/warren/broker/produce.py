"""Produce: batches as clients packed them, checked, and appended as they came."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from warren.broker.call import Answer, Call, Later
from warren.broker.delays import put_delayed
from warren.broker.kafka_errors import Code, code_of
from warren.broker.lone_produce import produce_lone
from warren.broker.looking import is_looked_into_next
from warren.broker.partition_rows import TWICE, once_each, pieces_of
from warren.broker.refusals import FAILURES, refusal, refused
from warren.broker.security.guards import REFUSALS
from warren.broker.security.rights import Kind, Operation
from warren.config import LOOP_ROWS_AT_ONCE
from warren.errors import BadBatch, IsAQueue, NoSuchTopic, TooLarge
from warren.protocol.deliver_at import may_be_delayed
from warren.protocol.produce import (
    PartitionStored,
    ProducedPartition,
    ProducedTopic,
    ProduceRequest,
    TopicStored,
    decode_produce,
    encode_produce_response,
)
from warren.protocol.record_batch import Batch, check_records, is_checked_quickly, may_unpack_to_more, split
from warren.queue.topic import Topic
from warren.storage import Log
from warren.storage.kafka_batch import pack_kafka
from warren.storage.record import Packed

ACKS: Final = (-1, 0, 1)


class Appending(NamedTuple):
    """Records that are to go through the door, and be waited for."""

    partition: int
    log: Log
    records: Sequence[Packed]


Stored = PartitionStored | Appending | Coroutine[Any, Any, PartitionStored]


def produce(call: Call) -> Answer | Awaitable[Answer] | Later:
    """Append what was sent; answered when all of it is as durable as its topics say, or not at all with acks=0."""
    lone = call.request.lone
    if lone is not None:
        return produce_lone(call, lone) or _produced(call, lone.whole())
    return _produced(call, decode_produce(call.version, call.request.body))


def _produced(call: Call, request: ProduceRequest) -> Answer | Awaitable[Answer]:
    if sum(len(topic.partitions) for topic in request.topics) > 1:
        wanted, repeated = once_each(request.topics)
        request = request._replace(topics=wanted)
        if repeated or sum(len(topic.partitions) for topic in wanted) > LOOP_ROWS_AT_ONCE:
            return _in_turns(call, request, repeated)
    topics = [_topic(call, request, topic) for topic in request.topics]
    if all(type(each) is PartitionStored for _, parts in topics for each in parts):
        return _answer(call, request, topics)  # type: ignore[arg-type]
    return _later(call, request, topics)


async def _in_turns(call: Call, request: ProduceRequest, repeated: Mapping[int, Sequence[int]]) -> Answer:
    """Many partitions are stored some at a time, so that other requests are answered in between."""
    done: list[list[PartitionStored]] = [[] for _ in request.topics]
    async for place, piece in call.broker.turns.over(list(pieces_of(request.topics))):
        _, parts = _topic(call, request, piece)
        done[place] += await asyncio.gather(*(_done(call, each) for each in parts))
    for place, numbers in repeated.items():
        done[place] += [refused(number, Code.INVALID_REQUEST, TWICE) for number in numbers]
    return _answer(call, request, list(zip(request.topics, done, strict=True)))


def _answer(
    call: Call, request: ProduceRequest, topics: Sequence[tuple[ProducedTopic, Sequence[PartitionStored]]]
) -> Answer:
    if [each for _, parts in topics for each in parts if each.error_code]:
        call.broker.metrics.failed(call.request.api_key)
    if request.acks == 0:
        return None
    answers = [TopicStored(topic.name, topic.topic_id, parts) for topic, parts in topics]
    return [encode_produce_response(call.version, answers)]


async def _later(
    call: Call, request: ProduceRequest, topics: Sequence[tuple[ProducedTopic, Sequence[Stored]]]
) -> Answer:
    flat = [each for _, parts in topics for each in parts]
    done = iter(await asyncio.gather(*(_done(call, each) for each in flat)))
    return _answer(call, request, [(topic, [next(done) for _ in parts]) for topic, parts in topics])


async def _done(call: Call, put: Stored) -> PartitionStored:
    if isinstance(put, PartitionStored):
        return put
    if isinstance(put, Coroutine):
        return await put
    try:
        numbers = await call.broker.door.put(put.log, put.records)
        return PartitionStored(put.partition, 0, numbers.start, -1, put.log.first)
    except FAILURES as error:
        return refusal(call, put.partition, error)


def _topic(call: Call, request: ProduceRequest, asked: ProducedTopic) -> tuple[ProducedTopic, list[Stored]]:
    """What becomes of each partition, now or later."""
    id = request.transactional_id
    if id is not None and not call.may(Operation.WRITE, Kind.TRANSACTIONAL_ID, id):
        # Other users can guess the producer id and the epoch that belong to it.
        return asked, _denied(call, asked, Operation.WRITE, Kind.TRANSACTIONAL_ID, id)
    if request.acks not in ACKS:
        return asked, [refused(part.partition, Code.INVALID_REQUIRED_ACKS) for part in asked.partitions]
    topics = call.broker.topics
    try:
        topic = topics.recall_by_id(asked.topic_id) if asked.topic_id else topics.recall(asked.name)
    except NoSuchTopic as error:
        if asked.topic_id or not call.broker.settings.auto_create_topics:
            code = Code.UNKNOWN_TOPIC_ID if asked.topic_id else code_of(error)
            return asked, [refused(part.partition, code) for part in asked.partitions]
        missing = None if call.may_create(asked.name) else Operation.CREATE
        missing = missing if call.may(Operation.WRITE, Kind.TOPIC, asked.name) else Operation.WRITE
        if missing is not None:
            return asked, _denied(call, asked, missing, Kind.TOPIC, asked.name)
        return asked, [_made(call, request, asked.name, part) for part in asked.partitions]
    except FAILURES as error:
        return asked, [refusal(call, part.partition, error) for part in asked.partitions]
    if not call.may(Operation.WRITE, Kind.TOPIC, topic.name):
        return asked, _denied(call, asked, Operation.WRITE, Kind.TOPIC, str(topic.name))
    if topic.is_queue:
        return asked, [refusal(call, part.partition, IsAQueue(str(topic.name))) for part in asked.partitions]
    return asked, [_partition(call, request, topic, part) for part in asked.partitions]


def _denied(call: Call, asked: ProducedTopic, operation: Operation, kind: Kind, name: str) -> list[Stored]:
    code, message = REFUSALS[kind], str(call.denied(operation, kind, name))
    return [refused(part.partition, code, message) for part in asked.partitions]


async def _made(call: Call, request: ProduceRequest, name: str, part: ProducedPartition) -> PartitionStored:
    """A put to a topic that is not there makes it."""
    try:
        topic = await call.broker.allotment.make(call, name, is_strict=False)
    except FAILURES as error:
        return refusal(call, part.partition, error)
    return await _done(call, _partition(call, request, topic, part))


def _partition(call: Call, request: ProduceRequest, topic: Topic, part: ProducedPartition) -> Stored:
    try:
        if part.partition >= topic.partition_count:
            topic.see_partitions()
        topic.partition(part.partition)
        batches, large = _checked(call, topic, part.records)
        if large:
            return _checked_later(call, request, topic, part.partition, batches, large)
        return _put(call, request, topic, part.partition, batches)
    except FAILURES as error:
        return refusal(call, part.partition, error)


async def _checked_later(
    call: Call, request: ProduceRequest, topic: Topic, partition: int, batches: Sequence[Batch], large: Sequence[Batch]
) -> PartitionStored:
    """What unpacks to much is looked into where nobody waits for it but its producer."""
    try:
        for batch in large:
            check = partial(check_records, batch, topic.settings.message_size_max)
            await call.broker.unpacking.run(call.peer.owner, check)
        return await _done(call, _put(call, request, topic, partition, batches))
    except FAILURES as error:
        return refusal(call, partition, error)


def _put(call: Call, request: ProduceRequest, topic: Topic, partition: int, batches: Sequence[Batch]) -> Stored:
    looks = call.broker.settings.deliver_at
    if looks != "none" and any(may_be_delayed(batch, sees_compressed=looks == "all") for batch in batches):
        return _put_later(call, request, topic, partition, batches)
    return _put_now(call, request, topic, partition, batches)


async def _put_later(
    call: Call, request: ProduceRequest, topic: Topic, partition: int, batches: Sequence[Batch]
) -> PartitionStored:
    """Some of it is to be delivered later, if it looks right."""

    def otherwise() -> Awaitable[PartitionStored]:
        return _done(call, _put_now(call, request, topic, partition, batches))

    try:
        return await put_delayed(call, request.transactional_id, topic, partition, batches, otherwise)
    except FAILURES as error:
        return refusal(call, partition, error)


def _put_now(call: Call, request: ProduceRequest, topic: Topic, partition: int, batches: Sequence[Batch]) -> Stored:
    log = topic.partition(partition)
    if [batch for batch in batches if batch.is_idempotent or batch.is_transactional]:
        return _numbered(call, request, topic, partition, batches)
    records = [pack_kafka(batch.data, head=batch.head) for batch in batches]
    if topic.settings.durability == "commit":
        return Appending(partition, log, records)
    return PartitionStored(partition, 0, call.broker.door.put_now(log, records).start, -1, log.first)


# --- Batches that their producer numbers ---


def _numbered(call: Call, request: ProduceRequest, topic: Topic, partition: int, batches: Sequence[Batch]) -> Stored:
    """Of what a producer numbers there is one batch at a time for a partition."""
    batch = batches[0]
    if len(batches) > 1 or not batch.is_idempotent:
        return refused(partition, Code.INVALID_RECORD, "expected one batch of a producer that has an id")
    if batch.is_transactional:
        return _in_transaction(call, request.transactional_id, topic, partition, batch)
    log = topic.partition(partition)
    known = call.broker.producers.find(log)
    if known is None or topic.settings.durability == "commit":
        return _once(call, topic, partition, batch)
    found = known.put_now(
        batch.head, lambda: call.broker.door.put_now(log, [pack_kafka(batch.data, head=batch.head)]).start
    )
    if found is None:
        return _once(call, topic, partition, batch)
    call.broker.producers.stored(log, known)
    return _outcome(partition, *found, log)


async def _once(call: Call, topic: Topic, partition: int, batch: Batch) -> PartitionStored:
    log, door = topic.partition(partition), call.broker.door

    async def put() -> int:
        return (await door.put(log, [pack_kafka(batch.data, head=batch.head)])).start

    try:
        known = await call.broker.producers.load(log)
        found = await known.put(log, batch.head, put)
        call.broker.producers.stored(log, known)
    except FAILURES as error:
        return refusal(call, partition, error)
    return _outcome(partition, *found, log)


async def _in_transaction(
    call: Call, transactional_id: str | None, topic: Topic, partition: int, batch: Batch
) -> PartitionStored:
    try:
        producer = await call.broker.transactions.find(transactional_id or "")
        if producer is None:
            return refused(partition, Code.INVALID_PRODUCER_ID_MAPPING)
        return _outcome(partition, *await producer.put(topic, partition, batch), topic.partition(partition))
    except FAILURES as error:
        return refusal(call, partition, error)


def _outcome(partition: int, error: Code, number: int, log: Log) -> PartitionStored:
    return refused(partition, error) if error else PartitionStored(partition, 0, number, -1, log.first)


def _checked(call: Call, topic: Topic, records: memoryview | None) -> tuple[list[Batch], list[Batch]]:
    """The batches, and those of them that are still to be looked into."""
    if records is None:
        raise BadBatch("there is none")
    batches, large = split(records, call.broker.wanted_name), []
    for batch in batches:
        if len(batch.data) > topic.settings.message_size_max:
            raise TooLarge("batch", len(batch.data), topic.settings.message_size_max)
        size_max = topic.settings.message_size_max
        is_looked_into = is_looked_into_next(call.peer) or may_unpack_to_more(batch, size_max)
        call.peer.batch_count += 1
        if is_looked_into and not is_checked_quickly(batch, size_max):
            large.append(batch)
    return batches, large
