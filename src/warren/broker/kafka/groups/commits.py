"""Requests about positions of groups: committing, looking up and deleting them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import suppress
from typing import Final, NamedTuple

from warren.broker.kafka.errors import Code, code_of
from warren.broker.kafka.groups.call import Call
from warren.broker.kafka.groups.consumer import ConsumerGroup
from warren.broker.kafka.groups.join_requests import name_error
from warren.broker.kafka.groups.members import MemberIdentity
from warren.broker.kafka.groups.positions import NO_EPOCH, Position
from warren.errors import BadName, NoSuchTopic, NotOwner, SettingsDiffer, WarrenError
from warren.protocol.kafka_messages import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupTopic,
    OffsetFetchResponseGroupTopicPartition,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from warren.queue.topic import Topic

GROUP_NOTE_SIZE_MAX: Final = 4096
"""The metadata that a client may store with a position."""
NO_OFFSET: Final = -1
MANY_GROUPS_FROM: Final = 8
ALL_TOPICS_FROM: Final = 2
MEMBER_EPOCHS_FROM: Final = 9


def check_committer(call: Call, group_id: str, member_id: str, instance_id: str | None, generation: int) -> Code:
    """Returns NONE if the client may commit: it is a member of the generation, or the group has no members."""
    error = name_error(group_id)
    if error is not Code.NONE:
        return error
    group = call.broker.coordinator.find(group_id)
    if group is None or not group.members:
        # Clients that assign partitions themselves commit without being members.
        return Code.NONE if generation < 0 else Code.ILLEGAL_GENERATION
    if isinstance(group, ConsumerGroup):
        return group.check_commit(member_id, generation)
    return group.check_commit(MemberIdentity(member_id, instance_id, generation))


async def offset_commit(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Commits positions of a group, as durably as the topics are."""
    generation = request.generation_id_or_member_epoch
    error = check_committer(call, request.group_id, request.member_id, request.group_instance_id, generation)
    if error is Code.STALE_MEMBER_EPOCH and call.version < MEMBER_EPOCHS_FROM:
        error = Code.UNSUPPORTED_VERSION
    if generation < 0:
        await call.broker.coordinator.holdings.settled(request.group_id)
    topics = []
    async for topic in call.broker.turns.over(request.topics):
        errors = await _committed(call, request.group_id, topic, error, is_member=generation >= 0)
        rows = [OffsetCommitResponsePartition(number, code) for number, code in errors.items()]
        topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=rows))
    return OffsetCommitResponse(topics=topics)


async def _committed(
    call: Call, group: str, row: OffsetCommitRequestTopic, error: Code, *, is_member: bool
) -> dict[int, Code]:
    """Commits the positions of a topic. Returns the error of each partition."""
    positions = {
        part.partition_index: Position(
            part.committed_offset, part.committed_leader_epoch, part.committed_metadata or ""
        )
        for part in row.partitions
    }
    if error is not Code.NONE:
        return dict.fromkeys(positions, error)
    try:
        topic = call.broker.topics.find(row.name)
        errors = {number: _position_error(topic, number, each) for number, each in positions.items()}
        right = {number: each for number, each in positions.items() if errors[number] is Code.NONE}
        await call.broker.in_thread(call.broker.positions.commit, topic, group, right, is_member=is_member)
    except NotOwner:
        return dict.fromkeys(positions, Code.UNKNOWN_MEMBER_ID)
    except SettingsDiffer:
        return dict.fromkeys(positions, Code.INCONSISTENT_GROUP_PROTOCOL)
    except WarrenError as failure:
        return dict.fromkeys(positions, code_of(failure))
    return errors


def _position_error(topic: Topic, partition: int, position: Position) -> Code:
    if partition not in range(topic.partition_count):
        return Code.UNKNOWN_TOPIC_OR_PARTITION
    if position.number < 0:
        return Code.OFFSET_OUT_OF_RANGE
    is_too_large = len(position.note.encode()) > GROUP_NOTE_SIZE_MAX
    return Code.OFFSET_METADATA_TOO_LARGE if is_too_large else Code.NONE


async def offset_fetch(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Returns the positions of groups; -1 if a group has committed nothing."""
    is_stable = request.require_stable
    if call.version < MANY_GROUPS_FROM:
        is_all = request.topics is None and call.version >= ALL_TOPICS_FROM
        query = _PositionQuery(request.group_id, None if is_all else request.topics or (), is_stable)
        topics = [
            OffsetFetchResponseTopic(name, [OffsetFetchResponsePartition(*row) for row in rows])
            for name, rows in await _positions(call, query)
        ]
        return OffsetFetchResponse(topics=topics, error_code=_lease_error(call))
    groups = []
    for each in request.groups:
        error = _reader_error(call, each)
        if error is Code.NONE:
            by_topic = await _positions(call, _PositionQuery(each.group_id, each.topics, is_stable))
            error = _lease_error(call)
        else:
            by_topic = []
        rows_of_group = [
            OffsetFetchResponseGroupTopic(
                name=name, partitions=[OffsetFetchResponseGroupTopicPartition(*row) for row in rows]
            )
            for name, rows in by_topic
        ]
        groups.append(OffsetFetchResponseGroup(each.group_id, rows_of_group, error))
    return OffsetFetchResponse(groups=groups)


class _PositionQuery(NamedTuple):
    """A request for positions of a group. With `is_stable`, those that an open transaction may move are an error."""

    group: str
    topics: Sequence[OffsetFetchRequestTopic | OffsetFetchRequestGroupTopic] | None
    is_stable: bool


class _PositionRow(NamedTuple):
    """A position in the order of the fields of the answer."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str
    error_code: Code


def _lease_error(call: Call) -> Code:
    """Returns the error of positions that another broker, which may lead by now, can have moved."""
    return Code.NONE if call.broker.leadership.refusal_of_ends() is None else Code.NOT_COORDINATOR


def _reader_error(call: Call, row: OffsetFetchRequestGroup) -> Code:
    """Checks the member of a consumer group that asks. A classic group takes any name and epoch, as Kafka does.

    Clients such as franz-go send the member id and the generation for classic groups too.
    """
    group = call.broker.coordinator.find_consumer(row.group_id)
    if group is None or row.member_id is None or row.member_epoch < 0:
        return Code.NONE
    return group.check_commit(row.member_id, row.member_epoch)


async def _positions(call: Call, query: _PositionQuery) -> list[tuple[str, list[_PositionRow]]]:
    """Returns the positions of each topic that the query names, or of all topics of the group."""
    if query.topics is None:
        names = await call.broker.in_thread(_topics_of, call, query.group)
        by_topic = [(name, await _topic_positions(call, query, name, None)) for name in names]
        return [(name, rows) for name, rows in by_topic if rows]
    partitions: dict[str, dict[int, None]] = {}
    for topic in query.topics:
        # A topic that is named twice is answered once.
        partitions.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return [(name, await _topic_positions(call, query, name, list(numbers))) for name, numbers in partitions.items()]


def _topics_of(call: Call, group: str) -> list[str]:
    store = call.broker.store
    names = []
    for name in store.topics():
        # Not `topic`, which would make a topic again that another process deletes at this moment.
        with suppress(NoSuchTopic):
            if group in store.existing_topic(name).groups():
                names.append(name)
    return names


async def _topic_positions(
    call: Call, query: _PositionQuery, name: str, partitions: Sequence[int] | None
) -> list[_PositionRow]:
    positions: dict[int, Position] = {}
    undecided: Set[int] = frozenset()
    error = Code.NONE
    try:
        topic: Topic = call.broker.topics.find(name)
        # Read first: then a position that is committed in between is found below, and one that is not is seen as
        # moving.
        if query.is_stable:
            undecided = await call.broker.in_thread(call.broker.positions.moving, topic, query.group)
        positions = await call.broker.in_thread(call.broker.positions.find, topic, query.group, partitions)
    except (NoSuchTopic, BadName):
        # Kafka's answer if nothing is committed.
        pass
    except WarrenError as failure:
        error = code_of(failure)
    nothing = Position(NO_OFFSET, NO_EPOCH, "")
    if error is Code.NONE:
        error = _lease_error(call)
        positions = positions if error is Code.NONE else dict.fromkeys(positions, nothing)
    return [
        _PositionRow(number, *nothing, Code.UNSTABLE_OFFSET_COMMIT)
        if number in undecided
        else _PositionRow(number, *positions.get(number, nothing), error)
        for number in (positions if partitions is None else partitions)
    ]


async def offset_delete(call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Deletes the positions of a group in these partitions, except in topics that members subscribe to."""
    error = name_error(request.group_id)
    if error is not Code.NONE:
        return OffsetDeleteResponse(error_code=error)
    group = call.broker.coordinator.find(request.group_id)
    subscribed = frozenset() if group is None else group.topics
    if group is not None and group.members and not subscribed:
        return OffsetDeleteResponse(error_code=Code.NON_EMPTY_GROUP)
    await call.broker.coordinator.holdings.settled(request.group_id)
    topics = []
    for topic in request.topics:
        partitions = []
        for part in topic.partitions:
            number = part.partition_index
            if topic.name in subscribed:
                code = Code.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                code = await _forget(call, request.group_id, topic.name, number)
            partitions.append(OffsetDeleteResponsePartition(number, code))
        topics.append(OffsetDeleteResponseTopic(topic.name, partitions))
    return OffsetDeleteResponse(topics=topics)


async def _forget(call: Call, group: str, topic_name: str, partition: int) -> Code:
    try:
        topic = call.broker.topics.find(topic_name)
        await call.broker.in_thread(call.broker.positions.forget, topic, group, partition)
    except NotOwner:
        return Code.GROUP_SUBSCRIBED_TO_TOPIC
    except WarrenError as failure:
        return code_of(failure)
    return Code.NONE
