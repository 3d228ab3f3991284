"""Requests of producers: their ids, and the steps of transactions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from typing import Final

from warren.broker.kafka.errors import Code, code_of
from warren.broker.kafka.groups.commits import check_committer
from warren.broker.kafka.groups.positions import Position
from warren.broker.kafka.transactions.call import Call
from warren.broker.kafka.transactions.open_transaction import TransactionPartition
from warren.broker.kafka.transactions.transactional import Transactional
from warren.errors import BadInput, TooLarge, WarrenError
from warren.protocol.kafka_messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponsePartition,
    AddPartitionsToTxnResponseTopic,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from warren.queue.topic import Topic

TRANSACTIONAL_ID_SIZE_MAX: Final = 1000
KAFKA_TRANSACTION_TIMEOUT_S_MAX: Final = 900.0
"""How long a transaction of a Kafka client may be open: Kafka's own limit."""

MS: Final = 1000
NO_ID: Final = -1
NO_EPOCH: Final = -1
INIT_FENCED_FROM: Final = 4
FENCED_FROM: Final = 2


def _known_code(code: Code, version: int, fenced_from: int) -> Code:
    """Returns the code for this version. Before `fenced_from` Kafka has one code for a replaced producer."""
    return Code.INVALID_PRODUCER_EPOCH if code is Code.PRODUCER_FENCED and version < fenced_from else code


async def init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Returns a producer id. A transactional id keeps its own, with a new epoch that fences all clients before."""
    transactional_id, timeout_ms = request.transactional_id, request.transaction_timeout_ms
    try:
        if transactional_id is None:
            producer_id = await call.broker.transactions.take_id(_owner(call))
            return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
        if not 0 < len(transactional_id.encode()) <= TRANSACTIONAL_ID_SIZE_MAX:
            return _no_producer(Code.INVALID_REQUEST)
        if not 0 < timeout_ms <= KAFKA_TRANSACTION_TIMEOUT_S_MAX * MS:
            return _no_producer(Code.INVALID_TRANSACTION_TIMEOUT)
        producer, is_new = await call.broker.transactions.open(transactional_id, timeout_ms, _owner(call))
        if not is_new:
            error = await producer.init(timeout_ms, request.producer_id, request.producer_epoch)
            if error is not Code.NONE:
                return _no_producer(_known_code(error, call.version, INIT_FENCED_FROM))
    except TooLarge:
        # The limit of transactional ids is reached.
        return _no_producer(Code.POLICY_VIOLATION)
    except WarrenError as error:
        return _no_producer(code_of(error))
    identity = producer.identity
    return InitProducerIdResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch)


def _no_producer(error: Code) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NO_ID, producer_epoch=NO_EPOCH)


def _owner(call: Call) -> str:
    """Returns the user that owns a new transactional id; empty if users do not log in."""
    return call.peer.user if call.broker.settings.sasl else ""


async def _for_producer(
    call: Call,
    producer_key: tuple[str, int, int],
    fenced_from: int,
    work: Callable[[Transactional], Awaitable[Code]],
) -> Code:
    """Returns what `work` returns for the producer of a transactional id. Refuses a wrong producer id or epoch."""
    transactional_id, producer_id, epoch = producer_key
    try:
        producer = await call.broker.transactions.find(transactional_id)
        if producer is None:
            return Code.INVALID_PRODUCER_ID_MAPPING
        error = producer.check(producer_id, epoch)
        return _known_code(error if error is not Code.NONE else await work(producer), call.version, fenced_from)
    except BadInput:
        return Code.INVALID_GROUP_ID
    except WarrenError as failure:
        return code_of(failure)


async def add_partitions_to_txn(call: Call, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """Adds partitions to a transaction: all of them, or none."""
    numbers: dict[str, dict[int, None]] = {}
    for row in request.v3_and_below_topics:
        # A partition that is named twice is added and answered once.
        numbers.setdefault(row.name, {}).update(dict.fromkeys(row.partitions))
    named = [TransactionPartition(name, number) for name, partitions in numbers.items() for number in partitions]
    topics: dict[TransactionPartition, Topic] = {}
    errors: dict[TransactionPartition, Code] = {}
    async for partition in call.broker.turns.over(named):
        try:
            topic = call.broker.topics.find(partition.topic)
            topic.partition(partition.number)
            topics[partition] = topic
        except WarrenError as error:
            errors[partition] = code_of(error)
    if errors:
        errors = {partition: errors.get(partition, Code.OPERATION_NOT_ATTEMPTED) for partition in named}
    else:
        producer_key = (
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        )
        code = await _for_producer(call, producer_key, FENCED_FROM, lambda producer: producer.add(topics, set()))
        errors = dict.fromkeys(named, code)
    rows = await call.broker.aside(_added, numbers, errors)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)


def _added(
    numbers: Mapping[str, Iterable[int]], errors: Mapping[TransactionPartition, Code]
) -> list[AddPartitionsToTxnResponseTopic]:
    return [
        AddPartitionsToTxnResponseTopic(
            name,
            [
                AddPartitionsToTxnResponsePartition(number, errors[TransactionPartition(name, number)])
                for number in partitions
            ],
        )
        for name, partitions in numbers.items()
    ]


async def add_offsets_to_txn(call: Call, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Adds a group, whose positions the transaction moves."""
    producer_key = request.transactional_id, request.producer_id, request.producer_epoch
    code = await _for_producer(call, producer_key, FENCED_FROM, lambda producer: producer.add({}, {request.group_id}))
    return AddOffsetsToTxnResponse(error_code=code)


async def txn_offset_commit(call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Adds the positions that the group gets when the transaction is committed."""
    error = Code.NONE
    if request.generation_id >= 0 or request.member_id or request.group_instance_id is not None:
        error = check_committer(
            call, request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
    topics = []
    async for row in call.broker.turns.over(request.topics):
        existing = frozenset[int]()
        code = error
        if error is Code.NONE:
            existing, code = _existing_partitions(call, row)
        if existing and code is Code.NONE:
            code = await _positions_committed(call, request, row, existing)
        topics.append(TxnOffsetCommitResponseTopic(row.name, list(_each(row, code, existing))))
    return TxnOffsetCommitResponse(topics=topics)


def _existing_partitions(call: Call, row: TxnOffsetCommitRequestTopic) -> tuple[frozenset[int], Code]:
    """Returns the partitions that exist, and the error for the others."""
    try:
        count = call.broker.topics.find(row.name).partition_count
    except WarrenError as error:
        return frozenset(), code_of(error)
    return frozenset(part.partition_index for part in row.partitions) & frozenset(range(count)), Code.NONE


def _each(
    row: TxnOffsetCommitRequestTopic, code: Code, existing: Set[int]
) -> Iterable[TxnOffsetCommitResponsePartition]:
    for part in row.partitions:
        is_missing = code is Code.NONE and part.partition_index not in existing
        error = Code.UNKNOWN_TOPIC_OR_PARTITION if is_missing else code
        yield TxnOffsetCommitResponsePartition(part.partition_index, error)


async def _positions_committed(
    call: Call, request: TxnOffsetCommitRequest, row: TxnOffsetCommitRequestTopic, existing: Set[int]
) -> Code:
    positions = {
        part.partition_index: Position(
            part.committed_offset, part.committed_leader_epoch, part.committed_metadata or ""
        )
        for part in row.partitions
        if part.partition_index in existing
    }

    async def commit(producer: Transactional) -> Code:
        topic = call.broker.topics.find(row.name)
        return await producer.commit_positions(topic, request.group_id, positions)

    producer_key = request.transactional_id, request.producer_id, request.producer_epoch
    code = await _for_producer(call, producer_key, FENCED_FROM, commit)
    # For all versions, the coordinator of a group has one code for a replaced producer.
    return Code.INVALID_PRODUCER_EPOCH if code is Code.PRODUCER_FENCED else code


async def end_txn(call: Call, request: EndTxnRequest) -> EndTxnResponse:
    """Commits or aborts the transaction. A repeated request gets the same answer."""
    producer_key = request.transactional_id, request.producer_id, request.producer_epoch
    is_committed = request.committed
    code = await _for_producer(
        call, producer_key, FENCED_FROM, lambda producer: producer.end(is_committed=is_committed)
    )
    return EndTxnResponse(error_code=code)
