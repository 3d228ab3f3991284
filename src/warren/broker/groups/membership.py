"""Requests of members of classic groups: join, share out, stay, leave."""

from __future__ import annotations

import inspect
from typing import Any, Final

from warren.broker.call import Call
from warren.broker.groups.classic import ClassicGroup
from warren.broker.groups.members import Joined, Joining, Protocol, Synced
from warren.broker.kafka_errors import Code
from warren.config import GROUP_NAME_SIZE_MAX, GROUP_SESSION_S_MAX, GROUP_SESSION_S_MIN
from warren.errors import BadName
from warren.protocol.kafka_codec import Fields, Values
from warren.queue.names import checked_name

ID_FIRST_FROM: Final = 4
REBALANCE_TIMEOUT_FROM: Final = 1
MANY_LEAVE_FROM: Final = 3
MS: Final = 1000
NO_PROTOCOL: Final = ""
NULL_PROTOCOL_FROM: Final = 7


async def join_group(call: Call, request: Fields) -> Values:
    """Become a member; answered when the group has a new generation."""
    session_s = request.session_timeout_ms / MS
    error = _name_error(request.group_id)
    if error is Code.NONE and not GROUP_SESSION_S_MIN <= session_s <= GROUP_SESSION_S_MAX:
        error = Code.INVALID_SESSION_TIMEOUT
    group = call.broker.coordinator.open(request.group_id) if error is Code.NONE else error
    if not isinstance(group, ClassicGroup):
        return _joined_fields(call, Joined(error=group, member_id=request.member_id))
    has_rebalance_timeout = call.version >= REBALANCE_TIMEOUT_FROM
    said = Joining(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=call.request.client_id or "",
        client_host=call.peer.host,
        session_timeout_s=session_s,
        rebalance_timeout_s=request.rebalance_timeout_ms / MS if has_rebalance_timeout else session_s,
        protocol_type=request.protocol_type,
        protocols=[Protocol(each.name, bytes(each.metadata)) for each in request.protocols],
        needs_id_first=call.version >= ID_FIRST_FROM,
    )
    found = group.join(said)
    call.broker.coordinator.changed(group)
    joined = await found if inspect.isawaitable(found) else found
    call.broker.coordinator.changed(group)
    return _joined_fields(call, joined)


def _joined_fields(call: Call, joined: Joined) -> dict[str, Any]:
    members = [
        {"member_id": id, "group_instance_id": instance_id, "metadata": metadata}
        for id, instance_id, metadata in joined.members
    ]
    no_protocol = None if call.version >= NULL_PROTOCOL_FROM else NO_PROTOCOL
    return {
        "error_code": joined.error,
        "generation_id": joined.generation,
        "protocol_type": joined.protocol_type,
        "protocol_name": joined.protocol if joined.protocol is not None else no_protocol,
        "leader": joined.leader,
        "skip_assignment": joined.skip_assignment,
        "member_id": joined.member_id,
        "members": members,
    }


async def sync_group(call: Call, request: Fields) -> Values:
    """What the member owns; answered when the leader has shared out."""
    group = call.broker.coordinator.find(request.group_id)
    if group is None:
        return {"error_code": _missing(request.group_id)}
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (None, group.protocol):
        return {"error_code": Code.INCONSISTENT_GROUP_PROTOCOL}
    assignments = {each.member_id: bytes(each.assignment) for each in request.assignments}
    found = group.sync(request.member_id, request.group_instance_id, request.generation_id, assignments)
    call.broker.coordinator.changed(group)
    synced: Synced = await found if inspect.isawaitable(found) else found
    return {
        "error_code": synced.error,
        "protocol_type": synced.protocol_type,
        "protocol_name": synced.protocol,
        "assignment": synced.assignment,
    }


def heartbeat(call: Call, request: Fields) -> Values:
    """The member lives."""
    group = call.broker.coordinator.find(request.group_id)
    if group is None:
        return {"error_code": _missing(request.group_id)}
    error = group.heartbeat(request.member_id, request.group_instance_id, request.generation_id)
    call.broker.coordinator.changed(group)
    return {"error_code": error}


def leave_group(call: Call, request: Fields) -> Values:
    """Members go."""
    group = call.broker.coordinator.find(request.group_id)
    if group is None:
        return {"error_code": _missing(request.group_id)}
    if call.version < MANY_LEAVE_FROM:
        error = group.leave(request.member_id)
        call.broker.coordinator.changed(group)
        return {"error_code": error}
    members = []
    for each in request.members:
        error = group.leave(each.member_id, each.group_instance_id)
        members.append({"member_id": each.member_id, "group_instance_id": each.group_instance_id, "error_code": error})
    call.broker.coordinator.changed(group)
    return {"error_code": Code.NONE, "members": members}


def _missing(name: str) -> Code:
    """What is said of a group that nobody is in."""
    error = _name_error(name)
    return error if error is not Code.NONE else Code.UNKNOWN_MEMBER_ID


def _name_error(name: str) -> Code:
    try:
        checked_name("group", name, GROUP_NAME_SIZE_MAX)
    except BadName:
        return Code.INVALID_GROUP_ID
    return Code.NONE
