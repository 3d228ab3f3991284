"""Requests of producers: an id, and what they do in transactions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from typing import Any, Final

from warren.broker.call import Call
from warren.broker.groups.commits import check_committer
from warren.broker.groups.positions import Position
from warren.broker.kafka_errors import Code, code_of
from warren.broker.transactions.open_transaction import Partition
from warren.broker.transactions.transactional import Transactional
from warren.config import KAFKA_TRANSACTION_TIMEOUT_S_MAX, TRANSACTIONAL_ID_SIZE_MAX
from warren.errors import BadInput, TooLarge, WarrenError
from warren.protocol.kafka_codec import Fields, Values
from warren.queue.topic import Topic

MS: Final = 1000
NO_ID: Final = -1
NO_EPOCH: Final = -1
INIT_FENCED_FROM: Final = 4
FENCED_FROM: Final = 2


def _told(code: Code, version: int, fenced_from: int) -> Code:
    """Versions before `fenced_from` know but one word for a producer that another has taken the place of."""
    return Code.INVALID_PRODUCER_EPOCH if code is Code.PRODUCER_FENCED and version < fenced_from else code


async def init_producer_id(call: Call, request: Fields) -> Values:
    """An id for a producer; with a transactional id the same as ever, in an epoch that fences all before."""
    transactional_id, timeout_ms = request.transactional_id, request.transaction_timeout_ms
    refused = {"producer_id": NO_ID, "producer_epoch": NO_EPOCH}
    try:
        if transactional_id is None:
            return {"producer_id": await call.broker.transactions.take_id(), "producer_epoch": 0}
        if not 0 < len(transactional_id.encode()) <= TRANSACTIONAL_ID_SIZE_MAX:
            return {"error_code": Code.INVALID_REQUEST, **refused}
        if not 0 < timeout_ms <= KAFKA_TRANSACTION_TIMEOUT_S_MAX * MS:
            return {"error_code": Code.INVALID_TRANSACTION_TIMEOUT, **refused}
        producer, is_new = await call.broker.transactions.open(transactional_id, timeout_ms, _owner(call))
        if not is_new:
            error = await producer.init(timeout_ms, request.producer_id, request.producer_epoch)
            if error is not Code.NONE:
                return {"error_code": _told(error, call.version, INIT_FENCED_FROM), **refused}
    except TooLarge:
        # There are as many transactional ids as there may be.
        return {"error_code": Code.POLICY_VIOLATION, **refused}
    except WarrenError as error:
        return {"error_code": code_of(error), **refused}
    return {"producer_id": producer.identity.producer_id, "producer_epoch": producer.identity.epoch}


def _owner(call: Call) -> str:
    """The user that owns a new transactional id; none if users do not log in."""
    return call.peer.user if call.broker.settings.sasl else ""


async def _for_producer(
    call: Call,
    who: tuple[str, int, int],
    fenced_from: int,
    work: Callable[[Transactional], Awaitable[Code]],
) -> Code:
    """What `work` says for the producer of a transactional id, where it is that: its id and epoch are in `who`."""
    transactional_id, producer_id, epoch = who
    try:
        producer = await call.broker.transactions.find(transactional_id)
        if producer is None:
            return Code.INVALID_PRODUCER_ID_MAPPING
        error = producer.check(producer_id, epoch)
        return _told(error if error is not Code.NONE else await work(producer), call.version, fenced_from)
    except BadInput:
        return Code.INVALID_GROUP_ID
    except WarrenError as failure:
        return code_of(failure)


async def add_partitions_to_txn(call: Call, request: Fields) -> Values:
    """Partitions take part in a transaction: all of them, or none."""
    numbers: dict[str, dict[int, None]] = {}
    for topic in request.v3_and_below_topics:
        # What is named twice takes part, and is answered, once.
        numbers.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions))
    asked = [Partition(name, number) for name, partitions in numbers.items() for number in partitions]
    found: dict[Partition, Topic] = {}
    errors: dict[Partition, Code] = {}
    async for partition in call.broker.turns.over(asked):
        try:
            topic = call.broker.topics.find(partition.topic)
            topic.partition(partition.number)
            found[partition] = topic
        except WarrenError as error:
            errors[partition] = code_of(error)
    if errors:
        errors = {partition: errors.get(partition, Code.OPERATION_NOT_ATTEMPTED) for partition in asked}
    else:
        who = (
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        )
        code = await _for_producer(call, who, FENCED_FROM, lambda producer: producer.add(found, set()))
        errors = dict.fromkeys(asked, code)
    return {"results_by_topic_v3_and_below": await call.broker.aside(_added, numbers, errors)}


def _added(numbers: Mapping[str, Iterable[int]], errors: Mapping[Partition, Code]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "results_by_partition": [
                {"partition_index": number, "partition_error_code": errors[Partition(name, number)]}
                for number in partitions
            ],
        }
        for name, partitions in numbers.items()
    ]


async def add_offsets_to_txn(call: Call, request: Fields) -> Values:
    """A group's positions take part in a transaction."""
    who = request.transactional_id, request.producer_id, request.producer_epoch
    code = await _for_producer(call, who, FENCED_FROM, lambda producer: producer.add({}, {request.group_id}))
    return {"error_code": code}


async def txn_offset_commit(call: Call, request: Fields) -> Values:
    """The group goes on from these numbers when the transaction is committed."""
    error = Code.NONE
    if request.generation_id >= 0 or request.member_id or request.group_instance_id is not None:
        error = check_committer(
            call, request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
    topics = []
    async for asked in call.broker.turns.over(request.topics):
        known = frozenset[int]()
        code = error
        if error is Code.NONE:
            known, code = _known_partitions(call, asked)
        if known and code is Code.NONE:
            code = await _positions_committed(call, request, asked, known)
        topics.append({"name": asked.name, "partitions": list(_each(asked, code, known))})
    return {"topics": topics}


def _known_partitions(call: Call, asked: Fields) -> tuple[frozenset[int], Code]:
    """Those of the partitions that are there, and what to say where the topic is not."""
    try:
        count = call.broker.topics.find(asked.name).partition_count
    except WarrenError as error:
        return frozenset(), code_of(error)
    return frozenset(part.partition_index for part in asked.partitions) & frozenset(range(count)), Code.NONE


def _each(asked: Fields, code: Code, known: Set[int]) -> Iterable[dict[str, Any]]:
    for part in asked.partitions:
        is_missing = code is Code.NONE and part.partition_index not in known
        error = Code.UNKNOWN_TOPIC_OR_PARTITION if is_missing else code
        yield {"partition_index": part.partition_index, "error_code": error}


async def _positions_committed(call: Call, request: Fields, asked: Fields, known: Set[int]) -> Code:
    told = {
        part.partition_index: Position(
            part.committed_offset, part.committed_leader_epoch, part.committed_metadata or ""
        )
        for part in asked.partitions
        if part.partition_index in known
    }

    async def commit(producer: Transactional) -> Code:
        topic = call.broker.topics.find(asked.name)
        return await producer.commit_positions(topic, request.group_id, told)

    who = request.transactional_id, request.producer_id, request.producer_epoch
    code = await _for_producer(call, who, FENCED_FROM, commit)
    # The coordinator of a group has but one word for it, in all versions.
    return Code.INVALID_PRODUCER_EPOCH if code is Code.PRODUCER_FENCED else code


async def end_txn(call: Call, request: Fields) -> Values:
    """The transaction is committed, or aborted; asked once more, the answer is the same."""
    who = request.transactional_id, request.producer_id, request.producer_epoch
    is_committed = bool(request.committed)
    code = await _for_producer(call, who, FENCED_FROM, lambda producer: producer.end(is_committed=is_committed))
    return {"error_code": code}
