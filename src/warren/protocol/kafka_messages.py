"""Kafka's requests and responses.

Written by `make messages`, so change the schemas and not this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from warren.protocol.primitives import NO_UUID, Buffer
from warren.protocol.wire_struct import WireRequest, WireStruct


class ListOffsetsResponsePartition(WireStruct):
    """One of the `partitions` of a ListOffsetsResponseTopic."""

    __slots__ = ("partition_index", "error_code", "old_style_offsets", "timestamp", "offset", "leader_epoch")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        old_style_offsets: Sequence[int] = (),  # version 0
        timestamp: int = -1,  # version 1+
        offset: int = -1,  # version 1+
        leader_epoch: int = -1,  # version 4+
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.old_style_offsets = old_style_offsets
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch


class ListOffsetsResponseTopic(WireStruct):
    """One of the `topics` of a ListOffsetsResponse."""

    __slots__ = ("name", "partitions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": ListOffsetsResponsePartition}

    def __init__(self, name: str = "", partitions: Sequence[ListOffsetsResponsePartition] = ()) -> None:
        self.name = name
        self.partitions = partitions


class ListOffsetsResponse(WireStruct):
    """The response of ListOffsets."""

    __slots__ = ("throttle_time_ms", "topics")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": ListOffsetsResponseTopic}

    def __init__(
        self,
        throttle_time_ms: int = 0,  # version 2+
        topics: Sequence[ListOffsetsResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


class ListOffsetsRequestPartition(WireStruct):
    """One of the `partitions` of a ListOffsetsRequestTopic."""

    __slots__ = ("partition_index", "current_leader_epoch", "timestamp", "max_num_offsets")

    def __init__(
        self,
        partition_index: int = 0,
        current_leader_epoch: int = -1,  # version 4+
        timestamp: int = 0,
        max_num_offsets: int = 1,  # version 0
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp
        self.max_num_offsets = max_num_offsets


class ListOffsetsRequestTopic(WireStruct):
    """One of the `topics` of a ListOffsetsRequest."""

    __slots__ = ("name", "partitions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": ListOffsetsRequestPartition}

    def __init__(self, name: str = "", partitions: Sequence[ListOffsetsRequestPartition] = ()) -> None:
        self.name = name
        self.partitions = partitions


class ListOffsetsRequest(WireRequest[ListOffsetsResponse]):
    """The request of ListOffsets."""

    __slots__ = ("replica_id", "isolation_level", "topics", "timeout_ms")
    api_key = 2
    response = ListOffsetsResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": ListOffsetsRequestTopic}

    def __init__(
        self,
        replica_id: int = 0,
        isolation_level: int = 0,  # version 2+
        topics: Sequence[ListOffsetsRequestTopic] = (),
        timeout_ms: int = 0,  # version 10+
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = topics
        self.timeout_ms = timeout_ms


class MetadataResponseBroker(WireStruct):
    """One of the `brokers` of a MetadataResponse."""

    __slots__ = ("node_id", "host", "port", "rack")

    def __init__(
        self,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,  # version 1+
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class MetadataResponsePartition(WireStruct):
    """One of the `partitions` of a MetadataResponseTopic."""

    __slots__ = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "offline_replicas",
    )

    def __init__(
        self,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,  # version 7+
        replica_nodes: Sequence[int] = (),
        isr_nodes: Sequence[int] = (),
        offline_replicas: Sequence[int] = (),  # version 5+
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = replica_nodes
        self.isr_nodes = isr_nodes
        self.offline_replicas = offline_replicas


class MetadataResponseTopic(WireStruct):
    """One of the `topics` of a MetadataResponse."""

    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": MetadataResponsePartition}

    def __init__(
        self,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = NO_UUID,  # version 10+
        is_internal: bool = False,  # version 1+
        partitions: Sequence[MetadataResponsePartition] = (),
        topic_authorized_operations: int = -2147483648,  # version 8+
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = partitions
        self.topic_authorized_operations = topic_authorized_operations


class MetadataResponse(WireStruct):
    """The response of Metadata."""

    __slots__ = (
        "throttle_time_ms",
        "brokers",
        "cluster_id",
        "controller_id",
        "topics",
        "cluster_authorized_operations",
        "error_code",
    )
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "brokers": MetadataResponseBroker,
        "topics": MetadataResponseTopic,
    }

    def __init__(
        self,
        throttle_time_ms: int = 0,  # version 3+
        brokers: Sequence[MetadataResponseBroker] = (),
        cluster_id: str | None = None,  # version 2+
        controller_id: int = -1,  # version 1+
        topics: Sequence[MetadataResponseTopic] = (),
        cluster_authorized_operations: int = -2147483648,  # version 8 to 10
        error_code: int = 0,  # version 13+
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers = brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics = topics
        self.cluster_authorized_operations = cluster_authorized_operations
        self.error_code = error_code


class MetadataRequestTopic(WireStruct):
    """One of the `topics` of a MetadataRequest."""

    __slots__ = ("topic_id", "name")

    def __init__(
        self,
        topic_id: bytes = NO_UUID,  # version 10+
        name: str | None = "",
    ) -> None:
        self.topic_id = topic_id
        self.name = name


class MetadataRequest(WireRequest[MetadataResponse]):
    """The request of Metadata."""

    __slots__ = (
        "topics",
        "allow_auto_topic_creation",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
    )
    api_key = 3
    response = MetadataResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": MetadataRequestTopic}

    def __init__(
        self,
        topics: Sequence[MetadataRequestTopic] | None = (),
        allow_auto_topic_creation: bool = True,  # version 4+
        include_cluster_authorized_operations: bool = False,  # version 8 to 10
        include_topic_authorized_operations: bool = False,  # version 8+
    ) -> None:
        self.topics = topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations


class OffsetCommitResponsePartition(WireStruct):
    """One of the `partitions` of a OffsetCommitResponseTopic."""

    __slots__ = ("partition_index", "error_code")

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetCommitResponseTopic(WireStruct):
    """One of the `topics` of a OffsetCommitResponse."""

    __slots__ = ("name", "topic_id", "partitions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": OffsetCommitResponsePartition}

    def __init__(
        self,
        name: str = "",  # version 0 to 9
        topic_id: bytes = NO_UUID,  # version 10+
        partitions: Sequence[OffsetCommitResponsePartition] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


class OffsetCommitResponse(WireStruct):
    """The response of OffsetCommit."""

    __slots__ = ("throttle_time_ms", "topics")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": OffsetCommitResponseTopic}

    def __init__(
        self,
        throttle_time_ms: int = 0,  # version 3+
        topics: Sequence[OffsetCommitResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


class OffsetCommitRequestPartition(WireStruct):
    """One of the `partitions` of a OffsetCommitRequestTopic."""

    __slots__ = (
        "partition_index",
        "committed_offset",
        "committed_leader_epoch",
        "commit_timestamp",
        "committed_metadata",
    )

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,  # version 6+
        commit_timestamp: int = -1,  # version 1
        committed_metadata: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.commit_timestamp = commit_timestamp
        self.committed_metadata = committed_metadata


class OffsetCommitRequestTopic(WireStruct):
    """One of the `topics` of a OffsetCommitRequest."""

    __slots__ = ("name", "topic_id", "partitions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": OffsetCommitRequestPartition}

    def __init__(
        self,
        name: str = "",  # version 0 to 9
        topic_id: bytes = NO_UUID,  # version 10+
        partitions: Sequence[OffsetCommitRequestPartition] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


class OffsetCommitRequest(WireRequest[OffsetCommitResponse]):
    """The request of OffsetCommit."""

    __slots__ = (
        "group_id",
        "generation_id_or_member_epoch",
        "member_id",
        "group_instance_id",
        "retention_time_ms",
        "topics",
    )
    api_key = 8
    response = OffsetCommitResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": OffsetCommitRequestTopic}

    def __init__(
        self,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,  # version 1+
        member_id: str = "",  # version 1+
        group_instance_id: str | None = None,  # version 7+
        retention_time_ms: int = -1,  # version 2 to 4
        topics: Sequence[OffsetCommitRequestTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics = topics


class OffsetFetchResponsePartition(WireStruct):
    """One of the `partitions` of a OffsetFetchResponseTopic."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")

    def __init__(
        self,
        partition_index: int = 0,  # version 0 to 7
        committed_offset: int = 0,  # version 0 to 7
        committed_leader_epoch: int = -1,  # version 5 to 7
        metadata: str | None = "",  # version 0 to 7
        error_code: int = 0,  # version 0 to 7
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopic(WireStruct):
    """One of the `topics` of a OffsetFetchResponse."""

    __slots__ = ("name", "partitions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": OffsetFetchResponsePartition}

    def __init__(
        self,
        name: str = "",  # version 0 to 7
        partitions: Sequence[OffsetFetchResponsePartition] = (),  # version 0 to 7
    ) -> None:
        self.name = name
        self.partitions = partitions


class OffsetFetchResponseGroupTopicPartition(WireStruct):
    """One of the `partitions` of a OffsetFetchResponseGroupTopic."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")

    def __init__(
        self,
        partition_index: int = 0,  # version 8+
        committed_offset: int = 0,  # version 8+
        committed_leader_epoch: int = -1,  # version 8+
        metadata: str | None = "",  # version 8+
        error_code: int = 0,  # version 8+
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseGroupTopic(WireStruct):
    """One of the `topics` of a OffsetFetchResponseGroup."""

    __slots__ = ("name", "topic_id", "partitions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": OffsetFetchResponseGroupTopicPartition}

    def __init__(
        self,
        name: str = "",  # version 8 to 9
        topic_id: bytes = NO_UUID,  # version 10+
        partitions: Sequence[OffsetFetchResponseGroupTopicPartition] = (),  # version 8+
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


class OffsetFetchResponseGroup(WireStruct):
    """One of the `groups` of a OffsetFetchResponse."""

    __slots__ = ("group_id", "topics", "error_code")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": OffsetFetchResponseGroupTopic}

    def __init__(
        self,
        group_id: str = "",  # version 8+
        topics: Sequence[OffsetFetchResponseGroupTopic] = (),  # version 8+
        error_code: int = 0,  # version 8+
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.error_code = error_code


class OffsetFetchResponse(WireStruct):
    """The response of OffsetFetch."""

    __slots__ = ("throttle_time_ms", "topics", "error_code", "groups")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "topics": OffsetFetchResponseTopic,
        "groups": OffsetFetchResponseGroup,
    }

    def __init__(
        self,
        throttle_time_ms: int = 0,  # version 3+
        topics: Sequence[OffsetFetchResponseTopic] = (),  # version 0 to 7
        error_code: int = 0,  # version 2 to 7
        groups: Sequence[OffsetFetchResponseGroup] = (),  # version 8+
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
        self.error_code = error_code
        self.groups = groups


class OffsetFetchRequestTopic(WireStruct):
    """One of the `topics` of a OffsetFetchRequest."""

    __slots__ = ("name", "partition_indexes")

    def __init__(
        self,
        name: str = "",  # version 0 to 7
        partition_indexes: Sequence[int] = (),  # version 0 to 7
    ) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


class OffsetFetchRequestGroupTopic(WireStruct):
    """One of the `topics` of a OffsetFetchRequestGroup."""

    __slots__ = ("name", "topic_id", "partition_indexes")

    def __init__(
        self,
        name: str = "",  # version 8 to 9
        topic_id: bytes = NO_UUID,  # version 10+
        partition_indexes: Sequence[int] = (),  # version 8+
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_indexes = partition_indexes


class OffsetFetchRequestGroup(WireStruct):
    """One of the `groups` of a OffsetFetchRequest."""

    __slots__ = ("group_id", "member_id", "member_epoch", "topics")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": OffsetFetchRequestGroupTopic}

    def __init__(
        self,
        group_id: str = "",  # version 8+
        member_id: str | None = None,  # version 9+
        member_epoch: int = -1,  # version 9+
        topics: Sequence[OffsetFetchRequestGroupTopic] | None = (),  # version 8+
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics = topics


class OffsetFetchRequest(WireRequest[OffsetFetchResponse]):
    """The request of OffsetFetch."""

    __slots__ = ("group_id", "topics", "groups", "require_stable")
    api_key = 9
    response = OffsetFetchResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "topics": OffsetFetchRequestTopic,
        "groups": OffsetFetchRequestGroup,
    }

    def __init__(
        self,
        group_id: str = "",  # version 0 to 7
        topics: Sequence[OffsetFetchRequestTopic] | None = (),  # version 0 to 7
        groups: Sequence[OffsetFetchRequestGroup] = (),  # version 8+
        require_stable: bool = False,  # version 7+
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.groups = groups
        self.require_stable = require_stable


class FindCoordinatorResponseCoordinator(WireStruct):
    """One of the `coordinators` of a FindCoordinatorResponse."""

    __slots__ = ("key", "node_id", "host", "port", "error_code", "error_message")

    def __init__(
        self,
        key: str = "",  # version 4+
        node_id: int = 0,  # version 4+
        host: str = "",  # version 4+
        port: int = 0,  # version 4+
        error_code: int = 0,  # version 4+
        error_message: str | None = "",  # version 4+
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message


class FindCoordinatorResponse(WireStruct):
    """The response of FindCoordinator."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "node_id", "host", "port", "coordinators")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"coordinators": FindCoordinatorResponseCoordinator}

    def __init__(
        self,
        throttle_time_ms: int = 0,  # version 1+
        error_code: int = 0,  # version 0 to 3
        error_message: str | None = "",  # version 1 to 3
        node_id: int = 0,  # version 0 to 3
        host: str = "",  # version 0 to 3
        port: int = 0,  # version 0 to 3
        coordinators: Sequence[FindCoordinatorResponseCoordinator] = (),  # version 4+
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators = coordinators


class FindCoordinatorRequest(WireRequest[FindCoordinatorResponse]):
    """The request of FindCoordinator."""

    __slots__ = ("key", "key_type", "coordinator_keys")
    api_key = 10
    response = FindCoordinatorResponse

    def __init__(
        self,
        key: str = "",  # version 0 to 3
        key_type: int = 0,  # version 1+
        coordinator_keys: Sequence[str] = (),  # version 4+
    ) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = coordinator_keys


class JoinGroupResponseMember(WireStruct):
    """One of the `members` of a JoinGroupResponse."""

    __slots__ = ("member_id", "group_instance_id", "metadata")

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,  # version 5+
        metadata: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata


class JoinGroupResponse(WireStruct):
    """The response of JoinGroup."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "generation_id",
        "protocol_type",
        "protocol_name",
        "leader",
        "skip_assignment",
        "member_id",
        "members",
    )
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"members": JoinGroupResponseMember}

    def __init__(
        self,
        throttle_time_ms: int = 0,  # version 2+
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,  # version 7+
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,  # version 9+
        member_id: str = "",
        members: Sequence[JoinGroupResponseMember] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members = members


class JoinGroupRequestProtocol(WireStruct):
    """One of the `protocols` of a JoinGroupRequest."""

    __slots__ = ("name", "metadata")

    def __init__(self, name: str = "", metadata: bytes = b"") -> None:
        self.name = name
        self.metadata = metadata


class JoinGroupRequest(WireRequest[JoinGroupResponse]):
    """The request of JoinGroup."""

    __slots__ = (
        "group_id",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocols",
        "reason",
    )
    api_key = 11
    response = JoinGroupResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"protocols": JoinGroupRequestProtocol}

    def __init__(
        self,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,  # version 1+
        member_id: str = "",
        group_instance_id: str | None = None,  # version 5+
        protocol_type: str = "",
        protocols: Sequence[JoinGroupRequestProtocol] = (),
        reason: str | None = None,  # version 8+
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.reason = reason


class HeartbeatResponse(WireStruct):
    """The response of Heartbeat."""

    __slots__ = ("throttle_time_ms", "error_code")

    def __init__(
        self,
        throttle_time_ms: int = 0,  # version 1+
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


class HeartbeatRequest(WireRequest[HeartbeatResponse]):
    """The request of Heartbeat."""

    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id")
    api_key = 12
    response = HeartbeatResponse

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,  # version 3+
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id


class LeaveGroupResponseMember(WireStruct):
    """One of the `members` of a LeaveGroupResponse."""

    __slots__ = ("member_id", "group_instance_id", "error_code")

    def __init__(
        self,
        member_id: str = "",  # version 3+
        group_instance_id: str | None = "",  # version 3+
        error_code: int = 0,  # version 3+
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code


class LeaveGroupResponse(WireStruct):
    """The response of LeaveGroup."""

    __slots__ = ("throttle_time_ms", "error_code", "members")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"members": LeaveGroupResponseMember}

    def __init__(
        self,
        throttle_time_ms: int = 0,  # version 1+
        error_code: int = 0,
        members: Sequence[LeaveGroupResponseMember] = (),  # version 3+
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = members


class LeaveGroupRequestMember(WireStruct):
    """One of the `members` of a LeaveGroupRequest."""

    __slots__ = ("member_id", "group_instance_id", "reason")

    def __init__(
        self,
        member_id: str = "",  # version 3+
        group_instance_id: str | None = None,  # version 3+
        reason: str | None = None,  # version 5+
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason


class LeaveGroupRequest(WireRequest[LeaveGroupResponse]):
    """The request of LeaveGroup."""

    __slots__ = ("group_id", "member_id", "members")
    api_key = 13
    response = LeaveGroupResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"members": LeaveGroupRequestMember}

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",  # version 0 to 2
        members: Sequence[LeaveGroupRequestMember] = (),  # version 3+
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members = members


class SyncGroupResponse(WireStruct):
    """The response of SyncGroup."""

    __slots__ = ("throttle_time_ms", "error_code", "protocol_type", "protocol_name", "assignment")

    def __init__(
        self,
        throttle_time_ms: int = 0,  # version 1+
        error_code: int = 0,
        protocol_type: str | None = None,  # version 5+
        protocol_name: str | None = None,  # version 5+
        assignment: bytes = b"",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment


class SyncGroupRequestAssignment(WireStruct):
    """One of the `assignments` of a SyncGroupRequest."""

    __slots__ = ("member_id", "assignment")

    def __init__(self, member_id: str = "", assignment: bytes = b"") -> None:
        self.member_id = member_id
        self.assignment = assignment


class SyncGroupRequest(WireRequest[SyncGroupResponse]):
    """The request of SyncGroup."""

    __slots__ = (
        "group_id",
        "generation_id",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocol_name",
        "assignments",
    )
    api_key = 14
    response = SyncGroupResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"assignments": SyncGroupRequestAssignment}

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,  # version 3+
        protocol_type: str | None = None,  # version 5+
        protocol_name: str | None = None,  # version 5+
        assignments: Sequence[SyncGroupRequestAssignment] = (),
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = assignments


class DescribeGroupsResponseMember(WireStruct):
    """One of the `members` of a DescribeGroupsResponseGroup."""

    __slots__ = ("member_id", "group_instance_id", "client_id", "client_host", "member_metadata", "member_assignment")

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,  # version 4+
        client_id: str = "",
        client_host: str = "",
        member_metadata: bytes = b"",
        member_assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment


class DescribeGroupsResponseGroup(WireStruct):
    """One of the `groups` of a DescribeGroupsResponse."""

    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "protocol_type",
        "protocol_data",
        "members",
        "authorized_operations",
    )
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"members": DescribeGroupsResponseMember}

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,  # version 6+
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: Sequence[DescribeGroupsResponseMember] = (),
        authorized_operations: int = -2147483648,  # version 3+
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members = members
        self.authorized_operations = authorized_operations


class DescribeGroupsResponse(WireStruct):
    """The response of DescribeGroups."""

    __slots__ = ("throttle_time_ms", "groups")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"groups": DescribeGroupsResponseGroup}

    def __init__(
        self,
        throttle_time_ms: int = 0,  # version 1+
        groups: Sequence[DescribeGroupsResponseGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups


class DescribeGroupsRequest(WireRequest[DescribeGroupsResponse]):
    """The request of DescribeGroups."""

    __slots__ = ("groups", "include_authorized_operations")
    api_key = 15
    response = DescribeGroupsResponse

    def __init__(
        self,
        groups: Sequence[str] = (),
        include_authorized_operations: bool = False,  # version 3+
    ) -> None:
        self.groups = groups
        self.include_authorized_operations = include_authorized_operations


class ListGroupsResponseGroup(WireStruct):
    """One of the `groups` of a ListGroupsResponse."""

    __slots__ = ("group_id", "protocol_type", "group_state", "group_type")

    def __init__(
        self,
        group_id: str = "",
        protocol_type: str = "",
        group_state: str = "",  # version 4+
        group_type: str = "",  # version 5+
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type


class ListGroupsResponse(WireStruct):
    """The response of ListGroups."""

    __slots__ = ("throttle_time_ms", "error_code", "groups")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"groups": ListGroupsResponseGroup}

    def __init__(
        self,
        throttle_time_ms: int = 0,  # version 1+
        error_code: int = 0,
        groups: Sequence[ListGroupsResponseGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = groups


class ListGroupsRequest(WireRequest[ListGroupsResponse]):
    """The request of ListGroups."""

    __slots__ = ("states_filter", "types_filter")
    api_key = 16
    response = ListGroupsResponse

    def __init__(
        self,
        states_filter: Sequence[str] = (),  # version 4+
        types_filter: Sequence[str] = (),  # version 5+
    ) -> None:
        self.states_filter = states_filter
        self.types_filter = types_filter


class SaslHandshakeResponse(WireStruct):
    """The response of SaslHandshake."""

    __slots__ = ("error_code", "mechanisms")

    def __init__(self, error_code: int = 0, mechanisms: Sequence[str] = ()) -> None:
        self.error_code = error_code
        self.mechanisms = mechanisms


class SaslHandshakeRequest(WireRequest[SaslHandshakeResponse]):
    """The request of SaslHandshake."""

    __slots__ = ("mechanism",)
    api_key = 17
    response = SaslHandshakeResponse

    def __init__(self, mechanism: str = "") -> None:
        self.mechanism = mechanism


class ApiVersionsResponseApiKey(WireStruct):
    """One of the `api_keys` of a ApiVersionsResponse."""

    __slots__ = ("api_key", "min_version", "max_version")

    def __init__(self, api_key: int = 0, min_version: int = 0, max_version: int = 0) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version


class ApiVersionsResponseSupportedFeature(WireStruct):
    """One of the `supported_features` of a ApiVersionsResponse."""

    __slots__ = ("name", "min_version", "max_version")

    def __init__(
        self,
        name: str = "",  # version 3+
        min_version: int = 0,  # version 3+
        max_version: int = 0,  # version 3+
    ) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version


class ApiVersionsResponseFinalizedFeature(WireStruct):
    """One of the `finalized_features` of a ApiVersionsResponse."""

    __slots__ = ("name", "max_version_level", "min_version_level")

    def __init__(
        self,
        name: str = "",  # version 3+
        max_version_level: int = 0,  # version 3+
        min_version_level: int = 0,  # version 3+
    ) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level


class ApiVersionsResponse(WireStruct):
    """The response of ApiVersions."""

    __slots__ = (
        "error_code",
        "api_keys",
        "throttle_time_ms",
        "supported_features",
        "finalized_features_epoch",
        "finalized_features",
        "zk_migration_ready",
    )
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "api_keys": ApiVersionsResponseApiKey,
        "supported_features": ApiVersionsResponseSupportedFeature,
        "finalized_features": ApiVersionsResponseFinalizedFeature,
    }

    def __init__(
        self,
        error_code: int = 0,
        api_keys: Sequence[ApiVersionsResponseApiKey] = (),
        throttle_time_ms: int = 0,  # version 1+
        supported_features: Sequence[ApiVersionsResponseSupportedFeature] = (),  # version 3+
        finalized_features_epoch: int = -1,  # version 3+
        finalized_features: Sequence[ApiVersionsResponseFinalizedFeature] = (),  # version 3+
        zk_migration_ready: bool = False,  # version 3+
    ) -> None:
        self.error_code = error_code
        self.api_keys = api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = finalized_features
        self.zk_migration_ready = zk_migration_ready


class ApiVersionsRequest(WireRequest[ApiVersionsResponse]):
    """The request of ApiVersions."""

    __slots__ = ("client_software_name", "client_software_version")
    api_key = 18
    response = ApiVersionsResponse

    def __init__(
        self,
        client_software_name: str = "",  # version 3+
        client_software_version: str = "",  # version 3+
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version


class CreateTopicsResponseConfig(WireStruct):
    """One of the `configs` of a CreateTopicsResponseTopic."""

    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive")

    def __init__(
        self,
        name: str = "",  # version 5+
        value: str | None = "",  # version 5+
        read_only: bool = False,  # version 5+
        config_source: int = -1,  # version 5+
        is_sensitive: bool = False,  # version 5+
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive


class CreateTopicsResponseTopic(WireStruct):
    """One of the `topics` of a CreateTopicsResponse."""

    __slots__ = (
        "name",
        "topic_id",
        "error_code",
        "error_message",
        "topic_config_error_code",
        "num_partitions",
        "replication_factor",
        "configs",
    )
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"configs": CreateTopicsResponseConfig}

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = NO_UUID,  # version 7+
        error_code: int = 0,
        error_message: str | None = "",  # version 1+
        topic_config_error_code: int = 0,  # version 5+
        num_partitions: int = -1,  # version 5+
        replication_factor: int = -1,  # version 5+
        configs: Sequence[CreateTopicsResponseConfig] | None = (),  # version 5+
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs = configs


class CreateTopicsResponse(WireStruct):
    """The response of CreateTopics."""

    __slots__ = ("throttle_time_ms", "topics")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": CreateTopicsResponseTopic}

    def __init__(
        self,
        throttle_time_ms: int = 0,  # version 2+
        topics: Sequence[CreateTopicsResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


class CreateTopicsRequestAssignment(WireStruct):
    """One of the `assignments` of a CreateTopicsRequestTopic."""

    __slots__ = ("partition_index", "broker_ids")

    def __init__(self, partition_index: int = 0, broker_ids: Sequence[int] = ()) -> None:
        self.partition_index = partition_index
        self.broker_ids = broker_ids


class CreateTopicsRequestConfig(WireStruct):
    """One of the `configs` of a CreateTopicsRequestTopic."""

    __slots__ = ("name", "value")

    def __init__(self, name: str = "", value: str | None = "") -> None:
        self.name = name
        self.value = value


class CreateTopicsRequestTopic(WireStruct):
    """One of the `topics` of a CreateTopicsRequest."""

    __slots__ = ("name", "num_partitions", "replication_factor", "assignments", "configs")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "assignments": CreateTopicsRequestAssignment,
        "configs": CreateTopicsRequestConfig,
    }

    def __init__(
        self,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: Sequence[CreateTopicsRequestAssignment] = (),
        configs: Sequence[CreateTopicsRequestConfig] = (),
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments = assignments
        self.configs = configs


class CreateTopicsRequest(WireRequest[CreateTopicsResponse]):
    """The request of CreateTopics."""

    __slots__ = ("topics", "timeout_ms", "validate_only")
    api_key = 19
    response = CreateTopicsResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": CreateTopicsRequestTopic}

    def __init__(
        self,
        topics: Sequence[CreateTopicsRequestTopic] = (),
        timeout_ms: int = 60000,
        validate_only: bool = False,  # version 1+
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class DeleteTopicsResponseResult(WireStruct):
    """One of the `responses` of a DeleteTopicsResponse."""

    __slots__ = ("name", "topic_id", "error_code", "error_message")

    def __init__(
        self,
        name: str | None = "",
        topic_id: bytes = NO_UUID,  # version 6+
        error_code: int = 0,
        error_message: str | None = None,  # version 5+
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteTopicsResponse(WireStruct):
    """The response of DeleteTopics."""

    __slots__ = ("throttle_time_ms", "responses")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"responses": DeleteTopicsResponseResult}

    def __init__(
        self,
        throttle_time_ms: int = 0,  # version 1+
        responses: Sequence[DeleteTopicsResponseResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = responses


class DeleteTopicsRequestTopic(WireStruct):
    """One of the `topics` of a DeleteTopicsRequest."""

    __slots__ = ("name", "topic_id")

    def __init__(
        self,
        name: str | None = None,  # version 6+
        topic_id: bytes = NO_UUID,  # version 6+
    ) -> None:
        self.name = name
        self.topic_id = topic_id


class DeleteTopicsRequest(WireRequest[DeleteTopicsResponse]):
    """The request of DeleteTopics."""

    __slots__ = ("topics", "topic_names", "timeout_ms")
    api_key = 20
    response = DeleteTopicsResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": DeleteTopicsRequestTopic}

    def __init__(
        self,
        topics: Sequence[DeleteTopicsRequestTopic] = (),  # version 6+
        topic_names: Sequence[str] = (),  # version 0 to 5
        timeout_ms: int = 0,
    ) -> None:
        self.topics = topics
        self.topic_names = topic_names
        self.timeout_ms = timeout_ms


class DeleteRecordsResponsePartition(WireStruct):
    """One of the `partitions` of a DeleteRecordsResponseTopic."""

    __slots__ = ("partition_index", "low_watermark", "error_code")

    def __init__(self, partition_index: int = 0, low_watermark: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code


class DeleteRecordsResponseTopic(WireStruct):
    """One of the `topics` of a DeleteRecordsResponse."""

    __slots__ = ("name", "partitions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": DeleteRecordsResponsePartition}

    def __init__(self, name: str = "", partitions: Sequence[DeleteRecordsResponsePartition] = ()) -> None:
        self.name = name
        self.partitions = partitions


class DeleteRecordsResponse(WireStruct):
    """The response of DeleteRecords."""

    __slots__ = ("throttle_time_ms", "topics")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": DeleteRecordsResponseTopic}

    def __init__(self, throttle_time_ms: int = 0, topics: Sequence[DeleteRecordsResponseTopic] = ()) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


class DeleteRecordsRequestPartition(WireStruct):
    """One of the `partitions` of a DeleteRecordsRequestTopic."""

    __slots__ = ("partition_index", "offset")

    def __init__(self, partition_index: int = 0, offset: int = 0) -> None:
        self.partition_index = partition_index
        self.offset = offset


class DeleteRecordsRequestTopic(WireStruct):
    """One of the `topics` of a DeleteRecordsRequest."""

    __slots__ = ("name", "partitions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": DeleteRecordsRequestPartition}

    def __init__(self, name: str = "", partitions: Sequence[DeleteRecordsRequestPartition] = ()) -> None:
        self.name = name
        self.partitions = partitions


class DeleteRecordsRequest(WireRequest[DeleteRecordsResponse]):
    """The request of DeleteRecords."""

    __slots__ = ("topics", "timeout_ms")
    api_key = 21
    response = DeleteRecordsResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": DeleteRecordsRequestTopic}

    def __init__(self, topics: Sequence[DeleteRecordsRequestTopic] = (), timeout_ms: int = 0) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms


class InitProducerIdResponse(WireStruct):
    """The response of InitProducerId."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "producer_id",
        "producer_epoch",
        "ongoing_txn_producer_id",
        "ongoing_txn_producer_epoch",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,  # version 6+
        ongoing_txn_producer_epoch: int = -1,  # version 6+
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_txn_producer_id = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch = ongoing_txn_producer_epoch


class InitProducerIdRequest(WireRequest[InitProducerIdResponse]):
    """The request of InitProducerId."""

    __slots__ = (
        "transactional_id",
        "transaction_timeout_ms",
        "producer_id",
        "producer_epoch",
        "enable2_pc",
        "keep_prepared_txn",
    )
    api_key = 22
    response = InitProducerIdResponse

    def __init__(
        self,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,  # version 3+
        producer_epoch: int = -1,  # version 3+
        enable2_pc: bool = False,  # version 6+
        keep_prepared_txn: bool = False,  # version 6+
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable2_pc = enable2_pc
        self.keep_prepared_txn = keep_prepared_txn


class OffsetForLeaderEpochResponsePartition(WireStruct):
    """One of the `partitions` of a OffsetForLeaderEpochResponseTopic."""

    __slots__ = ("error_code", "partition", "leader_epoch", "end_offset")

    def __init__(
        self,
        error_code: int = 0,
        partition: int = 0,
        leader_epoch: int = -1,  # version 1+
        end_offset: int = -1,
    ) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset


class OffsetForLeaderEpochResponseTopic(WireStruct):
    """One of the `topics` of a OffsetForLeaderEpochResponse."""

    __slots__ = ("topic", "partitions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": OffsetForLeaderEpochResponsePartition}

    def __init__(self, topic: str = "", partitions: Sequence[OffsetForLeaderEpochResponsePartition] = ()) -> None:
        self.topic = topic
        self.partitions = partitions


class OffsetForLeaderEpochResponse(WireStruct):
    """The response of OffsetForLeaderEpoch."""

    __slots__ = ("throttle_time_ms", "topics")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": OffsetForLeaderEpochResponseTopic}

    def __init__(
        self,
        throttle_time_ms: int = 0,  # version 2+
        topics: Sequence[OffsetForLeaderEpochResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


class OffsetForLeaderEpochRequestPartition(WireStruct):
    """One of the `partitions` of a OffsetForLeaderEpochRequestTopic."""

    __slots__ = ("partition", "current_leader_epoch", "leader_epoch")

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = -1,  # version 2+
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch


class OffsetForLeaderEpochRequestTopic(WireStruct):
    """One of the `topics` of a OffsetForLeaderEpochRequest."""

    __slots__ = ("topic", "partitions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": OffsetForLeaderEpochRequestPartition}

    def __init__(self, topic: str = "", partitions: Sequence[OffsetForLeaderEpochRequestPartition] = ()) -> None:
        self.topic = topic
        self.partitions = partitions


class OffsetForLeaderEpochRequest(WireRequest[OffsetForLeaderEpochResponse]):
    """The request of OffsetForLeaderEpoch."""

    __slots__ = ("replica_id", "topics")
    api_key = 23
    response = OffsetForLeaderEpochResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": OffsetForLeaderEpochRequestTopic}

    def __init__(
        self,
        replica_id: int = -2,  # version 3+
        topics: Sequence[OffsetForLeaderEpochRequestTopic] = (),
    ) -> None:
        self.replica_id = replica_id
        self.topics = topics


class AddPartitionsToTxnResponsePartition(WireStruct):
    """One of the `results_by_partition` of a AddPartitionsToTxnResponseTopicResult."""

    __slots__ = ("partition_index", "partition_error_code")

    def __init__(self, partition_index: int = 0, partition_error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code


class AddPartitionsToTxnResponseTopicResult(WireStruct):
    """One of the `topic_results` of a AddPartitionsToTxnResponseResultsByTransaction."""

    __slots__ = ("name", "results_by_partition")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"results_by_partition": AddPartitionsToTxnResponsePartition}

    def __init__(
        self, name: str = "", results_by_partition: Sequence[AddPartitionsToTxnResponsePartition] = ()
    ) -> None:
        self.name = name
        self.results_by_partition = results_by_partition


class AddPartitionsToTxnResponseResultsByTransaction(WireStruct):
    """One of the `results_by_transaction` of a AddPartitionsToTxnResponse."""

    __slots__ = ("transactional_id", "topic_results")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topic_results": AddPartitionsToTxnResponseTopicResult}

    def __init__(
        self,
        transactional_id: str = "",  # version 4+
        topic_results: Sequence[AddPartitionsToTxnResponseTopicResult] = (),  # version 4+
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results = topic_results


class AddPartitionsToTxnResponseTopic(WireStruct):
    """One of the `results_by_topic_v3_and_below` of a AddPartitionsToTxnResponse."""

    __slots__ = ("name", "results_by_partition")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"results_by_partition": AddPartitionsToTxnResponsePartition}

    def __init__(
        self, name: str = "", results_by_partition: Sequence[AddPartitionsToTxnResponsePartition] = ()
    ) -> None:
        self.name = name
        self.results_by_partition = results_by_partition


class AddPartitionsToTxnResponse(WireStruct):
    """The response of AddPartitionsToTxn."""

    __slots__ = ("throttle_time_ms", "error_code", "results_by_transaction", "results_by_topic_v3_and_below")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "results_by_transaction": AddPartitionsToTxnResponseResultsByTransaction,
        "results_by_topic_v3_and_below": AddPartitionsToTxnResponseTopic,
    }

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,  # version 4+
        results_by_transaction: Sequence[AddPartitionsToTxnResponseResultsByTransaction] = (),  # version 4+
        results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnResponseTopic] = (),  # version 0 to 3
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = results_by_transaction
        self.results_by_topic_v3_and_below = results_by_topic_v3_and_below


class AddPartitionsToTxnRequestTopic(WireStruct):
    """One of the `topics` of a AddPartitionsToTxnRequestTransaction."""

    __slots__ = ("name", "partitions")

    def __init__(self, name: str = "", partitions: Sequence[int] = ()) -> None:
        self.name = name
        self.partitions = partitions


class AddPartitionsToTxnRequestTransaction(WireStruct):
    """One of the `transactions` of a AddPartitionsToTxnRequest."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "topics")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": AddPartitionsToTxnRequestTopic}

    def __init__(
        self,
        transactional_id: str = "",  # version 4+
        producer_id: int = 0,  # version 4+
        producer_epoch: int = 0,  # version 4+
        verify_only: bool = False,  # version 4+
        topics: Sequence[AddPartitionsToTxnRequestTopic] = (),  # version 4+
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = topics


class AddPartitionsToTxnRequest(WireRequest[AddPartitionsToTxnResponse]):
    """The request of AddPartitionsToTxn."""

    __slots__ = (
        "transactions",
        "v3_and_below_transactional_id",
        "v3_and_below_producer_id",
        "v3_and_below_producer_epoch",
        "v3_and_below_topics",
    )
    api_key = 24
    response = AddPartitionsToTxnResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "transactions": AddPartitionsToTxnRequestTransaction,
        "v3_and_below_topics": AddPartitionsToTxnRequestTopic,
    }

    def __init__(
        self,
        transactions: Sequence[AddPartitionsToTxnRequestTransaction] = (),  # version 4+
        v3_and_below_transactional_id: str = "",  # version 0 to 3
        v3_and_below_producer_id: int = 0,  # version 0 to 3
        v3_and_below_producer_epoch: int = 0,  # version 0 to 3
        v3_and_below_topics: Sequence[AddPartitionsToTxnRequestTopic] = (),  # version 0 to 3
    ) -> None:
        self.transactions = transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = v3_and_below_topics


class AddOffsetsToTxnResponse(WireStruct):
    """The response of AddOffsetsToTxn."""

    __slots__ = ("throttle_time_ms", "error_code")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


class AddOffsetsToTxnRequest(WireRequest[AddOffsetsToTxnResponse]):
    """The request of AddOffsetsToTxn."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "group_id")
    api_key = 25
    response = AddOffsetsToTxnResponse

    def __init__(
        self, transactional_id: str = "", producer_id: int = 0, producer_epoch: int = 0, group_id: str = ""
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id


class EndTxnResponse(WireStruct):
    """The response of EndTxn."""

    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,  # version 5+
        producer_epoch: int = -1,  # version 5+
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch


class EndTxnRequest(WireRequest[EndTxnResponse]):
    """The request of EndTxn."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "committed")
    api_key = 26
    response = EndTxnResponse

    def __init__(
        self, transactional_id: str = "", producer_id: int = 0, producer_epoch: int = 0, committed: bool = False
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed


class TxnOffsetCommitResponsePartition(WireStruct):
    """One of the `partitions` of a TxnOffsetCommitResponseTopic."""

    __slots__ = ("partition_index", "error_code")

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class TxnOffsetCommitResponseTopic(WireStruct):
    """One of the `topics` of a TxnOffsetCommitResponse."""

    __slots__ = ("name", "partitions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": TxnOffsetCommitResponsePartition}

    def __init__(self, name: str = "", partitions: Sequence[TxnOffsetCommitResponsePartition] = ()) -> None:
        self.name = name
        self.partitions = partitions


class TxnOffsetCommitResponse(WireStruct):
    """The response of TxnOffsetCommit."""

    __slots__ = ("throttle_time_ms", "topics")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": TxnOffsetCommitResponseTopic}

    def __init__(self, throttle_time_ms: int = 0, topics: Sequence[TxnOffsetCommitResponseTopic] = ()) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


class TxnOffsetCommitRequestPartition(WireStruct):
    """One of the `partitions` of a TxnOffsetCommitRequestTopic."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,  # version 2+
        committed_metadata: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata


class TxnOffsetCommitRequestTopic(WireStruct):
    """One of the `topics` of a TxnOffsetCommitRequest."""

    __slots__ = ("name", "partitions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": TxnOffsetCommitRequestPartition}

    def __init__(self, name: str = "", partitions: Sequence[TxnOffsetCommitRequestPartition] = ()) -> None:
        self.name = name
        self.partitions = partitions


class TxnOffsetCommitRequest(WireRequest[TxnOffsetCommitResponse]):
    """The request of TxnOffsetCommit."""

    __slots__ = (
        "transactional_id",
        "group_id",
        "producer_id",
        "producer_epoch",
        "generation_id",
        "member_id",
        "group_instance_id",
        "topics",
    )
    api_key = 28
    response = TxnOffsetCommitResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": TxnOffsetCommitRequestTopic}

    def __init__(
        self,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id: int = -1,  # version 3+
        member_id: str = "",  # version 3+
        group_instance_id: str | None = None,  # version 3+
        topics: Sequence[TxnOffsetCommitRequestTopic] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = topics


class DescribeAclsResponseAcl(WireStruct):
    """One of the `acls` of a DescribeAclsResponseResource."""

    __slots__ = ("principal", "host", "operation", "permission_type")

    def __init__(self, principal: str = "", host: str = "", operation: int = 0, permission_type: int = 0) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DescribeAclsResponseResource(WireStruct):
    """One of the `resources` of a DescribeAclsResponse."""

    __slots__ = ("resource_type", "resource_name", "pattern_type", "acls")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"acls": DescribeAclsResponseAcl}

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,  # version 1+
        acls: Sequence[DescribeAclsResponseAcl] = (),
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.acls = acls


class DescribeAclsResponse(WireStruct):
    """The response of DescribeAcls."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "resources")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"resources": DescribeAclsResponseResource}

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        resources: Sequence[DescribeAclsResponseResource] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources = resources


class DescribeAclsRequest(WireRequest[DescribeAclsResponse]):
    """The request of DescribeAcls."""

    __slots__ = (
        "resource_type_filter",
        "resource_name_filter",
        "pattern_type_filter",
        "principal_filter",
        "host_filter",
        "operation",
        "permission_type",
    )
    api_key = 29
    response = DescribeAclsResponse

    def __init__(
        self,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,  # version 1+
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type


class CreateAclsResponseResult(WireStruct):
    """One of the `results` of a CreateAclsResponse."""

    __slots__ = ("error_code", "error_message")

    def __init__(self, error_code: int = 0, error_message: str | None = "") -> None:
        self.error_code = error_code
        self.error_message = error_message


class CreateAclsResponse(WireStruct):
    """The response of CreateAcls."""

    __slots__ = ("throttle_time_ms", "results")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"results": CreateAclsResponseResult}

    def __init__(self, throttle_time_ms: int = 0, results: Sequence[CreateAclsResponseResult] = ()) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results


class CreateAclsRequestCreation(WireStruct):
    """One of the `creations` of a CreateAclsRequest."""

    __slots__ = (
        "resource_type",
        "resource_name",
        "resource_pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,  # version 1+
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class CreateAclsRequest(WireRequest[CreateAclsResponse]):
    """The request of CreateAcls."""

    __slots__ = ("creations",)
    api_key = 30
    response = CreateAclsResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"creations": CreateAclsRequestCreation}

    def __init__(self, creations: Sequence[CreateAclsRequestCreation] = ()) -> None:
        self.creations = creations


class DeleteAclsResponseMatchingAcl(WireStruct):
    """One of the `matching_acls` of a DeleteAclsResponseFilterResult."""

    __slots__ = (
        "error_code",
        "error_message",
        "resource_type",
        "resource_name",
        "pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,  # version 1+
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsResponseFilterResult(WireStruct):
    """One of the `filter_results` of a DeleteAclsResponse."""

    __slots__ = ("error_code", "error_message", "matching_acls")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"matching_acls": DeleteAclsResponseMatchingAcl}

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        matching_acls: Sequence[DeleteAclsResponseMatchingAcl] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.matching_acls = matching_acls


class DeleteAclsResponse(WireStruct):
    """The response of DeleteAcls."""

    __slots__ = ("throttle_time_ms", "filter_results")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"filter_results": DeleteAclsResponseFilterResult}

    def __init__(
        self, throttle_time_ms: int = 0, filter_results: Sequence[DeleteAclsResponseFilterResult] = ()
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results = filter_results


class DeleteAclsRequestFilter(WireStruct):
    """One of the `filters` of a DeleteAclsRequest."""

    __slots__ = (
        "resource_type_filter",
        "resource_name_filter",
        "pattern_type_filter",
        "principal_filter",
        "host_filter",
        "operation",
        "permission_type",
    )

    def __init__(
        self,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,  # version 1+
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsRequest(WireRequest[DeleteAclsResponse]):
    """The request of DeleteAcls."""

    __slots__ = ("filters",)
    api_key = 31
    response = DeleteAclsResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"filters": DeleteAclsRequestFilter}

    def __init__(self, filters: Sequence[DeleteAclsRequestFilter] = ()) -> None:
        self.filters = filters


class DescribeConfigsResponseSynonym(WireStruct):
    """One of the `synonyms` of a DescribeConfigsResponseConfig."""

    __slots__ = ("name", "value", "source")

    def __init__(
        self,
        name: str = "",  # version 1+
        value: str | None = "",  # version 1+
        source: int = 0,  # version 1+
    ) -> None:
        self.name = name
        self.value = value
        self.source = source


class DescribeConfigsResponseConfig(WireStruct):
    """One of the `configs` of a DescribeConfigsResponseResult."""

    __slots__ = (
        "name",
        "value",
        "read_only",
        "config_source",
        "is_default",
        "is_sensitive",
        "synonyms",
        "config_type",
        "documentation",
    )
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"synonyms": DescribeConfigsResponseSynonym}

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,  # version 1+
        is_default: bool = False,  # version 0
        is_sensitive: bool = False,
        synonyms: Sequence[DescribeConfigsResponseSynonym] = (),  # version 1+
        config_type: int = 0,  # version 3+
        documentation: str | None = "",  # version 3+
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_default = is_default
        self.is_sensitive = is_sensitive
        self.synonyms = synonyms
        self.config_type = config_type
        self.documentation = documentation


class DescribeConfigsResponseResult(WireStruct):
    """One of the `results` of a DescribeConfigsResponse."""

    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "configs")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"configs": DescribeConfigsResponseConfig}

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        configs: Sequence[DescribeConfigsResponseConfig] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = configs


class DescribeConfigsResponse(WireStruct):
    """The response of DescribeConfigs."""

    __slots__ = ("throttle_time_ms", "results")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"results": DescribeConfigsResponseResult}

    def __init__(self, throttle_time_ms: int = 0, results: Sequence[DescribeConfigsResponseResult] = ()) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results


class DescribeConfigsRequestResource(WireStruct):
    """One of the `resources` of a DescribeConfigsRequest."""

    __slots__ = ("resource_type", "resource_name", "configuration_keys")

    def __init__(
        self, resource_type: int = 0, resource_name: str = "", configuration_keys: Sequence[str] | None = ()
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys = configuration_keys


class DescribeConfigsRequest(WireRequest[DescribeConfigsResponse]):
    """The request of DescribeConfigs."""

    __slots__ = ("resources", "include_synonyms", "include_documentation")
    api_key = 32
    response = DescribeConfigsResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"resources": DescribeConfigsRequestResource}

    def __init__(
        self,
        resources: Sequence[DescribeConfigsRequestResource] = (),
        include_synonyms: bool = False,  # version 1+
        include_documentation: bool = False,  # version 3+
    ) -> None:
        self.resources = resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation


class AlterConfigsResponseResult(WireStruct):
    """One of the `responses` of a AlterConfigsResponse."""

    __slots__ = ("error_code", "error_message", "resource_type", "resource_name")

    def __init__(
        self, error_code: int = 0, error_message: str | None = "", resource_type: int = 0, resource_name: str = ""
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name


class AlterConfigsResponse(WireStruct):
    """The response of AlterConfigs."""

    __slots__ = ("throttle_time_ms", "responses")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"responses": AlterConfigsResponseResult}

    def __init__(self, throttle_time_ms: int = 0, responses: Sequence[AlterConfigsResponseResult] = ()) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = responses


class AlterConfigsRequestConfig(WireStruct):
    """One of the `configs` of a AlterConfigsRequestResource."""

    __slots__ = ("name", "value")

    def __init__(self, name: str = "", value: str | None = "") -> None:
        self.name = name
        self.value = value


class AlterConfigsRequestResource(WireStruct):
    """One of the `resources` of a AlterConfigsRequest."""

    __slots__ = ("resource_type", "resource_name", "configs")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"configs": AlterConfigsRequestConfig}

    def __init__(
        self, resource_type: int = 0, resource_name: str = "", configs: Sequence[AlterConfigsRequestConfig] = ()
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = configs


class AlterConfigsRequest(WireRequest[AlterConfigsResponse]):
    """The request of AlterConfigs."""

    __slots__ = ("resources", "validate_only")
    api_key = 33
    response = AlterConfigsResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"resources": AlterConfigsRequestResource}

    def __init__(self, resources: Sequence[AlterConfigsRequestResource] = (), validate_only: bool = False) -> None:
        self.resources = resources
        self.validate_only = validate_only


class SaslAuthenticateResponse(WireStruct):
    """The response of SaslAuthenticate."""

    __slots__ = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,  # version 1+
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms


class SaslAuthenticateRequest(WireRequest[SaslAuthenticateResponse]):
    """The request of SaslAuthenticate."""

    __slots__ = ("auth_bytes",)
    api_key = 36
    response = SaslAuthenticateResponse

    def __init__(self, auth_bytes: bytes = b"") -> None:
        self.auth_bytes = auth_bytes


class CreatePartitionsResponseResult(WireStruct):
    """One of the `results` of a CreatePartitionsResponse."""

    __slots__ = ("name", "error_code", "error_message")

    def __init__(self, name: str = "", error_code: int = 0, error_message: str | None = None) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message


class CreatePartitionsResponse(WireStruct):
    """The response of CreatePartitions."""

    __slots__ = ("throttle_time_ms", "results")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"results": CreatePartitionsResponseResult}

    def __init__(self, throttle_time_ms: int = 0, results: Sequence[CreatePartitionsResponseResult] = ()) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results


class CreatePartitionsRequestAssignment(WireStruct):
    """One of the `assignments` of a CreatePartitionsRequestTopic."""

    __slots__ = ("broker_ids",)

    def __init__(self, broker_ids: Sequence[int] = ()) -> None:
        self.broker_ids = broker_ids


class CreatePartitionsRequestTopic(WireStruct):
    """One of the `topics` of a CreatePartitionsRequest."""

    __slots__ = ("name", "count", "assignments")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"assignments": CreatePartitionsRequestAssignment}

    def __init__(
        self, name: str = "", count: int = 0, assignments: Sequence[CreatePartitionsRequestAssignment] | None = ()
    ) -> None:
        self.name = name
        self.count = count
        self.assignments = assignments


class CreatePartitionsRequest(WireRequest[CreatePartitionsResponse]):
    """The request of CreatePartitions."""

    __slots__ = ("topics", "timeout_ms", "validate_only")
    api_key = 37
    response = CreatePartitionsResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": CreatePartitionsRequestTopic}

    def __init__(
        self, topics: Sequence[CreatePartitionsRequestTopic] = (), timeout_ms: int = 0, validate_only: bool = False
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class DeleteGroupsResponseResult(WireStruct):
    """One of the `results` of a DeleteGroupsResponse."""

    __slots__ = ("group_id", "error_code")

    def __init__(self, group_id: str = "", error_code: int = 0) -> None:
        self.group_id = group_id
        self.error_code = error_code


class DeleteGroupsResponse(WireStruct):
    """The response of DeleteGroups."""

    __slots__ = ("throttle_time_ms", "results")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"results": DeleteGroupsResponseResult}

    def __init__(self, throttle_time_ms: int = 0, results: Sequence[DeleteGroupsResponseResult] = ()) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results


class DeleteGroupsRequest(WireRequest[DeleteGroupsResponse]):
    """The request of DeleteGroups."""

    __slots__ = ("groups_names",)
    api_key = 42
    response = DeleteGroupsResponse

    def __init__(self, groups_names: Sequence[str] = ()) -> None:
        self.groups_names = groups_names


class IncrementalAlterConfigsResponseResult(WireStruct):
    """One of the `responses` of a IncrementalAlterConfigsResponse."""

    __slots__ = ("error_code", "error_message", "resource_type", "resource_name")

    def __init__(
        self, error_code: int = 0, error_message: str | None = "", resource_type: int = 0, resource_name: str = ""
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name


class IncrementalAlterConfigsResponse(WireStruct):
    """The response of IncrementalAlterConfigs."""

    __slots__ = ("throttle_time_ms", "responses")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"responses": IncrementalAlterConfigsResponseResult}

    def __init__(
        self, throttle_time_ms: int = 0, responses: Sequence[IncrementalAlterConfigsResponseResult] = ()
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = responses


class IncrementalAlterConfigsRequestConfig(WireStruct):
    """One of the `configs` of a IncrementalAlterConfigsRequestResource."""

    __slots__ = ("name", "config_operation", "value")

    def __init__(self, name: str = "", config_operation: int = 0, value: str | None = "") -> None:
        self.name = name
        self.config_operation = config_operation
        self.value = value


class IncrementalAlterConfigsRequestResource(WireStruct):
    """One of the `resources` of a IncrementalAlterConfigsRequest."""

    __slots__ = ("resource_type", "resource_name", "configs")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"configs": IncrementalAlterConfigsRequestConfig}

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        configs: Sequence[IncrementalAlterConfigsRequestConfig] = (),
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = configs


class IncrementalAlterConfigsRequest(WireRequest[IncrementalAlterConfigsResponse]):
    """The request of IncrementalAlterConfigs."""

    __slots__ = ("resources", "validate_only")
    api_key = 44
    response = IncrementalAlterConfigsResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"resources": IncrementalAlterConfigsRequestResource}

    def __init__(
        self, resources: Sequence[IncrementalAlterConfigsRequestResource] = (), validate_only: bool = False
    ) -> None:
        self.resources = resources
        self.validate_only = validate_only


class OffsetDeleteResponsePartition(WireStruct):
    """One of the `partitions` of a OffsetDeleteResponseTopic."""

    __slots__ = ("partition_index", "error_code")

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetDeleteResponseTopic(WireStruct):
    """One of the `topics` of a OffsetDeleteResponse."""

    __slots__ = ("name", "partitions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": OffsetDeleteResponsePartition}

    def __init__(self, name: str = "", partitions: Sequence[OffsetDeleteResponsePartition] = ()) -> None:
        self.name = name
        self.partitions = partitions


class OffsetDeleteResponse(WireStruct):
    """The response of OffsetDelete."""

    __slots__ = ("error_code", "throttle_time_ms", "topics")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": OffsetDeleteResponseTopic}

    def __init__(
        self, error_code: int = 0, throttle_time_ms: int = 0, topics: Sequence[OffsetDeleteResponseTopic] = ()
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


class OffsetDeleteRequestPartition(WireStruct):
    """One of the `partitions` of a OffsetDeleteRequestTopic."""

    __slots__ = ("partition_index",)

    def __init__(self, partition_index: int = 0) -> None:
        self.partition_index = partition_index


class OffsetDeleteRequestTopic(WireStruct):
    """One of the `topics` of a OffsetDeleteRequest."""

    __slots__ = ("name", "partitions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": OffsetDeleteRequestPartition}

    def __init__(self, name: str = "", partitions: Sequence[OffsetDeleteRequestPartition] = ()) -> None:
        self.name = name
        self.partitions = partitions


class OffsetDeleteRequest(WireRequest[OffsetDeleteResponse]):
    """The request of OffsetDelete."""

    __slots__ = ("group_id", "topics")
    api_key = 47
    response = OffsetDeleteResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": OffsetDeleteRequestTopic}

    def __init__(self, group_id: str = "", topics: Sequence[OffsetDeleteRequestTopic] = ()) -> None:
        self.group_id = group_id
        self.topics = topics


class DescribeClientQuotasResponseEntity(WireStruct):
    """One of the `entity` of a DescribeClientQuotasResponseEntry."""

    __slots__ = ("entity_type", "entity_name")

    def __init__(self, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class DescribeClientQuotasResponseValue(WireStruct):
    """One of the `values` of a DescribeClientQuotasResponseEntry."""

    __slots__ = ("key", "value")

    def __init__(self, key: str = "", value: float = 0.0) -> None:
        self.key = key
        self.value = value


class DescribeClientQuotasResponseEntry(WireStruct):
    """One of the `entries` of a DescribeClientQuotasResponse."""

    __slots__ = ("entity", "values")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "entity": DescribeClientQuotasResponseEntity,
        "values": DescribeClientQuotasResponseValue,
    }

    def __init__(
        self,
        entity: Sequence[DescribeClientQuotasResponseEntity] = (),
        values: Sequence[DescribeClientQuotasResponseValue] = (),
    ) -> None:
        self.entity = entity
        self.values = values


class DescribeClientQuotasResponse(WireStruct):
    """The response of DescribeClientQuotas."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "entries")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"entries": DescribeClientQuotasResponseEntry}

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: Sequence[DescribeClientQuotasResponseEntry] | None = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = entries


class DescribeClientQuotasRequestComponent(WireStruct):
    """One of the `components` of a DescribeClientQuotasRequest."""

    __slots__ = ("entity_type", "match_type", "match")

    def __init__(self, entity_type: str = "", match_type: int = 0, match: str | None = "") -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match


class DescribeClientQuotasRequest(WireRequest[DescribeClientQuotasResponse]):
    """The request of DescribeClientQuotas."""

    __slots__ = ("components", "strict")
    api_key = 48
    response = DescribeClientQuotasResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"components": DescribeClientQuotasRequestComponent}

    def __init__(self, components: Sequence[DescribeClientQuotasRequestComponent] = (), strict: bool = False) -> None:
        self.components = components
        self.strict = strict


class AlterClientQuotasResponseEntity(WireStruct):
    """One of the `entity` of a AlterClientQuotasResponseEntry."""

    __slots__ = ("entity_type", "entity_name")

    def __init__(self, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class AlterClientQuotasResponseEntry(WireStruct):
    """One of the `entries` of a AlterClientQuotasResponse."""

    __slots__ = ("error_code", "error_message", "entity")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"entity": AlterClientQuotasResponseEntity}

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        entity: Sequence[AlterClientQuotasResponseEntity] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity = entity


class AlterClientQuotasResponse(WireStruct):
    """The response of AlterClientQuotas."""

    __slots__ = ("throttle_time_ms", "entries")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"entries": AlterClientQuotasResponseEntry}

    def __init__(self, throttle_time_ms: int = 0, entries: Sequence[AlterClientQuotasResponseEntry] = ()) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = entries


class AlterClientQuotasRequestEntity(WireStruct):
    """One of the `entity` of a AlterClientQuotasRequestEntry."""

    __slots__ = ("entity_type", "entity_name")

    def __init__(self, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class AlterClientQuotasRequestOp(WireStruct):
    """One of the `ops` of a AlterClientQuotasRequestEntry."""

    __slots__ = ("key", "value", "remove")

    def __init__(self, key: str = "", value: float = 0.0, remove: bool = False) -> None:
        self.key = key
        self.value = value
        self.remove = remove


class AlterClientQuotasRequestEntry(WireStruct):
    """One of the `entries` of a AlterClientQuotasRequest."""

    __slots__ = ("entity", "ops")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "entity": AlterClientQuotasRequestEntity,
        "ops": AlterClientQuotasRequestOp,
    }

    def __init__(
        self, entity: Sequence[AlterClientQuotasRequestEntity] = (), ops: Sequence[AlterClientQuotasRequestOp] = ()
    ) -> None:
        self.entity = entity
        self.ops = ops


class AlterClientQuotasRequest(WireRequest[AlterClientQuotasResponse]):
    """The request of AlterClientQuotas."""

    __slots__ = ("entries", "validate_only")
    api_key = 49
    response = AlterClientQuotasResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"entries": AlterClientQuotasRequestEntry}

    def __init__(self, entries: Sequence[AlterClientQuotasRequestEntry] = (), validate_only: bool = False) -> None:
        self.entries = entries
        self.validate_only = validate_only


class DescribeClusterResponseBroker(WireStruct):
    """One of the `brokers` of a DescribeClusterResponse."""

    __slots__ = ("broker_id", "host", "port", "rack", "is_fenced")

    def __init__(
        self,
        broker_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        is_fenced: bool = False,  # version 2+
    ) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.rack = rack
        self.is_fenced = is_fenced


class DescribeClusterResponse(WireStruct):
    """The response of DescribeCluster."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "endpoint_type",
        "cluster_id",
        "controller_id",
        "brokers",
        "cluster_authorized_operations",
    )
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"brokers": DescribeClusterResponseBroker}

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,  # version 1+
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: Sequence[DescribeClusterResponseBroker] = (),
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = brokers
        self.cluster_authorized_operations = cluster_authorized_operations


class DescribeClusterRequest(WireRequest[DescribeClusterResponse]):
    """The request of DescribeCluster."""

    __slots__ = ("include_cluster_authorized_operations", "endpoint_type", "include_fenced_brokers")
    api_key = 60
    response = DescribeClusterResponse

    def __init__(
        self,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,  # version 1+
        include_fenced_brokers: bool = False,  # version 2+
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers


class TopicIdPartitions(WireStruct):
    """A part of several messages."""

    __slots__ = ("topic_id", "partitions")

    def __init__(self, topic_id: bytes = NO_UUID, partitions: Sequence[int] = ()) -> None:
        self.topic_id = topic_id
        self.partitions = partitions


class HeartbeatAssignment(WireStruct):
    """A part of several messages."""

    __slots__ = ("topic_partitions",)
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topic_partitions": TopicIdPartitions}

    def __init__(self, topic_partitions: Sequence[TopicIdPartitions] = ()) -> None:
        self.topic_partitions = topic_partitions


class ConsumerGroupHeartbeatResponse(WireStruct):
    """The response of ConsumerGroupHeartbeat."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "assignment",
    )
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"assignment": HeartbeatAssignment}

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: HeartbeatAssignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment


class ConsumerGroupHeartbeatRequest(WireRequest[ConsumerGroupHeartbeatResponse]):
    """The request of ConsumerGroupHeartbeat."""

    __slots__ = (
        "group_id",
        "member_id",
        "member_epoch",
        "instance_id",
        "rack_id",
        "rebalance_timeout_ms",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "server_assignor",
        "topic_partitions",
    )
    api_key = 68
    response = ConsumerGroupHeartbeatResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topic_partitions": TopicIdPartitions}

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: Sequence[str] | None = None,
        subscribed_topic_regex: str | None = None,  # version 1+
        server_assignor: str | None = None,
        topic_partitions: Sequence[TopicIdPartitions] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.server_assignor = server_assignor
        self.topic_partitions = topic_partitions


class DescribedPartitions(WireStruct):
    """A part of several messages."""

    __slots__ = ("topic_id", "topic_name", "partitions")

    def __init__(self, topic_id: bytes = NO_UUID, topic_name: str = "", partitions: Sequence[int] = ()) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = partitions


class DescribedAssignment(WireStruct):
    """A part of several messages."""

    __slots__ = ("topic_partitions",)
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topic_partitions": DescribedPartitions}

    def __init__(self, topic_partitions: Sequence[DescribedPartitions] = ()) -> None:
        self.topic_partitions = topic_partitions


class ConsumerGroupDescribeResponseMember(WireStruct):
    """One of the `members` of a ConsumerGroupDescribeResponseGroup."""

    __slots__ = (
        "member_id",
        "instance_id",
        "rack_id",
        "member_epoch",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "assignment",
        "target_assignment",
        "member_type",
    )
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "assignment": DescribedAssignment,
        "target_assignment": DescribedAssignment,
    }

    def __init__(
        self,
        member_id: str = "",
        instance_id: str | None = None,
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: Sequence[str] = (),
        subscribed_topic_regex: str | None = None,
        assignment: DescribedAssignment | None = None,
        target_assignment: DescribedAssignment | None = None,
        member_type: int = -1,  # version 1+
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.assignment = DescribedAssignment() if assignment is None else assignment
        self.target_assignment = DescribedAssignment() if target_assignment is None else target_assignment
        self.member_type = member_type


class ConsumerGroupDescribeResponseGroup(WireStruct):
    """One of the `groups` of a ConsumerGroupDescribeResponse."""

    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "assignor_name",
        "members",
        "authorized_operations",
    )
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"members": ConsumerGroupDescribeResponseMember}

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: Sequence[ConsumerGroupDescribeResponseMember] = (),
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members = members
        self.authorized_operations = authorized_operations


class ConsumerGroupDescribeResponse(WireStruct):
    """The response of ConsumerGroupDescribe."""

    __slots__ = ("throttle_time_ms", "groups")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"groups": ConsumerGroupDescribeResponseGroup}

    def __init__(self, throttle_time_ms: int = 0, groups: Sequence[ConsumerGroupDescribeResponseGroup] = ()) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups


class ConsumerGroupDescribeRequest(WireRequest[ConsumerGroupDescribeResponse]):
    """The request of ConsumerGroupDescribe."""

    __slots__ = ("group_ids", "include_authorized_operations")
    api_key = 69
    response = ConsumerGroupDescribeResponse

    def __init__(self, group_ids: Sequence[str] = (), include_authorized_operations: bool = False) -> None:
        self.group_ids = group_ids
        self.include_authorized_operations = include_authorized_operations


class ShareGroupHeartbeatResponse(WireStruct):
    """The response of ShareGroupHeartbeat."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "assignment",
    )
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"assignment": HeartbeatAssignment}

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: HeartbeatAssignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment


class ShareGroupHeartbeatRequest(WireRequest[ShareGroupHeartbeatResponse]):
    """The request of ShareGroupHeartbeat."""

    __slots__ = ("group_id", "member_id", "member_epoch", "rack_id", "subscribed_topic_names")
    api_key = 76
    response = ShareGroupHeartbeatResponse

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        rack_id: str | None = None,
        subscribed_topic_names: Sequence[str] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.rack_id = rack_id
        self.subscribed_topic_names = subscribed_topic_names


class ShareGroupDescribeResponseMember(WireStruct):
    """One of the `members` of a ShareGroupDescribeResponseGroup."""

    __slots__ = (
        "member_id",
        "rack_id",
        "member_epoch",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "assignment",
    )
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"assignment": DescribedAssignment}

    def __init__(
        self,
        member_id: str = "",
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: Sequence[str] = (),
        assignment: DescribedAssignment | None = None,
    ) -> None:
        self.member_id = member_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = subscribed_topic_names
        self.assignment = DescribedAssignment() if assignment is None else assignment


class ShareGroupDescribeResponseGroup(WireStruct):
    """One of the `groups` of a ShareGroupDescribeResponse."""

    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "assignor_name",
        "members",
        "authorized_operations",
    )
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"members": ShareGroupDescribeResponseMember}

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: Sequence[ShareGroupDescribeResponseMember] = (),
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members = members
        self.authorized_operations = authorized_operations


class ShareGroupDescribeResponse(WireStruct):
    """The response of ShareGroupDescribe."""

    __slots__ = ("throttle_time_ms", "groups")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"groups": ShareGroupDescribeResponseGroup}

    def __init__(self, throttle_time_ms: int = 0, groups: Sequence[ShareGroupDescribeResponseGroup] = ()) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups


class ShareGroupDescribeRequest(WireRequest[ShareGroupDescribeResponse]):
    """The request of ShareGroupDescribe."""

    __slots__ = ("group_ids", "include_authorized_operations")
    api_key = 77
    response = ShareGroupDescribeResponse

    def __init__(self, group_ids: Sequence[str] = (), include_authorized_operations: bool = False) -> None:
        self.group_ids = group_ids
        self.include_authorized_operations = include_authorized_operations


class ShareFetchResponseCurrentLeader(WireStruct):
    """The field `current_leader` of a ShareFetchResponsePartition."""

    __slots__ = ("leader_id", "leader_epoch")

    def __init__(self, leader_id: int = 0, leader_epoch: int = 0) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class ShareFetchResponseAcquiredRecord(WireStruct):
    """One of the `acquired_records` of a ShareFetchResponsePartition."""

    __slots__ = ("first_offset", "last_offset", "delivery_count")

    def __init__(self, first_offset: int = 0, last_offset: int = 0, delivery_count: int = 0) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_count = delivery_count


class ShareFetchResponsePartition(WireStruct):
    """One of the `partitions` of a ShareFetchResponseResult."""

    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
        "acknowledge_error_code",
        "acknowledge_error_message",
        "current_leader",
        "records",
        "acquired_records",
    )
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "current_leader": ShareFetchResponseCurrentLeader,
        "acquired_records": ShareFetchResponseAcquiredRecord,
    }

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acknowledge_error_code: int = 0,
        acknowledge_error_message: str | None = None,
        current_leader: ShareFetchResponseCurrentLeader | None = None,
        records: Buffer | Sequence[Buffer] | None = None,
        acquired_records: Sequence[ShareFetchResponseAcquiredRecord] = (),
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.acknowledge_error_code = acknowledge_error_code
        self.acknowledge_error_message = acknowledge_error_message
        self.current_leader = ShareFetchResponseCurrentLeader() if current_leader is None else current_leader
        self.records = records
        self.acquired_records = acquired_records


class ShareFetchResponseResult(WireStruct):
    """One of the `responses` of a ShareFetchResponse."""

    __slots__ = ("topic_id", "partitions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": ShareFetchResponsePartition}

    def __init__(self, topic_id: bytes = NO_UUID, partitions: Sequence[ShareFetchResponsePartition] = ()) -> None:
        self.topic_id = topic_id
        self.partitions = partitions


class ShareFetchResponseNodeEndpoint(WireStruct):
    """One of the `node_endpoints` of a ShareFetchResponse."""

    __slots__ = ("node_id", "host", "port", "rack")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class ShareFetchResponse(WireStruct):
    """The response of ShareFetch."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "acquisition_lock_timeout_ms",
        "responses",
        "node_endpoints",
    )
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "responses": ShareFetchResponseResult,
        "node_endpoints": ShareFetchResponseNodeEndpoint,
    }

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: Sequence[ShareFetchResponseResult] = (),
        node_endpoints: Sequence[ShareFetchResponseNodeEndpoint] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses = responses
        self.node_endpoints = node_endpoints


class ShareAcknowledgement(WireStruct):
    """A part of several messages."""

    __slots__ = ("first_offset", "last_offset", "acknowledge_types")

    def __init__(self, first_offset: int = 0, last_offset: int = 0, acknowledge_types: Sequence[int] = ()) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types = acknowledge_types


class SharePartition(WireStruct):
    """A part of several messages."""

    __slots__ = ("partition_index", "acknowledgement_batches")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"acknowledgement_batches": ShareAcknowledgement}

    def __init__(self, partition_index: int = 0, acknowledgement_batches: Sequence[ShareAcknowledgement] = ()) -> None:
        self.partition_index = partition_index
        self.acknowledgement_batches = acknowledgement_batches


class ShareTopic(WireStruct):
    """A part of several messages."""

    __slots__ = ("topic_id", "partitions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": SharePartition}

    def __init__(self, topic_id: bytes = NO_UUID, partitions: Sequence[SharePartition] = ()) -> None:
        self.topic_id = topic_id
        self.partitions = partitions


class ShareFetchRequest(WireRequest[ShareFetchResponse]):
    """The request of ShareFetch."""

    __slots__ = (
        "group_id",
        "member_id",
        "share_session_epoch",
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "max_records",
        "batch_size",
        "topics",
        "forgotten_topics_data",
    )
    api_key = 78
    response = ShareFetchResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "topics": ShareTopic,
        "forgotten_topics_data": TopicIdPartitions,
    }

    def __init__(
        self,
        group_id: str | None = None,
        member_id: str | None = None,
        share_session_epoch: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        max_records: int = 0,
        batch_size: int = 0,
        topics: Sequence[ShareTopic] = (),
        forgotten_topics_data: Sequence[TopicIdPartitions] = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.batch_size = batch_size
        self.topics = topics
        self.forgotten_topics_data = forgotten_topics_data


class ShareAcknowledgeResponseCurrentLeader(WireStruct):
    """The field `current_leader` of a ShareAcknowledgeResponsePartition."""

    __slots__ = ("leader_id", "leader_epoch")

    def __init__(self, leader_id: int = 0, leader_epoch: int = 0) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class ShareAcknowledgeResponsePartition(WireStruct):
    """One of the `partitions` of a ShareAcknowledgeResponseResult."""

    __slots__ = ("partition_index", "error_code", "error_message", "current_leader")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"current_leader": ShareAcknowledgeResponseCurrentLeader}

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        current_leader: ShareAcknowledgeResponseCurrentLeader | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.current_leader = ShareAcknowledgeResponseCurrentLeader() if current_leader is None else current_leader


class ShareAcknowledgeResponseResult(WireStruct):
    """One of the `responses` of a ShareAcknowledgeResponse."""

    __slots__ = ("topic_id", "partitions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"partitions": ShareAcknowledgeResponsePartition}

    def __init__(self, topic_id: bytes = NO_UUID, partitions: Sequence[ShareAcknowledgeResponsePartition] = ()) -> None:
        self.topic_id = topic_id
        self.partitions = partitions


class ShareAcknowledgeResponseNodeEndpoint(WireStruct):
    """One of the `node_endpoints` of a ShareAcknowledgeResponse."""

    __slots__ = ("node_id", "host", "port", "rack")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class ShareAcknowledgeResponse(WireStruct):
    """The response of ShareAcknowledge."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "responses", "node_endpoints")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "responses": ShareAcknowledgeResponseResult,
        "node_endpoints": ShareAcknowledgeResponseNodeEndpoint,
    }

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: Sequence[ShareAcknowledgeResponseResult] = (),
        node_endpoints: Sequence[ShareAcknowledgeResponseNodeEndpoint] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = responses
        self.node_endpoints = node_endpoints


class ShareAcknowledgeRequest(WireRequest[ShareAcknowledgeResponse]):
    """The request of ShareAcknowledge."""

    __slots__ = ("group_id", "member_id", "share_session_epoch", "topics")
    api_key = 79
    response = ShareAcknowledgeResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"topics": ShareTopic}

    def __init__(
        self,
        group_id: str | None = None,
        member_id: str | None = None,
        share_session_epoch: int = 0,
        topics: Sequence[ShareTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.topics = topics
