"""The first requests of every client: API versions, the broker, its topics, and the coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from warren.broker.kafka.errors import Code, code_of
from warren.broker.net.request import Call
from warren.broker.services.leadership import NO_EPOCH, Leadership, node_of
from warren.broker.services.topics import NO_ID
from warren.errors import NoSuchTopic, WarrenError
from warren.protocol.api_keys import APIS, ApiKey
from warren.protocol.kafka_messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiKey,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseBroker,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from warren.protocol.primitives import Buffer
from warren.protocol.schema_codec import message_buffers, read_request
from warren.queue.topic import Topic

NO_LEADER: Final = -1
SOFTWARE_FROM: Final = 3
TOPIC_IDS_FROM: Final = 10
KEYS_FROM: Final = 4


def api_versions(call: Call) -> Sequence[Buffer]:
    """Returns the API keys that are served, and their versions. A request that is too new is answered in version 0."""
    api, request = APIS[ApiKey.API_VERSIONS], call.request
    if not api.first <= request.version <= api.last:
        return message_buffers(_served(Code.UNSUPPORTED_VERSION), 0)
    client = read_request(ApiVersionsRequest, request.version, request.body)
    if request.version >= SOFTWARE_FROM:
        call.peer.software = f"{client.client_software_name} {client.client_software_version}"
    return message_buffers(_served(Code.NONE), request.version)


def _served(error: Code) -> ApiVersionsResponse:
    keys = [ApiVersionsResponseApiKey(api.key, api.advertised_from, api.last) for api in sorted(APIS.values())]
    return ApiVersionsResponse(error_code=error, api_keys=keys)


async def metadata(call: Call, request: MetadataRequest) -> MetadataResponse:
    """Returns the topics that the client names, or all. Creates missing ones if the client and the broker allow it."""
    broker = call.broker
    may_make = request.allow_auto_topic_creation and broker.settings.auto_create_topics
    topics = request.topics
    if topics is None or (call.version == 0 and not topics):
        names = await broker.in_thread(broker.topics.names)
        rows = [each async for name in broker.turns.over(names) if (each := await _listed(call, name)) is not None]
    else:
        rows = [await _named(call, topic, may_make=may_make) for topic in topics]
    leadership = broker.leadership
    return MetadataResponse(
        brokers=[MetadataResponseBroker(*node) for node in leadership.nodes],
        cluster_id=broker.cluster_id,
        controller_id=leadership.leader,
        topics=rows,
    )


async def _listed(call: Call, name: str) -> MetadataResponseTopic | None:
    """Returns a topic; None if it was deleted since all were listed."""
    with suppress(NoSuchTopic):
        return _described(call, await call.broker.opened_topic(name))
    return None


async def _named(call: Call, topic: MetadataRequestTopic, *, may_make: bool) -> MetadataResponseTopic:
    broker, name = call.broker, topic.name
    try:
        if name is None or (call.version >= TOPIC_IDS_FROM and topic.topic_id not in (NO_ID, None)):
            return _described(call, broker.topics.find_by_id(topic.topic_id))
        try:
            return _described(call, await broker.opened_topic(name))
        except NoSuchTopic:
            if not may_make:
                raise
            return _described(call, await broker.allotment.make(call, name, is_strict=False))
    except WarrenError as error:
        code = Code.UNKNOWN_TOPIC_ID if name is None else code_of(error)
        return MetadataResponseTopic(code, name, topic.topic_id or NO_ID)


def _described(call: Call, topic: Topic) -> MetadataResponseTopic:
    leadership = call.broker.leadership
    partitions = [partition_row(leadership, number) for number in range(topic.partition_count)]
    return MetadataResponseTopic(name=topic.name, topic_id=call.broker.topics.id_of(topic), partitions=partitions)


def partition_row(leadership: Leadership, partition: int) -> MetadataResponsePartition:
    """Returns the leader, its epoch and the replicas of a partition. They are the same for all partitions of a store.

    Also used by replicas that do not lead.
    """
    replicas, insync, living = leadership.replicas, leadership.insync, {node.id for node in leadership.nodes}
    is_led = leadership.leader != NO_LEADER
    return MetadataResponsePartition(
        error_code=Code.NONE if is_led else Code.LEADER_NOT_AVAILABLE,
        partition_index=partition,
        leader_id=leadership.leader,
        leader_epoch=leadership.epoch,
        replica_nodes=list(replicas),
        isr_nodes=list(insync),
        offline_replicas=[replica for replica in replicas if replica not in living],
    )


def epoch_code(leadership: Leadership, epoch: int) -> Code:
    """Returns the error for a client that knows the leader of another epoch; NONE if it does not, or does not say."""
    if epoch == NO_EPOCH or epoch == leadership.epoch or not leadership.checks_epochs:
        return Code.NONE
    return Code.FENCED_LEADER_EPOCH if epoch < leadership.epoch else Code.UNKNOWN_LEADER_EPOCH


def describe_cluster(call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Returns the living brokers."""
    leadership = call.broker.leadership
    return DescribeClusterResponse(
        cluster_id=call.broker.cluster_id,
        controller_id=leadership.leader,
        brokers=[DescribeClusterResponseBroker(*node) for node in leadership.nodes],
    )


def find_coordinator(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Returns the broker that leads, which coordinates every group and transaction."""
    leader = node_of(call.broker.leadership, call.broker.leadership.leader)
    keys: Iterable[str] = request.coordinator_keys if call.version >= KEYS_FROM else ()
    if leader is None:
        code = Code.COORDINATOR_NOT_AVAILABLE
        rows = [FindCoordinatorResponseCoordinator(key, NO_LEADER, error_code=code) for key in keys]
        return FindCoordinatorResponse(error_code=code, node_id=NO_LEADER, coordinators=rows)
    node = leader.id, leader.host, leader.port
    return FindCoordinatorResponse(
        node_id=leader.id,
        host=leader.host,
        port=leader.port,
        coordinators=[FindCoordinatorResponseCoordinator(key, *node) for key in keys],
    )
