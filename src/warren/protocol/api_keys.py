"""The API keys and versions that are served. Requests are checked against them, and ApiVersions returns them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from warren.errors import UnsupportedRequest
from warren.protocol.native_schemas import NativeKey


class ApiKey(IntEnum):
    """The kind of a request, by Kafka's numbers."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_CLUSTER = 60
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79


class Api(NamedTuple):
    """One API key: Kafka's name of it, the versions served, and the first version whose messages are flexible.

    `advertised_from` is the first version that ApiVersions names; a request below `first` is refused nevertheless.
    """

    key: int
    name: str
    first: int
    last: int
    flexible_from: int
    advertised_from: int

    def is_flexible(self, version: int) -> bool:
        """Returns whether sizes are varints and fields may be tagged, in requests and responses of this version."""
        return version >= self.flexible_from


NEVER: Final = 32_767


def _api(key: int, name: str, first: int, last: int, flexible_from: int, advertised_from: int | None = None) -> Api:
    return Api(key, name, first, last, flexible_from, first if advertised_from is None else advertised_from)


_SERVED: Final = (
    # If Produce does not start at version 0, older librdkafka silently sends batches without compression.
    _api(ApiKey.PRODUCE, "Produce", 3, 13, 9, advertised_from=0),
    _api(ApiKey.FETCH, "Fetch", 4, 16, 12),
    _api(ApiKey.LIST_OFFSETS, "ListOffsets", 1, 8, 6),
    _api(ApiKey.METADATA, "Metadata", 0, 12, 9),
    _api(ApiKey.OFFSET_COMMIT, "OffsetCommit", 2, 9, 8),
    _api(ApiKey.OFFSET_FETCH, "OffsetFetch", 1, 9, 6),
    _api(ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 4, 3),
    _api(ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, 6),
    _api(ApiKey.HEARTBEAT, "Heartbeat", 0, 4, 4),
    _api(ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, 4),
    _api(ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, 4),
    _api(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 5, 5),
    _api(ApiKey.LIST_GROUPS, "ListGroups", 0, 5, 3),
    _api(ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1, NEVER),
    _api(ApiKey.API_VERSIONS, "ApiVersions", 0, 4, 3),
    _api(ApiKey.CREATE_TOPICS, "CreateTopics", 2, 7, 5),
    _api(ApiKey.DELETE_TOPICS, "DeleteTopics", 1, 6, 4),
    _api(ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2, 2),
    _api(ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 4, 2),
    _api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4, 4),
    _api(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 3, 3),
    _api(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 3, 3),
    _api(ApiKey.END_TXN, "EndTxn", 0, 3, 3),
    _api(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 3, 3),
    _api(ApiKey.DESCRIBE_ACLS, "DescribeAcls", 1, 3, 2),
    _api(ApiKey.CREATE_ACLS, "CreateAcls", 1, 3, 2),
    _api(ApiKey.DELETE_ACLS, "DeleteAcls", 1, 3, 2),
    _api(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4, 4),
    _api(ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2, 2),
    _api(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2),
    _api(ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2),
    _api(ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 2, 2),
    _api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, 1),
    _api(ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0, NEVER),
    _api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, 1),
    _api(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, 1),
    _api(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 1, 0),
    _api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, 0),
    _api(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1, 0),
    _api(ApiKey.SHARE_GROUP_HEARTBEAT, "ShareGroupHeartbeat", 1, 1, 0),
    _api(ApiKey.SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", 1, 1, 0),
    _api(ApiKey.SHARE_FETCH, "ShareFetch", 1, 1, 0),
    _api(ApiKey.SHARE_ACKNOWLEDGE, "ShareAcknowledge", 1, 1, 0),
    *(_api(key, key.title, 0, 0, 0) for key in NativeKey),
)
APIS: Final[Mapping[int, Api]] = MappingProxyType({api.key: api for api in _SERVED})


def served(api_key: int, version: int) -> Api:
    """Returns the API of a request. Raises UnsupportedRequest if this key or version is not served."""
    api = APIS.get(api_key)
    if api is None or not api.first <= version <= api.last:
        raise UnsupportedRequest(api_key, version)
    return api
