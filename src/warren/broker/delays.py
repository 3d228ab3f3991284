"""Parks what Kafka clients send to be delivered later: once, whoever sends it again and whatever crashes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from warren.broker.budget import Kind
from warren.broker.call import Call
from warren.broker.kafka_errors import Code
from warren.broker.parked_records import put_split
from warren.errors import TransactionExists, WarrenError
from warren.protocol.deliver_at import Split, split_delayed
from warren.protocol.produce import PartitionStored
from warren.protocol.record_batch import Batch
from warren.queue.topic import Topic
from warren.transaction.states import State
from warren.transaction.store import Store

PARKING_TIMEOUT_S: Final = 60.0
NO_OFFSET: Final = -1
"""What is told of a batch with a delayed record: nobody knows yet which numbers its messages will have."""
Otherwise = Callable[[], Awaitable[PartitionStored]]


async def put_delayed(
    call: Call,
    transactional_id: str | None,
    topic: Topic,
    partition: int,
    batches: Sequence[Batch],
    otherwise: Otherwise,
) -> PartitionStored:
    """What becomes of batches that may hold delayed records, once that is known; `otherwise` puts those that hold none.

    A batch of which some records are delayed is parked and put by one decision, all of it or nothing.
    """
    now_us = call.broker.store.clock.now_ns() // 1000
    splits = [
        await call.broker.unpacking.run(call.peer.owner, partial(split_delayed, batch, now_us)) for batch in batches
    ]
    if not any(splits):
        return await otherwise()
    # What was unpacked counts as what was received: whoever sends more has to wait.
    size = sum(split.size for split in splits if split is not None)
    hold = call.broker.budget.hold(Kind.UNPACKED, size, call.peer.owner)
    try:
        return await _put(call, transactional_id, topic, partition, batches, splits)
    finally:
        hold.release()


async def _put(
    call: Call,
    transactional_id: str | None,
    topic: Topic,
    partition: int,
    batches: Sequence[Batch],
    splits: Sequence[Split | None],
) -> PartitionStored:
    batch, split = batches[0], splits[0]
    if not any(batch.is_idempotent or batch.is_transactional for batch in batches):
        parts = list(zip(batches, splits, strict=True))
        await call.broker.in_thread(_park, call.broker.store, None, topic, partition, parts)
        return _answer(call, topic, partition, Code.NONE)
    if len(batches) > 1 or not batch.is_idempotent or split is None:
        message = "expected one batch of a producer that has an id"
        return PartitionStored(partition, Code.INVALID_RECORD, error_message=message)
    if not batch.is_transactional:
        return _answer(call, topic, partition, await _once(call, topic, partition, batch, split))
    producer = await call.broker.transactions.find(transactional_id or "")
    if producer is None:
        return PartitionStored(partition, Code.INVALID_PRODUCER_ID_MAPPING)
    return _answer(call, topic, partition, (await producer.put(topic, partition, batch, split))[0])


async def _once(call: Call, topic: Topic, partition: int, batch: Batch, split: Split) -> Code:
    """Park a batch that its producer numbers.

    Its numbers are in no log. So they are noted before it is answered; where the broker dies in between, the producer
    sends it again, and the transaction that has its name tells that it was done.
    """
    broker, head, log = call.broker, batch.head, topic.partition(partition)
    topic_id = broker.topics.id_of(topic).hex()
    id = f"kafka-{topic_id}-{partition}-{head.producer_id}-{head.producer_epoch}-{head.base_sequence}"

    async def put() -> int:
        await broker.in_thread(_park, broker.store, id, topic, partition, [(batch, split)])
        return NO_OFFSET

    known = await broker.producers.load(log)
    code, _ = await known.put(log, head, put)
    if code is Code.NONE:
        await broker.producers.note(log, known)
    return code


def _answer(call: Call, topic: Topic, partition: int, code: Code) -> PartitionStored:
    log = topic.partition(partition)
    call.broker.long_polls.ring(log)
    return PartitionStored(partition, code, NO_OFFSET, -1, log.first) if not code else PartitionStored(partition, code)


def _park(
    store: Store, id: str | None, topic: Topic, partition: int, parts: Sequence[tuple[Batch, Split | None]]
) -> None:
    """Park and put batches by one decision. One that has an id, and was put under it before, is not put again."""
    try:
        transaction = store.transaction(PARKING_TIMEOUT_S, id)
    except TransactionExists:
        return
    try:
        for batch, split in parts:
            if split is None:
                transaction.put_kafka(topic, batch.data, partition=partition)
            else:
                put_split(transaction, topic, partition, split)
        transaction.commit()
    except WarrenError:
        if transaction.state not in (State.COMMITTED, State.DONE):
            with suppress(WarrenError):
                transaction.abort()
            raise
