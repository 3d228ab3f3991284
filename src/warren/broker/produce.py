"""Produce: batches as clients packed them, checked, and appended as they came."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, Final, NamedTuple

from warren.broker.call import Answer, Call, Later
from warren.broker.delays import put_delayed
from warren.broker.door import Outcome
from warren.broker.kafka_errors import Code, code_of
from warren.broker.peer import Peer
from warren.broker.security.rights import Kind, Operation
from warren.config import BATCHES_LOOKED_INTO_EACH, BATCHES_LOOKED_INTO_FIRST
from warren.errors import BadBatch, NoSuchTopic, TooLarge, WarrenError
from warren.message import Receipt
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
from warren.protocol.record_batch import Batch, is_checked_quickly, split
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

    def outcome(self, found: Outcome) -> PartitionStored:
        """What to answer; what is no error of ours is raised."""
        if isinstance(found, Receipt):
            return PartitionStored(self.partition, 0, found.number, -1, self.log.first)
        if isinstance(found, WarrenError):
            return _refused(self.partition, code_of(found), str(found))
        raise found


Stored = PartitionStored | Appending | Coroutine[Any, Any, PartitionStored]


def produce(call: Call) -> Answer | Awaitable[Answer] | Later:
    """Append what was sent; answered when all of it is as durable as its topics say, or not at all with acks=0."""
    request = decode_produce(call.version, call.request.body)
    topics = [_topic(call, request, topic) for topic in request.topics]
    waiting = [stored for _, parts in topics for stored in parts if type(stored) is not PartitionStored]
    if not waiting:
        return _answer(call, request, topics)  # type: ignore[arg-type]
    if isinstance(waiting[0], Appending) and len(topics) == 1 and len(topics[0][1]) == 1:
        return _told(call, request, topics[0][0], waiting[0])
    return _later(call, request, topics)


def _told(call: Call, request: ProduceRequest, topic: ProducedTopic, appending: Appending) -> Answer | Later:
    """The answer of a request for one partition, which most are."""
    later = Later()

    def told(found: Outcome) -> None:
        try:
            answer: Answer | BaseException = _answer(call, request, [(topic, [appending.outcome(found)])])
        except BaseException as error:  # noqa: BLE001  # It is told to whoever waits.
            answer = error
        later.told(answer)

    try:
        call.broker.door.put_soon(appending.log, appending.records, told)
    except WarrenError as error:
        return _answer(call, request, [(topic, [appending.outcome(error)])])
    return later


def _answer(
    call: Call, request: ProduceRequest, topics: Sequence[tuple[ProducedTopic, Sequence[PartitionStored]]]
) -> Answer:
    if [stored for _, parts in topics for stored in parts if stored.error_code]:
        call.broker.metrics.failed(call.request.api_key)
    if request.acks == 0:
        return None
    answers = [TopicStored(topic.name, topic.topic_id, stored) for topic, stored in topics]
    return [encode_produce_response(call.version, answers)]


async def _later(
    call: Call, request: ProduceRequest, topics: Sequence[tuple[ProducedTopic, Sequence[Stored]]]
) -> Answer:
    flat = [stored for _, parts in topics for stored in parts]
    done = iter(await asyncio.gather(*(_done(call, stored) for stored in flat)))
    return _answer(call, request, [(topic, [next(done) for _ in parts]) for topic, parts in topics])


async def _done(call: Call, stored: Stored) -> PartitionStored:
    if isinstance(stored, PartitionStored):
        return stored
    if isinstance(stored, Coroutine):
        return await stored
    try:
        numbers = await call.broker.door.put(stored.log, stored.records)
        return PartitionStored(stored.partition, 0, numbers.start, -1, stored.log.first)
    except WarrenError as error:
        return stored.outcome(error)


def _topic(call: Call, request: ProduceRequest, asked: ProducedTopic) -> tuple[ProducedTopic, list[Stored]]:
    """What becomes of each partition, now or later."""
    if request.acks not in ACKS:
        return asked, [_refused(part.partition, Code.INVALID_REQUIRED_ACKS) for part in asked.partitions]
    topics = call.broker.topics
    try:
        topic = topics.recall_by_id(asked.topic_id) if asked.topic_id else topics.recall(asked.name)
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
    except WarrenError as error:
        return _refused(part.partition, code_of(error), str(error))


async def _checked_later(
    call: Call, request: ProduceRequest, topic: Topic, partition: int, batches: Sequence[Batch], large: Sequence[Batch]
) -> PartitionStored:
    """What unpacks to much is looked into where nobody waits for it but its producer."""
    try:
        for batch in large:
            await call.broker.unpacking.check(batch)
        return await _done(call, _put(call, request, topic, partition, batches))
    except WarrenError as error:
        return _refused(partition, code_of(error), str(error))


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
    except WarrenError as error:
        return _refused(partition, code_of(error), str(error))


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
        return _refused(partition, Code.INVALID_RECORD, "expected one batch of a producer that has an id")
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
