"""Requests of members of share groups: heartbeats, fetches, and acknowledgements."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final, NamedTuple

from warren.broker.kafka.errors import Code, code_of
from warren.broker.kafka.groups.call import Call
from warren.broker.kafka.groups.consumer_members import JOIN_EPOCH, LEAVE_EPOCH, Beat
from warren.broker.kafka.groups.consumer_requests import beat_response, described_assignment, topic_snapshots
from warren.broker.kafka.groups.join_requests import name_error
from warren.broker.kafka.groups.limits import (
    GROUP_MEMBER_SIZE,
    GROUP_SUBSCRIPTIONS_MAX,
    SHARE_TAKEN_FIRST,
    SHARE_TAKEN_MAX,
    SHARE_TAKEN_SIZE,
)
from warren.broker.kafka.groups.share import ShareGroup
from warren.broker.kafka.groups.share_sessions import Acknowledge, Settling, ShareSession, Verdicts, release, take
from warren.broker.security.rights import Operation, ResourceKind
from warren.broker.services.long_polls import PollResult
from warren.broker.services.turns import SCANNED_SIZE_MAX
from warren.errors import NoSuchPartition, NoSuchTopic, SettingsDiffer, WarrenError
from warren.limits import GROUP_NAME_SIZE_MAX
from warren.message import Message
from warren.protocol.kafka.record_batch import build
from warren.protocol.kafka_messages import (
    ShareAcknowledgement,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeResponsePartition,
    ShareAcknowledgeResponseResult,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchResponseAcquiredRecord,
    ShareFetchResponsePartition,
    ShareFetchResponseResult,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupDescribeResponseGroup,
    ShareGroupDescribeResponseMember,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    SharePartition,
)
from warren.protocol.primitives import Buffer
from warren.queue.state.group_settings import GroupSettings
from warren.storage import Log
from warren.storage.read.messages import ScanRoom

SHARE_RECORDS_MAX: Final = 2000
"""How many messages one fetch of a share group returns at most, even if it asks for more."""
SHARE_LOOK_S: Final = 1.0
"""How often a waiting share fetch checks for expired leases."""
MS: Final = 1000
ASSIGNOR: Final = "simple"


class FetchRows(dict[tuple[bytes, int], ShareFetchResponsePartition]):
    """The rows of an answer by topic id and partition. A row is made when it is first read."""

    def __missing__(self, place: tuple[bytes, int]) -> ShareFetchResponsePartition:
        row = self[place] = ShareFetchResponsePartition(partition_index=place[1])
        return row


class Room(NamedTuple):
    """How many messages of how many bytes one attempt takes, and how many bytes it may read."""

    count_max: int
    size_max: int
    scan: ScanRoom


# --- Membership ---


async def share_group_heartbeat(call: Call, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    """Handles a heartbeat. Returns the partitions from which the member may take, if they changed."""
    shares, coordinator, name = call.broker.coordinator.shares, call.broker.coordinator, request.group_id
    names = request.subscribed_topic_names
    heartbeat = Beat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        rack_id=request.rack_id,
        client_id=call.request.client_id or "",
        client_host=call.peer.host,
        names=None if names is None else frozenset(names),
    )
    error = _beat_error(name, heartbeat)
    other = coordinator.find(name)
    if error is Code.NONE and other is not None and other.members:
        error = Code.GROUP_ID_NOT_FOUND
    if error is not Code.NONE:
        return _refused(error, f"group {name!r}: {error.name}")
    group = shares.open(name) if heartbeat.epoch == JOIN_EPOCH else shares.find(name)
    if not isinstance(group, ShareGroup):
        return _refused(group or Code.UNKNOWN_MEMBER_ID, f"group {name!r} has no such member")
    if heartbeat.epoch == JOIN_EPOCH or names is not None:
        member = group.members.get(heartbeat.member_id)
        more = GROUP_MEMBER_SIZE + heartbeat.size - (0 if member is None else member.size)
        error = coordinator.memory.refusal(group, max(0, more), call.peer.owner)
        if error is not Code.NONE:
            shares.changed(group)
            return _refused(error, f"group {name!r} has no room for the subscriptions of the member")
    if heartbeat.epoch >= JOIN_EPOCH and group.must_look(heartbeat):
        subscribed = (heartbeat.names or frozenset()).union(*(each.names for each in group.members.values()))
        topics = await topic_snapshots(call, subscribed)
        try:
            await shares.open_queues(group, set(topics))
        except SettingsDiffer as failure:
            shares.changed(group)
            return _refused(Code.INCONSISTENT_GROUP_PROTOCOL, call.client_message(failure))
        except WarrenError as failure:
            shares.changed(group)
            return _refused(code_of(failure), call.client_message(failure))
        subscribed = (heartbeat.names or frozenset()).union(*(each.names for each in group.members.values()))
        group.update_topics(
            {name: topic for name, topic in {**group.last_lookup, **topics}.items() if name in subscribed}
        )
    reply = group.beat(heartbeat)
    shares.changed(group)
    return beat_response(ShareGroupHeartbeatResponse, reply)


def _refused(error: Code, message: str) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=error, error_message=message)


def _beat_error(name: str, heartbeat: Beat) -> Code:
    error = name_error(name)
    if error is not Code.NONE:
        return error
    is_wrong = (
        not heartbeat.member_id
        or heartbeat.epoch < LEAVE_EPOCH
        or (heartbeat.epoch == JOIN_EPOCH and not heartbeat.names)
    )
    is_large = len(heartbeat.member_id) > GROUP_NAME_SIZE_MAX or len(heartbeat.names or ()) > GROUP_SUBSCRIPTIONS_MAX
    return Code.INVALID_REQUEST if is_wrong or is_large else Code.NONE


async def share_group_describe(call: Call, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    """Returns the members of share groups."""
    return ShareGroupDescribeResponse(groups=[await _described(call, name) for name in request.group_ids])


async def _described(call: Call, name: str) -> ShareGroupDescribeResponseGroup:
    group = call.broker.coordinator.shares.find(name)
    if group is None:
        message = f"group {name!r} is not a share group with members"
        return ShareGroupDescribeResponseGroup(Code.GROUP_ID_NOT_FOUND, message, name)
    members = [
        ShareGroupDescribeResponseMember(
            member_id=member.id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=f"/{member.client_host}",
            subscribed_topic_names=sorted(member.names),
            assignment=described_assignment(member.assignment),
        )
        async for member in call.broker.turns.over(list(group.members.values()))
    ]
    return ShareGroupDescribeResponseGroup(
        group_id=name,
        group_state="Stable" if members else "Empty",
        group_epoch=group.epoch,
        assignment_epoch=group.epoch,
        assignor_name=ASSIGNOR,
        members=members,
    )


# --- Messages ---


async def share_fetch(call: Call, request: ShareFetchRequest) -> ShareFetchResponse:
    """Applies the acknowledgements of the member, and then takes more messages; waits for them if there are none."""
    group_and_session = _session(call, request)
    if isinstance(group_and_session, Code):
        return ShareFetchResponse(error_code=group_and_session, error_message=group_and_session.name)
    group, session = group_and_session
    parts = _parts(request)
    forgotten = [(bytes(each.topic_id), number) for each in request.forgotten_topics_data for number in each.partitions]
    rows = FetchRows()
    session.change(await _added(call, parts, rows), forgotten)
    for verdict, error in await _settled(call, group, session, parts):
        rows[verdict.topic_id, verdict.partition].acknowledge_error_code = error
    if request.share_session_epoch == LEAVE_EPOCH:
        await _ended(call, group, request.member_id or "", session)
    else:
        await _fetched(call, group, session, request, rows)
    call.broker.coordinator.shares.changed(group)
    lease_s = next((queue.settings.lease_s for queue in group.queues.values()), GroupSettings().lease_s)
    by_topic: dict[bytes, list[ShareFetchResponsePartition]] = defaultdict(list)
    for (topic_id, _), row in sorted(rows.items(), key=lambda item: item[0]):
        by_topic[topic_id].append(row)
    results = [ShareFetchResponseResult(topic_id, partitions) for topic_id, partitions in by_topic.items()]
    return ShareFetchResponse(acquisition_lock_timeout_ms=int(lease_s * MS), responses=results)


async def share_acknowledge(call: Call, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
    """Applies the acknowledgements of the member."""
    group_and_session = _session(call, request)
    if isinstance(group_and_session, Code):
        return ShareAcknowledgeResponse(error_code=group_and_session, error_message=group_and_session.name)
    group, session = group_and_session
    errors = {
        (verdict.topic_id, verdict.partition): error
        for verdict, error in await _settled(call, group, session, _parts(request))
    }
    if request.share_session_epoch == LEAVE_EPOCH:
        await _ended(call, group, request.member_id or "", session)
    call.broker.coordinator.shares.changed(group)
    by_topic: dict[bytes, list[ShareAcknowledgeResponsePartition]] = defaultdict(list)
    for (topic_id, number), error in sorted(errors.items()):
        by_topic[topic_id].append(ShareAcknowledgeResponsePartition(number, error))
    results = [ShareAcknowledgeResponseResult(topic_id, partitions) for topic_id, partitions in by_topic.items()]
    return ShareAcknowledgeResponse(responses=results)


def _parts(request: ShareFetchRequest | ShareAcknowledgeRequest) -> list[tuple[bytes, SharePartition]]:
    return [(bytes(topic.topic_id), part) for topic in request.topics for part in topic.partitions]


async def _added(call: Call, parts: Sequence[tuple[bytes, SharePartition]], rows: FetchRows) -> list[tuple[bytes, int]]:
    """Returns the partitions that exist; puts an error into the answer for the others."""
    added = []
    async for topic_id, part in call.broker.turns.over(parts):
        try:
            call.broker.topics.find_by_id(topic_id).partition(part.partition_index)
            added.append((topic_id, part.partition_index))
        except NoSuchTopic:
            rows[topic_id, part.partition_index].error_code = Code.UNKNOWN_TOPIC_ID
        except NoSuchPartition:
            rows[topic_id, part.partition_index].error_code = Code.UNKNOWN_TOPIC_OR_PARTITION
    return added


def _session(
    call: Call, request: ShareFetchRequest | ShareAcknowledgeRequest
) -> tuple[ShareGroup, ShareSession] | Code:
    group = call.broker.coordinator.shares.find(request.group_id or "")
    if group is None:
        return Code.SHARE_SESSION_NOT_FOUND
    session = group.open_session(request.member_id or "", request.share_session_epoch)
    return session if isinstance(session, Code) else (group, session)


async def _settled(
    call: Call, group: ShareGroup, session: ShareSession, parts: Sequence[tuple[bytes, SharePartition]]
) -> list[tuple[Verdicts, Code]]:
    verdicts = []
    room = SHARE_TAKEN_MAX
    async for topic_id, part in call.broker.turns.over(parts):
        if not part.acknowledgement_batches:
            continue
        try:
            name = call.broker.topics.find_by_id(topic_id).name
        except NoSuchTopic:
            verdicts.append(Verdicts("", topic_id, part.partition_index, (), Code.UNKNOWN_TOPIC_ID))
            continue
        numbers = list(_numbers(part.acknowledgement_batches, room))
        room -= len(numbers)
        acknowledgements, error = session.give_back(name, part.partition_index, numbers)
        verdicts.append(Verdicts(name, topic_id, part.partition_index, acknowledgements, error))
    if not verdicts:
        return []
    errors = await call.broker.read_memory.for_answer(
        call.peer, lambda: call.peer.is_gone, Settling(dict(group.queues), verdicts).run
    )
    _ring(
        call,
        [message for verdict in verdicts for message, kind in verdict.acknowledgements if kind is Acknowledge.RELEASE],
    )
    return list(zip(verdicts, errors, strict=True))


def _numbers(batches: Iterable[ShareAcknowledgement], room: int) -> Iterator[tuple[int, int]]:
    """Yields each number and its acknowledgement, at most `room` of them: no member can have more messages."""
    for batch in batches:
        kinds = batch.acknowledge_types
        numbers = range(batch.first_offset, batch.last_offset + 1)[:room]
        for place, number in enumerate(numbers):
            yield number, kinds[place] if place < len(kinds) and len(kinds) > 1 else kinds[0] if kinds else -1
        room -= len(numbers)


async def _ended(call: Call, group: ShareGroup, member_id: str, session: ShareSession) -> None:
    """Ends the session. Its messages can be taken again."""
    group.sessions.pop(member_id, None)
    messages, session.taken = session.messages, {}
    await call.broker.in_thread(release, dict(group.queues), messages)
    _ring(call, messages)


def _ring(call: Call, messages: Iterable[Message]) -> None:
    """Wakes the requests that wait for these partitions: their messages may be taken again."""
    for topic_name, partition in {(message.topic, message.partition) for message in messages}:
        with suppress(WarrenError):
            call.broker.long_polls.ring(call.broker.topics.find(topic_name).partition(partition))


async def _fetched(
    call: Call, group: ShareGroup, session: ShareSession, request: ShareFetchRequest, rows: FetchRows
) -> None:
    loop = asyncio.get_running_loop()
    limits = call.broker.limits
    deadline = loop.time() + min(request.max_wait_ms / MS, limits.fetch_wait_s_max)
    count_max = request.max_records if request.max_records > 0 else SHARE_RECORDS_MAX
    count_max = min(count_max, SHARE_RECORDS_MAX, session.room(loop.time()))
    if not call.broker.coordinator.memory.has_room(count_max * SHARE_TAKEN_SIZE, call.peer.owner):
        count_max = min(count_max, SHARE_TAKEN_FIRST)
    size_max = call.broker.budget.answer_size_max(min(request.max_bytes, limits.fetch_size_max))
    logs: list[Log] = []

    async def attempt(is_rung: bool) -> PollResult[None]:
        logs.clear()
        is_more = False
        for topic_id, partitions in session.partitions.items():
            room = Room(count_max, size_max, ScanRoom(SCANNED_SIZE_MAX))
            logs.extend(await _topic_fetched(call, group, session, topic_id, partitions, room, rows))
            is_more |= room.scan.is_used_up
        return PollResult(None, bool(rows) or count_max <= 0, is_more)

    await call.broker.long_polls.until(attempt, lambda: logs, deadline, lambda: SHARE_LOOK_S)


async def _topic_fetched(
    call: Call,
    group: ShareGroup,
    session: ShareSession,
    topic_id: bytes,
    partitions: set[int],
    room: Room,
    rows: FetchRows,
) -> list[Log]:
    """Takes messages of one topic into the rows of the answer. Returns the logs that announce more."""
    try:
        topic = call.broker.topics.find_by_id(topic_id)
        if partitions and not call.may(Operation.READ, ResourceKind.TOPIC, topic.name):
            # The user may have lost the right since the session was opened.
            why = str(call.denied(Operation.READ, ResourceKind.TOPIC, str(topic.name)))
            for number in partitions:
                row = rows[topic_id, number]
                row.error_code, row.error_message = Code.TOPIC_AUTHORIZATION_FAILED, why
            return []
        queue = group.queues.get(topic.name)
        if queue is None or queue.topic is not topic:
            await call.broker.coordinator.shares.drop_queue(group, topic.name)
            await call.broker.coordinator.shares.open_queues(group, {topic.name})
            queue = group.queues[topic.name]
        if not partitions or room.count_max <= 0:
            return []
        messages = await call.broker.read_memory.for_answer(
            call.peer, lambda: call.peer.is_gone, lambda: take(queue, frozenset(partitions), *room)
        )
        await call.broker.ahead_memory.keep(queue, call.peer.owner)
        session.take(messages, asyncio.get_running_loop().time() + queue.settings.lease_s)
        for number, group_of_partition in _by_partition(messages):
            row = rows[topic_id, number]
            row.records, row.acquired_records = await call.broker.in_thread(_records, group_of_partition)
        return [topic.partition(number) for number in partitions if number in range(topic.partition_count)]
    except NoSuchTopic:
        for number in partitions:
            rows[topic_id, number].error_code = Code.UNKNOWN_TOPIC_ID
        partitions.clear()
    except WarrenError as error:
        for number in partitions:
            rows[topic_id, number].error_code = code_of(error)
    return []


def _by_partition(messages: Iterable[Message]) -> Iterator[tuple[int, list[Message]]]:
    in_order = sorted(messages, key=lambda message: (message.partition, message.number))
    for number, group in groupby(in_order, key=lambda message: message.partition):
        yield number, list(group)


def _records(messages: Sequence[Message]) -> tuple[list[Buffer], list[ShareFetchResponseAcquiredRecord]]:
    """Returns sorted messages of one partition as batches, with their numbers and delivery counts."""
    runs: list[list[Message]] = []
    for message in messages:
        last = runs[-1][-1] if runs else None
        if last is not None and (last.number + 1, last.attempt) == (message.number, message.attempt):
            runs[-1].append(message)
        else:
            runs.append([message])
    acquired = [
        ShareFetchResponseAcquiredRecord(run[0].number, run[-1].number, min(run[0].attempt, 32_767)) for run in runs
    ]
    return [buffer for run in runs for buffer in build(run)], acquired
