"""How the answer to each of Kafka's requests says that a user lacks a right: for the whole request, or for one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from warren.broker.kafka.client_quotas import entity_of
from warren.broker.kafka.errors import Code
from warren.protocol.api_keys import ApiKey
from warren.protocol.kafka_messages import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponsePartition,
    AddPartitionsToTxnResponseTopic,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntry,
    AlterConfigsRequestResource,
    AlterConfigsResponseResult,
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupHeartbeatResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    CreateAclsResponseResult,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponseResult,
    CreateTopicsRequestTopic,
    CreateTopicsResponseTopic,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteAclsResponseFilterResult,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponseResult,
    DescribeAclsResponse,
    DescribeClientQuotasResponse,
    DescribeConfigsRequestResource,
    DescribeConfigsResponseResult,
    DescribeGroupsResponseGroup,
    EndTxnResponse,
    HeartbeatResponse,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponseResult,
    InitProducerIdResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListOffsetsRequestTopic,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
    ShareAcknowledgeResponse,
    ShareAcknowledgeResponsePartition,
    ShareAcknowledgeResponseResult,
    ShareFetchResponse,
    ShareFetchResponsePartition,
    ShareFetchResponseResult,
    ShareGroupDescribeResponseGroup,
    ShareGroupHeartbeatResponse,
    ShareTopic,
    SyncGroupResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from warren.protocol.primitives import NO_UUID
from warren.protocol.wire_struct import WireStruct


class Refusal(NamedTuple):
    """Why something is refused."""

    code: Code
    message: str


class RefusalShape(NamedTuple):
    """How an answer refuses the whole request, and one row in the list `answered`. None if that never happens."""

    whole: Callable[[Any, Refusal], WireStruct] | None = None
    each: Callable[[Any, Refusal], WireStruct] | None = None
    answered: str = "topics"


def _code(response: type[WireStruct]) -> Callable[[Any, Refusal], WireStruct]:
    """For answers that have only a code."""
    return lambda request, why: response(error_code=why.code)


def _code_and_message(response: type[WireStruct]) -> Callable[[Any, Refusal], WireStruct]:
    return lambda request, why: response(error_code=why.code, error_message=why.message)


# --- Rows with partitions ---


def _list_offsets(row: ListOffsetsRequestTopic, why: Refusal) -> ListOffsetsResponseTopic:
    parts = [ListOffsetsResponsePartition(part.partition_index, why.code) for part in row.partitions]
    for part in parts:
        part.timestamp = part.offset = -1
    return ListOffsetsResponseTopic(row.name, parts)


def _leader_epoch(row: OffsetForLeaderEpochRequestTopic, why: Refusal) -> OffsetForLeaderEpochResponseTopic:
    parts = [OffsetForLeaderEpochResponsePartition(why.code, part.partition) for part in row.partitions]
    return OffsetForLeaderEpochResponseTopic(row.topic, parts)


def _delete_records(row: DeleteRecordsRequestTopic, why: Refusal) -> DeleteRecordsResponseTopic:
    parts = [DeleteRecordsResponsePartition(part.partition_index, -1, why.code) for part in row.partitions]
    return DeleteRecordsResponseTopic(row.name, parts)


def _commit(row: OffsetCommitRequestTopic, why: Refusal) -> OffsetCommitResponseTopic:
    parts = [OffsetCommitResponsePartition(part.partition_index, why.code) for part in row.partitions]
    return OffsetCommitResponseTopic(name=row.name, partitions=parts)


def _commits(request: OffsetCommitRequest, why: Refusal) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=[_commit(row, why) for row in request.topics])


def _txn_commit(row: TxnOffsetCommitRequestTopic, why: Refusal) -> TxnOffsetCommitResponseTopic:
    parts = [TxnOffsetCommitResponsePartition(part.partition_index, why.code) for part in row.partitions]
    return TxnOffsetCommitResponseTopic(row.name, parts)


def _txn_commits(request: TxnOffsetCommitRequest, why: Refusal) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(topics=[_txn_commit(row, why) for row in request.topics])


def _delete_positions(row: OffsetDeleteRequestTopic, why: Refusal) -> OffsetDeleteResponseTopic:
    parts = [OffsetDeleteResponsePartition(part.partition_index, why.code) for part in row.partitions]
    return OffsetDeleteResponseTopic(row.name, parts)


def _share_fetch(row: ShareTopic, why: Refusal) -> ShareFetchResponseResult:
    parts = [ShareFetchResponsePartition(part.partition_index, why.code, why.message) for part in row.partitions]
    return ShareFetchResponseResult(row.topic_id, parts)


def _share_acknowledge(row: ShareTopic, why: Refusal) -> ShareAcknowledgeResponseResult:
    parts = [ShareAcknowledgeResponsePartition(part.partition_index, why.code, why.message) for part in row.partitions]
    return ShareAcknowledgeResponseResult(row.topic_id, parts)


def _add_partitions(row: AddPartitionsToTxnRequestTopic, why: Refusal) -> AddPartitionsToTxnResponseTopic:
    parts = [AddPartitionsToTxnResponsePartition(number, why.code) for number in row.partitions]
    return AddPartitionsToTxnResponseTopic(row.name, parts)


def _add_all_partitions(request: AddPartitionsToTxnRequest, why: Refusal) -> AddPartitionsToTxnResponse:
    rows = [_add_partitions(row, why) for row in request.v3_and_below_topics]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)


# --- Other rows ---


def _create_topic(row: CreateTopicsRequestTopic, why: Refusal) -> CreateTopicsResponseTopic:
    return CreateTopicsResponseTopic(row.name, error_code=why.code, error_message=why.message)


def _delete_topic(row: DeleteTopicsRequestTopic | str, why: Refusal) -> DeleteTopicsResponseResult:
    name, topic_id = (row, NO_UUID) if isinstance(row, str) else (row.name, row.topic_id)
    return DeleteTopicsResponseResult(name, topic_id, why.code, why.message)


def _create_partitions(row: CreatePartitionsRequestTopic, why: Refusal) -> CreatePartitionsResponseResult:
    return CreatePartitionsResponseResult(row.name, why.code, why.message)


def _describe_config(row: DescribeConfigsRequestResource, why: Refusal) -> DescribeConfigsResponseResult:
    return DescribeConfigsResponseResult(why.code, why.message, row.resource_type, row.resource_name)


def _alter_config(row: AlterConfigsRequestResource, why: Refusal) -> AlterConfigsResponseResult:
    return AlterConfigsResponseResult(why.code, why.message, row.resource_type, row.resource_name)


def _incremental_alter(
    row: IncrementalAlterConfigsRequestResource, why: Refusal
) -> IncrementalAlterConfigsResponseResult:
    return IncrementalAlterConfigsResponseResult(why.code, why.message, row.resource_type, row.resource_name)


def described_group(name: str, why: Refusal) -> DescribeGroupsResponseGroup:
    """Refuses to describe a classic group."""
    return DescribeGroupsResponseGroup(error_code=why.code, group_id=name)


def described_consumer_group(name: str, why: Refusal) -> ConsumerGroupDescribeResponseGroup:
    """Refuses to describe a consumer group."""
    return ConsumerGroupDescribeResponseGroup(why.code, why.message, name)


def described_share_group(name: str, why: Refusal) -> ShareGroupDescribeResponseGroup:
    """Refuses to describe a share group."""
    return ShareGroupDescribeResponseGroup(why.code, why.message, name)


def _positions(row: OffsetFetchRequestGroup, why: Refusal) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(row.group_id, error_code=why.code)


def _alter_quotas(request: AlterClientQuotasRequest, why: Refusal) -> AlterClientQuotasResponse:
    rows = [AlterClientQuotasResponseEntry(why.code, why.message, entity_of(entry)) for entry in request.entries]
    return AlterClientQuotasResponse(entries=rows)


def _create_acls(request: CreateAclsRequest, why: Refusal) -> CreateAclsResponse:
    return CreateAclsResponse(results=[CreateAclsResponseResult(why.code, why.message) for _ in request.creations])


def _delete_acls(request: DeleteAclsRequest, why: Refusal) -> DeleteAclsResponse:
    rows = [DeleteAclsResponseFilterResult(why.code, why.message) for _ in request.filters]
    return DeleteAclsResponse(filter_results=rows)


SHAPES: Final[Mapping[int, RefusalShape]] = MappingProxyType(
    {
        ApiKey.LIST_OFFSETS: RefusalShape(each=_list_offsets),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: RefusalShape(each=_leader_epoch),
        ApiKey.DELETE_RECORDS: RefusalShape(each=_delete_records),
        ApiKey.CREATE_TOPICS: RefusalShape(each=_create_topic),
        ApiKey.DELETE_TOPICS: RefusalShape(each=_delete_topic, answered="responses"),
        ApiKey.CREATE_PARTITIONS: RefusalShape(each=_create_partitions, answered="results"),
        ApiKey.DESCRIBE_CONFIGS: RefusalShape(each=_describe_config, answered="results"),
        ApiKey.ALTER_CONFIGS: RefusalShape(each=_alter_config, answered="responses"),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: RefusalShape(each=_incremental_alter, answered="responses"),
        ApiKey.JOIN_GROUP: RefusalShape(_code(JoinGroupResponse)),
        ApiKey.SYNC_GROUP: RefusalShape(_code(SyncGroupResponse)),
        ApiKey.HEARTBEAT: RefusalShape(_code(HeartbeatResponse)),
        ApiKey.LEAVE_GROUP: RefusalShape(_code(LeaveGroupResponse)),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: RefusalShape(_code_and_message(ConsumerGroupHeartbeatResponse)),
        ApiKey.SHARE_GROUP_HEARTBEAT: RefusalShape(_code_and_message(ShareGroupHeartbeatResponse)),
        ApiKey.OFFSET_COMMIT: RefusalShape(_commits, _commit),
        ApiKey.TXN_OFFSET_COMMIT: RefusalShape(_txn_commits, _txn_commit),
        ApiKey.OFFSET_DELETE: RefusalShape(_code(OffsetDeleteResponse), _delete_positions),
        ApiKey.OFFSET_FETCH: RefusalShape(_code(OffsetFetchResponse), _positions, "groups"),
        ApiKey.DESCRIBE_GROUPS: RefusalShape(each=described_group, answered="groups"),
        ApiKey.CONSUMER_GROUP_DESCRIBE: RefusalShape(each=described_consumer_group, answered="groups"),
        ApiKey.SHARE_GROUP_DESCRIBE: RefusalShape(each=described_share_group, answered="groups"),
        ApiKey.SHARE_FETCH: RefusalShape(_code_and_message(ShareFetchResponse), _share_fetch, "responses"),
        ApiKey.SHARE_ACKNOWLEDGE: RefusalShape(
            _code_and_message(ShareAcknowledgeResponse), _share_acknowledge, "responses"
        ),
        ApiKey.INIT_PRODUCER_ID: RefusalShape(_code(InitProducerIdResponse)),
        ApiKey.ADD_PARTITIONS_TO_TXN: RefusalShape(
            _add_all_partitions, _add_partitions, "results_by_topic_v3_and_below"
        ),
        ApiKey.ADD_OFFSETS_TO_TXN: RefusalShape(_code(AddOffsetsToTxnResponse)),
        ApiKey.END_TXN: RefusalShape(_code(EndTxnResponse)),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: RefusalShape(_code_and_message(DescribeClientQuotasResponse)),
        ApiKey.ALTER_CLIENT_QUOTAS: RefusalShape(_alter_quotas),
        ApiKey.DESCRIBE_ACLS: RefusalShape(_code_and_message(DescribeAclsResponse)),
        ApiKey.CREATE_ACLS: RefusalShape(_create_acls),
        ApiKey.DELETE_ACLS: RefusalShape(_delete_acls),
    }
)
