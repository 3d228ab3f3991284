"""Requests about groups as such: which there are, who is in them, and removing them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Final

from warren.broker.call import Call
from warren.broker.groups.classic import ClassicGroup, State
from warren.broker.groups.coordinator import Group
from warren.broker.groups.holding import has_embedded_members
from warren.broker.groups.membership import CONSUMER, name_error
from warren.broker.kafka_errors import Code, code_of
from warren.broker.security.rights import Kind, Operation
from warren.config import LOOP_ROWS_AT_ONCE
from warren.errors import NoRight, WarrenError
from warren.protocol.kafka_codec import Fields, Values
from warren.queue.group_settings import read_settings
from warren.queue.topic import Topic

CLASSIC_KIND: Final = "classic"
CONSUMER_KIND: Final = "consumer"
SHARE_KIND: Final = "share"
NO_OPERATIONS: Final = -(1 << 31)


async def list_groups(call: Call, request: Fields) -> Values:
    """All groups: those that have members, and those of which only the positions are there."""
    states = {each.lower() for each in request.states_filter or ()}
    kinds = {each.lower() for each in request.types_filter or ()}
    stored = await call.broker.in_thread(_stored, call)
    found = {
        name: _listed(
            name, SHARE_KIND if is_shared else CONSUMER, State.EMPTY, SHARE_KIND if is_shared else CLASSIC_KIND
        )
        for name, is_shared in stored.items()
    }
    coordinator = call.broker.coordinator
    found |= {group.name: _group_listed(group) for group in coordinator.groups()}
    found |= {
        group.name: _listed(group.name, SHARE_KIND, State.STABLE, SHARE_KIND) for group in coordinator.shares.groups()
    }
    groups = [
        fields
        for _, fields in sorted(found.items())
        if (not states or fields["group_state"].lower() in states) and (not kinds or fields["group_type"] in kinds)
    ]
    return {"error_code": Code.NONE, "groups": groups}


def _listed(name: str, protocol_type: str, state: str, kind: str) -> dict[str, Any]:
    return {"group_id": name, "protocol_type": protocol_type, "group_state": str(state), "group_type": kind}


def _group_listed(group: Group) -> dict[str, Any]:
    if isinstance(group, ClassicGroup):
        return _listed(group.name, group.protocol_type or "", group.state, CLASSIC_KIND)
    return _listed(group.name, CONSUMER, group.state, CONSUMER_KIND)


def _stored(call: Call) -> dict[str, bool]:
    """The groups of all topics, and whether they take messages by leases."""
    store, found = call.broker.store, {}
    for name in store.topics():
        topic = store.topic(name)
        for group in topic.groups():
            settings = read_settings(topic.filesystem, topic.directory, group)
            if settings is not None:
                found[group] = settings.mode == "queue"
    return found


async def describe_groups(call: Call, request: Fields) -> Values:
    """Who is in classic groups, and what they own. Consumer groups have a request of their own."""
    stored = await call.broker.in_thread(_stored, call)
    names = call.broker.turns.over(request.groups)
    return {"groups": [_described(call, name, is_stored=stored.get(name) is False) async for name in names]}


def _described(call: Call, name: str, *, is_stored: bool) -> dict[str, Any]:
    group = call.broker.coordinator.find(name)
    if not isinstance(group, ClassicGroup):
        is_empty = is_stored and group is None
        return {
            "group_id": name,
            "group_state": str(State.EMPTY if is_empty else State.DEAD),
            "protocol_type": CONSUMER if is_empty else "",
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
    names: Sequence[str] = request.groups_names
    # Topics are looked through once for all of many names, most of which cannot be there.
    known = await call.broker.in_thread(_all_names, call) if len(names) > LOOP_ROWS_AT_ONCE else None
    turns = call.broker.turns.over(names)
    return {"results": [{"group_id": name, "error_code": await _delete(call, name, known)} async for name in turns]}


def _all_names(call: Call) -> set[str]:
    store = call.broker.store
    return {group for topic in map(store.topic, store.topics()) for group in topic.groups()}


async def _delete(call: Call, name: str, known: Set[str] | None) -> Code:
    group = call.broker.coordinator.find(name)
    if name_error(name) is not Code.NONE:
        return Code.INVALID_GROUP_ID
    shared = call.broker.coordinator.shares.find(name)
    if (group is not None and group.members) or shared is not None:
        return Code.NON_EMPTY_GROUP
    await call.broker.coordinator.holdings.settled(name)
    try:
        is_sought = known is None or name in known
        found = await call.broker.in_thread(_topics_with, call, name) if is_sought else []
        deletable = _deletable(call, name, found)
        return await call.broker.in_thread(_deleted, call, deletable, name) if deletable else Code.GROUP_ID_NOT_FOUND
    except NoRight:
        return Code.GROUP_AUTHORIZATION_FAILED
    except WarrenError as failure:
        return code_of(failure)


def _topics_with(call: Call, group: str) -> list[Topic]:
    store = call.broker.store
    return [topic for topic in map(store.topic, store.topics()) if group in topic.groups()]


def _deletable(call: Call, group: str, topics: list[Topic]) -> list[Topic]:
    """All topics of the group, if the user may delete it; otherwise those that the user may alter."""
    if call.may(Operation.DELETE, Kind.GROUP, group):
        return topics
    found = [topic for topic in topics if call.may(Operation.ALTER, Kind.TOPIC, topic.name)]
    if not found:
        raise call.denied(Operation.DELETE, Kind.GROUP, group)
    return found


def _deleted(call: Call, found: list[Topic], group: str) -> Code:
    if any(has_embedded_members(topic, group) for topic in found):
        return Code.NON_EMPTY_GROUP
    for topic in found:
        topic.delete_group(group)
        call.broker.positions.drop(topic, group)
    return Code.NONE
