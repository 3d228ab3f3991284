"""Produce of one batch that nobody numbers: the shorter way for what is sent most, to the same end."""

from __future__ import annotations

from functools import partial
from typing import Final

from warren.broker.call import Answer, Call, Later
from warren.broker.door import Outcome
from warren.broker.looking import is_looked_into_next
from warren.broker.refusals import FAILURES, refusal
from warren.broker.security.rights import Kind, Operation
from warren.message import Receipt
from warren.protocol.deliver_at import may_be_delayed
from warren.protocol.produce import LoneProduce, TopicStored, encode_lone_stored, encode_produce_response
from warren.protocol.record_batch import NO_PRODUCER, Batch, may_unpack_to_more, only_batch
from warren.queue.topic import Topic
from warren.storage import Log
from warren.storage.kafka_batch import pack_kafka, pack_kafka_in_place
from warren.storage.layout import KAFKA_COMPRESSION, KAFKA_TRANSACTIONAL, PAYLOAD_HEAD
from warren.storage.record import Packed

ACKS: Final = (-1, 1)


def produce_lone(call: Call, asked: LoneProduce) -> Answer | Later:
    """Append the batch; None, and nothing was done, where something about it is out of the ordinary, or wrong."""
    acks, _, name, partition, records, records_at, head = asked
    broker, peer = call.broker, call.peer
    if acks not in ACKS or is_looked_into_next(peer):
        return None
    try:
        topic, batch = broker.topics.recall(name), only_batch(records, head, broker.wanted_name)
        if batch is None or not _is_fitting(call, topic, partition, batch):
            return None
    except FAILURES:
        return None
    peer.batch_count += 1
    log = topic.logs[partition]
    if records.readonly or records_at < PAYLOAD_HEAD.size:
        packed = pack_kafka(records, head=batch.head)
    else:
        # A large one lies in a buffer of its own, and nobody reads the request any more.
        packed = pack_kafka_in_place(call.request.body, records_at, batch.head)
    if topic.settings.durability == "commit":
        return _soon(call, name, partition, log, packed)
    try:
        outcome: Outcome = broker.door.put_one(log, packed)
    except FAILURES as error:
        outcome = error
    return _answer(call, name, partition, log, outcome)


def _is_fitting(call: Call, topic: Topic, partition: int, batch: Batch) -> bool:
    head, looks = batch.head, call.broker.settings.deliver_at
    return (
        head.producer_id == NO_PRODUCER
        and not head.attributes & KAFKA_TRANSACTIONAL
        and 0 <= partition < topic.partition_count
        and len(batch.data) <= topic.put_size_max
        and not (head.attributes & KAFKA_COMPRESSION and may_unpack_to_more(batch, topic.put_size_max))
        and call.may(Operation.WRITE, Kind.TOPIC, topic.name)
        and (looks == "none" or not may_be_delayed(batch, sees_compressed=looks == "all"))
    )


def _soon(call: Call, name: str, partition: int, log: Log, packed: Packed) -> Answer | Later:
    later = Later()
    told = partial(later.tell, partial(_answer, call, name, partition, log))
    try:
        call.broker.door.put_soon(log, (packed,), told)
    except FAILURES as error:
        return _answer(call, name, partition, log, error)
    return later


def _answer(call: Call, name: str, partition: int, log: Log, outcome: Outcome) -> Answer:
    if isinstance(outcome, Receipt):
        return [encode_lone_stored(call.version, name, partition, outcome.number, log.first)]
    answer = [TopicStored(name, b"", [refusal(call, partition, outcome)])]
    call.broker.metrics.failed(call.request.api_key)
    return [encode_produce_response(call.version, answer)]
