"""Kafka messages that Warren describes itself: newer groups (KIP-848), share groups (KIP-932) and logins.

kafka-python does not describe the groups. Logins are described here so that a client needs no other package to log in.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from warren.protocol.schemas import ALWAYS, NEVER, Field, MessageSchema, Versions, field

_ERROR: Final = (field("error_code", "int16"), field("error_message", "string", nullable="0+"))
_THROTTLE: Final = field("throttle_time_ms", "int32")
_TOPIC_PARTITIONS: Final = (field("topic_id", "uuid"), field("partitions", "[]int32"))
_NAMED_PARTITIONS: Final = (field("topic_id", "uuid"), field("topic_name", "string"), field("partitions", "[]int32"))
_DESCRIBE_REQUEST: Final = (field("group_ids", "[]string"), field("include_authorized_operations", "bool"))
_HEARTBEAT_RESPONSE: Final = (
    _THROTTLE,
    *_ERROR,
    field("member_id", "string", nullable="0+"),
    field("member_epoch", "int32"),
    field("heartbeat_interval_ms", "int32"),
    field("assignment", "struct", field("topic_partitions", "[]", *_TOPIC_PARTITIONS), nullable="0+"),
)
_ASSIGNMENT: Final = field("topic_partitions", "[]", *_NAMED_PARTITIONS)
_MEMBER_IDENTITY: Final = (
    field("rack_id", "string", nullable="0+"),
    field("member_epoch", "int32"),
    field("client_id", "string"),
    field("client_host", "string"),
    field("subscribed_topic_names", "[]string"),
)


def _described_group(*member: Field) -> tuple[Field, ...]:
    group = (
        *_ERROR,
        field("group_id", "string"),
        field("group_state", "string"),
        field("group_epoch", "int32"),
        field("assignment_epoch", "int32"),
        field("assignor_name", "string"),
        field("members", "[]", field("member_id", "string"), *member),
        field("authorized_operations", "int32", default=-(1 << 31)),
    )
    return (_THROTTLE, field("groups", "[]", *group))


_ACKNOWLEDGEMENTS: Final = field(
    "acknowledgement_batches",
    "[]",
    field("first_offset", "int64"),
    field("last_offset", "int64"),
    field("acknowledge_types", "[]int8"),
)
_SHARED_TOPICS: Final = field(
    "topics",
    "[]",
    field("topic_id", "uuid"),
    field("partitions", "[]", field("partition_index", "int32"), _ACKNOWLEDGEMENTS),
)
_SHARE_MEMBER: Final = (
    field("group_id", "string", nullable="0+"),
    field("member_id", "string", nullable="0+"),
    field("share_session_epoch", "int32"),
)
_LEADER: Final = field("current_leader", "struct", field("leader_id", "int32"), field("leader_epoch", "int32"))
_NODE_ENDPOINTS: Final = field(
    "node_endpoints",
    "[]",
    field("node_id", "int32"),
    field("host", "string"),
    field("port", "int32"),
    field("rack", "string", nullable="0+"),
)


def _answered_topics(*partition: Field) -> Field:
    partitions = field("partitions", "[]", field("partition_index", "int32"), *_ERROR, *partition)
    return field("responses", "[]", field("topic_id", "uuid"), partitions)


_FIELDS: Final[Mapping[str, tuple[Field, ...]]] = {
    "ConsumerGroupHeartbeatRequest": (
        field("group_id", "string"),
        field("member_id", "string"),
        field("member_epoch", "int32"),
        field("instance_id", "string", nullable="0+"),
        field("rack_id", "string", nullable="0+"),
        field("rebalance_timeout_ms", "int32", default=-1),
        field("subscribed_topic_names", "[]string", nullable="0+"),
        field("subscribed_topic_regex", "string", versions="1+", nullable="1+"),
        field("server_assignor", "string", nullable="0+"),
        field("topic_partitions", "[]", *_TOPIC_PARTITIONS, nullable="0+"),
    ),
    "ConsumerGroupHeartbeatResponse": _HEARTBEAT_RESPONSE,
    "ConsumerGroupDescribeRequest": _DESCRIBE_REQUEST,
    "ConsumerGroupDescribeResponse": _described_group(
        field("instance_id", "string", nullable="0+"),
        *_MEMBER_IDENTITY,
        field("subscribed_topic_regex", "string", nullable="0+"),
        field("assignment", "struct", _ASSIGNMENT),
        field("target_assignment", "struct", _ASSIGNMENT),
        field("member_type", "int8", versions="1+", default=-1),
    ),
    "ShareGroupHeartbeatRequest": (
        field("group_id", "string"),
        field("member_id", "string"),
        field("member_epoch", "int32"),
        field("rack_id", "string", nullable="0+"),
        field("subscribed_topic_names", "[]string", nullable="0+"),
    ),
    "ShareGroupHeartbeatResponse": _HEARTBEAT_RESPONSE,
    "ShareGroupDescribeRequest": _DESCRIBE_REQUEST,
    "ShareGroupDescribeResponse": _described_group(*_MEMBER_IDENTITY, field("assignment", "struct", _ASSIGNMENT)),
    "ShareFetchRequest": (
        *_SHARE_MEMBER,
        field("max_wait_ms", "int32"),
        field("min_bytes", "int32"),
        field("max_bytes", "int32", default=(1 << 31) - 1),
        field("max_records", "int32"),
        field("batch_size", "int32"),
        _SHARED_TOPICS,
        field("forgotten_topics_data", "[]", *_TOPIC_PARTITIONS),
    ),
    "ShareFetchResponse": (
        _THROTTLE,
        *_ERROR,
        field("acquisition_lock_timeout_ms", "int32"),
        _answered_topics(
            field("acknowledge_error_code", "int16"),
            field("acknowledge_error_message", "string", nullable="0+"),
            _LEADER,
            field("records", "records"),
            field(
                "acquired_records",
                "[]",
                field("first_offset", "int64"),
                field("last_offset", "int64"),
                field("delivery_count", "int16"),
            ),
        ),
        _NODE_ENDPOINTS,
    ),
    "ShareAcknowledgeRequest": (*_SHARE_MEMBER, _SHARED_TOPICS),
    "ShareAcknowledgeResponse": (_THROTTLE, *_ERROR, _answered_topics(_LEADER), _NODE_ENDPOINTS),
}
GROUP_MESSAGES: Final[Mapping[str, MessageSchema]] = MappingProxyType(
    {name: MessageSchema(name, ALWAYS, fields) for name, fields in _FIELDS.items()}
)


# --- Logins ---

_FLEXIBLE: Final = Versions.parse("2+")

SASL_MESSAGES: Final[Mapping[str, MessageSchema]] = MappingProxyType(
    {
        message.name: message
        for message in (
            MessageSchema("SaslHandshakeRequest", NEVER, (field("mechanism", "string"),)),
            MessageSchema(
                "SaslHandshakeResponse", NEVER, (field("error_code", "int16"), field("mechanisms", "[]string"))
            ),
            MessageSchema("SaslAuthenticateRequest", _FLEXIBLE, (field("auth_bytes", "bytes"),)),
            MessageSchema(
                "SaslAuthenticateResponse",
                _FLEXIBLE,
                (
                    field("error_code", "int16"),
                    field("error_message", "string", nullable="0+"),
                    field("auth_bytes", "bytes"),
                    field("session_lifetime_ms", "int64", versions="1+"),
                ),
            ),
        )
    }
)

SHARED_STRUCTS: Final[Mapping[str, tuple[Field, ...]]] = MappingProxyType(
    {
        "HeartbeatAssignment": _HEARTBEAT_RESPONSE[-1].fields,
        "TopicIdPartitions": _TOPIC_PARTITIONS,
        "DescribedPartitions": _NAMED_PARTITIONS,
        "DescribedAssignment": (_ASSIGNMENT,),
        "ShareAcknowledgement": _ACKNOWLEDGEMENTS.fields,
        "SharePartition": _SHARED_TOPICS.fields[-1].fields,
        "ShareTopic": _SHARED_TOPICS.fields,
    }
)
"""Structs that several messages share, with the names of their classes."""
