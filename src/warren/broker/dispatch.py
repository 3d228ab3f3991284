"""Dispatch: finds the handler of a request by its API key."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar

from warren.broker.broker import Broker
from warren.broker.cluster.requests import SHARD_HANDLERS
from warren.broker.kafka import (
    acls,
    client_quotas,
    configs,
    fetch,
    metadata,
    offsets,
    produce,
    sasl,
    topic_admin,
)
from warren.broker.kafka.call import Call
from warren.broker.kafka.errors import has_error
from warren.broker.kafka.groups import commits, consumer_requests, join_requests, listing, share_requests
from warren.broker.kafka.guards import HandleRequest, guarded
from warren.broker.kafka.request_rows import RequestRows, rows_of, topics_in
from warren.broker.kafka.sasl import refusal_to_stranger
from warren.broker.kafka.transactions import requests as transactions
from warren.broker.native.handlers import NATIVE_HANDLERS
from warren.broker.net.request import Answer, Reply, ServedCall
from warren.broker.security.peer import Peer
from warren.broker.services.turns import LOOP_REQUEST_SIZE_MAX, LOOP_ROWS_AT_ONCE, is_long
from warren.errors import UnsupportedRequest
from warren.protocol.api_keys import ApiKey, served
from warren.protocol.headers import Request
from warren.protocol.kafka_messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteGroupsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from warren.protocol.schema_codec import message_buffers, read_request
from warren.protocol.wire_struct import WireStruct

AnyRequest = TypeVar("AnyRequest", bound=WireStruct)
AnyResponse = TypeVar("AnyResponse", bound=WireStruct)


def plain(
    kind: type[AnyRequest], handle: Callable[[Call, AnyRequest], AnyResponse | Awaitable[AnyResponse]]
) -> Callable[[Call], Answer | Awaitable[Answer]]:
    """Wraps a handler of decoded requests as a handler of bytes.

    A row that the request names twice is answered once, and long requests are handled in turns.
    """

    def answer(call: Call) -> Answer | Awaitable[Answer]:
        if len(call.request.body) > LOOP_REQUEST_SIZE_MAX:
            return _answered_aside(call, kind, handle)
        request, refused = _read(call, kind)
        return _answered(call, request, refused, handle)

    return answer


async def _answered_aside(call: Call, kind: type[AnyRequest], handle: HandleRequest[AnyRequest]) -> Answer:
    request, refused = await call.broker.aside(_read, call, kind)
    answer = _answered(call, request, refused, handle)
    return await answer if inspect.isawaitable(answer) else answer


def _read(call: Call, kind: type[AnyRequest]) -> tuple[AnyRequest, list[WireStruct]]:
    """Returns the request without duplicates, and the answers to duplicates that were refused."""
    api_key, version = call.request.api_key, call.version
    served(api_key, version)
    request = read_request(kind, version, call.request.body)
    rows = rows_of(api_key, version)
    return request, [] if rows is None else rows.tidy(request)


def _answered(
    call: Call, request: AnyRequest, refused: Sequence[WireStruct], handle: HandleRequest[AnyRequest]
) -> Answer | Awaitable[Answer]:
    if closed := call.broker.open_topics.closed(topics_in(request)):
        return _opened_first(call, closed, lambda: _answered_open(call, request, refused, handle))
    return _answered_open(call, request, refused, handle)


async def _opened_first(call: Call, names: Sequence[str], answer: Callable[[], Answer | Awaitable[Answer]]) -> Answer:
    """Opens these topics on a thread, and then answers."""
    await call.broker.open_topics.open(names)
    answered = answer()
    return await answered if inspect.isawaitable(answered) else answered


def _answered_open(
    call: Call, request: AnyRequest, refused: Sequence[WireStruct], handle: HandleRequest[AnyRequest]
) -> Answer | Awaitable[Answer]:
    rows = rows_of(call.request.api_key, call.version)
    if rows is not None and (refused or (rows.is_cut and rows.count(request) > LOOP_ROWS_AT_ONCE)):
        return _encoded(call, _in_turns(call, request, rows, refused, handle))
    response = _handled(call, request, handle)
    return _encoded(call, response) if inspect.isawaitable(response) else _counted(call, response)


def _handled(call: Call, request: AnyRequest, handle: HandleRequest[AnyRequest]) -> WireStruct | Awaitable[WireStruct]:
    return handle(call, request) if call.broker.rights is None else guarded(call, request, handle)


async def _in_turns(
    call: Call, request: AnyRequest, rows: RequestRows, refused: Sequence[WireStruct], handle: HandleRequest[AnyRequest]
) -> WireStruct:
    """Handles the request piece by piece, so that other requests are answered in between."""
    responses = []
    async for piece in call.broker.turns.over(await call.broker.aside(lambda: list(rows.pieces(request)))):
        response = _handled(call, piece, handle)
        responses.append(await response if inspect.isawaitable(response) else response)
    return await call.broker.aside(rows.joined, responses, refused)


async def _encoded(call: Call, waiting: Awaitable[WireStruct]) -> Answer:
    response = await waiting
    if not is_long(response):
        return _counted(call, response)
    answer, is_error = await call.broker.aside(_encode, call, response)
    if is_error:
        call.broker.metrics.failed(call.request.api_key)
    return answer


def _encode(call: Call, response: WireStruct) -> tuple[Answer, bool]:
    return message_buffers(response, call.version), has_error(response)


def _counted(call: Call, response: WireStruct) -> Answer:
    answer, is_error = _encode(call, response)
    if is_error:
        call.broker.metrics.failed(call.request.api_key)
    return answer


HANDLERS: Final[Mapping[int, Callable[[ServedCall[Broker]], Reply]]] = MappingProxyType(
    {
        ApiKey.API_VERSIONS: metadata.api_versions,
        ApiKey.PRODUCE: produce.produce,
        ApiKey.FETCH: fetch.fetch,
        ApiKey.METADATA: plain(MetadataRequest, metadata.metadata),
        ApiKey.DESCRIBE_CLUSTER: plain(DescribeClusterRequest, metadata.describe_cluster),
        ApiKey.FIND_COORDINATOR: plain(FindCoordinatorRequest, metadata.find_coordinator),
        ApiKey.LIST_OFFSETS: plain(ListOffsetsRequest, offsets.list_offsets),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: plain(OffsetForLeaderEpochRequest, offsets.offset_for_leader_epoch),
        ApiKey.DELETE_RECORDS: plain(DeleteRecordsRequest, offsets.delete_records),
        ApiKey.CREATE_TOPICS: plain(CreateTopicsRequest, topic_admin.create_topics),
        ApiKey.DELETE_TOPICS: plain(DeleteTopicsRequest, topic_admin.delete_topics),
        ApiKey.CREATE_PARTITIONS: plain(CreatePartitionsRequest, topic_admin.create_partitions),
        ApiKey.DESCRIBE_ACLS: plain(DescribeAclsRequest, acls.describe_acls),
        ApiKey.CREATE_ACLS: plain(CreateAclsRequest, acls.create_acls),
        ApiKey.DELETE_ACLS: plain(DeleteAclsRequest, acls.delete_acls),
        ApiKey.SASL_HANDSHAKE: plain(SaslHandshakeRequest, sasl.sasl_handshake),
        ApiKey.SASL_AUTHENTICATE: plain(SaslAuthenticateRequest, sasl.sasl_authenticate),
        ApiKey.DESCRIBE_CONFIGS: plain(DescribeConfigsRequest, configs.describe_configs),
        ApiKey.ALTER_CONFIGS: plain(AlterConfigsRequest, configs.alter_configs),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: plain(IncrementalAlterConfigsRequest, configs.incremental_alter_configs),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: plain(DescribeClientQuotasRequest, client_quotas.describe_client_quotas),
        ApiKey.ALTER_CLIENT_QUOTAS: plain(AlterClientQuotasRequest, client_quotas.alter_client_quotas),
        ApiKey.JOIN_GROUP: plain(JoinGroupRequest, join_requests.join_group),
        ApiKey.SYNC_GROUP: plain(SyncGroupRequest, join_requests.sync_group),
        ApiKey.HEARTBEAT: plain(HeartbeatRequest, join_requests.heartbeat),
        ApiKey.LEAVE_GROUP: plain(LeaveGroupRequest, join_requests.leave_group),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: plain(
            ConsumerGroupHeartbeatRequest, consumer_requests.consumer_group_heartbeat
        ),
        ApiKey.CONSUMER_GROUP_DESCRIBE: plain(ConsumerGroupDescribeRequest, consumer_requests.consumer_group_describe),
        ApiKey.SHARE_GROUP_HEARTBEAT: plain(ShareGroupHeartbeatRequest, share_requests.share_group_heartbeat),
        ApiKey.SHARE_GROUP_DESCRIBE: plain(ShareGroupDescribeRequest, share_requests.share_group_describe),
        ApiKey.SHARE_FETCH: plain(ShareFetchRequest, share_requests.share_fetch),
        ApiKey.SHARE_ACKNOWLEDGE: plain(ShareAcknowledgeRequest, share_requests.share_acknowledge),
        ApiKey.OFFSET_COMMIT: plain(OffsetCommitRequest, commits.offset_commit),
        ApiKey.OFFSET_FETCH: plain(OffsetFetchRequest, commits.offset_fetch),
        ApiKey.OFFSET_DELETE: plain(OffsetDeleteRequest, commits.offset_delete),
        ApiKey.LIST_GROUPS: plain(ListGroupsRequest, listing.list_groups),
        ApiKey.DESCRIBE_GROUPS: plain(DescribeGroupsRequest, listing.describe_groups),
        ApiKey.DELETE_GROUPS: plain(DeleteGroupsRequest, listing.delete_groups),
        ApiKey.INIT_PRODUCER_ID: plain(InitProducerIdRequest, transactions.init_producer_id),
        ApiKey.ADD_PARTITIONS_TO_TXN: plain(AddPartitionsToTxnRequest, transactions.add_partitions_to_txn),
        ApiKey.ADD_OFFSETS_TO_TXN: plain(AddOffsetsToTxnRequest, transactions.add_offsets_to_txn),
        ApiKey.TXN_OFFSET_COMMIT: plain(TxnOffsetCommitRequest, transactions.txn_offset_commit),
        ApiKey.END_TXN: plain(EndTxnRequest, transactions.end_txn),
        **NATIVE_HANDLERS,
        **SHARD_HANDLERS,
    }
)


def answer(broker: Broker, peer: Peer, request: Request) -> Reply:
    """Returns the answer to a request, or a promise of it. Raises UnsupportedRequest if there is no handler."""
    handler = HANDLERS.get(request.api_key)
    if handler is None:
        raise UnsupportedRequest(request.api_key, request.version)
    call = ServedCall(broker, peer, request)
    if broker.settings.sasl:
        refusal = refusal_to_stranger(call)
        if refusal is not None:
            return refusal
    return handler(call)
