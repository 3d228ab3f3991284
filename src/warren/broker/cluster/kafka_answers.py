"""What a replica that does not serve answers to Kafka's clients: who the brokers are, and that another one leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from warren.broker.kafka.call import Call
from warren.broker.kafka.errors import Code
from warren.broker.kafka.metadata import NO_LEADER, api_versions, describe_cluster, find_coordinator, partition_row
from warren.broker.kafka.produce_answers import refused
from warren.broker.kafka.refusals import SHAPES, Refusal
from warren.broker.net.request import Answer, Reply
from warren.broker.security.rights import Operation, ResourceKind
from warren.broker.services.topics import NO_ID
from warren.errors import ConnectionLost, NotMaster, UnsupportedRequest
from warren.protocol import kafka_messages
from warren.protocol.api_keys import ApiKey, served
from warren.protocol.headers import Request
from warren.protocol.kafka.fetch import PartitionFetched, TopicFetched, decode_fetch, encode_fetch_response
from warren.protocol.kafka.produce import TopicStored, decode_produce, encode_produce_response
from warren.protocol.kafka_messages import (
    DescribeClusterRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from warren.protocol.primitives import Buffer
from warren.protocol.schema_codec import REQUEST, RESPONSE, message_buffers, read_request
from warren.protocol.wire_struct import WireStruct

LEADER_WAIT_S: Final = 0.5
"""How long an answer that names the leader waits for one. So a client learns immediately who has taken over."""
LEADER_POLL_S: Final = 0.01
LISTED_FROM: Final = 1
TOPIC_IDS_FROM: Final = 10
NO_ACKS: Final = 0
COORDINATED: Final = frozenset(
    (
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    )
)
"""Requests to a coordinator. The client asks for the coordinator again."""
CONTROLLED: Final = frozenset(
    (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.ALTER_CLIENT_QUOTAS)
)
"""Requests to the controller."""
ROWS: Final[Mapping[int, str]] = MappingProxyType(
    {
        ApiKey.LIST_OFFSETS: "topics",
        ApiKey.OFFSET_FOR_LEADER_EPOCH: "topics",
        ApiKey.DELETE_RECORDS: "topics",
        ApiKey.CREATE_TOPICS: "topics",
        ApiKey.CREATE_PARTITIONS: "topics",
        ApiKey.DESCRIBE_CONFIGS: "resources",
        ApiKey.ALTER_CONFIGS: "resources",
        ApiKey.INCREMENTAL_ALTER_CONFIGS: "resources",
        ApiKey.DESCRIBE_GROUPS: "groups",
        ApiKey.CONSUMER_GROUP_DESCRIBE: "group_ids",
        ApiKey.SHARE_GROUP_DESCRIBE: "group_ids",
    }
)
"""The field of a request whose rows are refused one by one."""


class KnownTopic(NamedTuple):
    """A topic as a replica finds it on its disk: its name, its id and the number of its partitions."""

    name: str
    id: bytes
    partitions: int


FindTopics = Callable[[], Awaitable[Mapping[str, KnownTopic]]]
Forward = Callable[[Request], Awaitable[Sequence[Buffer]]]
Read = Callable[[Call], Reply | None]


def kafka_answer(
    call: Call, find_topics: FindTopics, error: NotMaster, forward: Forward, read: Read | None = None
) -> Reply:
    """Returns the answer to a request of a Kafka client. Raises UnsupportedRequest if only silence is one.

    `forward` asks the master, which takes the request for one of this replica. `read` answers a Fetch with what is
    committed here.
    """
    key, version = call.request.api_key, call.version
    if key == ApiKey.API_VERSIONS:
        return api_versions(call)
    served(key, version)
    if key == ApiKey.METADATA:
        return _metadata(call, find_topics, forward)
    if key == ApiKey.DESCRIBE_CLUSTER:
        return _buffers(call, describe_cluster(call, read_request(DescribeClusterRequest, version, call.request.body)))
    if key == ApiKey.FIND_COORDINATOR:
        return _coordinator(call)
    if key == ApiKey.PRODUCE:
        return _refused_produce(call)
    if key == ApiKey.FETCH:
        answer = None if read is None else read(call)
        return _refused_fetch(call) if answer is None else answer
    why = Refusal(_code(key), str(error))
    if key == ApiKey.INIT_PRODUCER_ID:
        return _producer_id(call, why, forward)
    return _refused(call, why)


async def _producer_id(call: Call, why: Refusal, forward: Forward) -> Answer:
    """Returns an id for a producer. Without a transactional id every broker of a cluster gives one."""
    request = read_request(InitProducerIdRequest, call.version, call.request.body)
    if request.transactional_id is None:
        with suppress(ConnectionLost):
            return await forward(call.request)
    return _refused(call, why)


def _code(key: int) -> Code:
    if key in COORDINATED:
        return Code.NOT_COORDINATOR
    return Code.NOT_CONTROLLER if key in CONTROLLED else Code.NOT_LEADER_OR_FOLLOWER


def _buffers(call: Call, response: WireStruct) -> Answer:
    return message_buffers(response, call.version)


async def _coordinator(call: Call) -> Answer:
    request = read_request(FindCoordinatorRequest, call.version, call.request.body)
    await _leader_known(call)
    return _buffers(call, find_coordinator(call, request))


async def _leader_known(call: Call) -> None:
    """Waits a moment for a leader, if there is none now."""
    loop = asyncio.get_running_loop()
    until = loop.time() + LEADER_WAIT_S
    while call.broker.leadership.leader == NO_LEADER and loop.time() < until:
        await asyncio.sleep(LEADER_POLL_S)


async def _metadata(call: Call, find_topics: FindTopics, forward: Forward) -> Answer:
    """Returns the living brokers, and the topics with their leader, from any replica. The master makes missing ones."""
    request = read_request(MetadataRequest, call.version, call.request.body)
    leadership = call.broker.leadership
    await _leader_known(call)
    topics_here = await find_topics()
    named = request.topics
    if named is None or (call.version < LISTED_FROM and not named):
        rows = [_topic_row(call, topic) for topic in topics_here.values() if _may_see(call, topic.name)]
    else:
        if request.allow_auto_topic_creation and _may_make(call, named, topics_here):
            with suppress(ConnectionLost):
                return await forward(call.request)
        by_id = {topic.id: topic for topic in topics_here.values()}
        rows = []
        for each in named:
            is_by_id = call.version >= TOPIC_IDS_FROM and each.topic_id not in (NO_ID, None)
            topic = by_id.get(each.topic_id) if is_by_id else topics_here.get(each.name or "")
            if topic is not None and not _may_see(call, topic.name):
                topic = None
            if each.name and not is_by_id and not _may_see(call, each.name):
                rows.append(MetadataResponseTopic(Code.TOPIC_AUTHORIZATION_FAILED, each.name))
            elif topic is not None:
                rows.append(_topic_row(call, topic))
            elif is_by_id:
                rows.append(MetadataResponseTopic(Code.UNKNOWN_TOPIC_ID, None, each.topic_id))
            else:
                # The master may make it, so the client shall ask again.
                rows.append(MetadataResponseTopic(Code.LEADER_NOT_AVAILABLE, each.name))
    return _buffers(
        call,
        MetadataResponse(
            brokers=[MetadataResponseBroker(*node) for node in leadership.nodes],
            cluster_id=call.broker.cluster_id,
            controller_id=leadership.leader,
            topics=rows,
        ),
    )


def _may_see(call: Call, topic: str) -> bool:
    return call.may(Operation.DESCRIBE, ResourceKind.TOPIC, topic)


def _may_make(call: Call, named: Sequence[Any], topics_here: Mapping[str, KnownTopic]) -> bool:
    """Returns whether a topic is missing, and the master may make it as if this replica had asked for it.

    The user needs the rights, and no quota may be set, because the topic would count as one of the replica's.
    """
    missing = [each.name for each in named if each.name is not None and each.name not in topics_here]
    if not missing or (call.broker.settings.sasl and call.broker.quotas.is_set):
        return False
    names = [each.name for each in named if each.name is not None]
    return all(_may_see(call, name) for name in names) and all(call.may_create(name) for name in missing)


def _topic_row(call: Call, topic: KnownTopic) -> MetadataResponseTopic:
    partitions = [partition_row(call.broker.leadership, number) for number in range(topic.partitions)]
    return MetadataResponseTopic(name=topic.name, topic_id=topic.id, partitions=partitions)


def _refused_produce(call: Call) -> Answer:
    request = decode_produce(call.version, call.request.body)
    if request.acks == NO_ACKS:
        # The client gets no answer, so it learns from the end of the connection.
        raise UnsupportedRequest(call.request.api_key, call.version)
    rows = [
        TopicStored(
            topic.name,
            topic.topic_id,
            [refused(part.partition, Code.NOT_LEADER_OR_FOLLOWER) for part in topic.partitions],
        )
        for topic in request.topics
    ]
    return [encode_produce_response(call.version, rows)]


def _refused_fetch(call: Call) -> Answer:
    request = decode_fetch(call.version, call.request.body)
    rows = [
        TopicFetched(
            topic.name,
            topic.topic_id,
            [PartitionFetched(part.partition, Code.NOT_LEADER_OR_FOLLOWER) for part in topic.partitions],
        )
        for topic in request.topics
    ]
    return encode_fetch_response(call.version, rows)


def _refused(call: Call, why: Refusal) -> Answer:
    key, version = call.request.api_key, call.version
    shape, name = SHAPES.get(key), ApiKey(key).name.title().replace("_", "")
    if shape is None:
        raise UnsupportedRequest(key, version)
    request: Any = read_request(getattr(kafka_messages, f"{name}{REQUEST}"), version, call.request.body)
    if shape.whole is not None:
        return _buffers(call, shape.whole(request, why))
    assert shape.each is not None
    response = getattr(kafka_messages, f"{name}{RESPONSE}")()
    setattr(response, shape.answered, [shape.each(row, why) for row in _rows(key, version, request)])
    return _buffers(call, response)


def _rows(key: int, version: int, request: Any) -> Iterable[Any]:
    if key == ApiKey.DELETE_TOPICS:
        rows: Sequence[Any] = [*(request.topics or ()), *(request.topic_names or ())]
        return rows
    named: Iterable[Any] = getattr(request, ROWS[key]) or ()
    return named
