"""What each of our own calls needs a right for; what is opened by a handle was asked for when it was opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from warren.broker.call import Answer, Call
from warren.broker.security.guards import is_there
from warren.broker.security.rights import CLUSTER_NAME, Kind, Operation
from warren.errors import NotAllowed
from warren.protocol.kafka_codec import Fields, decode_request, encode_response
from warren.protocol.own_errors import error_values
from warren.protocol.own_schemas import OwnKey

Need = tuple[Operation, Kind, str]
Needs = Callable[[Fields], Sequence[Need]]


def own_refusal(call: Call) -> Answer:
    """The answer to one of our own requests that its sender has no right to; None where it has."""
    request = call.request
    asked = decode_request(request.api_key, request.version, request.body)
    needs = OWN_NEEDS.get(request.api_key, _everything)(asked)
    is_allowed = all(call.may(*need) for need in needs) and _may_be_made(call, asked)
    if is_allowed:
        return None
    refusal = NotAllowed(request.api_key, str(call.peer))
    return encode_response(request.api_key, request.version, {"error": error_values(refusal)})


def _may_be_made(call: Call, asked: Fields) -> bool:
    is_opened = call.request.api_key == OwnKey.OPEN_TOPIC and not asked.must_exist
    return not is_opened or is_there(call, asked.topic) or call.may_create(asked.topic)


def _everything(asked: Fields) -> Sequence[Need]:
    return ((Operation.ALL, Kind.CLUSTER, CLUSTER_NAME),)


def _described_cluster(asked: Fields) -> Sequence[Need]:
    return ((Operation.DESCRIBE, Kind.CLUSTER, CLUSTER_NAME),)


def _nothing(asked: Fields) -> Sequence[Need]:
    return ()


def _topic(*operations: Operation) -> Needs:
    return lambda asked: [(operation, Kind.TOPIC, asked.topic) for operation in operations]


def _group(operation: Operation) -> Needs:
    return lambda asked: ((Operation.READ, Kind.TOPIC, asked.topic), (operation, Kind.GROUP, asked.group))


def _seen_group(asked: Fields) -> Sequence[Need]:
    return (Operation.DESCRIBE, Kind.TOPIC, asked.topic), (Operation.DESCRIBE, Kind.GROUP, asked.group)


def _id(name: str) -> Needs:
    """Whoever names a transaction or producer needs a right to the name; those without one are nobody else's."""

    def needs(asked: Fields) -> Sequence[Need]:
        id = getattr(asked, name)
        return ((Operation.WRITE, Kind.TRANSACTIONAL_ID, id),) if id else ()

    return needs


def _changed_topic(asked: Fields) -> Sequence[Need]:
    return ((Operation.WRITE, Kind.TOPIC, asked.topic),) if asked.topic else ()


OWN_NEEDS: Final[Mapping[int, Needs]] = MappingProxyType(
    {
        OwnKey.OPEN_SESSION: _nothing,
        OwnKey.CLOSE_HANDLE: _nothing,
        OwnKey.LIST_TOPICS: _nothing,
        OwnKey.OPEN_TOPIC: _topic(Operation.DESCRIBE),
        OwnKey.CONFIGURE_TOPIC: _topic(Operation.ALTER, Operation.ALTER_CONFIGS),
        OwnKey.DELETE_TOPIC: _topic(Operation.DELETE),
        OwnKey.RETIRE_TOPIC: _topic(Operation.ALTER),
        OwnKey.APPEND: _topic(Operation.WRITE),
        OwnKey.READ: _topic(Operation.READ),
        OwnKey.FIND_TIME: _topic(Operation.READ),
        OwnKey.SCAN: _topic(Operation.READ),
        OwnKey.PARK: _topic(Operation.WRITE),
        OwnKey.LIST_PARKED: _topic(Operation.READ),
        OwnKey.CANCEL_PARKED: _topic(Operation.WRITE),
        OwnKey.OPEN_GROUP: _group(Operation.READ),
        OwnKey.CONFIGURE_GROUP: _group(Operation.READ),
        OwnKey.DELETE_GROUP: _group(Operation.DELETE),
        OwnKey.DESCRIBE_GROUP: _nothing,
        OwnKey.READ_GROUP: _nothing,
        OwnKey.COMMIT_GROUP: _nothing,
        OwnKey.SEEK_GROUP: _nothing,
        OwnKey.TAKE: _nothing,
        OwnKey.SETTLE: _nothing,
        OwnKey.BEGIN_TRANSACTION: _id("id"),
        OwnKey.CHANGE_TRANSACTION: _changed_topic,
        OwnKey.END_TRANSACTION: _id("id"),
        OwnKey.OPEN_PRODUCER: _id("producer"),
        OwnKey.NUMBERED_PUT: _topic(Operation.WRITE),
        OwnKey.STATISTICS: _described_cluster,
        OwnKey.SEE_GROUP: _seen_group,
        OwnKey.LIST_DEAD: _topic(Operation.READ),
    }
)
"""Those that are not named need all rights to the cluster."""
