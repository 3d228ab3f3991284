"""Requests that list groups, describe their members, and delete groups."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from warren.broker.kafka.errors import Code, code_of
from warren.broker.kafka.groups.call import Call
from warren.broker.kafka.groups.classic import ClassicGroup, GroupState
from warren.broker.kafka.groups.coordinator import AnyGroup
from warren.broker.kafka.groups.join_requests import CONSUMER, name_error
from warren.broker.kafka.groups.partition_locks import has_embedded_members
from warren.broker.security.rights import Operation, ResourceKind
from warren.broker.services.turns import LOOP_ROWS_AT_ONCE
from warren.errors import NoRight, NoSuchTopic, WarrenError
from warren.protocol.kafka_messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResponseResult,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
    ListGroupsRequest,
    ListGroupsResponse,
    ListGroupsResponseGroup,
)
from warren.queue.state.group_settings import read_settings
from warren.queue.topic import Topic

CLASSIC_KIND: Final = "classic"
CONSUMER_KIND: Final = "consumer"
SHARE_KIND: Final = "share"


async def list_groups(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    """Returns all groups: those that have members, and those that only have stored positions."""
    states = {each.lower() for each in request.states_filter or ()}
    kinds = {each.lower() for each in request.types_filter or ()}
    stored = await call.broker.in_thread(_stored, call)
    by_name = {
        name: _listed(
            name, SHARE_KIND if is_shared else CONSUMER, GroupState.EMPTY, SHARE_KIND if is_shared else CLASSIC_KIND
        )
        for name, is_shared in stored.items()
    }
    coordinator = call.broker.coordinator
    by_name |= {group.name: _group_listed(group) for group in coordinator.groups()}
    by_name |= {
        group.name: _listed(group.name, SHARE_KIND, GroupState.STABLE, SHARE_KIND)
        for group in coordinator.shares.groups()
    }
    groups = [
        group
        for _, group in sorted(by_name.items())
        if (not states or group.group_state.lower() in states) and (not kinds or group.group_type in kinds)
    ]
    return ListGroupsResponse(groups=groups)


def _listed(name: str, protocol_type: str, state: str, kind: str) -> ListGroupsResponseGroup:
    return ListGroupsResponseGroup(name, protocol_type, str(state), kind)


def _group_listed(group: AnyGroup) -> ListGroupsResponseGroup:
    if isinstance(group, ClassicGroup):
        return _listed(group.name, group.protocol_type or "", group.state, CLASSIC_KIND)
    return _listed(group.name, CONSUMER, group.state, CONSUMER_KIND)


def _stored(call: Call) -> dict[str, bool]:
    """Returns the groups of all topics, and whether each is a queue group, which has leases."""
    store, is_shared = call.broker.store, {}
    for name in store.topics():
        try:
            # Not `topic`, which would make a topic again that another process deletes at this moment.
            topic = store.existing_topic(name)
        except NoSuchTopic:
            continue
        for group in topic.groups():
            settings = read_settings(topic.filesystem, topic.directory, group)
            if settings is not None:
                is_shared[group] = settings.mode == "queue"
    return is_shared


async def describe_groups(call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Returns the members of classic groups, and what they own. Consumer groups have a request of their own."""
    stored = await call.broker.in_thread(_stored, call)
    names = call.broker.turns.over(request.groups)
    return DescribeGroupsResponse(
        groups=[_described(call, name, is_stored=stored.get(name) is False) async for name in names]
    )


def _described(call: Call, name: str, *, is_stored: bool) -> DescribeGroupsResponseGroup:
    group = call.broker.coordinator.find(name)
    if not isinstance(group, ClassicGroup):
        is_empty = is_stored and group is None
        return DescribeGroupsResponseGroup(
            group_id=name,
            group_state=str(GroupState.EMPTY if is_empty else GroupState.DEAD),
            protocol_type=CONSUMER if is_empty else "",
        )
    members = [
        DescribeGroupsResponseMember(
            member_id=member.id,
            group_instance_id=member.instance_id,
            client_id=member.join_request.client_id,
            client_host=f"/{member.join_request.client_host}",
            member_metadata=member.metadata(group.protocol or ""),
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    return DescribeGroupsResponseGroup(
        group_id=name,
        group_state=str(group.state),
        protocol_type=group.protocol_type or "",
        protocol_data=group.protocol or "",
        members=members,
    )


async def delete_groups(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Deletes groups without members, and their positions."""
    names = request.groups_names
    # The topics are listed once for all names, because most of many names do not exist.
    all_names = await call.broker.in_thread(_all_names, call) if len(names) > LOOP_ROWS_AT_ONCE else None
    turns = call.broker.turns.over(names)
    return DeleteGroupsResponse(
        results=[DeleteGroupsResponseResult(name, await _delete(call, name, all_names)) async for name in turns]
    )


def _all_names(call: Call) -> set[str]:
    store = call.broker.store
    return {group for topic in map(store.topic, store.topics()) for group in topic.groups()}


async def _delete(call: Call, name: str, all_names: Set[str] | None) -> Code:
    group = call.broker.coordinator.find(name)
    if name_error(name) is not Code.NONE:
        return Code.INVALID_GROUP_ID
    shared = call.broker.coordinator.shares.find(name)
    if (group is not None and group.members) or shared is not None:
        return Code.NON_EMPTY_GROUP
    await call.broker.coordinator.holdings.settled(name)
    try:
        is_sought = all_names is None or name in all_names
        topics = await call.broker.in_thread(_topics_with, call, name) if is_sought else []
        deletable = _deletable(call, name, topics)
        return await call.broker.in_thread(_deleted, call, deletable, name) if deletable else Code.GROUP_ID_NOT_FOUND
    except NoRight:
        return Code.GROUP_AUTHORIZATION_FAILED
    except WarrenError as failure:
        return code_of(failure)


def _topics_with(call: Call, group: str) -> list[Topic]:
    store = call.broker.store
    return [topic for topic in map(store.topic, store.topics()) if group in topic.groups()]


def _deletable(call: Call, group: str, topics: list[Topic]) -> list[Topic]:
    """Returns all topics of the group if the user may delete it; otherwise those that the user may alter."""
    if call.may(Operation.DELETE, ResourceKind.GROUP, group):
        return topics
    alterable = [topic for topic in topics if call.may(Operation.ALTER, ResourceKind.TOPIC, topic.name)]
    if not alterable:
        raise call.denied(Operation.DELETE, ResourceKind.GROUP, group)
    return alterable


def _deleted(call: Call, topics: list[Topic], group: str) -> Code:
    if any(has_embedded_members(topic, group) for topic in topics):
        return Code.NON_EMPTY_GROUP
    for topic in topics:
        topic.delete_group(group)
        call.broker.positions.drop(topic, group)
    return Code.NONE
