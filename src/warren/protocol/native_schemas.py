"""The messages of Warren's own calls, for functions that Kafka lacks: API keys from 10,000 on, in Kafka's framing and
types.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from warren.limits import PARTITIONS_MAX
from warren.protocol.limits import NATIVE_LIMIT_MAX
from warren.protocol.schemas import ALWAYS, Field, MessageSchema, field

NATIVE_RECORDS_MAX: Final = 4096
"""How many packed records one request or response of Warren's own calls may carry."""
REPLICATED_LOGS_MAX: Final = 250_000
"""How many logs a replica may have: partitions, ledgers, parked messages and the journal."""
STATE_PATHS_MAX: Final = 65_536
"""How many state files one FETCH_STATE or LIST_COPY may name."""
SPARK_TASKS_MAX: Final = 100_000
"""How many transactions one COMMIT_BATCH may name. A Spark job prepares one for each of its tasks."""


class NativeKey(IntEnum):
    """The kind of a request of Warren's own protocol."""

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
    SEE_CLUSTER = 10_036
    FIND_REPLICAS = 10_037
    JOIN_SHARD = 10_100
    LIST_STATE = 10_101
    FETCH_STATE = 10_102
    FETCH_SHARD = 10_103
    HAND_OVER_SHARD = 10_104
    LIST_COPY = 10_105
    DIGEST_RECORDS = 10_106

    @property
    def title(self) -> str:
        """Returns its name in class names, such as `OpenSession`."""
        return self.name.title().replace("_", "")


CARRYING: Final = frozenset(
    (
        NativeKey.APPEND,
        NativeKey.PARK,
        NativeKey.CHANGE_TRANSACTION,
        NativeKey.NUMBERED_PUT,
        NativeKey.USE_QUEUE,
        NativeKey.JOIN_SHARD,
    )
)
"""Calls whose requests carry messages, or name all logs of a replica. They may be as large as a frame."""

NUMBERED: Final = frozenset(
    (
        NativeKey.DELETE_TOPIC,
        NativeKey.PARK,
        NativeKey.CANCEL_PARKED,
        NativeKey.DELETE_GROUP,
        NativeKey.COMMIT_GROUP,
        NativeKey.SEEK_GROUP,
        NativeKey.TAKE,
        NativeKey.SETTLE,
        NativeKey.REDRIVE,
        NativeKey.BEGIN_TRANSACTION,
        NativeKey.CHANGE_TRANSACTION,
        NativeKey.END_TRANSACTION,
        NativeKey.USE_QUEUE,
    )
)
"""Calls that a session numbers, so that the broker executes a repeated or late one only once."""

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
_REPEATING: Final = (field("serial", "int64"), field("attempt", "int64"), field("open_from", "int64"))
_QUEUE: Final = (field("queue", "string"), field("maxsize", "int64"))
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
_LINK: Final = (
    field("replica", "int32"),
    field("incarnation", "string"),
    field("boot", "string"),
    field("nonce", "string"),
    field("link", "int64"),
    field("epoch", "int32"),
)
_ANSWERED: Final = (
    field("refusal", "string"),
    field("epoch", "int32"),
    field("nonce", "string"),
    field("link", "int64"),
)
_LOG: Final = field("log", "string")
_LOG_STATE: Final = (_LOG, field("first", "int64"), field("tail", "int64"))
_JOINED_LOG: Final = (_LOG, field("first", "int64"), field("cut", "int64"))
_STATE_DIGEST: Final = (field("path", "string"), field("digest", "bytes"))
_COPIED_FILE: Final = (*_STATE_DIGEST, field("first", "int64"), field("end", "int64"))
_STATE_CONTENT: Final = (field("path", "string"), field("content", "bytes", nullable="0+"))
_SHIPPED: Final = (
    field("kind", "int8"),
    field("subject", "string"),
    field("block", "int64"),
    field("position", "int64"),
    field("first", "int64"),
    field("end", "int64"),
    field("number", "int32"),
    field("data", "records"),
)
_COMMITTED_END: Final = (_LOG, field("end", "int64"))
_REPLICA: Final = (
    field("replica", "int32"),
    field("node", "int32"),
    field("host", "string"),
    field("port", "int32"),
    field("is_alive", "bool"),
    field("is_insync", "bool"),
    field("is_observer", "bool"),
    field("acknowledged", "int64"),
    field("silent_ms", "int64"),
)
_SHARD: Final = (
    field("shard", "int32"),
    field("epoch", "int32"),
    field("master", "int32"),
    field("min_insync", "int32"),
    field("barrier", "int64"),
    field("replicas", "[]", *_REPLICA),
)

_REQUESTS: Final[Mapping[NativeKey, tuple[Field, ...]]] = {
    NativeKey.OPEN_SESSION: (field("session", "uuid"), field("software", "string")),
    NativeKey.LIST_TOPICS: (),
    NativeKey.OPEN_TOPIC: (_TOPIC, field("must_exist", "bool"), field("is_described", "bool"), _SETTINGS),
    NativeKey.CONFIGURE_TOPIC: (_TOPIC, _SETTINGS),
    NativeKey.DELETE_TOPIC: (*_NUMBER, _TOPIC),
    NativeKey.APPEND: (
        _TOPIC,
        field("marker", "bytes"),
        field("is_retry", "bool"),
        field("is_receipt_wanted", "bool"),
        field("since", "[]", *_POSITION, count_max=PARTITIONS_MAX),
        _RECORDS,
    ),
    NativeKey.READ: (_TOPIC, _POSITIONS, _TAG, field("is_backwards", "bool"), *_READING),
    NativeKey.FIND_TIME: (_TOPIC, field("time", "int64")),
    NativeKey.SCAN: (
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
    NativeKey.PARK: (*_NUMBER, _TOPIC, *_DUE, field("partition", "int32"), _RECORDS),
    NativeKey.LIST_PARKED: (_TOPIC, field("after", "string"), field("limit", "int32"), field("bytes_max", "int32")),
    NativeKey.CANCEL_PARKED: (*_NUMBER, _TOPIC, field("id", "string")),
    NativeKey.OPEN_GROUP: (_HANDLE, _TOPIC, field("group", "string"), field("mode", "string"), _SETTINGS),
    NativeKey.DELETE_GROUP: (*_NUMBER, _TOPIC, field("group", "string")),
    NativeKey.DESCRIBE_GROUP: (_HANDLE, field("is_dead_wanted", "bool")),
    NativeKey.READ_GROUP: (_HANDLE, *_REPEATING, *_READING),
    NativeKey.COMMIT_GROUP: (*_NUMBER, _HANDLE, _SOME_POSITIONS),
    NativeKey.SEEK_GROUP: (
        *_NUMBER,
        _HANDLE,
        field("to", "string"),
        field("where", "int64"),
        field("partition", "int32"),
    ),
    NativeKey.TAKE: (*_NUMBER, _HANDLE, field("limit", "int32"), field("wait_ms", "int32")),
    NativeKey.SETTLE: (
        *_NUMBER,
        _HANDLE,
        field("action", "string"),
        _PLACES,
        field("seconds", "float64"),
        field("reason", "string"),
    ),
    NativeKey.REDRIVE: (*_NUMBER, _HANDLE, field("limit", "int64"), _PLACES),
    NativeKey.BEGIN_TRANSACTION: (
        *_NUMBER,
        _HANDLE,
        field("id", "string", nullable="0+"),
        field("timeout", "float64"),
        field("prepared_timeout", "float64"),
    ),
    NativeKey.CHANGE_TRANSACTION: (
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
    NativeKey.END_TRANSACTION: (*_NUMBER, _HANDLE, field("id", "string"), field("action", "string")),
    NativeKey.COMMIT_BATCH: (
        field("application", "string", nullable="0+"),
        field("version", "int64"),
        field("ids", "[]string", count_max=SPARK_TASKS_MAX),
    ),
    NativeKey.RECOVER: (field("action", "string"), field("name", "string"), field("before", "string", nullable="0+")),
    NativeKey.OPEN_PRODUCER: (_HANDLE, field("producer", "string")),
    NativeKey.NUMBERED_PUT: (_HANDLE, _TOPIC, field("sequence", "int64"), field("partition", "int32"), _RECORDS),
    NativeKey.OPEN_QUEUE: (_HANDLE, *_QUEUE, _SETTINGS, field("must_exist", "bool")),
    NativeKey.USE_QUEUE: (
        *_NUMBER,
        _HANDLE,
        field("action", "string"),
        field("item", "bytes"),
        field("wait_ms", "int32"),
        field("delay", "int64"),
        field("number", "int64"),
    ),
    NativeKey.CLOSE_HANDLE: (_HANDLE,),
    NativeKey.STATISTICS: (field("is_standing_wanted", "bool"),),
    NativeKey.RETIRE_TOPIC: (_TOPIC,),
    NativeKey.CONFIGURE_GROUP: (_TOPIC, field("group", "string"), _SETTINGS),
    NativeKey.SEE_GROUP: (
        _TOPIC,
        field("group", "string"),
        field("is_described", "bool"),
        field("is_put_back_wanted", "bool"),
    ),
    NativeKey.LIST_DEAD: (
        _TOPIC,
        field("group", "string", nullable="0+"),
        _POSITIONS,
        field("limit", "int32"),
        field("bytes_max", "int32"),
    ),
    NativeKey.SEE_CLUSTER: (),
    NativeKey.FIND_REPLICAS: (field("rack", "string"),),
    NativeKey.JOIN_SHARD: (
        *_LINK,
        field("cluster", "string"),
        field("shard", "int32"),
        field("epochs", "bytes"),
        field("logs", "[]", *_LOG_STATE, count_max=REPLICATED_LOGS_MAX),
    ),
    NativeKey.LIST_STATE: (*_LINK, field("after", "string")),
    NativeKey.FETCH_STATE: (*_LINK, field("paths", "[]string", count_max=STATE_PATHS_MAX)),
    NativeKey.FETCH_SHARD: (
        *_LINK,
        field("follows", "int64"),
        field("acknowledged", "int64"),
        field("bytes_max", "int32"),
    ),
    NativeKey.HAND_OVER_SHARD: (field("shard", "int32"), field("replica", "int32")),
    NativeKey.LIST_COPY: (field("after", "string"), field("paths", "[]string", count_max=STATE_PATHS_MAX)),
    NativeKey.DIGEST_RECORDS: (
        _LOG,
        field("start", "int64"),
        field("end", "int64"),
        field("bytes_max", "int32"),
        field("is_checked", "bool"),
    ),
}
_RESPONSES: Final[Mapping[NativeKey, tuple[Field, ...]]] = {
    NativeKey.OPEN_SESSION: (field("store_id", "string"), field("software", "string"), field("incarnation", "int64")),
    NativeKey.LIST_TOPICS: (field("topics", "[]string"),),
    NativeKey.OPEN_TOPIC: (
        _SETTINGS,
        field("partitions", "[]", *_PARTITION),
        field("groups", "[]string"),
        field("id", "uuid"),
    ),
    NativeKey.CONFIGURE_TOPIC: (_SETTINGS,),
    NativeKey.DELETE_TOPIC: (),
    NativeKey.APPEND: (
        _POSITIONS,
        field("offset", "int64"),
        field("timestamp", "int64"),
        field("partition_count", "int32"),
    ),
    NativeKey.READ: (_MESSAGES, _POSITIONS, field("partition_count", "int32"), field("is_more", "bool")),
    NativeKey.FIND_TIME: (_POSITIONS,),
    NativeKey.SCAN: (field("next", "int64"), field("padding", "bytes"), field("arrow", "records")),
    NativeKey.PARK: (field("ids", "[]string"),),
    NativeKey.LIST_PARKED: (field("parked", "[]", *_PARKED), _MESSAGES),
    NativeKey.CANCEL_PARKED: (field("is_cancelled", "bool"),),
    NativeKey.OPEN_GROUP: (field("member", "string"), _SETTINGS),
    NativeKey.DELETE_GROUP: (),
    NativeKey.DESCRIBE_GROUP: (
        field("owned", "[]int32"),
        field("members", "[]string"),
        _POSITIONS,
        field("read", "[]", *_POSITION),
        field("lag", "[]", *_POSITION),
        field("in_flight", "int64"),
        field("dead", "string"),
    ),
    NativeKey.READ_GROUP: (_MESSAGES, field("owned", "[]int32")),
    NativeKey.COMMIT_GROUP: (_POSITIONS,),
    NativeKey.SEEK_GROUP: (_POSITIONS,),
    NativeKey.TAKE: (_MESSAGES,),
    NativeKey.SETTLE: (),
    NativeKey.REDRIVE: (field("count", "int64"),),
    NativeKey.BEGIN_TRANSACTION: (field("id", "string"),),
    NativeKey.CHANGE_TRANSACTION: (),
    NativeKey.END_TRANSACTION: (field("state", "string"),),
    NativeKey.COMMIT_BATCH: (field("state", "string"),),
    NativeKey.RECOVER: (
        field("prepared", "[]", *_PREPARED),
        field("ids", "[]string"),
        field("version", "int64"),
        field("failure", "string"),
    ),
    NativeKey.OPEN_PRODUCER: (field("sequence", "int64"),),
    NativeKey.NUMBERED_PUT: (
        field("is_written", "bool"),
        field("sequence", "int64"),
        field("partitions", "[]int32"),
        field("numbers", "[]int64"),
        field("offset", "int64"),
        field("timestamp", "int64"),
    ),
    NativeKey.OPEN_QUEUE: (),
    NativeKey.USE_QUEUE: (field("is_done", "bool"), field("item", "bytes"), field("count", "int64")),
    NativeKey.CLOSE_HANDLE: (),
    NativeKey.STATISTICS: (field("statistics", "string"),),
    NativeKey.RETIRE_TOPIC: (),
    NativeKey.CONFIGURE_GROUP: (_SETTINGS,),
    NativeKey.SEE_GROUP: (
        _SETTINGS,
        field("members", "[]string"),
        _POSITIONS,
        field("ends", "[]", *_POSITION),
        field("lag", "[]", *_POSITION),
        field("in_flight", "int64"),
        field("put_back", "[]", *_PUT_BACK, count_max=PARTITIONS_MAX),
    ),
    NativeKey.LIST_DEAD: (_TOPIC, _MESSAGES, _POSITIONS),
    NativeKey.SEE_CLUSTER: (field("cluster", "string"), field("node", "int32"), field("shards", "[]", *_SHARD)),
    NativeKey.FIND_REPLICAS: (field("store_id", "string"), field("addresses", "[]string")),
    NativeKey.JOIN_SHARD: (
        *_ANSWERED,
        field("epochs", "bytes"),
        field("is_common", "bool"),
        field("logs", "[]", *_JOINED_LOG),
        field("barrier", "int64"),
    ),
    NativeKey.LIST_STATE: (
        *_ANSWERED,
        field("after", "string"),
        field("files", "[]", *_STATE_DIGEST),
        field("is_complete", "bool"),
    ),
    NativeKey.FETCH_STATE: (*_ANSWERED, field("files", "[]", *_STATE_CONTENT)),
    NativeKey.FETCH_SHARD: (
        *_ANSWERED,
        field("number", "int64"),
        field("barrier", "int64"),
        field("items", "[]", *_SHIPPED),
        field("committed", "[]", *_COMMITTED_END),
    ),
    NativeKey.HAND_OVER_SHARD: (field("replica", "int32"),),
    NativeKey.LIST_COPY: (field("files", "[]", *_COPIED_FILE), field("is_complete", "bool")),
    NativeKey.DIGEST_RECORDS: (
        field("is_there", "bool"),
        field("first", "int64"),
        field("end", "int64"),
        field("next", "int64"),
        field("digest", "bytes"),
    ),
}
NATIVE_MESSAGES: Final[Mapping[str, MessageSchema]] = MappingProxyType(
    {
        **{f"{key.title}Request": MessageSchema(f"{key.title}Request", ALWAYS, at) for key, at in _REQUESTS.items()},
        **{
            f"{key.title}Response": MessageSchema(f"{key.title}Response", ALWAYS, (_ERROR, *at))
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
"""Structs that several messages share, with the names of their classes."""
