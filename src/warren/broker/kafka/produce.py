"""Produce: checks the batches that clients packed, and appends them unchanged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from warren.broker.kafka.call import Call
from warren.broker.kafka.delays import is_split, put_delayed
from warren.broker.kafka.errors import Code, code_of
from warren.broker.kafka.guards import REFUSALS
from warren.broker.kafka.partition_rows import TWICE, once_each, pieces_of
from warren.broker.kafka.produce_answers import refusal_of, refused, stored_at
from warren.broker.kafka.producers.ids import is_given_to
from warren.broker.net.request import Answer, DeferredReply
from warren.broker.security.rights import Operation, ResourceKind
from warren.broker.services.append_queue import Outcome
from warren.broker.services.batch_checks import is_validated_next
from warren.broker.services.topics import NotOpenYet
from warren.broker.services.turns import LOOP_ROWS_AT_ONCE
from warren.errors import BadBatch, IsAQueue, NoSuchTopic, WarrenError
from warren.message import Receipt
from warren.protocol.kafka.delayed_records import NAME
from warren.protocol.kafka.produce import (
    DecodedProduce,
    PartitionStored,
    ProducedPartition,
    ProducedTopic,
    SingleProduce,
    TopicStored,
    encode_produce_response,
    encode_single_stored,
)
from warren.protocol.kafka.record_batch import (
    RecordBatch,
    check_batch,
    check_records,
    is_checked_quickly,
    may_unpack_to_more,
    read_batch_head,
    split,
)
from warren.queue.topic import Topic
from warren.storage import Log
from warren.storage.format.kafka_batch import pack_kafka, pack_kafka_in_place
from warren.storage.format.layout import (
    KAFKA_COMPRESSION,
    KAFKA_LENGTH_END,
    KAFKA_TRANSACTIONAL,
    PAYLOAD_HEAD,
    KafkaBatchHead,
)
from warren.storage.format.record import Packed, check_size

LOGGER: Final = logging.getLogger("warren.broker")
NO_ACKS: Final = 0
ACKS: Final = (-1, NO_ACKS, 1)
LOOP_COPIED_SIZE_MAX: Final = 4 << 20
"""The most bytes of batches that the event loop copies. Copying 64 MiB into new memory takes a tenth of a second."""
FAILURES: Final = (WarrenError, OSError)
"""The errors with which a put may end. An OSError is one of the system, for example if no descriptor is left."""


class Appending(NamedTuple):
    """Records that the append queue has yet to sync."""

    partition: int
    log: Log
    numbers: asyncio.Future[range]


StoreOutcome = PartitionStored | Appending | Coroutine[Any, Any, PartitionStored]
"""The outcome for one partition, now or later."""
Outcomes = Sequence[tuple[ProducedTopic, Sequence[StoreOutcome]]]


def produce(call: Call) -> Answer | Awaitable[Answer] | DeferredReply:
    """Appends the batches of a request.

    The answer comes when all of them are as durable as their topics say. With acks=0 there is none.
    """
    request = call.peer.produces.read(call.version, call.request.body)
    if isinstance(request, DecodedProduce):
        return _produce(call, request)
    return _produce_single(call, request) or _produce(call, request.to_request())


# --- One partition ---


def _produce_single(call: Call, request: SingleProduce) -> Answer | Awaitable[Answer] | DeferredReply:
    """Appends one batch for one partition outside a transaction, which is the most common request.

    Returns None, and has done nothing, if the request is of another kind. The head of the batch shows that, before the
    topic is looked up and the checksum is computed: so both are done once, here or by `_produce`. Measured for a batch
    of one record of 100 bytes, durability `os`: 20 µs, and 33 µs by `_produce`; if the producer is idempotent 26 µs and
    39 µs.
    """
    acks, _, _, partition, records, _, head = request
    if acks not in ACKS or acks == NO_ACKS or is_validated_next(call.peer):
        return None
    head = head or read_batch_head(records)
    if head is None or head.attributes & KAFKA_TRANSACTIONAL or KAFKA_LENGTH_END + head.batch_length != len(records):
        return None
    try:
        topic = call.broker.topics.recall(request.topic)
    except (*FAILURES, NotOpenYet):
        return None
    is_common = 0 <= partition < topic.partition_count and len(records) <= topic.put_size_max
    if not is_common or not call.may(Operation.WRITE, ResourceKind.TOPIC, topic.name):
        # `_produce` finds the reason, and answers.
        return None
    log = topic.logs[partition]
    try:
        batch = check_batch(records, head, NAME)
        is_packed = bool(head.attributes & KAFKA_COMPRESSION)
        if (is_packed and may_unpack_to_more(batch, topic.put_size_max)) or is_split(call, topic, batch):
            return _produce_checked(call, request.to_request(), topic, batch)
        call.peer.batch_count += 1
        if batch.is_idempotent:
            stored = _put_idempotent(call, log, partition, head, partial(_pack_single, call, request, head))
            if isinstance(stored, PartitionStored):
                return _answer_stored(call, request, stored)
            return _answer_later(call, request, stored)
        reply, answer = DeferredReply(), partial(_answer_single, call, request, log)
        packed = _pack_single(call, request, head)
        receipt = call.broker.append_queue.append(log, (packed,), partial(reply.finish, answer))
        return reply if receipt is None else answer(receipt)
    except FAILURES as error:
        return _answer_single(call, request, log, error)


def _pack_single(call: Call, request: SingleProduce, head: KafkaBatchHead) -> Packed:
    """Returns the record of the only batch. Afterwards the batch in the request may have another base offset."""
    if request.records.readonly or request.records_at < PAYLOAD_HEAD.size:
        return pack_kafka(request.records, head=head)
    # A large request has its own buffer, and its bytes before the records are no longer needed.
    return pack_kafka_in_place(call.request.body, request.records_at, head)


async def _answer_later(call: Call, request: SingleProduce, put: Awaitable[PartitionStored]) -> Answer:
    return _answer_stored(call, request, await put)


def _answer_single(call: Call, request: SingleProduce, log: Log, outcome: Outcome) -> Answer:
    if isinstance(outcome, Receipt):
        return [encode_single_stored(call.version, request.topic, request.partition, outcome.number, log.first)]
    return _answer_stored(call, request, refusal_of(call, request.partition, outcome))


def _answer_stored(call: Call, request: SingleProduce, stored: PartitionStored) -> Answer:
    if not stored.error_code:
        number, log_start = stored.base_offset, stored.log_start_offset
        return [encode_single_stored(call.version, request.topic, request.partition, number, log_start)]
    call.broker.metrics.failed(call.request.api_key)
    return [encode_produce_response(call.version, [TopicStored(request.topic, b"", [stored])])]


def _produce_checked(
    call: Call, request: DecodedProduce, topic: Topic, batch: RecordBatch
) -> Answer | Awaitable[Answer]:
    """Continues as `_produce` does after the checksum of the only batch."""
    (produced,) = request.topics
    (part,) = produced.partitions
    return _finish(call, request, [(produced, [_put_checked(call, request, topic, part.partition, [batch])])])


# --- Any number of partitions ---


def _produce(call: Call, request: DecodedProduce) -> Answer | Awaitable[Answer]:
    if sum(len(topic.partitions) for topic in request.topics) > 1:
        topics, repeated = once_each(request.topics)
        request = request._replace(topics=topics)
        if repeated or sum(len(topic.partitions) for topic in topics) > LOOP_ROWS_AT_ONCE:
            return _in_turns(call, request, repeated)
    return _finish(call, request, [_topic(call, request, topic) for topic in request.topics])


def _finish(call: Call, request: DecodedProduce, outcomes: Outcomes) -> Answer | Awaitable[Answer]:
    """Answers immediately if everything is done, and otherwise when it is."""
    if all(type(each) is PartitionStored for _, parts in outcomes for each in parts):
        return _answer(call, request, outcomes)  # type: ignore[arg-type]
    return _later(call, request, outcomes)


async def _in_turns(call: Call, request: DecodedProduce, repeated: Mapping[int, Sequence[int]]) -> Answer:
    """Stores some partitions at a time, so that the broker answers other requests in between.

    `repeated` are the partitions that each topic names twice, by the topic's place in the request: they are refused.
    """
    answers: list[list[PartitionStored]] = [[] for _ in request.topics]
    async for place, piece in call.broker.turns.over(list(pieces_of(request.topics))):
        _, parts = _topic(call, request, piece)
        answers[place] += await asyncio.gather(*(_await_stored(call, each) for each in parts))
    for place, numbers in repeated.items():
        answers[place] += [refused(number, Code.INVALID_REQUEST, TWICE) for number in numbers]
    return _answer(call, request, list(zip(request.topics, answers, strict=True)))


def _answer(
    call: Call, request: DecodedProduce, topics: Sequence[tuple[ProducedTopic, Sequence[PartitionStored]]]
) -> Answer:
    if [each for _, parts in topics for each in parts if each.error_code]:
        call.broker.metrics.failed(call.request.api_key)
    if request.acks == NO_ACKS:
        return None
    answers = [TopicStored(topic.name, topic.topic_id, parts) for topic, parts in topics]
    return [encode_produce_response(call.version, answers)]


async def _later(call: Call, request: DecodedProduce, outcomes: Outcomes) -> Answer:
    flat = [each for _, parts in outcomes for each in parts]
    answers = iter(await asyncio.gather(*(_await_stored(call, each) for each in flat)))
    return _answer(call, request, [(topic, [next(answers) for _ in parts]) for topic, parts in outcomes])


async def _await_stored(call: Call, put: StoreOutcome) -> PartitionStored:
    if isinstance(put, PartitionStored):
        return put
    if isinstance(put, Coroutine):
        return await put
    try:
        numbers = await put.numbers
        return PartitionStored(put.partition, 0, numbers.start, -1, put.log.first)
    except FAILURES as error:
        return refusal_of(call, put.partition, error)


def _topic(call: Call, request: DecodedProduce, produced: ProducedTopic) -> tuple[ProducedTopic, list[StoreOutcome]]:
    """Puts the batches of each partition of one topic."""
    id = request.transactional_id
    if id is not None and not call.may(Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, id):
        # Other users can guess the producer id and the epoch that belong to it.
        return produced, _denied(call, produced, Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, id)
    if request.acks not in ACKS:
        return produced, [refused(part.partition, Code.INVALID_REQUIRED_ACKS) for part in produced.partitions]
    topics = call.broker.topics
    try:
        topic = topics.recall_by_id(produced.topic_id) if produced.topic_id else topics.recall(produced.name)
    except NotOpenYet as error:
        return produced, [_put_when_open(call, request, produced, part, error.name) for part in produced.partitions]
    except NoSuchTopic as error:
        return produced, _missing_topic(call, request, produced, error)
    except FAILURES as error:
        return produced, [refusal_of(call, part.partition, error) for part in produced.partitions]
    if not call.may(Operation.WRITE, ResourceKind.TOPIC, topic.name):
        return produced, _denied(call, produced, Operation.WRITE, ResourceKind.TOPIC, str(topic.name))
    if topic.is_queue:
        error_for = IsAQueue(str(topic.name))
        return produced, [refusal_of(call, part.partition, error_for) for part in produced.partitions]
    return produced, [_partition(call, request, topic, part) for part in produced.partitions]


async def _put_when_open(
    call: Call, request: DecodedProduce, produced: ProducedTopic, part: ProducedPartition, name: str
) -> PartitionStored:
    """Puts the batches of a partition when a thread has opened the topic."""
    try:
        await call.broker.opened_topic(name)
    except FAILURES as error:
        return refusal_of(call, part.partition, error)
    _, (outcome,) = _topic(call, request, produced._replace(partitions=[part]))
    return await _await_stored(call, outcome)


def _missing_topic(
    call: Call, request: DecodedProduce, produced: ProducedTopic, error: NoSuchTopic
) -> list[StoreOutcome]:
    """Creates a topic that does not exist, if the broker's settings and the user's rights allow it."""
    if produced.topic_id or not call.broker.settings.auto_create_topics:
        code = Code.UNKNOWN_TOPIC_ID if produced.topic_id else code_of(error)
        return [refused(part.partition, code) for part in produced.partitions]
    if not call.may(Operation.WRITE, ResourceKind.TOPIC, produced.name):
        return _denied(call, produced, Operation.WRITE, ResourceKind.TOPIC, produced.name)
    if not call.may_create(produced.name):
        return _denied(call, produced, Operation.CREATE, ResourceKind.TOPIC, produced.name)
    return [_put_to_new_topic(call, request, produced.name, part) for part in produced.partitions]


async def _put_to_new_topic(call: Call, request: DecodedProduce, name: str, part: ProducedPartition) -> PartitionStored:
    try:
        topic = await call.broker.allotment.make(call, name, is_strict=False)
    except FAILURES as error:
        return refusal_of(call, part.partition, error)
    return await _await_stored(call, _partition(call, request, topic, part))


def _partition(call: Call, request: DecodedProduce, topic: Topic, part: ProducedPartition) -> StoreOutcome:
    """Computes the checksums of the batches for one partition, and puts them."""
    try:
        if part.partition >= topic.partition_count:
            topic.see_partitions()
        topic.partition(part.partition)
        if part.records is None:
            raise BadBatch("there is none")
        batches = split(part.records, NAME)
    except FAILURES as error:
        return refusal_of(call, part.partition, error)
    return _put_checked(call, request, topic, part.partition, batches)


# --- Batches whose checksums are right ---


def _put_checked(
    call: Call, request: DecodedProduce, topic: Topic, partition: int, batches: Sequence[RecordBatch]
) -> StoreOutcome:
    try:
        large = _check_sizes(call, topic, batches)
        if large:
            return _put_large(call, request, topic, partition, batches, large)
        return _put(call, request, topic, partition, batches)
    except FAILURES as error:
        return refusal_of(call, partition, error)


def _check_sizes(call: Call, topic: Topic, batches: Sequence[RecordBatch]) -> list[RecordBatch]:
    """Checks sizes, and the records of the batches whose turn it is.

    Returns the batches whose records are to be checked by a thread, because they may unpack to much. Raises TooLarge or
    BadBatch.
    """
    large, size_max = [], topic.settings.message_size_max
    for batch in batches:
        check_size("batch", len(batch.data), size_max)
        is_due = is_validated_next(call.peer) or may_unpack_to_more(batch, size_max)
        call.peer.batch_count += 1
        if is_due and not is_checked_quickly(batch, size_max):
            large.append(batch)
    return large


async def _put_large(
    call: Call,
    request: DecodedProduce,
    topic: Topic,
    partition: int,
    batches: Sequence[RecordBatch],
    large: Sequence[RecordBatch],
) -> PartitionStored:
    """Checks the records of the `large` batches in a thread, so that only their producer waits, and puts them all."""
    try:
        for batch in large:
            check = partial(check_records, batch, topic.settings.message_size_max)
            await call.broker.unpacking.run(call.peer.owner, check)
        return await _await_stored(call, _put(call, request, topic, partition, batches))
    except FAILURES as error:
        return refusal_of(call, partition, error)


def _put(
    call: Call, request: DecodedProduce, topic: Topic, partition: int, batches: Sequence[RecordBatch]
) -> StoreOutcome:
    if not all(_may_number(call, batch) for batch in batches):
        return refused(partition, Code.UNKNOWN_PRODUCER_ID, "the producer id was not assigned to this user")
    if any(is_split(call, topic, batch) for batch in batches):
        return _put_later(call, request, topic, partition, batches)
    return _put_now(call, request, topic, partition, batches)


def _may_number(call: Call, batch: RecordBatch) -> bool:
    """Returns whether the user may send this batch by its producer id. Otherwise one user could send another's batches.

    A transactional batch needs the right to its transactional id instead, which several users may have.
    """
    if not call.broker.settings.sasl or not batch.is_idempotent or batch.is_transactional:
        return True
    return is_given_to(batch.head.producer_id, call.peer.user)


async def _put_later(
    call: Call, request: DecodedProduce, topic: Topic, partition: int, batches: Sequence[RecordBatch]
) -> PartitionStored:
    """Puts batches of which some records may be delayed: the name of the header stands in one of them."""

    def otherwise() -> Awaitable[PartitionStored]:
        return _await_stored(call, _put_now(call, request, topic, partition, batches))

    try:
        return await put_delayed(call, request.transactional_id, topic, partition, batches, otherwise)
    except FAILURES as error:
        return refusal_of(call, partition, error)


def _put_now(
    call: Call, request: DecodedProduce, topic: Topic, partition: int, batches: Sequence[RecordBatch]
) -> StoreOutcome:
    log = topic.partition(partition)
    if [batch for batch in batches if batch.is_idempotent or batch.is_transactional]:
        return _put_numbered(call, request, topic, partition, batches)
    if sum(len(batch.data) for batch in batches) > LOOP_COPIED_SIZE_MAX:
        return _put_copied(call, log, partition, batches)
    numbers = call.broker.append_queue.put(log, _packed(batches))
    if isinstance(numbers, range):
        return PartitionStored(partition, 0, numbers.start, -1, log.first)
    return Appending(partition, log, numbers)


async def _put_copied(call: Call, log: Log, partition: int, batches: Sequence[RecordBatch]) -> PartitionStored:
    """Puts batches that a thread copies, because they are large."""
    try:
        (numbers,) = await call.broker.append_queue.put_all([(log, await call.broker.aside(_packed, batches))])
    except FAILURES as error:
        return refusal_of(call, partition, error)
    return PartitionStored(partition, 0, numbers.start, -1, log.first)


def _packed(batches: Sequence[RecordBatch]) -> list[Packed]:
    return [pack_kafka(batch.data, head=batch.head) for batch in batches]


# --- Batches of producers that number them ---


def _put_numbered(
    call: Call, request: DecodedProduce, topic: Topic, partition: int, batches: Sequence[RecordBatch]
) -> StoreOutcome:
    """Puts the batch of an idempotent or transactional producer, which sends one batch at a time for a partition."""
    batch = batches[0]
    if len(batches) > 1 or not batch.is_idempotent:
        return refused(partition, Code.INVALID_RECORD, "expected one batch of a producer that has an id")
    if batch.is_transactional:
        return _put_in_transaction(call, request.transactional_id, topic, partition, batch)
    pack = partial(pack_kafka, batch.data, head=batch.head)
    return _put_idempotent(call, topic.partition(partition), partition, batch.head, pack)


def _put_idempotent(
    call: Call, log: Log, partition: int, head: KafkaBatchHead, pack: Callable[[], Packed]
) -> PartitionStored | Coroutine[Any, Any, PartitionStored]:
    """Puts the batch of an idempotent producer once, although it may come twice. Calls `pack` if it is new."""
    producers = call.broker.producers.find(log)
    size = KAFKA_LENGTH_END + head.batch_length + PAYLOAD_HEAD.size
    if producers is None or size > LOOP_COPIED_SIZE_MAX or not call.broker.append_queue.is_quick(log, size):
        return _put_once(call, log, partition, head, pack)
    outcome = producers.put_now(head, lambda: call.broker.append_queue.put_now(log, [pack()]).number)
    if outcome is None:
        return _put_once(call, log, partition, head, pack)
    call.broker.producers.stored(log, producers)
    return stored_at(partition, *outcome, log)


async def _put_once(
    call: Call, log: Log, partition: int, head: KafkaBatchHead, pack: Callable[[], Packed]
) -> PartitionStored:
    async def put() -> int:
        packed = await call.broker.aside(pack) if head.batch_length > LOOP_COPIED_SIZE_MAX else pack()
        (numbers,) = await call.broker.append_queue.put_all([(log, [packed])])
        return numbers.start

    try:
        producers = await call.broker.producers.load(log)
        outcome = await producers.put(log, head, put)
        call.broker.producers.stored(log, producers)
    except FAILURES as error:
        return refusal_of(call, partition, error)
    return stored_at(partition, *outcome, log)


async def _put_in_transaction(
    call: Call, transactional_id: str | None, topic: Topic, partition: int, batch: RecordBatch
) -> PartitionStored:
    try:
        producer = await call.broker.transactions.find(transactional_id or "")
        if producer is None:
            return refused(partition, Code.INVALID_PRODUCER_ID_MAPPING)
        return stored_at(partition, *await producer.put(topic, partition, batch), topic.partition(partition))
    except FAILURES as error:
        return refusal_of(call, partition, error)


def _denied(
    call: Call, produced: ProducedTopic, operation: Operation, kind: ResourceKind, name: str
) -> list[StoreOutcome]:
    code, message = REFUSALS[kind], str(call.denied(operation, kind, name))
    return [refused(part.partition, code, message) for part in produced.partitions]
