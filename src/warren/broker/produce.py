"""Produce: batches as clients packed them, checked, and appended as they came."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, Final

from warren.broker.call import Answer, Call
from warren.broker.kafka_errors import Code, code_of
from warren.broker.peer import Peer
from warren.broker.security.rights import Kind, Operation
from warren.config import BATCHES_LOOKED_INTO_EACH, BATCHES_LOOKED_INTO_FIRST
from warren.errors import BadBatch, NoSuchTopic, TooLarge, WarrenError
from warren.protocol.produce import (
    PartitionStored,
    ProducedPartition,
    ProducedTopic,
    ProduceRequest,
    TopicStored,
    decode_produce,
    encode_produce_response,
)
from warren.protocol.record_batch import Batch, is_checked_quickly, split
from warren.queue.topic import Topic
from warren.storage import Log
from warren.storage.kafka_batch import pack_kafka

ACKS: Final = (-1, 0, 1)
Stored = PartitionStored | Coroutine[Any, Any, PartitionStored]


def produce(call: Call) -> Answer | Awaitable[Answer]:
    """Append what was sent; answered when all of it is as durable as its topics say, or not at all with acks=0."""
    request = decode_produce(call.version, call.request.body)
    topics = [_topic(call, request, topic) for topic in request.topics]
    if any(isinstance(stored, Coroutine) for _, parts in topics for stored in parts):
        return _later(call, request, topics)
    return _answer(call, request, topics)  # type: ignore[arg-type]


def _answer(
    call: Call, request: ProduceRequest, topics: Sequence[tuple[ProducedTopic, Sequence[PartitionStored]]]
) -> Answer:
    if any(stored.error_code for _, parts in topics for stored in parts):
        call.broker.metrics.failed(call.request.api_key)
    if request.acks == 0:
        return None
    answers = [TopicStored(topic.name, topic.topic_id, stored) for topic, stored in topics]
    return [encode_produce_response(call.version, answers)]


async def _later(
    call: Call, request: ProduceRequest, topics: Sequence[tuple[ProducedTopic, Sequence[Stored]]]
) -> Answer:
    waiting = [stored for _, parts in topics for stored in parts if isinstance(stored, Coroutine)]
    done = iter(await asyncio.gather(*waiting))
    whole = [
        (topic, [next(done) if isinstance(stored, Coroutine) else stored for stored in parts])
        for topic, parts in topics
    ]
    return _answer(call, request, whole)


def _topic(call: Call, request: ProduceRequest, asked: ProducedTopic) -> tuple[ProducedTopic, list[Stored]]:
    """What becomes of each partition, now or later."""
    if request.acks not in ACKS:
        return asked, [_refused(part.partition, Code.INVALID_REQUIRED_ACKS) for part in asked.partitions]
    topics = call.broker.topics
    try:
        topic = topics.find_by_id(asked.topic_id) if asked.topic_id else topics.find(asked.name)
    except NoSuchTopic as error:
        if asked.topic_id or not call.broker.settings.auto_create_topics:
            code = Code.UNKNOWN_TOPIC_ID if asked.topic_id else code_of(error)
            return asked, [_refused(part.partition, code) for part in asked.partitions]
        if not (call.may(Operation.WRITE, Kind.TOPIC, asked.name) and call.may_create(asked.name)):
            return asked, [_refused(part.partition, Code.TOPIC_AUTHORIZATION_FAILED) for part in asked.partitions]
        return asked, [_made(call, request, asked.name, part) for part in asked.partitions]
    except WarrenError as error:
        return asked, [_refused(part.partition, code_of(error), str(error)) for part in asked.partitions]
    if not call.may(Operation.WRITE, Kind.TOPIC, topic.name):
        return asked, [_refused(part.partition, Code.TOPIC_AUTHORIZATION_FAILED) for part in asked.partitions]
    return asked, [_partition(call, request, topic, part) for part in asked.partitions]


async def _made(call: Call, request: ProduceRequest, name: str, part: ProducedPartition) -> PartitionStored:
    """A put to a topic that is not there makes it."""
    try:
        topic = await call.broker.in_thread(call.broker.topics.make, name)
    except WarrenError as error:
        return _refused(part.partition, code_of(error), str(error))
    stored = _partition(call, request, topic, part)
    return await stored if isinstance(stored, Coroutine) else stored


def _partition(call: Call, request: ProduceRequest, topic: Topic, part: ProducedPartition) -> Stored:
    try:
        topic.partition(part.partition)
        batches, large = _checked(call, topic, part.records)
        if large:
            return _checked_later(call, request, topic, part.partition, batches, large)
        return _put(call, request, topic, part.partition, batches)
    except WarrenError as error:
        return _refused(part.partition, code_of(error), str(error))


async def _checked_later(
    call: Call, request: ProduceRequest, topic: Topic, partition: int, batches: Sequence[Batch], large: Sequence[Batch]
) -> PartitionStored:
    """What unpacks to much is looked into where nobody waits for it but its producer."""
    try:
        for batch in large:
            await call.broker.unpacking.check(batch)
        stored = _put(call, request, topic, partition, batches)
        return await stored if isinstance(stored, Coroutine) else stored
    except WarrenError as error:
        return _refused(partition, code_of(error), str(error))


def _put(call: Call, request: ProduceRequest, topic: Topic, partition: int, batches: Sequence[Batch]) -> Stored:
    log = topic.partition(partition)
    if any(batch.is_idempotent or batch.is_transactional for batch in batches):
        return _numbered(call, request, topic, partition, batches)
    records = [pack_kafka(batch.data) for batch in batches]
    if topic.settings.durability == "commit":
        return _stored_later(call, topic, partition, records)
    return PartitionStored(partition, 0, call.broker.door.put_now(log, records).start, -1, log.first)


async def _stored_later(call: Call, topic: Topic, partition: int, records: Sequence[Any]) -> PartitionStored:
    log = topic.partition(partition)
    try:
        numbers = await call.broker.door.put(log, records)
    except WarrenError as error:
        return _refused(partition, code_of(error), str(error))
    return PartitionStored(partition, 0, numbers.start, -1, log.first)


# --- Batches that their producer numbers ---


def _numbered(call: Call, request: ProduceRequest, topic: Topic, partition: int, batches: Sequence[Batch]) -> Stored:
    """Of what a producer numbers there is one batch at a time for a partition."""
    batch = batches[0]
    if len(batches) > 1 or not batch.is_idempotent:
        return _refused(partition, Code.INVALID_RECORD, "expected one batch of a producer that has an id")
    if batch.is_transactional:
        return _in_transaction(call, request.transactional_id, topic, partition, batch)
    log = topic.partition(partition)
    known = call.broker.producers.find(log)
    if known is None or topic.settings.durability == "commit":
        return _once(call, topic, partition, batch)
    found = known.put_now(batch.head, lambda: call.broker.door.put_now(log, [pack_kafka(batch.data)]).start)
    if found is None:
        return _once(call, topic, partition, batch)
    call.broker.producers.stored(log, known)
    return _outcome(partition, *found, log)


async def _once(call: Call, topic: Topic, partition: int, batch: Batch) -> PartitionStored:
    log, door = topic.partition(partition), call.broker.door

    async def put() -> int:
        return (await door.put(log, [pack_kafka(batch.data)])).start

    try:
        known = await call.broker.producers.load(log)
        found = await known.put(log, batch.head, put)
        call.broker.producers.stored(log, known)
    except WarrenError as error:
        return _refused(partition, code_of(error), str(error))
    return _outcome(partition, *found, log)


async def _in_transaction(
    call: Call, transactional_id: str | None, topic: Topic, partition: int, batch: Batch
) -> PartitionStored:
    try:
        producer = await call.broker.transactions.find(transactional_id or "")
        if producer is None:
            return _refused(partition, Code.INVALID_PRODUCER_ID_MAPPING)
        return _outcome(partition, *await producer.put(topic, partition, batch), topic.partition(partition))
    except WarrenError as error:
        return _refused(partition, code_of(error), str(error))


def _outcome(partition: int, error: Code, number: int, log: Log) -> PartitionStored:
    return _refused(partition, error) if error else PartitionStored(partition, 0, number, -1, log.first)


def _checked(call: Call, topic: Topic, records: memoryview | None) -> tuple[list[Batch], list[Batch]]:
    """The batches, and those of them that are still to be looked into."""
    if records is None:
        raise BadBatch("there is none")
    batches, large = split(records), []
    for batch in batches:
        if len(batch.data) > topic.settings.message_size_max:
            raise TooLarge("batch", len(batch.data), topic.settings.message_size_max)
        if _is_looked_into(call.peer) and not is_checked_quickly(batch):
            large.append(batch)
    return batches, large


def _is_looked_into(peer: Peer) -> bool:
    """Whether the records of a client's next batch are looked at one by one, and not the checksum of them all alone.

    That costs many times what all else does that is done to a batch. Whoever packs records that nobody can read does so
    with the first ones too.
    """
    count, peer.batch_count = peer.batch_count, peer.batch_count + 1
    return count < BATCHES_LOOKED_INTO_FIRST or count % BATCHES_LOOKED_INTO_EACH == 0


def _refused(partition: int, code: Code, message: str | None = None) -> PartitionStored:
    return PartitionStored(partition, code, error_message=message)
