"""Requests of members of consumer groups: heartbeats, by which they join, get their partitions, and leave."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from typing import Final, TypeVar

from warren.broker.kafka.errors import Code
from warren.broker.kafka.groups.assignors import ASSIGNORS, AssignedPartition, TopicSnapshot, matching
from warren.broker.kafka.groups.call import Call
from warren.broker.kafka.groups.consumer import ConsumerGroup
from warren.broker.kafka.groups.consumer_members import (
    JOIN_EPOCH,
    PAUSE_EPOCH,
    Beat,
    BeatReply,
    OwnedPlace,
    Subscription,
)
from warren.broker.kafka.groups.join_requests import name_error
from warren.broker.kafka.groups.limits import GROUP_MEMBER_SIZE, GROUP_REBALANCE_S_MAX, GROUP_SUBSCRIPTIONS_MAX
from warren.broker.security.peer import Peer
from warren.broker.security.rights import Operation, ResourceKind
from warren.broker.services.turns import LOOP_REQUEST_SIZE_MAX
from warren.errors import BadInput, NoSuchTopic
from warren.limits import GROUP_NAME_SIZE_MAX
from warren.protocol.kafka_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedAssignment,
    DescribedPartitions,
    HeartbeatAssignment,
    ShareGroupHeartbeatResponse,
    TopicIdPartitions,
)

GROUP_HEARTBEAT_S: Final = 1.0
"""Heartbeat interval of consumer-group members."""
GROUP_PATTERN_SIZE_MAX: Final = 1024
"""The pattern of topic names that a member of a consumer group may subscribe to."""
MS: Final = 1000
BeatResponse = TypeVar("BeatResponse", ConsumerGroupHeartbeatResponse, ShareGroupHeartbeatResponse)
CONSUMER_MEMBER: Final = 1
"""The kind of a member that speaks this protocol, in descriptions."""


async def consumer_group_heartbeat(
    call: Call, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Handles a heartbeat. Returns the epoch of the member, and the partitions that it may own if they changed."""
    coordinator, name = call.broker.coordinator, request.group_id
    is_large = len(call.request.body) > LOOP_REQUEST_SIZE_MAX
    heartbeat = await call.broker.aside(_heartbeat_of, call, request) if is_large else _heartbeat_of(call, request)
    error, message = _error(request, heartbeat)
    if error is not Code.NONE:
        return _refused(error, message)
    group = coordinator.open_consumer(name) if heartbeat.epoch == JOIN_EPOCH else coordinator.find_consumer(name)
    if not isinstance(group, ConsumerGroup):
        # The broker was restarted. The members join again.
        return _refused(group or Code.UNKNOWN_MEMBER_ID, f"group {name!r} has no such member")
    if heartbeat.epoch == JOIN_EPOCH or heartbeat.names is not None:
        member = group.members.get(heartbeat.member_id)
        more = GROUP_MEMBER_SIZE + heartbeat.size - (0 if member is None else member.size)
        error = coordinator.memory.refusal(group, max(0, more), call.peer.owner)
        if error is not Code.NONE:
            coordinator.changed(group)
            return _refused(error, f"group {name!r} has no room for the subscriptions of the member")
    if heartbeat.epoch < JOIN_EPOCH or not group.must_look(heartbeat):
        return _beaten(call, group, heartbeat)
    return await _looked_and_beaten(call, group, heartbeat)


def _refused(error: Code, message: str) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=message)


def _beaten(call: Call, group: ConsumerGroup, heartbeat: Beat) -> ConsumerGroupHeartbeatResponse:
    reply = group.beat(heartbeat)
    # If the answer has no changes, the time of the next `tick` did not change.
    if reply.assignment is not None or heartbeat.epoch <= JOIN_EPOCH or heartbeat.names is not None:
        call.broker.coordinator.changed(group)
    return beat_response(ConsumerGroupHeartbeatResponse, reply)


async def _looked_and_beaten(call: Call, group: ConsumerGroup, heartbeat: Beat) -> ConsumerGroupHeartbeatResponse:
    coordinator = call.broker.coordinator
    subscribed = _subscriptions(group, heartbeat)
    matches = await call.broker.in_thread(_matched, call, {each.pattern for each in subscribed})
    topics = await topic_snapshots(call, _subscribed_names(_allowed(call, matches, subscribed), group, heartbeat))
    # The locks of an unchanged topic are held already, so no other consumer can have taken it.
    news = frozenset(name for name, topic in topics.items() if group.last_lookup.get(name) != topic)
    async with coordinator.holdings.held_for(group.name, news) as errors:
        for name, error in errors.items():
            if error is not Code.COORDINATOR_LOAD_IN_PROGRESS:
                return _refused(error, f"group {group.name!r} cannot have partitions of {name!r}")
        if heartbeat.epoch == JOIN_EPOCH:
            opened = coordinator.open_consumer(group.name)
            if not isinstance(opened, ConsumerGroup):
                return _refused(opened, f"group {group.name!r} is of another kind")
            group = opened
        # Other members may have joined in between, and their topics were locked for them.
        subscribed = _subscriptions(group, heartbeat)
        matches |= _matched(call, {each.pattern for each in subscribed} - matches.keys())
        patterns_matched = _allowed(call, matches, subscribed)
        held = {**group.last_lookup, **{name: topic for name, topic in topics.items() if name not in errors}}
        names = _subscribed_names(patterns_matched, group, heartbeat)
        group.update_topics({name: topic for name, topic in held.items() if name in names}, patterns_matched)
        return _beaten(call, group, heartbeat)


def _subscribed_names(
    patterns: Mapping[Subscription, frozenset[str]], group: ConsumerGroup, heartbeat: Beat
) -> frozenset[str]:
    """Returns the names of all topics that the members and the sender of this heartbeat subscribe to."""
    return (heartbeat.names or frozenset()).union(*patterns.values(), *(each.names for each in group.members.values()))


def _subscriptions(group: ConsumerGroup, heartbeat: Beat) -> set[Subscription]:
    """Returns the patterns of all members and of the sender of this heartbeat, each with its user."""
    own_subscription = Subscription(heartbeat.pattern or "", heartbeat.user, heartbeat.client_host)
    return {
        each for each in (own_subscription, *(member.subscription for member in group.members.values())) if each.pattern
    }


def _allowed(
    call: Call, matches: Mapping[str, frozenset[str]], subscriptions: Iterable[Subscription]
) -> dict[Subscription, frozenset[str]]:
    """Returns the topics that match each pattern and that the member's own user may describe."""
    rights, allowed = call.broker.rights, {}
    for each in subscriptions:
        peer, names = Peer(each.host, 0, each.user), matches[each.pattern]
        allowed[each] = (
            names
            if rights is None
            else frozenset(name for name in names if rights.may(peer, Operation.DESCRIBE, ResourceKind.TOPIC, name))
        )
    return allowed


def _matched(call: Call, patterns: Set[str]) -> dict[str, frozenset[str]]:
    """Returns the names of the topics that match each pattern."""
    names = call.broker.topics.names() if patterns else []
    return {pattern: matching(pattern, names) for pattern in patterns}


async def topic_snapshots(call: Call, names: Iterable[str]) -> dict[str, TopicSnapshot]:
    """Returns the topics that exist, as they are now."""
    topics, snapshots = call.broker.topics, {}
    async for name in call.broker.turns.over(list(names)):
        try:
            topic = await call.broker.opened_topic(name)
            snapshots[name] = TopicSnapshot(topics.id_of(topic), topic.partition_count)
        except (NoSuchTopic, BadInput):
            # The topic may be created later.
            continue
    return snapshots


def _heartbeat_of(call: Call, request: ConsumerGroupHeartbeatRequest) -> Beat:
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


def _error(request: ConsumerGroupHeartbeatRequest, heartbeat: Beat) -> tuple[Code, str]:
    """Returns the error of a request that is not valid by itself, and its message."""
    is_joining = heartbeat.epoch == JOIN_EPOCH
    if name_error(request.group_id) is not Code.NONE:
        return Code.INVALID_GROUP_ID, f"no group can be called {request.group_id!r}"
    if heartbeat.epoch < PAUSE_EPOCH or (not request.member_id and not is_joining):
        return Code.INVALID_REQUEST, f"epoch {heartbeat.epoch} of member {request.member_id!r}"
    if heartbeat.epoch == PAUSE_EPOCH and heartbeat.instance_id is None:
        return Code.INVALID_REQUEST, "only a member with an instance id can announce that it will come back"
    if max(len(heartbeat.member_id), len(heartbeat.instance_id or "")) > GROUP_NAME_SIZE_MAX:
        return Code.INVALID_REQUEST, f"ids have at most {GROUP_NAME_SIZE_MAX} characters"
    if is_joining and not (heartbeat.names or heartbeat.pattern):
        return Code.INVALID_REQUEST, "a member that joins has to subscribe to topics"
    if len(heartbeat.names or ()) > GROUP_SUBSCRIPTIONS_MAX or len(heartbeat.pattern or "") > GROUP_PATTERN_SIZE_MAX:
        return Code.INVALID_REQUEST, f"more than {GROUP_SUBSCRIPTIONS_MAX} names, or a pattern that is too long"
    if heartbeat.assignor is not None and heartbeat.assignor not in ASSIGNORS:
        return Code.UNSUPPORTED_ASSIGNOR, f"assignor {heartbeat.assignor!r}: there are {', '.join(ASSIGNORS)}"
    try:
        matching(heartbeat.pattern or "", ())
    except BadInput as error:
        return Code.INVALID_REGULAR_EXPRESSION, str(error)
    return Code.NONE, ""


def beat_response(kind: type[BeatResponse], reply: BeatReply) -> BeatResponse:
    """Returns the answer to a heartbeat of a consumer or share group."""
    assignment = None
    if reply.assignment is not None:
        by_topic = [TopicIdPartitions(id, numbers) for (_, id), numbers in _by_topic(reply.assignment).items()]
        assignment = HeartbeatAssignment(by_topic)
    return kind(
        error_code=reply.error,
        error_message=None if reply.error is Code.NONE else reply.error.name,
        member_id=reply.member_id,
        member_epoch=reply.epoch,
        heartbeat_interval_ms=int(GROUP_HEARTBEAT_S * MS),
        assignment=assignment,
    )


def described_assignment(partitions: Iterable[AssignedPartition]) -> DescribedAssignment:
    """Returns partitions as a description of a group lists them: the numbers under their topic."""
    by_topic = _by_topic(partitions).items()
    return DescribedAssignment([DescribedPartitions(id, name, numbers) for (name, id), numbers in by_topic])


def _by_topic(partitions: Iterable[AssignedPartition]) -> dict[tuple[str, bytes], list[int]]:
    numbers: dict[tuple[str, bytes], list[int]] = defaultdict(list)
    for each in sorted(partitions):
        numbers[each.topic, each.topic_id].append(each.number)
    return numbers


async def consumer_group_describe(call: Call, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    """Returns the members of consumer groups, with what each owns and what it should own."""
    return ConsumerGroupDescribeResponse(groups=[await _described(call, name) for name in request.group_ids])


async def _described(call: Call, name: str) -> ConsumerGroupDescribeResponseGroup:
    group = call.broker.coordinator.find_consumer(name)
    if group is None:
        message = f"group {name!r} is not a consumer group with members"
        return ConsumerGroupDescribeResponseGroup(Code.GROUP_ID_NOT_FOUND, message, name)
    members = [
        ConsumerGroupDescribeResponseMember(
            member_id=member.id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=f"/{member.client_host}",
            subscribed_topic_names=sorted(member.names),
            subscribed_topic_regex=member.pattern or None,
            assignment=described_assignment(member.assignment),
            target_assignment=described_assignment(group.targets.get(member.id, frozenset())),
            member_type=CONSUMER_MEMBER,
        )
        async for member in call.broker.turns.over(list(group.members.values()))
    ]
    return ConsumerGroupDescribeResponseGroup(
        group_id=name,
        group_state=str(group.state),
        group_epoch=group.epoch,
        assignment_epoch=group.epoch,
        assignor_name=group.assignor,
        members=members,
    )
