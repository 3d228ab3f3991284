"""Asks for the rights that Kafka's requests need: the answer refuses what may not be done, and the rest is done."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from warren.broker.call import Call
from warren.broker.kafka_errors import Code
from warren.broker.quotas.entities import asked_parts
from warren.broker.security.needs import Need, missing
from warren.broker.security.rights import Kind, Operation
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
from warren.protocol.api import ApiKey
from warren.protocol.consumer_protocol import assigned_topics, subscribed_topics
from warren.protocol.kafka_codec import Fields, Values

Plain = Callable[[Call, Fields], Values | Awaitable[Values]]
Guard = Callable[[Call, Fields, Plain], Values | Awaitable[Values]]
"""Answers in the place of a handler, or lets it answer what may be asked."""
Change = Callable[[Values], Values]

REFUSALS: Final[Mapping[Kind, Code]] = MappingProxyType(
    {
        Kind.TOPIC: Code.TOPIC_AUTHORIZATION_FAILED,
        Kind.GROUP: Code.GROUP_AUTHORIZATION_FAILED,
        Kind.CLUSTER: Code.CLUSTER_AUTHORIZATION_FAILED,
        Kind.TRANSACTIONAL_ID: Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
ASK_THEMSELVES: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.DELETE_GROUPS})
"""Keys whose handlers ask for what the table says: two decode by hand, and one has to look at the disk first."""


class Refusal(NamedTuple):
    """Why something is refused."""

    code: Code
    message: str


class Shape(NamedTuple):
    """How an answer tells of a refusal: of the whole request, and of one row, in the list `answered`."""

    whole: Callable[[Fields, Refusal], Values]
    each: Callable[[Any, Refusal], Values] | None = None
    answered: str = "topics"


def guarded(call: Call, request: Fields, handle: Plain) -> Values | Awaitable[Values]:
    """What `handle` answers to what the user may ask for, with what is refused. UnsupportedRequest without a row."""
    key = call.request.api_key
    if key not in KAFKA:
        raise UnsupportedRequest(key, call.version)
    if key in ASK_THEMSELVES:
        return handle(call, request)
    special = SPECIAL.get(key)
    return special(call, request, handle) if special is not None else by_table(call, request, handle)


def by_table(call: Call, request: Fields, handle: Plain) -> Values | Awaitable[Values]:
    """Ask for what the table says, in its order. The first refusal of the whole request is the answer."""
    key = call.request.api_key
    shape = SHAPES.get(key, _PLAIN)
    refused: list[Values] = []
    for need in KAFKA[key].needs:
        if need.source.rows:
            refused += _refused_rows(call, request, need, shape)
            continue
        found = missing(call, need, request)
        if found is not None:
            return shape.whole(request, refusal(call, *found))
    answer = handle(call, request)
    if not refused:
        return answer
    return changed(answer, lambda values: {**values, shape.answered: [*values.get(shape.answered, ()), *refused]})


def _refused_rows(call: Call, request: Fields, need: Need, shape: Shape) -> list[Values]:
    """The answers to rows without the right, which are taken out of the request. Looks at each row once."""
    assert shape.each is not None
    allowed: list[Any] = []
    refused: list[Values] = []
    for row in getattr(request, need.source.rows) or ():
        found = missing(call, need, row)
        if found is None:
            allowed.append(row)
        else:
            refused.append(shape.each(row, refusal(call, *found)))
    if refused:
        vars(request)[need.source.rows] = allowed
    return refused


def refusal(call: Call, operation: Operation, kind: Kind, name: str) -> Refusal:
    """What is told of a missing right, which is logged."""
    return Refusal(REFUSALS[kind], str(call.denied(operation, kind, name)))


def changed(found: Values | Awaitable[Values], change: Change) -> Values | Awaitable[Values]:
    """The answer with `change` made, now or later."""
    if inspect.isawaitable(found):
        return _changed_later(found, change)
    return change(found)


async def _changed_later(found: Awaitable[Values], change: Change) -> Values:
    return change(await found)


# --- How answers tell of a refusal ---


def _code(request: Fields, why: Refusal) -> Values:
    return {"error_code": why.code}


def _code_and_message(request: Any, why: Refusal) -> Values:
    return {"error_code": why.code, "error_message": why.message}


def _partitions(name: str, index: str, *, has_message: bool = False, **more: Any) -> Callable[[Any, Refusal], Values]:
    def refuse(topic: Any, why: Refusal) -> Values:
        told = {"error_code": why.code, **({"error_message": why.message} if has_message else {}), **more}
        return {
            name: getattr(topic, name),
            "partitions": [{index: getattr(part, index), **told} for part in topic.partitions],
        }

    return refuse


def _every_partition(request: Fields, why: Refusal) -> Values:
    return {"topics": [_COMMITTED(topic, why) for topic in request.topics]}


def _topic(row: Any, why: Refusal) -> Values:
    named = {"name": row} if isinstance(row, str) else {"name": row.name}
    if not isinstance(row, str) and "topic_id" in vars(row):
        named["topic_id"] = row.topic_id
    return {**named, "error_code": why.code, "error_message": why.message}


def _config(row: Any, why: Refusal) -> Values:
    named = {"resource_type": row.resource_type, "resource_name": row.resource_name}
    return {**named, "error_code": why.code, "error_message": why.message}


def _group(row: str, why: Refusal) -> Values:
    return {"group_id": row, "error_code": why.code}


def _group_with_message(row: str, why: Refusal) -> Values:
    return {"group_id": row, "error_code": why.code, "error_message": why.message}


def _transaction_topic(row: Any, why: Refusal) -> Values:
    parts = [{"partition_index": number, "partition_error_code": why.code} for number in row.partitions]
    return {"name": row.name, "results_by_partition": parts}


def _transaction_topics(request: Fields, why: Refusal) -> Values:
    return {"results_by_topic_v3_and_below": [_transaction_topic(row, why) for row in request.v3_and_below_topics]}


def _positions(row: Any, why: Refusal) -> Values:
    return {"group_id": row.group_id, "topics": [], "error_code": why.code}


def _no_positions(request: Fields, why: Refusal) -> Values:
    return {"topics": [], "error_code": why.code}


def _quotas(request: Fields, why: Refusal) -> Values:
    return {"entries": [{**_code_and_message(entry, why), "entity": asked_parts(entry)} for entry in request.entries]}


def _each_of(asked: str, answered: str) -> Callable[[Fields, Refusal], Values]:
    return lambda request, why: {answered: [_code_and_message(row, why) for row in getattr(request, asked)]}


_PLAIN: Final = Shape(_code)
_WITH_MESSAGE: Final = Shape(_code_and_message)
_COMMITTED: Final = _partitions("name", "partition_index")
_SHARED: Final = Shape(
    _code_and_message, _partitions("topic_id", "partition_index", has_message=True), answered="responses"
)
SHAPES: Final[Mapping[int, Shape]] = MappingProxyType(
    {
        ApiKey.LIST_OFFSETS: Shape(_code, _partitions("name", "partition_index", timestamp=-1, offset=-1)),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: Shape(_code, _partitions("topic", "partition")),
        ApiKey.DELETE_RECORDS: Shape(_code, _partitions("name", "partition_index", low_watermark=-1)),
        ApiKey.CREATE_TOPICS: Shape(_code, _topic),
        ApiKey.DELETE_TOPICS: Shape(_code, _topic, answered="responses"),
        ApiKey.CREATE_PARTITIONS: Shape(_code, _topic, answered="results"),
        ApiKey.DESCRIBE_CONFIGS: Shape(_code, _config, answered="results"),
        ApiKey.ALTER_CONFIGS: Shape(_code, _config, answered="responses"),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: Shape(_code, _config, answered="responses"),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: _WITH_MESSAGE,
        ApiKey.SHARE_GROUP_HEARTBEAT: _WITH_MESSAGE,
        ApiKey.OFFSET_COMMIT: Shape(_every_partition, _COMMITTED),
        ApiKey.TXN_OFFSET_COMMIT: Shape(_every_partition, _COMMITTED),
        ApiKey.OFFSET_DELETE: Shape(_code, _COMMITTED),
        ApiKey.OFFSET_FETCH: Shape(_no_positions, _positions, answered="groups"),
        ApiKey.DESCRIBE_GROUPS: Shape(_code, _group, answered="groups"),
        ApiKey.CONSUMER_GROUP_DESCRIBE: Shape(_code, _group_with_message, answered="groups"),
        ApiKey.SHARE_GROUP_DESCRIBE: Shape(_code, _group_with_message, answered="groups"),
        ApiKey.SHARE_FETCH: _SHARED,
        ApiKey.SHARE_ACKNOWLEDGE: _SHARED,
        ApiKey.ADD_PARTITIONS_TO_TXN: Shape(
            _transaction_topics, _transaction_topic, answered="results_by_topic_v3_and_below"
        ),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: _WITH_MESSAGE,
        ApiKey.ALTER_CLIENT_QUOTAS: Shape(_quotas),
        ApiKey.DESCRIBE_ACLS: _WITH_MESSAGE,
        ApiKey.CREATE_ACLS: Shape(_each_of("creations", "results")),
        ApiKey.DELETE_ACLS: Shape(_each_of("filters", "filter_results")),
    }
)


# --- Requests whose answers show only what the user may describe ---


def _metadata(call: Call, request: Fields, handle: Plain) -> Values | Awaitable[Values]:
    """Topics that may not be described are not shown, and topics that may not be made are not made."""
    refused: list[Values] = []
    if request.topics:
        allowed = []
        for row in request.topics:
            (name,) = name_or_id(call, row)
            is_made = request.allow_auto_topic_creation and row.name and not is_there(call, name)
            is_allowed = call.may(Operation.DESCRIBE, Kind.TOPIC, name) and (not is_made or call.may_create(name))
            if is_allowed or not name:
                allowed.append(row)
            elif row.name is None:
                refused.append({"name": None, "topic_id": row.topic_id, "error_code": Code.UNKNOWN_TOPIC_ID})
            else:
                refused.append({"name": name, "error_code": Code.TOPIC_AUTHORIZATION_FAILED})
                call.denied(Operation.CREATE if is_made else Operation.DESCRIBE, Kind.TOPIC, name)
        vars(request)["topics"] = allowed
    return changed(handle(call, request), lambda found: {**found, "topics": [*_seen(call, found), *refused]})


def _seen(call: Call, found: Values) -> list[Values]:
    return [
        topic
        for topic in found["topics"]
        if not topic["name"] or topic["error_code"] or call.may(Operation.DESCRIBE, Kind.TOPIC, topic["name"])
    ]


def _list_groups(call: Call, request: Fields, handle: Plain) -> Values | Awaitable[Values]:
    def seen(found: Values) -> Values:
        groups = found["groups"]
        return {**found, "groups": [g for g in groups if call.may(Operation.DESCRIBE, Kind.GROUP, g["group_id"])]}

    return changed(handle(call, request), seen)


def _find_coordinator(call: Call, request: Fields, handle: Plain) -> Values | Awaitable[Values]:
    kind = Kind.TRANSACTIONAL_ID if request.key_type == TRANSACTION else Kind.GROUP
    nowhere = {"node_id": -1, "host": "", "port": -1}
    is_many = call.version >= MANY_COORDINATORS_FROM
    asked = request.coordinator_keys if is_many else (request.key,)
    allowed = [key for key in asked if call.may(Operation.DESCRIBE, kind, key)]
    if len(allowed) == len(asked):
        return handle(call, request)
    refused = [
        {**nowhere, **_code_and_message(key, refusal(call, Operation.DESCRIBE, kind, key)), "key": key}
        for key in asked
        if not call.may(Operation.DESCRIBE, kind, key)
    ]
    if not is_many:
        return {name: value for name, value in refused[0].items() if name != "key"}
    vars(request)["coordinator_keys"] = allowed
    return changed(handle(call, request), lambda found: {"coordinators": [*found["coordinators"], *refused]})


def _offset_fetch(call: Call, request: Fields, handle: Plain) -> Values | Awaitable[Values]:
    found = by_table(call, request, handle)
    if call.version < MANY_GROUPS_FROM:
        return changed(found, lambda values: _describable(call, values))
    return changed(found, lambda values: {"groups": [_describable(call, each) for each in values["groups"]]})


def _describable(call: Call, found: Values) -> Values:
    topics = [each for each in found["topics"] if call.may(Operation.DESCRIBE, Kind.TOPIC, each["name"])]
    return {**found, "topics": topics}


def _describes_groups(
    topics_of: Callable[[Values, Values], Iterable[str]], each: Callable[[str, Refusal], Values]
) -> Guard:
    """A group with a topic that the user may not describe is refused, because its members would tell of the topic."""

    def guard(call: Call, request: Fields, handle: Plain) -> Values | Awaitable[Values]:
        def seen(group: Values) -> Values:
            for member in group.get("members", ()):
                for name in topics_of(group, member):
                    if not call.may(Operation.DESCRIBE, Kind.TOPIC, name):
                        # Not which one: the name is what must not be told.
                        why = Refusal(Code.TOPIC_AUTHORIZATION_FAILED, "the group has topics that you may not describe")
                        return each(group["group_id"], why)
            return group

        return changed(
            by_table(call, request, handle),
            lambda found: {**found, "groups": [seen(group) for group in found["groups"]]},
        )

    return guard


def _named_topics(group: Values, member: Values) -> Iterable[str]:
    yield from member["subscribed_topic_names"]
    for field in ("assignment", "target_assignment"):
        for topic in member.get(field, {}).get("topic_partitions", ()):
            yield topic["topic_name"]


def _classic_topics(group: Values, member: Values) -> Iterable[str]:
    if group["protocol_type"] != CONSUMER:
        return ()
    return subscribed_topics(bytes(member["member_metadata"])) | assigned_topics(bytes(member["member_assignment"]))


SPECIAL: Final[Mapping[int, Guard]] = MappingProxyType(
    {
        ApiKey.METADATA: _metadata,
        ApiKey.LIST_GROUPS: _list_groups,
        ApiKey.FIND_COORDINATOR: _find_coordinator,
        ApiKey.OFFSET_FETCH: _offset_fetch,
        ApiKey.DESCRIBE_GROUPS: _describes_groups(_classic_topics, _group),
        ApiKey.CONSUMER_GROUP_DESCRIBE: _describes_groups(_named_topics, _group_with_message),
        ApiKey.SHARE_GROUP_DESCRIBE: _describes_groups(_named_topics, _group_with_message),
    }
)
