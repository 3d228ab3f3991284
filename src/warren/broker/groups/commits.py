"""Requests about where groups stand: committing, looking up and forgetting positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from warren.broker.call import Call
from warren.broker.groups.positions import NO_EPOCH, Position
from warren.broker.kafka_errors import Code, code_of
from warren.errors import BadInput, NoSuchTopic, WarrenError
from warren.protocol.kafka_codec import Fields, Values
from warren.queue.topic import Topic

NO_OFFSET: Final = -1
MANY_GROUPS_FROM: Final = 8
ALL_TOPICS_FROM: Final = 2
NO_GENERATION: Final = -1


def check_committer(call: Call, group_id: str, member_id: str, instance_id: str | None, generation: int) -> Code:
    """Whether somebody may commit for a group: a member of its generation, or anybody where it has no members."""
    group = call.broker.coordinator.find(group_id)
    if group is None or not group.members:
        # Those that share partitions out by themselves commit without being members.
        return Code.NONE if generation < 0 else Code.UNKNOWN_MEMBER_ID
    if generation < 0 and not member_id:
        return Code.UNKNOWN_MEMBER_ID
    return group.check_member(member_id, instance_id, generation)


async def offset_commit(call: Call, request: Fields) -> Values:
    """The group goes on from these numbers, as durably as the topics are."""
    generation = request.generation_id_or_member_epoch
    error = check_committer(call, request.group_id, request.member_id, request.group_instance_id, generation)
    topics = []
    for topic in request.topics:
        partitions = await _committed(call, request.group_id, topic, error)
        topics.append({"name": topic.name, "partitions": partitions})
    return {"topics": topics}


async def _committed(call: Call, group: str, asked: Fields, error: Code) -> list[dict[str, Any]]:
    positions = {
        part.partition_index: Position(
            part.committed_offset, part.committed_leader_epoch, part.committed_metadata or ""
        )
        for part in asked.partitions
    }
    if error is not Code.NONE:
        return _each(positions, error)
    try:
        topic = call.broker.topics.find(asked.name)
        known = {number: each for number, each in positions.items() if number in range(topic.partition_count)}
        await call.broker.in_thread(call.broker.positions.commit, topic, group, known)
    except BadInput:
        return _each(positions, Code.INVALID_GROUP_ID)
    except WarrenError as failure:
        return _each(positions, code_of(failure))
    return [
        {"partition_index": number, "error_code": Code.NONE if number in known else Code.UNKNOWN_TOPIC_OR_PARTITION}
        for number in positions
    ]


def _each(positions: dict[int, Position], error: Code) -> list[dict[str, Any]]:
    return [{"partition_index": number, "error_code": error} for number in positions]


async def offset_fetch(call: Call, request: Fields) -> Values:
    """Where groups stand; -1 where they have committed nothing."""
    if call.version >= MANY_GROUPS_FROM:
        groups = []
        for asked in request.groups:
            topics = await _found(call, asked.group_id, asked.topics)
            groups.append({"group_id": asked.group_id, "topics": topics, "error_code": Code.NONE})
        return {"groups": groups}
    is_all = request.topics is None and call.version >= ALL_TOPICS_FROM
    topics = await _found(call, request.group_id, None if is_all else request.topics)
    return {"topics": topics, "error_code": Code.NONE}


async def _found(call: Call, group: str, asked: Sequence[Fields] | None) -> list[dict[str, Any]]:
    if asked is None:
        names = await call.broker.in_thread(_topics_of, call, group)
        return [await _topic_found(call, group, name, None) for name in names]
    return [await _topic_found(call, group, topic.name, list(topic.partition_indexes)) for topic in asked]


def _topics_of(call: Call, group: str) -> list[str]:
    store = call.broker.store
    return [name for name in store.topics() if group in store.topic(name).groups()]


async def _topic_found(call: Call, group: str, name: str, partitions: Sequence[int] | None) -> dict[str, Any]:
    found: dict[int, Position] = {}
    error = Code.NONE
    try:
        topic: Topic = call.broker.topics.find(name)
        found = await call.broker.in_thread(call.broker.positions.find, topic, group, partitions)
    except NoSuchTopic:
        # As Kafka says it: nothing is committed there.
        pass
    except WarrenError as failure:
        error = code_of(failure)
    nothing = Position(NO_OFFSET, NO_EPOCH, "")
    rows = [(number, found.get(number, nothing)) for number in (partitions if partitions is not None else found)]
    return {
        "name": name,
        "partitions": [
            {
                "partition_index": number,
                "committed_offset": position.number,
                "committed_leader_epoch": position.epoch,
                "metadata": position.note,
                "error_code": error,
            }
            for number, position in rows
        ],
    }


async def offset_delete(call: Call, request: Fields) -> Values:
    """The group has committed nothing in these partitions any more."""
    group = call.broker.coordinator.find(request.group_id)
    if group is not None and group.members:
        return {"error_code": Code.NON_EMPTY_GROUP, "topics": []}
    topics = []
    for asked in request.topics:
        partitions = []
        for part in asked.partitions:
            error = Code.NONE
            try:
                topic = call.broker.topics.find(asked.name)
                await call.broker.in_thread(call.broker.positions.forget, topic, request.group_id, part.partition_index)
            except WarrenError as failure:
                error = code_of(failure)
            partitions.append({"partition_index": part.partition_index, "error_code": error})
        topics.append({"name": asked.name, "partitions": partitions})
    return {"error_code": Code.NONE, "topics": topics}
