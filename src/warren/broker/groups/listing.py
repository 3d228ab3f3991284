"""Requests about groups as such: which there are, who is in them, and removing them."""

from __future__ import annotations

from typing import Any, Final

from warren.broker.call import Call
from warren.broker.groups.classic import State
from warren.broker.kafka_errors import Code, code_of
from warren.errors import WarrenError
from warren.protocol.kafka_codec import Fields, Values

CONSUMER: Final = "consumer"
CLASSIC: Final = "classic"
NO_OPERATIONS: Final = -(1 << 31)


async def list_groups(call: Call, request: Fields) -> Values:
    """All groups: those that have members, and those of which only the positions are there."""
    states = {each.lower() for each in request.states_filter or ()}
    types = {each.lower() for each in request.types_filter or ()}
    stored = await call.broker.in_thread(_stored, call)
    found = dict.fromkeys(stored, (CONSUMER, State.EMPTY))
    found |= {group.name: (group.protocol_type or "", group.state) for group in call.broker.coordinator.groups()}
    groups = [
        {"group_id": name, "protocol_type": kind, "group_state": str(state), "group_type": CLASSIC}
        for name, (kind, state) in sorted(found.items())
        if (not states or state.lower() in states) and (not types or CLASSIC in types)
    ]
    return {"error_code": Code.NONE, "groups": groups}


def _stored(call: Call) -> set[str]:
    store = call.broker.store
    return {group for name in store.topics() for group in store.topic(name).groups()}


async def describe_groups(call: Call, request: Fields) -> Values:
    """Who is in groups, and what they own."""
    stored = await call.broker.in_thread(_stored, call)
    return {"groups": [_described(call, name, is_stored=name in stored) for name in request.groups]}


def _described(call: Call, name: str, *, is_stored: bool) -> dict[str, Any]:
    group = call.broker.coordinator.find(name)
    if group is None:
        state = State.EMPTY if is_stored else State.DEAD
        return {
            "group_id": name,
            "group_state": str(state),
            "protocol_type": CONSUMER if is_stored else "",
            "authorized_operations": NO_OPERATIONS,
        }
    members = [
        {
            "member_id": member.id,
            "group_instance_id": member.instance_id,
            "client_id": member.said.client_id,
            "client_host": f"/{member.said.client_host}",
            "member_metadata": member.metadata(group.protocol or ""),
            "member_assignment": member.assignment,
        }
        for member in group.members.values()
    ]
    return {
        "group_id": name,
        "group_state": str(group.state),
        "protocol_type": group.protocol_type or "",
        "protocol_data": group.protocol or "",
        "members": members,
        "authorized_operations": NO_OPERATIONS,
    }


async def delete_groups(call: Call, request: Fields) -> Values:
    """Groups without members are no more, and where they stood is forgotten."""
    results = []
    for name in request.groups_names:
        group = call.broker.coordinator.find(name)
        if group is not None and group.members:
            error = Code.NON_EMPTY_GROUP
        else:
            try:
                is_there = await call.broker.in_thread(_deleted, call, name)
                error = Code.NONE if is_there else Code.GROUP_ID_NOT_FOUND
            except WarrenError as failure:
                error = code_of(failure)
        results.append({"group_id": name, "error_code": error})
    return {"results": results}


def _deleted(call: Call, group: str) -> bool:
    store, is_there = call.broker.store, False
    for name in store.topics():
        topic = store.topic(name)
        if group in topic.groups():
            topic.delete_group(group)
            is_there = True
    return is_there
