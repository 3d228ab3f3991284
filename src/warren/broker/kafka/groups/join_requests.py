"""Requests of members of classic groups: join, sync, heartbeat, leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from warren.broker.kafka.errors import Code
from warren.broker.kafka.groups.call import Call
from warren.broker.kafka.groups.classic import ClassicGroup
from warren.broker.kafka.groups.limits import GROUP_MEMBER_SIZE, GROUP_REBALANCE_S_MAX, GROUP_SUBSCRIPTIONS_MAX
from warren.broker.kafka.groups.members import Joined, Joining, MemberIdentity, Protocol, Synced, Syncing
from warren.broker.services.turns import LOOP_REQUEST_SIZE_MAX
from warren.errors import BadName
from warren.limits import GROUP_NAME_SIZE_MAX
from warren.protocol.kafka.subscriptions import assigned_topics, subscribed_topics
from warren.protocol.kafka_messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from warren.queue.state.settings import checked_name

GROUP_SESSION_S_MIN: Final = 0.1
GROUP_SESSION_S_MAX: Final = 1800.0
GROUP_METADATA_SIZE_MAX: Final = 256 << 10
"""The metadata of one member, for all protocols that it supports together."""
CONSUMER: Final = "consumer"
"""The protocol type of groups whose members name the topics that they subscribe to."""
ID_FIRST_FROM: Final = 4
REBALANCE_TIMEOUT_FROM: Final = 1
SKIP_ASSIGNMENT_FROM: Final = 9
MANY_LEAVE_FROM: Final = 3
MS: Final = 1000
NO_PROTOCOL: Final = ""
NULL_PROTOCOL_FROM: Final = 7
NO_TOPICS: Final[frozenset[str]] = frozenset()

T = TypeVar("T")


def _reply_to(work: Callable[[Callable[[T], None]], None]) -> asyncio.Future[T]:
    """Returns a future for the value that `work` passes to its callback, now or later."""
    waiting: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def reply(answer: T) -> None:
        # The broker may have ended the request already.
        if not waiting.done():
            waiting.set_result(answer)

    work(reply)
    return waiting


async def join_group(call: Call, request: JoinGroupRequest) -> JoinGroupResponse:
    """Adds the client to the group. Answers when the group has a new generation."""
    coordinator = call.broker.coordinator
    is_large = len(call.request.body) > LOOP_REQUEST_SIZE_MAX
    joining = await call.broker.aside(_joining, call, request) if is_large else _joining(call, request)
    error = _join_error(request, joining)
    if error is not Code.NONE:
        return _join_response(call, Joined(error=error, member_id=request.member_id))
    async with coordinator.holdings.held_for(request.group_id, joining.topics) as refused:
        error = next(iter(refused.values()), Code.NONE)
        group = coordinator.open_classic(request.group_id) if error is Code.NONE else error
        if not isinstance(group, ClassicGroup):
            return _join_response(call, Joined(error=group, member_id=request.member_id))
        member = group.members.get(request.member_id)
        more = joining.size + GROUP_MEMBER_SIZE - (0 if member is None else member.size)
        error = coordinator.memory.refusal(group, max(0, more), call.peer.owner)
        if error is not Code.NONE:
            coordinator.changed(group)
            return _join_response(call, Joined(error=error, member_id=request.member_id))
        waiting: asyncio.Future[Joined] = _reply_to(lambda reply: group.join(joining, reply))
        coordinator.changed(group)
    return _join_response(call, await waiting)


def _joining(call: Call, request: JoinGroupRequest) -> Joining:
    session_s = request.session_timeout_ms / MS
    rebalance_s = request.rebalance_timeout_ms / MS if call.version >= REBALANCE_TIMEOUT_FROM else session_s
    protocols = [Protocol(each.name, bytes(each.metadata)) for each in request.protocols]
    is_consumer = request.protocol_type == CONSUMER
    return Joining(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=call.request.client_id or "",
        client_host=call.peer.host,
        session_timeout_s=session_s,
        rebalance_timeout_s=min(max(rebalance_s, session_s), GROUP_REBALANCE_S_MAX),
        protocol_type=request.protocol_type,
        protocols=protocols,
        topics=NO_TOPICS.union(*(subscribed_topics(each.metadata) for each in protocols)) if is_consumer else NO_TOPICS,
        needs_id_first=call.version >= ID_FIRST_FROM,
        can_skip_assignment=call.version >= SKIP_ASSIGNMENT_FROM,
        size=sum(len(each.name) + len(each.metadata) for each in protocols)
        + len(request.group_instance_id or "")
        + len(call.request.client_id or ""),
    )


def _join_error(request: JoinGroupRequest, joining: Joining) -> Code:
    error = name_error(request.group_id)
    if error is not Code.NONE:
        return error
    if not GROUP_SESSION_S_MIN <= joining.session_timeout_s <= GROUP_SESSION_S_MAX:
        return Code.INVALID_SESSION_TIMEOUT
    size = sum(len(each.metadata) for each in joining.protocols)
    if size > GROUP_METADATA_SIZE_MAX or len(joining.topics) > GROUP_SUBSCRIPTIONS_MAX:
        return Code.INVALID_REQUEST
    return Code.NONE


def _join_response(call: Call, joined: Joined) -> JoinGroupResponse:
    members = [JoinGroupResponseMember(id, instance_id, metadata) for id, instance_id, metadata in joined.members]
    no_protocol = None if call.version >= NULL_PROTOCOL_FROM else NO_PROTOCOL
    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol if joined.protocol is not None else no_protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=members,
    )


async def sync_group(call: Call, request: SyncGroupRequest) -> SyncGroupResponse:
    """Returns the assignment of the member. Answers when the leader has sent the assignments."""
    coordinator = call.broker.coordinator
    group = coordinator.find_classic(request.group_id)
    if group is None:
        return SyncGroupResponse(error_code=_missing(request.group_id))
    assignments = {each.member_id: bytes(each.assignment) for each in request.assignments}
    is_consumer = group.protocol_type == CONSUMER
    syncing = Syncing(
        claim=MemberIdentity(request.member_id, request.group_instance_id, request.generation_id),
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=assignments,
        topics=await _assigned(call, assignments.values()) if is_consumer else NO_TOPICS,
    )
    async with coordinator.holdings.held_for(request.group_id, syncing.topics - group.topics) as refused:
        if refused:
            # The leader assigned a topic that no member subscribed to, and another consumer owns it.
            return SyncGroupResponse(error_code=Code.REBALANCE_IN_PROGRESS)
        size = sum(map(len, assignments.values()))
        error = coordinator.memory.refusal(group, size, call.peer.owner) if size else Code.NONE
        if error is not Code.NONE:
            return SyncGroupResponse(error_code=error)
        waiting: asyncio.Future[Synced] = _reply_to(lambda reply: group.sync(syncing, reply))
        coordinator.changed(group)
    synced = await waiting
    return SyncGroupResponse(
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )


async def _assigned(call: Call, assignments: Collection[bytes]) -> frozenset[str]:
    """Returns the topics in the leader's assignments. A thread reads them if they are large."""

    def read() -> frozenset[str]:
        return NO_TOPICS.union(*map(assigned_topics, assignments))

    return await call.broker.aside(read) if len(call.request.body) > LOOP_REQUEST_SIZE_MAX else read()


def heartbeat(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    """Renews the session of a member."""
    group = call.broker.coordinator.find_classic(request.group_id)
    if group is None:
        return HeartbeatResponse(error_code=_missing(request.group_id))
    # The timer need not change: no deadline gets earlier, and when the timer fires, all deadlines are checked again.
    claim = MemberIdentity(request.member_id, request.group_instance_id, request.generation_id)
    return HeartbeatResponse(error_code=group.heartbeat(claim))


def leave_group(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Removes members."""
    group = call.broker.coordinator.find_classic(request.group_id)
    missing = name_error(request.group_id)
    if missing is not Code.NONE:
        return LeaveGroupResponse(error_code=missing)
    if call.version < MANY_LEAVE_FROM:
        return LeaveGroupResponse(error_code=_leave(call, group, request.member_id, None))
    members = [
        LeaveGroupResponseMember(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            error_code=_leave(call, group, each.member_id, each.group_instance_id),
        )
        for each in request.members
    ]
    return LeaveGroupResponse(members=members)


def _leave(call: Call, group: ClassicGroup | None, member_id: str, instance_id: str | None) -> Code:
    if group is None:
        return Code.UNKNOWN_MEMBER_ID
    error = group.leave(member_id, instance_id)
    call.broker.coordinator.changed(group)
    return error


def _missing(name: str) -> Code:
    """Returns the error for a group without members."""
    error = name_error(name)
    return error if error is not Code.NONE else Code.UNKNOWN_MEMBER_ID


def name_error(name: str) -> Code:
    """Returns INVALID_GROUP_ID if no group can have this name."""
    try:
        checked_name("group", name, GROUP_NAME_SIZE_MAX)
    except BadName:
        return Code.INVALID_GROUP_ID
    return Code.NONE
