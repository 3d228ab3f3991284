"""Requests of members of share groups: heartbeats, taking messages, and saying what became of them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, Final, NamedTuple

from warren.broker.call import Call
from warren.broker.groups.consumer_members import JOIN_EPOCH, LEAVE_EPOCH, Beat
from warren.broker.groups.consumer_requests import by_topic, seen_topics
from warren.broker.groups.membership import name_error
from warren.broker.groups.share import ShareGroup
from warren.broker.groups.share_sessions import Acknowledge, ShareSession, Verdicts, release, settle, take
from warren.broker.kafka_errors import Code, code_of
from warren.broker.security.rights import Kind, Operation
from warren.config import (
    GROUP_HEARTBEAT_S,
    GROUP_MEMBER_SIZE,
    GROUP_NAME_SIZE_MAX,
    GROUP_SUBSCRIPTIONS_MAX,
    SCANNED_SIZE_MAX,
    SHARE_LOOK_S,
    SHARE_RECORDS_MAX,
    SHARE_TAKEN_FIRST,
    SHARE_TAKEN_MAX,
    SHARE_TAKEN_SIZE,
)
from warren.errors import NoSuchPartition, NoSuchTopic, SettingsDiffer, WarrenError
from warren.message import Message
from warren.protocol.kafka_codec import Fields, Values
from warren.protocol.record_batch import build
from warren.queue.group_settings import GroupSettings
from warren.storage import Log
from warren.storage.read import ScanRoom

MS: Final = 1000
NO_OPERATIONS: Final = -(1 << 31)
ASSIGNOR: Final = "simple"

Answers = dict[tuple[bytes, int], dict[str, Any]]
"""By topic id and partition, what is answered of it."""


class Room(NamedTuple):
    """How many messages, and of how many bytes, one look takes; and how many bytes it may look through."""

    count_max: int
    size_max: int
    scan: ScanRoom


# --- Membership ---


async def share_group_heartbeat(call: Call, request: Fields) -> Values:
    """The member lives; it is told from which partitions it may take, where that is news."""
    shares, coordinator, name = call.broker.coordinator.shares, call.broker.coordinator, request.group_id
    names = request.subscribed_topic_names
    said = Beat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        rack_id=request.rack_id,
        client_id=call.request.client_id or "",
        client_host=call.peer.host,
        names=None if names is None else frozenset(names),
    )
    error = _beat_error(name, said)
    other = coordinator.find(name)
    if error is Code.NONE and other is not None and other.members:
        error = Code.GROUP_ID_NOT_FOUND
    if error is not Code.NONE:
        return _refused(error, f"group {name!r}: {error.name}")
    group = shares.open(name) if said.epoch == JOIN_EPOCH else shares.find(name)
    if not isinstance(group, ShareGroup):
        return _refused(group or Code.UNKNOWN_MEMBER_ID, f"group {name!r} has no such member")
    if said.epoch == JOIN_EPOCH or names is not None:
        known = group.members.get(said.member_id)
        more = GROUP_MEMBER_SIZE + said.size - (0 if known is None else known.size)
        error = coordinator.memory.refusal(group, max(0, more), call.peer.owner)
        if error is not Code.NONE:
            shares.changed(group)
            return _refused(error, f"group {name!r} has no room for what the member subscribes to")
    if said.epoch >= JOIN_EPOCH and group.must_look(said):
        wanted = (said.names or frozenset()).union(*(each.names for each in group.members.values()))
        seen = await seen_topics(call, wanted)
        try:
            await shares.open_queues(group, set(seen))
        except SettingsDiffer as failure:
            shares.changed(group)
            return _refused(Code.INCONSISTENT_GROUP_PROTOCOL, call.told(failure))
        except WarrenError as failure:
            shares.changed(group)
            return _refused(code_of(failure), call.told(failure))
        wanted = (said.names or frozenset()).union(*(each.names for each in group.members.values()))
        group.see({name: topic for name, topic in {**group.seen, **seen}.items() if name in wanted})
    told = group.beat(said)
    shares.changed(group)
    return {
        "error_code": told.error,
        "error_message": None if told.error is Code.NONE else told.error.name,
        "member_id": told.member_id,
        "member_epoch": told.epoch,
        "heartbeat_interval_ms": int(GROUP_HEARTBEAT_S * MS),
        "assignment": None if told.assignment is None else {"topic_partitions": by_topic(told.assignment)},
    }


def _beat_error(name: str, said: Beat) -> Code:
    error = name_error(name)
    if error is not Code.NONE:
        return error
    is_wrong = not said.member_id or said.epoch < LEAVE_EPOCH or (said.epoch == JOIN_EPOCH and not said.names)
    is_large = len(said.member_id) > GROUP_NAME_SIZE_MAX or len(said.names or ()) > GROUP_SUBSCRIPTIONS_MAX
    return Code.INVALID_REQUEST if is_wrong or is_large else Code.NONE


def _refused(error: Code, message: str) -> Values:
    return {"error_code": error, "error_message": message}


async def share_group_describe(call: Call, request: Fields) -> Values:
    """Who is in share groups."""
    return {"groups": [await _described(call, name) for name in request.group_ids]}


async def _described(call: Call, name: str) -> dict[str, Any]:
    group = call.broker.coordinator.shares.find(name)
    if group is None:
        message = f"group {name!r} is no share group with members"
        return {"group_id": name, "error_code": Code.GROUP_ID_NOT_FOUND, "error_message": message}
    members = [
        {
            "member_id": member.id,
            "rack_id": member.rack_id,
            "member_epoch": member.epoch,
            "client_id": member.client_id,
            "client_host": f"/{member.client_host}",
            "subscribed_topic_names": sorted(member.names),
            "assignment": {"topic_partitions": by_topic(member.given, with_names=True)},
        }
        async for member in call.broker.turns.over(list(group.members.values()))
    ]
    return {
        "group_id": name,
        "group_state": "Stable" if members else "Empty",
        "group_epoch": group.epoch,
        "assignment_epoch": group.epoch,
        "assignor_name": ASSIGNOR,
        "members": members,
        "authorized_operations": NO_OPERATIONS,
    }


# --- Messages ---


async def share_fetch(call: Call, request: Fields) -> Values:
    """First what the member says of messages that it has; then more, waiting for them as long as it says."""
    found = _session(call, request)
    if isinstance(found, Code):
        return _refused(found, found.name)
    group, session = found
    asked = [(bytes(topic.topic_id), part) for topic in request.topics for part in topic.partitions]
    forgotten = [(bytes(each.topic_id), number) for each in request.forgotten_topics_data for number in each.partitions]
    answers: Answers = defaultdict(dict)
    session.change(await _added(call, asked, answers), forgotten)
    for verdict, error in await _settled(call, group, session, asked):
        answers[verdict.topic_id, verdict.partition]["acknowledge_error_code"] = error
    if request.share_session_epoch == LEAVE_EPOCH:
        await _ended(call, group, request.member_id, session)
    else:
        await _fetched(call, group, session, request, answers)
    call.broker.coordinator.shares.changed(group)
    lease_s = next((queue.settings.lease_s for queue in group.queues.values()), GroupSettings().lease_s)
    return {"acquisition_lock_timeout_ms": int(lease_s * MS), "responses": _by_topic(answers)}


async def share_acknowledge(call: Call, request: Fields) -> Values:
    """What the member says of messages that it has."""
    found = _session(call, request)
    if isinstance(found, Code):
        return _refused(found, found.name)
    group, session = found
    asked = [(bytes(topic.topic_id), part) for topic in request.topics for part in topic.partitions]
    answers: Answers = defaultdict(dict)
    for verdict, error in await _settled(call, group, session, asked):
        answers[verdict.topic_id, verdict.partition]["error_code"] = error
    if request.share_session_epoch == LEAVE_EPOCH:
        await _ended(call, group, request.member_id, session)
    call.broker.coordinator.shares.changed(group)
    return {"responses": _by_topic(answers)}


async def _added(call: Call, asked: Sequence[tuple[bytes, Fields]], answers: Answers) -> list[tuple[bytes, int]]:
    """The partitions that are there of those that were asked for; the others are answered with an error."""
    added = []
    async for topic_id, part in call.broker.turns.over(asked):
        try:
            call.broker.topics.find_by_id(topic_id).partition(part.partition_index)
            added.append((topic_id, part.partition_index))
        except NoSuchTopic:
            answers[topic_id, part.partition_index]["error_code"] = Code.UNKNOWN_TOPIC_ID
        except NoSuchPartition:
            answers[topic_id, part.partition_index]["error_code"] = Code.UNKNOWN_TOPIC_OR_PARTITION
    return added


def _session(call: Call, request: Fields) -> tuple[ShareGroup, ShareSession] | Code:
    group = call.broker.coordinator.shares.find(request.group_id or "")
    if group is None:
        return Code.SHARE_SESSION_NOT_FOUND
    session = group.open_session(request.member_id or "", request.share_session_epoch)
    return session if isinstance(session, Code) else (group, session)


async def _settled(
    call: Call, group: ShareGroup, session: ShareSession, asked: Sequence[tuple[bytes, Fields]]
) -> list[tuple[Verdicts, Code]]:
    verdicts = []
    left = SHARE_TAKEN_MAX
    async for topic_id, part in call.broker.turns.over(asked):
        if not part.acknowledgement_batches:
            continue
        try:
            name = call.broker.topics.find_by_id(topic_id).name
        except NoSuchTopic:
            verdicts.append(Verdicts("", topic_id, part.partition_index, (), Code.UNKNOWN_TOPIC_ID))
            continue
        numbers = list(_numbers(part.acknowledgement_batches, left))
        left -= len(numbers)
        said, error = session.give_back(name, part.partition_index, numbers)
        verdicts.append(Verdicts(name, topic_id, part.partition_index, said, error))
    if not verdicts:
        return []
    errors = await call.broker.in_thread(settle, dict(group.queues), verdicts)
    _ring(call, [message for verdict in verdicts for message, kind in verdict.said if kind is Acknowledge.RELEASE])
    return list(zip(verdicts, errors, strict=True))


def _numbers(batches: Iterable[Fields], left: int) -> Iterator[tuple[int, int]]:
    """Each number, and what is said of it: `left` of them at most. One request says no more than a member can have."""
    for batch in batches:
        kinds = batch.acknowledge_types
        numbers = range(batch.first_offset, batch.last_offset + 1)[:left]
        for place, number in enumerate(numbers):
            yield number, kinds[place] if place < len(kinds) and len(kinds) > 1 else kinds[0] if kinds else -1
        left -= len(numbers)


async def _ended(call: Call, group: ShareGroup, member_id: str, session: ShareSession) -> None:
    """The session is over: what the member has is handed out again."""
    group.sessions.pop(member_id, None)
    messages, session.taken = session.messages, {}
    await call.broker.in_thread(release, dict(group.queues), messages)
    _ring(call, messages)


def _ring(call: Call, messages: Iterable[Message]) -> None:
    """These may be taken again: whoever waits for their partitions is woken."""
    for topic_name, partition in {(message.topic, message.partition) for message in messages}:
        with suppress(WarrenError):
            call.broker.long_polls.ring(call.broker.topics.find(topic_name).partition(partition))


async def _fetched(call: Call, group: ShareGroup, session: ShareSession, request: Fields, answers: Answers) -> None:
    loop = asyncio.get_running_loop()
    limits = call.broker.limits
    deadline = loop.time() + min(request.max_wait_ms / MS, limits.fetch_wait_s_max)
    count_max = request.max_records if request.max_records > 0 else SHARE_RECORDS_MAX
    count_max = min(count_max, SHARE_RECORDS_MAX, session.room(loop.time()))
    if not call.broker.coordinator.memory.has_room(count_max * SHARE_TAKEN_SIZE, call.peer.owner):
        count_max = min(count_max, SHARE_TAKEN_FIRST)
    size_max = call.broker.budget.answer_size_max(min(request.max_bytes, limits.fetch_size_max))
    while True:
        logs: list[Log] = []
        is_more = False
        for topic_id, partitions in session.partitions.items():
            room = Room(count_max, size_max, ScanRoom(SCANNED_SIZE_MAX))
            logs += await _topic_fetched(call, group, session, topic_id, partitions, room, answers)
            is_more |= room.scan.is_used_up
        left_s = deadline - loop.time()
        if answers or left_s <= 0 or call.broker.is_stopping or count_max <= 0:
            return
        # Nothing would wake a request that has not looked through everything: it looks on in its next turn.
        if not is_more:
            await call.broker.long_polls.wait(logs, min(left_s, SHARE_LOOK_S))


async def _topic_fetched(
    call: Call,
    group: ShareGroup,
    session: ShareSession,
    topic_id: bytes,
    partitions: set[int],
    room: Room,
    answers: Answers,
) -> list[Log]:
    """Take from one topic, into the answers; the logs that tell when there is more."""
    try:
        topic = call.broker.topics.find_by_id(topic_id)
        if partitions and not call.may(Operation.READ, Kind.TOPIC, topic.name):
            # The session was opened with a right that is gone.
            why = str(call.denied(Operation.READ, Kind.TOPIC, str(topic.name)))
            for number in partitions:
                answers[topic_id, number] |= {"error_code": Code.TOPIC_AUTHORIZATION_FAILED, "error_message": why}
            return []
        queue = group.queues.get(topic.name)
        if queue is None or queue.topic is not topic:
            await call.broker.coordinator.shares.drop_queue(group, topic.name)
            await call.broker.coordinator.shares.open_queues(group, {topic.name})
            queue = group.queues[topic.name]
        if not partitions or room.count_max <= 0:
            return []
        messages = await call.broker.in_thread(take, queue, frozenset(partitions), *room)
        session.take(messages, asyncio.get_running_loop().time() + queue.settings.lease_s)
        for number, found in _by_partition(messages):
            answers[topic_id, number] |= await call.broker.in_thread(_records, found)
        return [topic.partition(number) for number in partitions if number in range(topic.partition_count)]
    except NoSuchTopic:
        for number in partitions:
            answers[topic_id, number]["error_code"] = Code.UNKNOWN_TOPIC_ID
        partitions.clear()
    except WarrenError as error:
        for number in partitions:
            answers[topic_id, number]["error_code"] = code_of(error)
    return []


def _by_partition(messages: Iterable[Message]) -> Iterator[tuple[int, list[Message]]]:
    found = sorted(messages, key=lambda message: (message.partition, message.number))
    for number, group in groupby(found, key=lambda message: message.partition):
        yield number, list(group)


def _records(messages: Sequence[Message]) -> dict[str, Any]:
    """Messages of one partition, sorted, as batches; and which those are, and how often they were handed out."""
    runs: list[list[Message]] = []
    for message in messages:
        last = runs[-1][-1] if runs else None
        if last is not None and (last.number + 1, last.attempt) == (message.number, message.attempt):
            runs[-1].append(message)
        else:
            runs.append([message])
    acquired = [
        {"first_offset": run[0].number, "last_offset": run[-1].number, "delivery_count": min(run[0].attempt, 32_767)}
        for run in runs
    ]
    return {"records": [buffer for run in runs for buffer in build(run)], "acquired_records": acquired}


def _by_topic(answers: Answers) -> list[dict[str, Any]]:
    found: dict[bytes, list[dict[str, Any]]] = defaultdict(list)
    for (topic_id, number), fields in sorted(answers.items()):
        found[topic_id].append({"partition_index": number, **fields})
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in found.items()]
