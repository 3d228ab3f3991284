"""Requests about where groups stand: committing, looking up and forgetting positions."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Final, NamedTuple

from warren.broker.call import Call
from warren.broker.groups.consumer import ConsumerGroup
from warren.broker.groups.members import Claim
from warren.broker.groups.membership import name_error
from warren.broker.groups.positions import NO_EPOCH, Position
from warren.broker.kafka_errors import Code, code_of
from warren.config import GROUP_NOTE_SIZE_MAX
from warren.errors import BadName, NoSuchTopic, NotOwner, SettingsDiffer, WarrenError
from warren.protocol.kafka_codec import Fields, Values
from warren.queue.topic import Topic

NO_OFFSET: Final = -1
MANY_GROUPS_FROM: Final = 8
ALL_TOPICS_FROM: Final = 2
MEMBER_EPOCHS_FROM: Final = 9


def check_committer(call: Call, group_id: str, member_id: str, instance_id: str | None, generation: int) -> Code:
    """Whether somebody may commit for a group: a member of its generation, or anybody where it has no members."""
    error = name_error(group_id)
    if error is not Code.NONE:
        return error
    group = call.broker.coordinator.find(group_id)
    if group is None or not group.members:
        # Those that share partitions out by themselves commit without being members.
        return Code.NONE if generation < 0 else Code.ILLEGAL_GENERATION
    if isinstance(group, ConsumerGroup):
        return group.check_commit(member_id, generation)
    return group.check_commit(Claim(member_id, instance_id, generation))


async def offset_commit(call: Call, request: Fields) -> Values:
    """The group goes on from these numbers, as durably as the topics are."""
    generation = request.generation_id_or_member_epoch
    error = check_committer(call, request.group_id, request.member_id, request.group_instance_id, generation)
    if error is Code.STALE_MEMBER_EPOCH and call.version < MEMBER_EPOCHS_FROM:
        error = Code.UNSUPPORTED_VERSION
    if generation < 0:
        await call.broker.coordinator.holdings.settled(request.group_id)
    topics = []
    async for topic in call.broker.turns.over(request.topics):
        partitions = await _committed(call, request.group_id, topic, error, is_member=generation >= 0)
        topics.append({"name": topic.name, "partitions": partitions})
    return {"topics": topics}


async def _committed(call: Call, group: str, asked: Fields, error: Code, *, is_member: bool) -> list[dict[str, Any]]:
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
        errors = {number: _position_error(topic, number, each) for number, each in positions.items()}
        right = {number: each for number, each in positions.items() if errors[number] is Code.NONE}
        await call.broker.in_thread(call.broker.positions.commit, topic, group, right, is_member=is_member)
    except NotOwner:
        return _each(positions, Code.UNKNOWN_MEMBER_ID)
    except SettingsDiffer:
        return _each(positions, Code.INCONSISTENT_GROUP_PROTOCOL)
    except WarrenError as failure:
        return _each(positions, code_of(failure))
    return [{"partition_index": number, "error_code": error} for number, error in errors.items()]


def _position_error(topic: Topic, partition: int, position: Position) -> Code:
    if partition not in range(topic.partition_count):
        return Code.UNKNOWN_TOPIC_OR_PARTITION
    if position.number < 0:
        return Code.OFFSET_OUT_OF_RANGE
    is_too_large = len(position.note.encode()) > GROUP_NOTE_SIZE_MAX
    return Code.OFFSET_METADATA_TOO_LARGE if is_too_large else Code.NONE


def _each(positions: dict[int, Position], error: Code) -> list[dict[str, Any]]:
    return [{"partition_index": number, "error_code": error} for number in positions]


async def offset_fetch(call: Call, request: Fields) -> Values:
    """Where groups stand; -1 where they have committed nothing."""
    is_stable = request.require_stable
    if call.version < MANY_GROUPS_FROM:
        is_all = request.topics is None and call.version >= ALL_TOPICS_FROM
        asked = _Asked(request.group_id, None if is_all else request.topics, is_stable)
        return {"topics": await _found(call, asked), "error_code": Code.NONE}
    groups = []
    for each in request.groups:
        error = _reader_error(call, each)
        is_right = error is Code.NONE
        topics = await _found(call, _Asked(each.group_id, each.topics, is_stable)) if is_right else []
        groups.append({"group_id": each.group_id, "topics": topics, "error_code": error})
    return {"groups": groups}


class _Asked(NamedTuple):
    """Where which group stands, in which topics; whether what a transaction may move is to be told as such."""

    group: str
    topics: Sequence[Fields] | None
    is_stable: bool


def _reader_error(call: Call, asked: Fields) -> Code:
    """Checks the member of a consumer group that asks. A classic group takes any name and epoch, as Kafka does.

    Clients such as franz-go send the member id and the generation for classic groups too.
    """
    group = call.broker.coordinator.find_consumer(asked.group_id)
    if group is None or asked.member_id is None or asked.member_epoch < 0:
        return Code.NONE
    return group.check_commit(asked.member_id, asked.member_epoch)


async def _found(call: Call, asked: _Asked) -> list[dict[str, Any]]:
    if asked.topics is None:
        names = await call.broker.in_thread(_topics_of, call, asked.group)
        found = [await _topic_found(call, asked, name, None) for name in names]
        return [topic for topic in found if topic["partitions"]]
    partitions: dict[str, dict[int, None]] = {}
    for topic in asked.topics:
        # What is named twice is answered once.
        partitions.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return [await _topic_found(call, asked, name, list(numbers)) for name, numbers in partitions.items()]


def _topics_of(call: Call, group: str) -> list[str]:
    store = call.broker.store
    return [name for name in store.topics() if group in store.topic(name).groups()]


async def _topic_found(call: Call, asked: _Asked, name: str, partitions: Sequence[int] | None) -> dict[str, Any]:
    found: dict[int, Position] = {}
    undecided: Set[int] = frozenset()
    error = Code.NONE
    try:
        topic: Topic = call.broker.topics.find(name)
        # First: what is committed in between is read, and what is not was seen to move.
        if asked.is_stable:
            undecided = await call.broker.in_thread(call.broker.positions.moving, topic, asked.group)
        found = await call.broker.in_thread(call.broker.positions.find, topic, asked.group, partitions)
    except (NoSuchTopic, BadName):
        # As Kafka says it: nothing is committed there.
        pass
    except WarrenError as failure:
        error = code_of(failure)
    nothing = Position(NO_OFFSET, NO_EPOCH, "")
    rows = [(number, found.get(number, nothing)) for number in (partitions if partitions is not None else found)]
    return {
        "name": name,
        "partitions": [
            _position_fields(number, nothing, Code.UNSTABLE_OFFSET_COMMIT)
            if number in undecided
            else _position_fields(number, position, error)
            for number, position in rows
        ],
    }


def _position_fields(partition: int, position: Position, error: Code) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "committed_offset": position.number,
        "committed_leader_epoch": position.epoch,
        "metadata": position.note,
        "error_code": error,
    }


async def offset_delete(call: Call, request: Fields) -> Values:
    """The group has committed nothing in these partitions any more; those of topics that members want stay."""
    error = name_error(request.group_id)
    if error is not Code.NONE:
        return {"error_code": error, "topics": []}
    group = call.broker.coordinator.find(request.group_id)
    wanted = frozenset() if group is None else group.topics
    if group is not None and group.members and not wanted:
        return {"error_code": Code.NON_EMPTY_GROUP, "topics": []}
    await call.broker.coordinator.holdings.settled(request.group_id)
    topics = []
    for asked in request.topics:
        partitions = [
            {
                "partition_index": part.partition_index,
                "error_code": await _forgotten(call, request, asked, part, wanted),
            }
            for part in asked.partitions
        ]
        topics.append({"name": asked.name, "partitions": partitions})
    return {"error_code": Code.NONE, "topics": topics}


async def _forgotten(call: Call, request: Fields, asked: Fields, part: Fields, wanted: Set[str]) -> Code:
    if asked.name in wanted:
        return Code.GROUP_SUBSCRIBED_TO_TOPIC
    try:
        topic = call.broker.topics.find(asked.name)
        await call.broker.in_thread(call.broker.positions.forget, topic, request.group_id, part.partition_index)
    except NotOwner:
        return Code.GROUP_SUBSCRIBED_TO_TOPIC
    except WarrenError as failure:
        return code_of(failure)
    return Code.NONE
