"""Requests of members of consumer groups: heartbeats, by which they also join, are told what they own, and leave."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from typing import Any, Final

from warren.broker.call import Call
from warren.broker.groups.assignors import ASSIGNORS, Partition, SeenTopic
from warren.broker.groups.consumer import ConsumerGroup
from warren.broker.groups.consumer_members import JOIN_EPOCH, PAUSE_EPOCH, Beat, OwnedPlace, Subscription, Told
from warren.broker.groups.membership import name_error
from warren.broker.groups.patterns import matching
from warren.broker.kafka_errors import Code
from warren.broker.peer import Peer
from warren.broker.security.rights import Kind, Operation
from warren.config import (
    GROUP_HEARTBEAT_S,
    GROUP_MEMBER_SIZE,
    GROUP_NAME_SIZE_MAX,
    GROUP_PATTERN_SIZE_MAX,
    GROUP_REBALANCE_S_MAX,
    GROUP_SUBSCRIPTIONS_MAX,
    LOOP_REQUEST_SIZE_MAX,
)
from warren.errors import BadInput, NoSuchTopic
from warren.protocol.kafka_codec import Fields, Values

MS: Final = 1000
NO_OPERATIONS: Final = -(1 << 31)
CONSUMER_MEMBER: Final = 1
"""The kind of a member that speaks this protocol, where members are described."""


async def consumer_group_heartbeat(call: Call, request: Fields) -> Values:
    """The member lives; it is told its epoch, and what it may own where that is news."""
    coordinator, name = call.broker.coordinator, request.group_id
    is_large = len(call.request.body) > LOOP_REQUEST_SIZE_MAX
    said = await call.broker.aside(_said, call, request) if is_large else _said(call, request)
    error, message = _error(request, said)
    if error is not Code.NONE:
        return _refused(error, message)
    found = coordinator.open_consumer(name) if said.epoch == JOIN_EPOCH else coordinator.find_consumer(name)
    if not isinstance(found, ConsumerGroup):
        # As after a restart: whoever was a member joins again.
        return _refused(found or Code.UNKNOWN_MEMBER_ID, f"group {name!r} has no such member")
    if said.epoch == JOIN_EPOCH or said.names is not None:
        known = found.members.get(said.member_id)
        more = GROUP_MEMBER_SIZE + said.size - (0 if known is None else known.size)
        error = coordinator.memory.refusal(found, max(0, more), call.peer.owner)
        if error is not Code.NONE:
            coordinator.changed(found)
            return _refused(error, f"group {name!r} has no room for what the member subscribes to")
    if said.epoch < JOIN_EPOCH or not found.must_look(said):
        return _beaten(call, found, said)
    return await _looked_and_beaten(call, found, said)


def _beaten(call: Call, group: ConsumerGroup, said: Beat) -> Values:
    told = group.beat(said)
    # Where the member hears no news, nothing has changed that anybody could be woken for earlier.
    if told.assignment is not None or said.epoch <= JOIN_EPOCH or said.names is not None:
        call.broker.coordinator.changed(group)
    return _told_fields(told)


async def _looked_and_beaten(call: Call, group: ConsumerGroup, said: Beat) -> Values:
    coordinator = call.broker.coordinator
    subscribed = _subscriptions(group, said)
    known = await call.broker.in_thread(_matched, call, {each.pattern for each in subscribed})
    seen = await seen_topics(call, _wanted(_allowed(call, known, subscribed), group, said))
    # Held already, and as it was: nobody else can have come.
    news = frozenset(name for name, topic in seen.items() if group.seen.get(name) != topic)
    async with coordinator.holdings.held_for(group.name, news) as refused:
        for name, error in refused.items():
            if error is not Code.COORDINATOR_LOAD_IN_PROGRESS:
                return _refused(error, f"group {group.name!r} cannot have partitions of {name!r}")
        if said.epoch == JOIN_EPOCH:
            found = coordinator.open_consumer(group.name)
            if not isinstance(found, ConsumerGroup):
                return _refused(found, f"group {group.name!r} is of another kind")
            group = found
        # Others may have come in between, with topics of theirs that were held for them.
        subscribed = _subscriptions(group, said)
        known |= _matched(call, {each.pattern for each in subscribed} - known.keys())
        patterns_matched = _allowed(call, known, subscribed)
        held = {**group.seen, **{name: topic for name, topic in seen.items() if name not in refused}}
        wanted = _wanted(patterns_matched, group, said)
        group.see({name: topic for name, topic in held.items() if name in wanted}, patterns_matched)
        return _beaten(call, group, said)


def _wanted(patterns: Mapping[Subscription, frozenset[str]], group: ConsumerGroup, said: Beat) -> frozenset[str]:
    """The names of all topics that members, or whoever says this, subscribe to."""
    return (said.names or frozenset()).union(*patterns.values(), *(each.names for each in group.members.values()))


def _subscriptions(group: ConsumerGroup, said: Beat) -> set[Subscription]:
    """The patterns of all members, and of the one that says this, each with its user."""
    said_now = Subscription(said.pattern or "", said.user, said.client_host)
    return {each for each in (said_now, *(member.subscription for member in group.members.values())) if each.pattern}


def _allowed(
    call: Call, known: Mapping[str, frozenset[str]], wanted: Iterable[Subscription]
) -> dict[Subscription, frozenset[str]]:
    """What the patterns stand for: topics that each member's own user may describe."""
    rights, found = call.broker.rights, {}
    for each in wanted:
        peer, names = Peer(each.host, 0, each.user), known[each.pattern]
        found[each] = (
            names
            if rights is None
            else frozenset(name for name in names if rights.may(peer, Operation.DESCRIBE, Kind.TOPIC, name))
        )
    return found


def _matched(call: Call, patterns: Set[str]) -> dict[str, frozenset[str]]:
    """The names of topics that each of the patterns stands for."""
    names = call.broker.topics.names() if patterns else []
    return {pattern: matching(pattern, names) for pattern in patterns}


async def seen_topics(call: Call, names: Iterable[str]) -> dict[str, SeenTopic]:
    """Those of the topics that are there, as they are now."""
    topics, seen = call.broker.topics, {}
    async for name in call.broker.turns.over(list(names)):
        try:
            topic = await call.broker.opened_topic(name)
            seen[name] = SeenTopic(topics.id_of(topic), topic.partition_count)
        except (NoSuchTopic, BadInput):
            # It may be made later.
            continue
    return seen


def _said(call: Call, request: Fields) -> Beat:
    timeout_ms, names, owned = request.rebalance_timeout_ms, request.subscribed_topic_names, request.topic_partitions
    return Beat(
        member_id=request.member_id or str(uuid.uuid4()),
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        client_id=call.request.client_id or "",
        client_host=call.peer.host,
        user=call.peer.user,
        rebalance_timeout_s=min(timeout_ms / MS, GROUP_REBALANCE_S_MAX) if timeout_ms >= 0 else None,
        names=None if names is None else frozenset(names),
        pattern=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None
        if owned is None
        else frozenset(OwnedPlace(bytes(each.topic_id), number) for each in owned for number in each.partitions),
    )


def _error(request: Fields, said: Beat) -> tuple[Code, str]:
    """What is wrong with the request itself."""
    is_joining = said.epoch == JOIN_EPOCH
    if name_error(request.group_id) is not Code.NONE:
        return Code.INVALID_GROUP_ID, f"no group can be called {request.group_id!r}"
    if said.epoch < PAUSE_EPOCH or (not request.member_id and not is_joining):
        return Code.INVALID_REQUEST, f"epoch {said.epoch} of member {request.member_id!r}"
    if said.epoch == PAUSE_EPOCH and said.instance_id is None:
        return Code.INVALID_REQUEST, "only a member with an instance id can mean to come back"
    if max(len(said.member_id), len(said.instance_id or "")) > GROUP_NAME_SIZE_MAX:
        return Code.INVALID_REQUEST, f"ids have at most {GROUP_NAME_SIZE_MAX} characters"
    if is_joining and not (said.names or said.pattern):
        return Code.INVALID_REQUEST, "whoever joins subscribes to something"
    if len(said.names or ()) > GROUP_SUBSCRIPTIONS_MAX or len(said.pattern or "") > GROUP_PATTERN_SIZE_MAX:
        return Code.INVALID_REQUEST, f"more than {GROUP_SUBSCRIPTIONS_MAX} names, or a pattern that is too long"
    if said.assignor is not None and said.assignor not in ASSIGNORS:
        return Code.UNSUPPORTED_ASSIGNOR, f"assignor {said.assignor!r}: there are {', '.join(ASSIGNORS)}"
    try:
        matching(said.pattern or "", ())
    except BadInput as error:
        return Code.INVALID_REGULAR_EXPRESSION, str(error)
    return Code.NONE, ""


def _refused(error: Code, message: str) -> Values:
    return {"error_code": error, "error_message": message}


def _told_fields(told: Told) -> Values:
    assignment = None if told.assignment is None else {"topic_partitions": by_topic(told.assignment)}
    return {
        "error_code": told.error,
        "error_message": None if told.error is Code.NONE else told.error.name,
        "member_id": told.member_id,
        "member_epoch": told.epoch,
        "heartbeat_interval_ms": int(GROUP_HEARTBEAT_S * MS),
        "assignment": assignment,
    }


def by_topic(partitions: Iterable[Partition], *, with_names: bool = False) -> list[dict[str, Any]]:
    """Partitions as they are told: the numbers under their topic."""
    found: dict[tuple[str, bytes], list[int]] = defaultdict(list)
    for each in sorted(partitions):
        found[each.topic, each.topic_id].append(each.number)
    return [
        {"topic_id": id, "partitions": numbers} | ({"topic_name": name} if with_names else {})
        for (name, id), numbers in found.items()
    ]


async def consumer_group_describe(call: Call, request: Fields) -> Values:
    """Who is in consumer groups, what each owns, and what it should."""
    return {"groups": [await _described(call, name) for name in request.group_ids]}


async def _described(call: Call, name: str) -> dict[str, Any]:
    group = call.broker.coordinator.find_consumer(name)
    if group is None:
        message = f"group {name!r} is no consumer group with members"
        return {"group_id": name, "error_code": Code.GROUP_ID_NOT_FOUND, "error_message": message}
    members = [
        {
            "member_id": member.id,
            "instance_id": member.instance_id,
            "rack_id": member.rack_id,
            "member_epoch": member.epoch,
            "client_id": member.client_id,
            "client_host": f"/{member.client_host}",
            "subscribed_topic_names": sorted(member.names),
            "subscribed_topic_regex": member.pattern or None,
            "assignment": {"topic_partitions": by_topic(member.given, with_names=True)},
            "target_assignment": {
                "topic_partitions": by_topic(group.targets.get(member.id, frozenset()), with_names=True)
            },
            "member_type": CONSUMER_MEMBER,
        }
        async for member in call.broker.turns.over(list(group.members.values()))
    ]
    return {
        "group_id": name,
        "group_state": str(group.state),
        "group_epoch": group.epoch,
        "assignment_epoch": group.epoch,
        "assignor_name": group.assignor,
        "members": members,
        "authorized_operations": NO_OPERATIONS,
    }
