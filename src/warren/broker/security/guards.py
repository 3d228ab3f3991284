"""What each request needs a right for: what may not be done is refused by itself, and the rest is done."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from warren.broker.call import Call
from warren.broker.kafka_errors import Code
from warren.broker.security.rights import CLUSTER_NAME, Kind, Operation
from warren.errors import BadName, NoSuchTopic, NotAllowed
from warren.protocol.api import ApiKey
from warren.protocol.kafka_codec import Fields, Values

Plain = Callable[[Call, Fields], Values | Awaitable[Values]]
Guard = Callable[[Call, Fields, Plain], Values | Awaitable[Values]]
"""Answers in the place of a handler, or lets it answer what may be asked."""
Named = tuple[Kind, str]

REFUSALS: Final[Mapping[Kind, Code]] = MappingProxyType(
    {
        Kind.TOPIC: Code.TOPIC_AUTHORIZATION_FAILED,
        Kind.GROUP: Code.GROUP_AUTHORIZATION_FAILED,
        Kind.CLUSTER: Code.CLUSTER_AUTHORIZATION_FAILED,
        Kind.TRANSACTIONAL_ID: Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
MANY_FROM: Final[Mapping[int, int]] = MappingProxyType({ApiKey.FIND_COORDINATOR: 4, ApiKey.OFFSET_FETCH: 8})
BY_ID_FROM: Final = 6
TRANSACTION: Final = 1
CONFIGS_OF_TOPIC: Final = 2


def guarded(call: Call, request: Fields, handle: Plain) -> Values | Awaitable[Values]:
    """What `handle` answers to what the peer may ask; NotAllowed for a request that nobody has thought of."""
    guards = GUARDS.get(call.request.api_key)
    if guards is None:
        raise NotAllowed(call.request.api_key, str(call.peer))
    for guard in reversed(guards):
        handle = _inner(guard, handle)
    return handle(call, request)


def _inner(guard: Guard, handle: Plain) -> Plain:
    return lambda call, request: guard(call, request, handle)


def changed(found: Values | Awaitable[Values], change: Callable[[Values], Values]) -> Values | Awaitable[Values]:
    """The answer with `change` made, now or later."""
    if inspect.isawaitable(found):
        return _changed_later(found, change)
    return change(found)


async def _changed_later(found: Awaitable[Values], change: Callable[[Values], Values]) -> Values:
    return change(await found)


# --- One need for the whole request ---


def whole(operation: Operation, find: Callable[[Fields], Named], refuse: Callable[[Fields, Code], Values]) -> Guard:
    """One right for all of it."""

    def guard(call: Call, request: Fields, handle: Plain) -> Values | Awaitable[Values]:
        kind, name = find(request)
        return handle(call, request) if call.may(operation, kind, name) else refuse(request, REFUSALS[kind])

    return guard


def _group(request: Fields) -> Named:
    return Kind.GROUP, request.group_id or ""


def _transaction(request: Fields) -> Named:
    return Kind.TRANSACTIONAL_ID, request.transactional_id or ""


def _cluster(request: Fields) -> Named:
    return Kind.CLUSTER, CLUSTER_NAME


def _error(request: Fields, code: Code) -> Values:
    return {"error_code": code}


def _each_partition(request: Fields, code: Code) -> Values:
    return {"topics": [_partitions_refused("name", "partition_index")(topic, code) for topic in request.topics]}


# --- A need for each row ---


def rows(
    operation: Operation,
    asked: str,
    answered: str,
    find: Callable[[Call, Any], Named],
    refuse: Callable[[Any, Code], Values],
) -> Guard:
    """A right for each of a list: those without are refused, and the others are done."""

    def guard(call: Call, request: Fields, handle: Plain) -> Values | Awaitable[Values]:
        given: Sequence[Any] = getattr(request, asked) or ()
        needs = [find(call, each) for each in given]
        refused = [
            refuse(each, REFUSALS[kind])
            for each, (kind, name) in zip(given, needs, strict=True)
            if not call.may(operation, kind, name)
        ]
        if not refused:
            return handle(call, request)
        allowed = [each for each, (kind, name) in zip(given, needs, strict=True) if call.may(operation, kind, name)]
        vars(request)[asked] = allowed
        return changed(handle(call, request), lambda found: {**found, answered: [*found[answered], *refused]})

    return guard


def _topic_in(field: str) -> Callable[[Call, Any], Named]:
    return lambda call, each: (Kind.TOPIC, getattr(each, field) or "")


def _group_itself(call: Call, each: str) -> Named:
    return Kind.GROUP, each


def _topic_or_id(call: Call, each: Any) -> Named:
    """A topic by its name, or by its id; one that is not there has no name."""
    if isinstance(each, str) or each.name is not None:
        return Kind.TOPIC, each if isinstance(each, str) else each.name
    return _topic_by_id(call, each)


def _topic_by_id(call: Call, each: Any) -> Named:
    try:
        return Kind.TOPIC, call.broker.topics.find_by_id(each.topic_id).name
    except NoSuchTopic:
        return Kind.TOPIC, ""


def _configured(call: Call, each: Any) -> Named:
    is_topic = each.resource_type == CONFIGS_OF_TOPIC
    return (Kind.TOPIC, each.resource_name) if is_topic else (Kind.CLUSTER, CLUSTER_NAME)


def _partitions_refused(name: str, index: str, **more: Any) -> Callable[[Any, Code], Values]:
    return lambda topic, code: {
        name: getattr(topic, name),
        "partitions": [{index: getattr(part, index), "error_code": code, **more} for part in topic.partitions],
    }


def _topic_refused(each: Any, code: Code) -> Values:
    if isinstance(each, str):
        return {"name": each, "error_code": code}
    return {"name": each.name, "error_code": code, **({"topic_id": each.topic_id} if "topic_id" in vars(each) else {})}


def _config_refused(each: Any, code: Code) -> Values:
    return {
        "resource_type": each.resource_type,
        "resource_name": each.resource_name,
        "error_code": code,
        "error_message": "there is no right to this",
    }


def _group_refused(each: str, code: Code) -> Values:
    return {"group_id": each, "error_code": code}


def _transaction_topic_refused(each: Any, code: Code) -> Values:
    parts = [{"partition_index": number, "partition_error_code": code} for number in each.partitions]
    return {"name": each.name, "results_by_partition": parts}


# --- Requests that need more than that ---


def _create_topics(call: Call, request: Fields, handle: Plain) -> Values | Awaitable[Values]:
    refused = [each for each in request.topics if not call.may_create(each.name)]
    vars(request)["topics"] = [each for each in request.topics if call.may_create(each.name)]
    more = [{"name": each.name, "error_code": Code.TOPIC_AUTHORIZATION_FAILED} for each in refused]
    return changed(handle(call, request), lambda found: {**found, "topics": [*found["topics"], *more]})


def _delete_topics(call: Call, request: Fields, handle: Plain) -> Values | Awaitable[Values]:
    asked = "topics" if call.version >= BY_ID_FROM else "topic_names"
    return rows(Operation.DELETE, asked, "responses", _topic_or_id, _topic_refused)(call, request, handle)


def _metadata(call: Call, request: Fields, handle: Plain) -> Values | Awaitable[Values]:
    """Topics that may not be described are not shown, and what may not be made is not."""
    refused: list[Values] = []
    if request.topics:
        allowed = []
        for each in request.topics:
            kind, name = _topic_or_id(call, each)
            is_made = request.allow_auto_topic_creation and each.name and not is_there(call, name)
            is_allowed = call.may(Operation.DESCRIBE, kind, name) and (not is_made or call.may_create(name))
            if is_allowed or not name:
                allowed.append(each)
            elif each.name is None:
                refused.append({"name": None, "topic_id": each.topic_id, "error_code": Code.UNKNOWN_TOPIC_ID})
            else:
                refused.append({"name": name, "error_code": Code.TOPIC_AUTHORIZATION_FAILED})
        vars(request)["topics"] = allowed
    return changed(handle(call, request), lambda found: {**found, "topics": [*_seen(call, found), *refused]})


def is_there(call: Call, name: str) -> bool:
    """Whether there is a topic of this name; there is none of a name that cannot be."""
    try:
        return call.broker.store.has_topic(name)
    except BadName:
        return False


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
    if call.version >= MANY_FROM[ApiKey.FIND_COORDINATOR]:

        def refuse(key: str, code: Code) -> Values:
            return {"key": key, "node_id": -1, "host": "", "port": -1, "error_code": code}

        return rows(Operation.DESCRIBE, "coordinator_keys", "coordinators", lambda _, key: (kind, key), refuse)(
            call, request, handle
        )
    if call.may(Operation.DESCRIBE, kind, request.key):
        return handle(call, request)
    return {"error_code": REFUSALS[kind], "node_id": -1, "host": "", "port": -1}


def _offset_fetch(call: Call, request: Fields, handle: Plain) -> Values | Awaitable[Values]:
    if call.version >= MANY_FROM[ApiKey.OFFSET_FETCH]:

        def refuse(each: Any, code: Code) -> Values:
            return {"group_id": each.group_id, "topics": [], "error_code": code}

        return changed(
            rows(Operation.DESCRIBE, "groups", "groups", lambda _, each: _group(each), refuse)(call, request, handle),
            lambda found: {**found, "groups": [_describable(call, each) for each in found["groups"]]},
        )
    if not call.may(Operation.DESCRIBE, *_group(request)):
        return {"topics": [], "error_code": Code.GROUP_AUTHORIZATION_FAILED}
    return changed(handle(call, request), lambda found: _describable(call, found))


def _describable(call: Call, found: Values) -> Values:
    topics = [each for each in found["topics"] if call.may(Operation.DESCRIBE, Kind.TOPIC, each["name"])]
    return {**found, "topics": topics}


def _init_producer_id(call: Call, request: Fields, handle: Plain) -> Values | Awaitable[Values]:
    """An id alone does nothing: what is produced with it is asked for its rights."""
    if request.transactional_id is None:
        return handle(call, request)
    return whole(Operation.WRITE, _transaction, _error)(call, request, handle)


def _free(call: Call, request: Fields, handle: Plain) -> Values | Awaitable[Values]:
    return handle(call, request)


_READS_GROUP: Final = whole(Operation.READ, _group, _error)
_WRITES_TRANSACTION: Final = whole(Operation.WRITE, _transaction, _error)
_WRITES_TRANSACTION_V3: Final = whole(
    Operation.WRITE,
    lambda request: (Kind.TRANSACTIONAL_ID, request.v3_and_below_transactional_id),
    lambda request, code: {
        "results_by_topic_v3_and_below": [
            _transaction_topic_refused(each, code) for each in request.v3_and_below_topics
        ]
    },
)
_COMMITS: Final = rows(
    Operation.READ, "topics", "topics", _topic_in("name"), _partitions_refused("name", "partition_index")
)
_SHARES: Final = rows(
    Operation.READ, "topics", "responses", _topic_by_id, _partitions_refused("topic_id", "partition_index")
)
_OFFSETS: Final = _partitions_refused("name", "partition_index", timestamp=-1, offset=-1)
_RECORDS: Final = _partitions_refused("name", "partition_index", low_watermark=-1)

GUARDS: Final[Mapping[int, Sequence[Guard]]] = MappingProxyType(
    {
        ApiKey.SASL_HANDSHAKE: (_free,),
        ApiKey.SASL_AUTHENTICATE: (_free,),
        ApiKey.DESCRIBE_CLUSTER: (_free,),
        ApiKey.METADATA: (_metadata,),
        ApiKey.LIST_OFFSETS: (rows(Operation.DESCRIBE, "topics", "topics", _topic_in("name"), _OFFSETS),),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (
            rows(Operation.DESCRIBE, "topics", "topics", _topic_in("topic"), _partitions_refused("topic", "partition")),
        ),
        ApiKey.DELETE_RECORDS: (rows(Operation.DELETE, "topics", "topics", _topic_in("name"), _RECORDS),),
        ApiKey.CREATE_TOPICS: (_create_topics,),
        ApiKey.DELETE_TOPICS: (_delete_topics,),
        ApiKey.CREATE_PARTITIONS: (rows(Operation.ALTER, "topics", "results", _topic_in("name"), _topic_refused),),
        ApiKey.DESCRIBE_CONFIGS: (
            rows(Operation.DESCRIBE_CONFIGS, "resources", "results", _configured, _config_refused),
        ),
        ApiKey.ALTER_CONFIGS: (rows(Operation.ALTER_CONFIGS, "resources", "responses", _configured, _config_refused),),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (
            rows(Operation.ALTER_CONFIGS, "resources", "responses", _configured, _config_refused),
        ),
        ApiKey.FIND_COORDINATOR: (_find_coordinator,),
        ApiKey.JOIN_GROUP: (_READS_GROUP,),
        ApiKey.SYNC_GROUP: (_READS_GROUP,),
        ApiKey.HEARTBEAT: (_READS_GROUP,),
        ApiKey.LEAVE_GROUP: (_READS_GROUP,),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: (_READS_GROUP,),
        ApiKey.OFFSET_COMMIT: (whole(Operation.READ, _group, _each_partition), _COMMITS),
        ApiKey.OFFSET_FETCH: (_offset_fetch,),
        ApiKey.OFFSET_DELETE: (whole(Operation.DELETE, _group, _error), _COMMITS),
        ApiKey.LIST_GROUPS: (_list_groups,),
        ApiKey.DESCRIBE_GROUPS: (rows(Operation.DESCRIBE, "groups", "groups", _group_itself, _group_refused),),
        ApiKey.CONSUMER_GROUP_DESCRIBE: (
            rows(Operation.DESCRIBE, "group_ids", "groups", _group_itself, _group_refused),
        ),
        ApiKey.DELETE_GROUPS: (rows(Operation.DELETE, "groups_names", "results", _group_itself, _group_refused),),
        ApiKey.SHARE_GROUP_HEARTBEAT: (_READS_GROUP,),
        ApiKey.SHARE_GROUP_DESCRIBE: (rows(Operation.DESCRIBE, "group_ids", "groups", _group_itself, _group_refused),),
        ApiKey.SHARE_FETCH: (_READS_GROUP, _SHARES),
        ApiKey.SHARE_ACKNOWLEDGE: (_READS_GROUP, _SHARES),
        ApiKey.INIT_PRODUCER_ID: (_init_producer_id,),
        ApiKey.ADD_PARTITIONS_TO_TXN: (
            _WRITES_TRANSACTION_V3,
            rows(
                Operation.WRITE,
                "v3_and_below_topics",
                "results_by_topic_v3_and_below",
                _topic_in("name"),
                _transaction_topic_refused,
            ),
        ),
        ApiKey.ADD_OFFSETS_TO_TXN: (_WRITES_TRANSACTION, _READS_GROUP),
        ApiKey.TXN_OFFSET_COMMIT: (
            whole(Operation.WRITE, _transaction, _each_partition),
            whole(Operation.READ, _group, _each_partition),
            _COMMITS,
        ),
        ApiKey.END_TXN: (_WRITES_TRANSACTION,),
        ApiKey.DESCRIBE_ACLS: (whole(Operation.DESCRIBE, _cluster, _error),),
        ApiKey.CREATE_ACLS: (
            whole(
                Operation.ALTER,
                _cluster,
                lambda request, code: {"results": [{"error_code": code} for _ in request.creations]},
            ),
        ),
        ApiKey.DELETE_ACLS: (
            whole(
                Operation.ALTER,
                _cluster,
                lambda request, code: {"filter_results": [{"error_code": code} for _ in request.filters]},
            ),
        ),
    }
)
