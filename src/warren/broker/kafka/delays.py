"""Parks records that Kafka clients delay, and parks each once, although clients send again and brokers crash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from warren.broker.kafka.call import Call
from warren.broker.kafka.errors import Code
from warren.broker.services.parked_records import put_split
from warren.errors import BadRecord, TransactionExists, WarrenError
from warren.protocol.kafka.delayed_records import DELIVER_AT, Split, may_be_delayed, split_delayed
from warren.protocol.kafka.produce import PartitionStored
from warren.protocol.kafka.record_batch import RecordBatch
from warren.queue.topic import Topic
from warren.storage.format.kafka_batch import UnpacksToMore
from warren.transaction.states import State
from warren.transaction.store import Store

PARKING_TIMEOUT_S: Final = 60.0
NO_OFFSET: Final = -1
"""The offset in the answer to a batch with a delayed record: the numbers of its messages are not known yet."""
Otherwise = Callable[[], Awaitable[PartitionStored]]


def is_split(call: Call, topic: Topic, batch: RecordBatch) -> bool:
    """Returns whether `put_delayed` has to put the batch, because some of its records may be delayed.

    The bytes of a batch that is not compressed are always searched, because that costs almost nothing. A compressed
    batch has to be unpacked first, which is done only if the topic says so.
    """
    return may_be_delayed(batch, sees_compressed=_choice(call, topic) == "all")


def _choice(call: Call, topic: Topic) -> str:
    """Returns the setting `deliver_at` of the topic, or the broker's if the topic has none."""
    return topic.settings.deliver_at or call.broker.settings.deliver_at


async def put_delayed(
    call: Call,
    transactional_id: str | None,
    topic: Topic,
    partition: int,
    batches: Sequence[RecordBatch],
    otherwise: Otherwise,
) -> PartitionStored:
    """Puts batches that may hold delayed records; if they hold none, `otherwise` puts them.

    Of a batch with delayed records, these are parked and the others are put by one transaction, all of it or nothing.
    Raises BadRecord if delays are not switched on for the topic.
    """
    work = partial(_split, batches, call.broker.store.clock.now_ns() // 1000)
    async with call.broker.unpacking.kept(call.peer.owner, work, _size_of) as splits:
        if any(splits):
            if _choice(call, topic) == "none":
                _refuse(topic, splits)
            return await _put(call, transactional_id, topic, partition, batches, splits)
    return await otherwise()


def _split(batches: Sequence[RecordBatch], now_us: int, size_max: int) -> Sequence[Split | None]:
    """Splits the batches of a partition. Raises UnpacksToMore if they take more than `size_max` bytes together."""
    splits: list[Split | None] = []
    left = size_max
    for batch in batches:
        split = split_delayed(batch, now_us, left)
        splits.append(split)
        left -= 0 if split is None else split.size
        if left < 0:
            raise UnpacksToMore(f"{len(batches)} batches take more than {size_max} bytes")
    return splits


def _size_of(splits: Sequence[Split | None]) -> int:
    return sum(split.size for split in splits if split is not None)


def _refuse(topic: Topic, splits: Sequence[Split | None]) -> None:
    """Raises BadRecord for the first delayed record, and says how delays are switched on."""
    row = next(split.delayed[0].message.number for split in splits if split is not None)
    reason = (
        f"its header {DELIVER_AT} delays records only if that is switched on for topic {str(topic.name)!r}: set "
        "deliver_at of the topic (warren.deliver.at for Kafka clients) or broker.deliver_at to plain or all"
    )
    raise BadRecord(row, reason)


async def _put(
    call: Call,
    transactional_id: str | None,
    topic: Topic,
    partition: int,
    batches: Sequence[RecordBatch],
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


async def _once(call: Call, topic: Topic, partition: int, batch: RecordBatch, split: Split) -> Code:
    """Parks a batch of an idempotent producer.

    The sequence numbers of the batch are in no log. So they are written down before the answer is sent. If the broker
    dies in between, the producer sends the batch again, and the id of the transaction shows that it was done.
    """
    broker, head, log = call.broker, batch.head, topic.partition(partition)
    topic_id = broker.topics.id_of(topic).hex()
    id = f"kafka-{topic_id}-{partition}-{head.producer_id}-{head.producer_epoch}-{head.base_sequence}"

    async def put() -> int:
        await broker.in_thread(_park, broker.store, id, topic, partition, [(batch, split)])
        return NO_OFFSET

    producers = await broker.producers.load(log)
    code, _ = await producers.put(log, head, put)
    if code is Code.NONE:
        await broker.producers.note(log, producers)
    return code


def _answer(call: Call, topic: Topic, partition: int, code: Code) -> PartitionStored:
    log = topic.partition(partition)
    call.broker.long_polls.ring(log)
    return PartitionStored(partition, code, NO_OFFSET, -1, log.first) if not code else PartitionStored(partition, code)


def _park(
    store: Store, id: str | None, topic: Topic, partition: int, parts: Sequence[tuple[RecordBatch, Split | None]]
) -> None:
    """Parks and puts batches by one transaction. Does nothing if there was a transaction with this `id` before."""
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
