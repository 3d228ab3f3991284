"""The messages of our own calls, for what Kafka lacks: API keys from 10,000 on, in Kafka's framing and types."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from warren.limits import PARTITIONS_MAX
from warren.protocol.limits import NATIVE_LIMIT_MAX, NATIVE_RECORDS_MAX, SPARK_TASKS_MAX
from warren.protocol.schemas import ALWAYS, Field, Message, field


class OwnKey(IntEnum):
    """What one of our own requests asks for."""

    OPEN_SESSION = 10_000
    LIST_TOPICS = 10_001
    OPEN_TOPIC = 10_002
    CONFIGURE_TOPIC = 10_003
    DELETE_TOPIC = 10_004
    APPEND = 10_005
    READ = 10_006
    FIND_TIME = 10_007
    SCAN = 10_008
    PARK = 10_009
    LIST_PARKED = 10_010
    CANCEL_PARKED = 10_011
    OPEN_GROUP = 10_012
    DELETE_GROUP = 10_013
    DESCRIBE_GROUP = 10_014
    READ_GROUP = 10_015
    COMMIT_GROUP = 10_016
    SEEK_GROUP = 10_017
    TAKE = 10_018
    SETTLE = 10_019
    REDRIVE = 10_020
    BEGIN_TRANSACTION = 10_021
    CHANGE_TRANSACTION = 10_022
    END_TRANSACTION = 10_023
    COMMIT_BATCH = 10_024
    RECOVER = 10_025
    OPEN_PRODUCER = 10_026
    NUMBERED_PUT = 10_027
    OPEN_QUEUE = 10_028
    USE_QUEUE = 10_029
    CLOSE_HANDLE = 10_030
    STATISTICS = 10_031
    SEE_GROUP = 10_032
    LIST_DEAD = 10_033
    RETIRE_TOPIC = 10_034
    CONFIGURE_GROUP = 10_035

    @property
    def title(self) -> str:
        """Its name as that of a message: `OpenSession`."""
        return self.name.title().replace("_", "")


CARRYING: Final = frozenset(
    (OwnKey.APPEND, OwnKey.PARK, OwnKey.CHANGE_TRANSACTION, OwnKey.NUMBERED_PUT, OwnKey.USE_QUEUE)
)
"""Those whose requests carry messages, and may be as large as a frame."""

NUMBERED: Final = frozenset(
    (
        OwnKey.DELETE_TOPIC,
        OwnKey.PARK,
        OwnKey.CANCEL_PARKED,
        OwnKey.DELETE_GROUP,
        OwnKey.COMMIT_GROUP,
        OwnKey.SEEK_GROUP,
        OwnKey.TAKE,
        OwnKey.SETTLE,
        OwnKey.REDRIVE,
        OwnKey.BEGIN_TRANSACTION,
        OwnKey.CHANGE_TRANSACTION,
        OwnKey.END_TRANSACTION,
        OwnKey.USE_QUEUE,
    )
)
"""Those that a session numbers, so that one that is sent again is not done again; nor one that arrives late."""

_ERROR: Final = field(
    "error",
    "struct",
    field("code", "string"),
    field("sentence", "string"),
    field("facts", "string"),
    field("retryable", "bool"),
    nullable="0+",
)
_HANDLE: Final = field("handle", "int64")
_TOPIC: Final = field("topic", "string")
_NUMBER: Final = (field("call_number", "int64"), field("answered_below", "int64"))
_SETTING: Final = (field("name", "string"), field("value", "string"))
_SETTINGS: Final = field("settings", "[]", *_SETTING, count_max=PARTITIONS_MAX)
_PACKED: Final = (
    field("partition", "int32"),
    field("message_count", "int32"),
    field("checksum", "int64"),
    field("payload", "bytes"),
)
_RECORDS: Final = field("records", "[]", *_PACKED, count_max=NATIVE_RECORDS_MAX)
_MESSAGES: Final = field(
    "messages",
    "struct",
    field("partitions", "[]int32"),
    field("numbers", "[]int64"),
    field("offsets", "[]int64"),
    field("timestamps", "[]int64"),
    field("attempts", "[]int32"),
    field("records", "[]", *_PACKED, count_max=NATIVE_RECORDS_MAX),
)
_POSITION: Final = (field("partition", "int32"), field("number", "int64"))
_POSITIONS: Final = field("positions", "[]", *_POSITION, count_max=PARTITIONS_MAX)
_SOME_POSITIONS: Final = field("positions", "[]", *_POSITION, nullable="0+", count_max=PARTITIONS_MAX)
_PLACES: Final = field(
    "places",
    "struct",
    field("partitions", "[]int32", count_max=NATIVE_LIMIT_MAX),
    field("numbers", "[]int64", count_max=NATIVE_LIMIT_MAX),
    field("attempts", "[]int32", count_max=NATIVE_LIMIT_MAX),
)
_TAG: Final = field("tag", "string", nullable="0+")
_READING: Final = (field("limit", "int32"), field("bytes_max", "int32"), field("wait_ms", "int32"))
_PARTITION: Final = (
    field("partition", "int32"),
    field("first", "int64"),
    field("end", "int64"),
    field("size", "int64"),
    field("created", "int64"),
    field("updated", "int64"),
)
_PARKED: Final = (
    field("id", "string"),
    field("due", "int64"),
    field("partition", "int32"),
)
_PUT_BACK: Final = (
    field("partition", "int32"),
    field("start", "int64"),
    field("numbers", "[]int64"),
)
_DUE: Final = (field("due", "int64"), field("is_delay", "bool"))
_PREPARED: Final = (
    field("id", "string"),
    field("when", "int64"),
    field("message_count", "int64"),
    field("position_count", "int64"),
    field("ack_count", "int64"),
)

_REQUESTS: Final[Mapping[OwnKey, tuple[Field, ...]]] = {
    OwnKey.OPEN_SESSION: (field("session", "uuid"), field("software", "string")),
    OwnKey.LIST_TOPICS: (),
    OwnKey.OPEN_TOPIC: (_TOPIC, field("must_exist", "bool"), field("is_described", "bool"), _SETTINGS),
    OwnKey.CONFIGURE_TOPIC: (_TOPIC, _SETTINGS),
    OwnKey.DELETE_TOPIC: (*_NUMBER, _TOPIC),
    OwnKey.APPEND: (
        _TOPIC,
        field("marker", "bytes"),
        field("is_retry", "bool"),
        field("is_receipt_wanted", "bool"),
        field("since", "[]", *_POSITION, count_max=PARTITIONS_MAX),
        _RECORDS,
    ),
    OwnKey.READ: (_TOPIC, _POSITIONS, _TAG, field("is_backwards", "bool"), *_READING),
    OwnKey.FIND_TIME: (_TOPIC, field("time", "int64")),
    OwnKey.SCAN: (
        _TOPIC,
        field("partition", "int32"),
        field("start", "int64"),
        field("end", "int64"),
        field("columns", "[]string", nullable="0+", count_max=PARTITIONS_MAX),
        _TAG,
        field("rows_min", "int32"),
        field("skips", "bool"),
        field("bytes_max", "int32"),
    ),
    OwnKey.PARK: (*_NUMBER, _TOPIC, *_DUE, field("partition", "int32"), _RECORDS),
    OwnKey.LIST_PARKED: (_TOPIC, field("after", "string"), field("limit", "int32"), field("bytes_max", "int32")),
    OwnKey.CANCEL_PARKED: (*_NUMBER, _TOPIC, field("id", "string")),
    OwnKey.OPEN_GROUP: (_HANDLE, _TOPIC, field("group", "string"), field("mode", "string"), _SETTINGS),
    OwnKey.DELETE_GROUP: (*_NUMBER, _TOPIC, field("group", "string")),
    OwnKey.DESCRIBE_GROUP: (_HANDLE, field("is_dead_wanted", "bool")),
    OwnKey.READ_GROUP: (_HANDLE, field("serial", "int64"), field("is_retry", "bool"), *_READING),
    OwnKey.COMMIT_GROUP: (*_NUMBER, _HANDLE, _SOME_POSITIONS),
    OwnKey.SEEK_GROUP: (
        *_NUMBER,
        _HANDLE,
        field("to", "string"),
        field("where", "int64"),
        field("partition", "int32"),
    ),
    OwnKey.TAKE: (*_NUMBER, _HANDLE, field("limit", "int32"), field("wait_ms", "int32")),
    OwnKey.SETTLE: (
        *_NUMBER,
        _HANDLE,
        field("action", "string"),
        _PLACES,
        field("seconds", "float64"),
        field("reason", "string"),
    ),
    OwnKey.REDRIVE: (*_NUMBER, _HANDLE, field("limit", "int64"), _PLACES),
    OwnKey.BEGIN_TRANSACTION: (
        *_NUMBER,
        _HANDLE,
        field("id", "string", nullable="0+"),
        field("timeout", "float64"),
        field("prepared_timeout", "float64"),
    ),
    OwnKey.CHANGE_TRANSACTION: (
        *_NUMBER,
        _HANDLE,
        _TOPIC,
        field("partition", "int32"),
        *_DUE,
        _RECORDS,
        field("arrow", "bytes"),
        field("group", "int64"),
        _SOME_POSITIONS,
        _PLACES,
    ),
    OwnKey.END_TRANSACTION: (*_NUMBER, _HANDLE, field("id", "string"), field("action", "string")),
    OwnKey.COMMIT_BATCH: (
        field("application", "string", nullable="0+"),
        field("version", "int64"),
        field("ids", "[]string", count_max=SPARK_TASKS_MAX),
    ),
    OwnKey.RECOVER: (field("action", "string"), field("name", "string"), field("before", "string", nullable="0+")),
    OwnKey.OPEN_PRODUCER: (_HANDLE, field("producer", "string")),
    OwnKey.NUMBERED_PUT: (_HANDLE, _TOPIC, field("sequence", "int64"), field("partition", "int32"), _RECORDS),
    OwnKey.OPEN_QUEUE: (_HANDLE, field("queue", "string"), field("maxsize", "int64"), _SETTINGS),
    OwnKey.USE_QUEUE: (
        *_NUMBER,
        _HANDLE,
        field("action", "string"),
        field("item", "bytes"),
        field("wait_ms", "int32"),
        field("delay", "int64"),
    ),
    OwnKey.CLOSE_HANDLE: (_HANDLE,),
    OwnKey.STATISTICS: (field("is_standing_wanted", "bool"),),
    OwnKey.RETIRE_TOPIC: (_TOPIC,),
    OwnKey.CONFIGURE_GROUP: (_TOPIC, field("group", "string"), _SETTINGS),
    OwnKey.SEE_GROUP: (
        _TOPIC,
        field("group", "string"),
        field("is_described", "bool"),
        field("is_put_back_wanted", "bool"),
    ),
    OwnKey.LIST_DEAD: (
        _TOPIC,
        field("group", "string", nullable="0+"),
        _POSITIONS,
        field("limit", "int32"),
        field("bytes_max", "int32"),
    ),
}
_RESPONSES: Final[Mapping[OwnKey, tuple[Field, ...]]] = {
    OwnKey.OPEN_SESSION: (field("store_id", "string"), field("software", "string"), field("incarnation", "int64")),
    OwnKey.LIST_TOPICS: (field("topics", "[]string"),),
    OwnKey.OPEN_TOPIC: (
        _SETTINGS,
        field("partitions", "[]", *_PARTITION),
        field("groups", "[]string"),
        field("id", "uuid"),
    ),
    OwnKey.CONFIGURE_TOPIC: (_SETTINGS,),
    OwnKey.DELETE_TOPIC: (),
    OwnKey.APPEND: (
        _POSITIONS,
        field("offset", "int64"),
        field("timestamp", "int64"),
        field("partition_count", "int32"),
    ),
    OwnKey.READ: (_MESSAGES, _POSITIONS, field("partition_count", "int32"), field("is_more", "bool")),
    OwnKey.FIND_TIME: (_POSITIONS,),
    OwnKey.SCAN: (field("next", "int64"), field("padding", "bytes"), field("arrow", "records")),
    OwnKey.PARK: (field("ids", "[]string"),),
    OwnKey.LIST_PARKED: (field("parked", "[]", *_PARKED), _MESSAGES),
    OwnKey.CANCEL_PARKED: (field("is_cancelled", "bool"),),
    OwnKey.OPEN_GROUP: (field("member", "string"), _SETTINGS),
    OwnKey.DELETE_GROUP: (),
    OwnKey.DESCRIBE_GROUP: (
        field("owned", "[]int32"),
        field("members", "[]string"),
        _POSITIONS,
        field("read", "[]", *_POSITION),
        field("lag", "[]", *_POSITION),
        field("in_flight", "int64"),
        field("dead", "string"),
    ),
    OwnKey.READ_GROUP: (_MESSAGES, field("owned", "[]int32")),
    OwnKey.COMMIT_GROUP: (_POSITIONS,),
    OwnKey.SEEK_GROUP: (_POSITIONS,),
    OwnKey.TAKE: (_MESSAGES,),
    OwnKey.SETTLE: (),
    OwnKey.REDRIVE: (field("count", "int64"),),
    OwnKey.BEGIN_TRANSACTION: (field("id", "string"),),
    OwnKey.CHANGE_TRANSACTION: (),
    OwnKey.END_TRANSACTION: (field("state", "string"),),
    OwnKey.COMMIT_BATCH: (field("state", "string"),),
    OwnKey.RECOVER: (
        field("prepared", "[]", *_PREPARED),
        field("ids", "[]string"),
        field("version", "int64"),
        field("failure", "string"),
    ),
    OwnKey.OPEN_PRODUCER: (field("sequence", "int64"),),
    OwnKey.NUMBERED_PUT: (
        field("is_written", "bool"),
        field("sequence", "int64"),
        field("partitions", "[]int32"),
        field("numbers", "[]int64"),
        field("offset", "int64"),
        field("timestamp", "int64"),
    ),
    OwnKey.OPEN_QUEUE: (),
    OwnKey.USE_QUEUE: (field("is_done", "bool"), field("item", "bytes"), field("count", "int64")),
    OwnKey.CLOSE_HANDLE: (),
    OwnKey.STATISTICS: (field("statistics", "string"),),
    OwnKey.RETIRE_TOPIC: (),
    OwnKey.CONFIGURE_GROUP: (_SETTINGS,),
    OwnKey.SEE_GROUP: (
        _SETTINGS,
        field("members", "[]string"),
        _POSITIONS,
        field("ends", "[]", *_POSITION),
        field("lag", "[]", *_POSITION),
        field("in_flight", "int64"),
        field("put_back", "[]", *_PUT_BACK, count_max=PARTITIONS_MAX),
    ),
    OwnKey.LIST_DEAD: (_TOPIC, _MESSAGES, _POSITIONS),
}
OWN_MESSAGES: Final[Mapping[str, Message]] = MappingProxyType(
    {
        **{f"{key.title}Request": Message(f"{key.title}Request", ALWAYS, at) for key, at in _REQUESTS.items()},
        **{
            f"{key.title}Response": Message(f"{key.title}Response", ALWAYS, (_ERROR, *at))
            for key, at in _RESPONSES.items()
        },
    }
)

SHARED_STRUCTS: Final[Mapping[str, tuple[Field, ...]]] = MappingProxyType(
    {
        "WireError": _ERROR.fields,
        "WireSetting": _SETTING,
        "WireRecord": _PACKED,
        "WireMessages": _MESSAGES.fields,
        "WirePosition": _POSITION,
        "WireLeases": _PLACES.fields,
    }
)
"""Structs that several messages have, and how their classes are called."""
