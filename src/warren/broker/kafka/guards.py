"""Checks the rights that Kafka's requests need. Refuses the rows without a right, and handles the others."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from warren.broker.kafka.call import Call
from warren.broker.kafka.errors import Code
from warren.broker.kafka.refusals import (
    SHAPES,
    Refusal,
    RefusalShape,
    described_consumer_group,
    described_group,
    described_share_group,
)
from warren.broker.security.needs import Need, missing
from warren.broker.security.rights import Operation, ResourceKind
from warren.broker.security.sources import (
    CONSUMER,
    MANY_COORDINATORS_FROM,
    MANY_GROUPS_FROM,
    TRANSACTION,
    is_there,
    name_or_id,
)
from warren.broker.security.table import KAFKA
from warren.errors import UnsupportedRequest
from warren.protocol.api_keys import ApiKey
from warren.protocol.kafka.subscriptions import assigned_topics, subscribed_topics
from warren.protocol.kafka_messages import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseGroup,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    ListGroupsRequest,
    ListGroupsResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    ShareGroupDescribeResponse,
    ShareGroupDescribeResponseGroup,
)
from warren.protocol.wire_struct import WireStruct

A = TypeVar("A")
AnyRequest = TypeVar("AnyRequest", bound=WireStruct)
HandleRequest = Callable[[Call, AnyRequest], WireStruct | Awaitable[WireStruct]]
"""A handler: gets the request, returns the response."""
Guard = Callable[[Call, Any, Any], WireStruct | Awaitable[WireStruct]]
"""Answers instead of a handler, or passes on to it the rows that are allowed."""

REFUSALS: Final[Mapping[ResourceKind, Code]] = MappingProxyType(
    {
        ResourceKind.TOPIC: Code.TOPIC_AUTHORIZATION_FAILED,
        ResourceKind.GROUP: Code.GROUP_AUTHORIZATION_FAILED,
        ResourceKind.CLUSTER: Code.CLUSTER_AUTHORIZATION_FAILED,
        ResourceKind.TRANSACTIONAL_ID: Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
ASK_THEMSELVES: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.DELETE_GROUPS})
"""Keys whose handlers check the rights themselves: two are decoded by hand, and one has to read the disk first."""
NO_PORT: Final = -1


def guarded(call: Call, request: AnyRequest, handle: HandleRequest[AnyRequest]) -> WireStruct | Awaitable[WireStruct]:
    """Returns the answer of `handle` to the allowed rows, together with the refused rows.

    Raises UnsupportedRequest if the table of rights has no row for the request.
    """
    key = call.request.api_key
    if key not in KAFKA:
        raise UnsupportedRequest(key, call.version)
    if key in ASK_THEMSELVES:
        return handle(call, request)
    special = SPECIAL.get(key)
    return special(call, request, handle) if special is not None else by_table(call, request, handle)


def by_table(call: Call, request: AnyRequest, handle: HandleRequest[AnyRequest]) -> WireStruct | Awaitable[WireStruct]:
    """Checks the rights of the table, in its order. Answers with the first refusal of the whole request."""
    key = call.request.api_key
    # A request that needs no right cannot be refused.
    shape = SHAPES.get(key, RefusalShape())
    refused: list[WireStruct] = []
    for need in KAFKA[key].needs:
        if need.source.rows:
            refused += _refused_rows(call, request, need, shape)
            continue
        right = missing(call, need, request)
        if right is not None:
            assert shape.whole is not None
            return shape.whole(request, refusal(call, *right))
    answer = handle(call, request)
    if not refused:
        return answer

    def add_refused(response: WireStruct) -> None:
        setattr(response, shape.answered, [*getattr(response, shape.answered), *refused])

    return changed(answer, add_refused)


def _refused_rows(call: Call, request: WireStruct, need: Need, shape: RefusalShape) -> list[WireStruct]:
    """Removes the rows without the right from the request, and returns their answers. Visits each row once."""
    assert shape.each is not None
    allowed: list[Any] = []
    refused: list[WireStruct] = []
    for row in getattr(request, need.source.rows) or ():
        right = missing(call, need, row)
        if right is None:
            allowed.append(row)
        else:
            refused.append(shape.each(row, refusal(call, *right)))
    if refused:
        setattr(request, need.source.rows, allowed)
    return refused


def refusal(call: Call, operation: Operation, kind: ResourceKind, name: str) -> Refusal:
    """Returns the answer for a missing right, and logs it."""
    return Refusal(REFUSALS[kind], str(call.denied(operation, kind, name)))


def changed(answer: A | Awaitable[A], change: Callable[[A], None]) -> A | Awaitable[A]:
    """Returns the answer after `change` was made to it, now or later."""
    if inspect.isawaitable(answer):
        return _changed_later(answer, change)
    change(answer)
    return answer


async def _changed_later(answer: Awaitable[A], change: Callable[[A], None]) -> A:
    response = await answer
    change(response)
    return response


# --- Requests whose answers show only what the user may describe ---


def _metadata(
    call: Call, request: MetadataRequest, handle: Callable[[Call, MetadataRequest], Awaitable[MetadataResponse]]
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Hides topics that the user may not describe, and does not create topics that the user may not create."""
    refused: list[MetadataResponseTopic] = []
    if request.topics:
        allowed = []
        for row in request.topics:
            (name,) = name_or_id(call, row)
            is_made = request.allow_auto_topic_creation and row.name and not is_there(call, name)
            is_allowed = call.may(Operation.DESCRIBE, ResourceKind.TOPIC, name) and (
                not is_made or call.may_create(name)
            )
            if is_allowed or not name:
                allowed.append(row)
            elif row.name is None:
                refused.append(MetadataResponseTopic(Code.UNKNOWN_TOPIC_ID, None, row.topic_id))
            else:
                refused.append(MetadataResponseTopic(Code.TOPIC_AUTHORIZATION_FAILED, name))
                call.denied(Operation.CREATE if is_made else Operation.DESCRIBE, ResourceKind.TOPIC, name)
        request.topics = allowed

    def show(response: MetadataResponse) -> None:
        visible = [
            topic
            for topic in response.topics
            if not topic.name or topic.error_code or call.may(Operation.DESCRIBE, ResourceKind.TOPIC, topic.name)
        ]
        response.topics = [*visible, *refused]

    return changed(handle(call, request), show)


def _list_groups(
    call: Call, request: ListGroupsRequest, handle: Callable[[Call, ListGroupsRequest], Awaitable[ListGroupsResponse]]
) -> ListGroupsResponse | Awaitable[ListGroupsResponse]:
    def show(response: ListGroupsResponse) -> None:
        groups = response.groups
        response.groups = [each for each in groups if call.may(Operation.DESCRIBE, ResourceKind.GROUP, each.group_id)]

    return changed(handle(call, request), show)


def _find_coordinator(
    call: Call,
    request: FindCoordinatorRequest,
    handle: Callable[[Call, FindCoordinatorRequest], FindCoordinatorResponse],
) -> FindCoordinatorResponse:
    kind = ResourceKind.TRANSACTIONAL_ID if request.key_type == TRANSACTION else ResourceKind.GROUP
    is_many = call.version >= MANY_COORDINATORS_FROM
    keys = request.coordinator_keys if is_many else (request.key,)
    allowed = [key for key in keys if call.may(Operation.DESCRIBE, kind, key)]
    if len(allowed) == len(keys):
        return handle(call, request)
    reasons = {
        key: refusal(call, Operation.DESCRIBE, kind, key) for key in keys if not call.may(Operation.DESCRIBE, kind, key)
    }
    if not is_many:
        why = reasons[request.key]
        return FindCoordinatorResponse(
            error_code=why.code, error_message=why.message, node_id=-1, host="", port=NO_PORT
        )
    refused = [
        FindCoordinatorResponseCoordinator(key, -1, "", NO_PORT, why.code, why.message) for key, why in reasons.items()
    ]
    request.coordinator_keys = allowed
    response = handle(call, request)
    response.coordinators = [*response.coordinators, *refused]
    return response


def _offset_fetch(
    call: Call, request: OffsetFetchRequest, handle: HandleRequest[OffsetFetchRequest]
) -> WireStruct | Awaitable[WireStruct]:
    def is_shown(topic: str) -> bool:
        return call.may(Operation.DESCRIBE, ResourceKind.TOPIC, topic)

    def show(response: WireStruct) -> None:
        assert isinstance(response, OffsetFetchResponse)
        if call.version < MANY_GROUPS_FROM:
            response.topics = [each for each in response.topics if is_shown(each.name)]
        for group in response.groups:
            group.topics = [each for each in group.topics if is_shown(each.name)]

    return changed(by_table(call, request, handle), show)


HIDDEN_TOPICS: Final = Refusal(Code.TOPIC_AUTHORIZATION_FAILED, "the group has topics that you may not describe")
"""A group with a topic that the user may not describe is refused, because its members would show the topic. The reason
does not name the topic, because the client must not learn it."""


def _may_describe(call: Call, topics: Iterable[str]) -> bool:
    return all(call.may(Operation.DESCRIBE, ResourceKind.TOPIC, name) for name in topics)


def _describe_groups(
    call: Call, request: WireStruct, handle: HandleRequest[WireStruct]
) -> WireStruct | Awaitable[WireStruct]:
    def show(response: WireStruct) -> None:
        assert isinstance(response, DescribeGroupsResponse)
        response.groups = [
            each if _may_describe(call, _classic_topics(each)) else described_group(each.group_id, HIDDEN_TOPICS)
            for each in response.groups
        ]

    return changed(by_table(call, request, handle), show)


def _describe_consumer_groups(
    call: Call, request: WireStruct, handle: HandleRequest[WireStruct]
) -> WireStruct | Awaitable[WireStruct]:
    def show(response: WireStruct) -> None:
        assert isinstance(response, ConsumerGroupDescribeResponse)
        response.groups = [
            each if _may_describe(call, _named_topics(each)) else described_consumer_group(each.group_id, HIDDEN_TOPICS)
            for each in response.groups
        ]

    return changed(by_table(call, request, handle), show)


def _describe_share_groups(
    call: Call, request: WireStruct, handle: HandleRequest[WireStruct]
) -> WireStruct | Awaitable[WireStruct]:
    def show(response: WireStruct) -> None:
        assert isinstance(response, ShareGroupDescribeResponse)
        response.groups = [
            each if _may_describe(call, _named_topics(each)) else described_share_group(each.group_id, HIDDEN_TOPICS)
            for each in response.groups
        ]

    return changed(by_table(call, request, handle), show)


def _named_topics(group: ConsumerGroupDescribeResponseGroup | ShareGroupDescribeResponseGroup) -> Iterable[str]:
    for member in group.members:
        yield from member.subscribed_topic_names
        yield from (topic.topic_name for topic in member.assignment.topic_partitions)
    if isinstance(group, ConsumerGroupDescribeResponseGroup):
        for each in group.members:
            yield from (topic.topic_name for topic in each.target_assignment.topic_partitions)


def _classic_topics(group: DescribeGroupsResponseGroup) -> Iterable[str]:
    if group.protocol_type != CONSUMER:
        return
    for member in group.members:
        yield from subscribed_topics(member.member_metadata)
        yield from assigned_topics(member.member_assignment)


SPECIAL: Final[Mapping[int, Guard]] = MappingProxyType(
    {
        ApiKey.METADATA: _metadata,
        ApiKey.LIST_GROUPS: _list_groups,
        ApiKey.FIND_COORDINATOR: _find_coordinator,
        ApiKey.OFFSET_FETCH: _offset_fetch,
        ApiKey.DESCRIBE_GROUPS: _describe_groups,
        ApiKey.CONSUMER_GROUP_DESCRIBE: _describe_consumer_groups,
        ApiKey.SHARE_GROUP_DESCRIBE: _describe_share_groups,
    }
)
