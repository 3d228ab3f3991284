"""Kafka's error codes by name, the code of each of Warren's errors, and the search of an answer for an error."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from warren.errors import (
    GONE,
    BadBatch,
    BadInput,
    BadName,
    BadRecord,
    CorruptRecord,
    Deposed,
    IsAQueue,
    LimitReached,
    NoSuchGroup,
    NoSuchPartition,
    NoSuchTopic,
    NotEnoughReplicas,
    NotMaster,
    NumberRetired,
    QuotaExceeded,
    Stopping,
    StorageError,
    StorageFull,
    StoreBusy,
    SyncFailed,
    TooLarge,
    TooMany,
    TopicExists,
    UnsupportedByVersion,
)
from warren.protocol.wire_struct import WireStruct

NAMES: Final = ("error_code", "partition_error_code")
DEPTH_MAX: Final = 3
"""How deep error codes are nested in Kafka's answers: answer, topic, partition."""
ROWS_MAX: Final = 256
"""How many rows of a list are searched for an error code. Longer lists only list what exists, without errors."""


class Code(IntEnum):
    """The error codes of Kafka that Warren sends."""

    UNKNOWN = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    OPERATION_NOT_ATTEMPTED = 55
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    THROTTLING_QUOTA_EXCEEDED = 89
    UNSTABLE_OFFSET_COMMIT = 88
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    UNKNOWN_SUBSCRIPTION_ID = 117
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    INVALID_RECORD_STATE = 121
    INVALID_REGULAR_EXPRESSION = 128


_CODES: Final[Sequence[tuple[type[Exception] | tuple[type[Exception], ...], Code]]] = (
    (NotMaster, Code.NOT_LEADER_OR_FOLLOWER),
    (Deposed, Code.NOT_LEADER_OR_FOLLOWER),
    (NotEnoughReplicas, Code.NOT_ENOUGH_REPLICAS),
    (NoSuchTopic, Code.UNKNOWN_TOPIC_OR_PARTITION),
    (NoSuchPartition, Code.UNKNOWN_TOPIC_OR_PARTITION),
    (TopicExists, Code.TOPIC_ALREADY_EXISTS),
    (GONE, Code.UNKNOWN_TOPIC_OR_PARTITION),
    (NoSuchGroup, Code.GROUP_ID_NOT_FOUND),
    (NumberRetired, Code.OFFSET_OUT_OF_RANGE),
    (TooLarge, Code.MESSAGE_TOO_LARGE),
    (IsAQueue, Code.POLICY_VIOLATION),
    (BadName, Code.INVALID_TOPIC),
    (BadBatch, Code.CORRUPT_MESSAGE),
    (BadRecord, Code.INVALID_RECORD),
    (CorruptRecord, Code.CORRUPT_MESSAGE),
    (UnsupportedByVersion, Code.INVALID_RECORD),
    (QuotaExceeded, Code.THROTTLING_QUOTA_EXCEEDED),
    (LimitReached, Code.POLICY_VIOLATION),
    (StorageFull, Code.STORAGE_ERROR),
    (SyncFailed, Code.STORAGE_ERROR),
    (StoreBusy, Code.COORDINATOR_NOT_AVAILABLE),
    (TooMany, Code.REQUEST_TIMED_OUT),
    (Stopping, Code.REQUEST_TIMED_OUT),
    (StorageError, Code.STORAGE_ERROR),
    (BadInput, Code.INVALID_REQUEST),
    # The disk failed, or the process has no free descriptor. The client may try again.
    (OSError, Code.STORAGE_ERROR),
)


def code_of(error: Exception) -> Code:
    """Returns Kafka's code for one of Warren's errors; UNKNOWN if Kafka has none for it."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), Code.UNKNOWN)


def has_error(answer: WireStruct, depth: int = DEPTH_MAX) -> bool:
    """Returns whether one of the answer's error codes is not 0."""
    if any(getattr(answer, name, 0) for name in NAMES):
        return True
    if depth == 1:
        return False
    return any(
        has_error(row, depth - 1)
        for name in answer.structs
        if isinstance(rows := getattr(answer, name), list)
        for row in rows[:ROWS_MAX]
    )
