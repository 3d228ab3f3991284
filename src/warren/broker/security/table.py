"""The table of rights: the needs of each request of each protocol. A test compares it with `docs/broker.md`.

A protocol that serves a request without a row here does not start, or refuses the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from warren.broker.security import sources
from warren.broker.security.needs import NameSource, Need, NeedsRow
from warren.broker.security.rights import Operation
from warren.broker.security.sources import CLUSTER
from warren.protocol.api_keys import ApiKey
from warren.protocol.native_schemas import NativeKey

READ: Final = Operation.READ
WRITE: Final = Operation.WRITE
DELETE: Final = Operation.DELETE
ALTER: Final = Operation.ALTER
DESCRIBE: Final = Operation.DESCRIBE
DESCRIBE_CONFIGS: Final = Operation.DESCRIBE_CONFIGS
ALTER_CONFIGS: Final = Operation.ALTER_CONFIGS

SHOWN_TOPICS: Final = "topics with describe"
SHOWN_GROUPS: Final = "groups with describe"
SHOWN_BOTH: Final = "topics and groups with describe"


def _create(source: NameSource) -> Need:
    return Need(Operation.CREATE, source, (Operation.CREATE, CLUSTER))


def _set_letters(letters: tuple[NameSource, NameSource]) -> tuple[Need, Need]:
    """Returns the needs of a request that sets a dead-letter topic: to write there, and to create it if it does not
    exist.
    """
    return Need(WRITE, letters[0]), _create(letters[1])


def _row(*needs: Need | tuple[Operation, NameSource], shows: str = "") -> NeedsRow:
    return NeedsRow(tuple(need if isinstance(need, Need) else Need(*need) for need in needs), shows)


FREE: Final = NeedsRow()
EVERYTHING: Final = _row((Operation.ALL, CLUSTER))
REPLICAS: Final = NeedsRow(is_for_replicas=True)
_READS_GROUP: Final = _row((READ, sources.GROUP))
_COMMITS: Final = _row((READ, sources.GROUP), (READ, sources.NAMED_TOPICS))
_SHARES: Final = _row((READ, sources.GROUP), (READ, sources.KNOWN_TOPICS))
_ALTERS_CONFIGS: Final = _row(
    (ALTER_CONFIGS, sources.CONFIGURED_TOPICS),
    (ALTER_CONFIGS, sources.CONFIGURED_BROKER),
    *_set_letters(sources.CONFIGURED_LETTERS),
)

KAFKA: Final[Mapping[int, NeedsRow]] = MappingProxyType(
    {
        ApiKey.API_VERSIONS: FREE,
        ApiKey.SASL_HANDSHAKE: FREE,
        ApiKey.SASL_AUTHENTICATE: FREE,
        ApiKey.DESCRIBE_CLUSTER: FREE,
        ApiKey.PRODUCE: _row(
            (WRITE, sources.TRANSACTIONAL_ID_IF_ANY), (WRITE, sources.NAMED_TOPICS), _create(sources.MADE_TOPICS)
        ),
        ApiKey.FETCH: _row((READ, sources.NAMED_TOPICS)),
        ApiKey.METADATA: _row(
            (DESCRIBE, sources.NAMED_OR_KNOWN_TOPICS), _create(sources.MADE_TOPICS), shows=SHOWN_TOPICS
        ),
        ApiKey.LIST_OFFSETS: _row((DESCRIBE, sources.NAMED_TOPICS)),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: _row((DESCRIBE, sources.each_topic("topics", "topic"))),
        ApiKey.DELETE_RECORDS: _row((DELETE, sources.NAMED_TOPICS)),
        ApiKey.CREATE_TOPICS: _row(_create(sources.NAMED_TOPICS), *_set_letters(sources.CREATED_LETTERS)),
        ApiKey.DELETE_TOPICS: _row(
            (DELETE, sources.NAMED_OR_KNOWN_TOPICS),
            (DELETE, sources.NAMED_OR_KNOWN_TOPICS._replace(rows="topic_names")),
        ),
        ApiKey.CREATE_PARTITIONS: _row((ALTER, sources.NAMED_TOPICS)),
        ApiKey.DESCRIBE_CONFIGS: _row(
            (DESCRIBE_CONFIGS, sources.CONFIGURED_TOPICS), (DESCRIBE_CONFIGS, sources.CONFIGURED_BROKER)
        ),
        ApiKey.ALTER_CONFIGS: _ALTERS_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _ALTERS_CONFIGS,
        ApiKey.FIND_COORDINATOR: _row((DESCRIBE, sources.COORDINATED_GROUPS), (DESCRIBE, sources.COORDINATED_IDS)),
        ApiKey.JOIN_GROUP: _row((READ, sources.GROUP), (DESCRIBE, sources.SUBSCRIBED)),
        ApiKey.SYNC_GROUP: _row((READ, sources.GROUP), (DESCRIBE, sources.GIVEN_OUT)),
        ApiKey.HEARTBEAT: _READS_GROUP,
        ApiKey.LEAVE_GROUP: _READS_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: _row(
            (READ, sources.GROUP),
            (DESCRIBE, sources.SUBSCRIBED_NAMES),
            shows="topics with describe to a pattern",
        ),
        ApiKey.SHARE_GROUP_HEARTBEAT: _row((READ, sources.GROUP), (READ, sources.SUBSCRIBED_NAMES)),
        ApiKey.OFFSET_COMMIT: _COMMITS,
        ApiKey.OFFSET_FETCH: _row(
            (DESCRIBE, sources.GROUP_BEFORE_MANY), (DESCRIBE, sources.EACH_GROUP_ID), shows=SHOWN_TOPICS
        ),
        ApiKey.OFFSET_DELETE: _row((DELETE, sources.GROUP), (READ, sources.NAMED_TOPICS)),
        ApiKey.LIST_GROUPS: _row(shows=SHOWN_GROUPS),
        ApiKey.DESCRIBE_GROUPS: _row((DESCRIBE, sources.EACH_GROUP), shows="groups whose topics one may describe"),
        ApiKey.CONSUMER_GROUP_DESCRIBE: _row(
            (DESCRIBE, sources.EACH_GROUP_IN_IDS), shows="groups whose topics one may describe"
        ),
        ApiKey.SHARE_GROUP_DESCRIBE: _row(
            (DESCRIBE, sources.EACH_GROUP_IN_IDS), shows="groups whose topics one may describe"
        ),
        ApiKey.DELETE_GROUPS: _row(Need(DELETE, sources.EACH_GROUP_IN_NAMES, (ALTER, sources.TOPICS_OF_GROUP))),
        ApiKey.SHARE_FETCH: _SHARES,
        ApiKey.SHARE_ACKNOWLEDGE: _SHARES,
        ApiKey.INIT_PRODUCER_ID: _row((WRITE, sources.TRANSACTIONAL_ID_IF_ANY)),
        ApiKey.ADD_PARTITIONS_TO_TXN: _row(
            (WRITE, sources.TRANSACTIONAL_ID_V3), (WRITE, sources.each_topic("v3_and_below_topics", "name"))
        ),
        ApiKey.ADD_OFFSETS_TO_TXN: _row((WRITE, sources.TRANSACTIONAL_ID), (READ, sources.GROUP)),
        ApiKey.TXN_OFFSET_COMMIT: _row(
            (WRITE, sources.TRANSACTIONAL_ID), (READ, sources.GROUP), (READ, sources.NAMED_TOPICS)
        ),
        ApiKey.END_TXN: _row((WRITE, sources.TRANSACTIONAL_ID)),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: _row((DESCRIBE_CONFIGS, CLUSTER)),
        ApiKey.ALTER_CLIENT_QUOTAS: _row((ALTER_CONFIGS, CLUSTER)),
        ApiKey.DESCRIBE_ACLS: _row((DESCRIBE, CLUSTER)),
        ApiKey.CREATE_ACLS: _row((ALTER, CLUSTER)),
        ApiKey.DELETE_ACLS: _row((ALTER, CLUSTER)),
    }
)

_USES_GROUP: Final = _row((READ, sources.HANDLE_TOPIC), (READ, sources.HANDLE_GROUP))

OWN: Final[Mapping[int, NeedsRow]] = MappingProxyType(
    {
        NativeKey.OPEN_SESSION: FREE,
        NativeKey.CLOSE_HANDLE: FREE,
        NativeKey.FIND_REPLICAS: FREE,
        NativeKey.LIST_TOPICS: _row(shows=SHOWN_TOPICS),
        NativeKey.OPEN_TOPIC: _row(
            (DESCRIBE, sources.NATIVE_TOPIC),
            _create(sources.NATIVE_OPENED),
            *_set_letters(sources.NATIVE_SET_LETTERS),
            shows=SHOWN_GROUPS,
        ),
        NativeKey.CONFIGURE_TOPIC: _row(
            (ALTER, sources.NATIVE_TOPIC),
            (ALTER_CONFIGS, sources.NATIVE_TOPIC),
            *_set_letters(sources.NATIVE_SET_LETTERS),
        ),
        NativeKey.DELETE_TOPIC: _row((DELETE, sources.NATIVE_TOPIC)),
        NativeKey.RETIRE_TOPIC: _row((ALTER, sources.NATIVE_TOPIC)),
        NativeKey.APPEND: _row((WRITE, sources.NATIVE_TOPIC)),
        NativeKey.READ: _row((READ, sources.NATIVE_TOPIC)),
        NativeKey.FIND_TIME: _row((READ, sources.NATIVE_TOPIC)),
        NativeKey.SCAN: _row((READ, sources.NATIVE_TOPIC)),
        NativeKey.PARK: _row((WRITE, sources.NATIVE_TOPIC)),
        NativeKey.LIST_PARKED: _row((READ, sources.NATIVE_TOPIC)),
        NativeKey.CANCEL_PARKED: _row((WRITE, sources.NATIVE_TOPIC)),
        NativeKey.OPEN_GROUP: _row((READ, sources.NATIVE_TOPIC), (READ, sources.NATIVE_GROUP)),
        NativeKey.CONFIGURE_GROUP: _row((READ, sources.NATIVE_TOPIC), (ALTER_CONFIGS, sources.NATIVE_GROUP)),
        NativeKey.SEE_GROUP: _row((DESCRIBE, sources.NATIVE_TOPIC), (DESCRIBE, sources.NATIVE_GROUP)),
        NativeKey.DELETE_GROUP: _row(
            Need(READ, sources.NATIVE_TOPIC, (ALTER, sources.NATIVE_TOPIC)),
            Need(DELETE, sources.NATIVE_GROUP, (ALTER, sources.NATIVE_TOPIC)),
        ),
        NativeKey.DESCRIBE_GROUP: _row(
            (DESCRIBE, sources.HANDLE_TOPIC),
            (DESCRIBE, sources.HANDLE_GROUP),
            (READ, sources.WANTED_LETTERS),
            _create(sources.MADE_LETTERS),
        ),
        NativeKey.READ_GROUP: _USES_GROUP,
        NativeKey.COMMIT_GROUP: _USES_GROUP,
        NativeKey.SEEK_GROUP: _USES_GROUP,
        NativeKey.TAKE: _USES_GROUP,
        NativeKey.SETTLE: _USES_GROUP,
        NativeKey.LIST_DEAD: _row(
            (READ, sources.NATIVE_TOPIC), (READ, sources.NATIVE_LETTERS), (DESCRIBE, sources.NATIVE_GROUP_IF_ANY)
        ),
        NativeKey.REDRIVE: _row(
            (WRITE, sources.HANDLE_TOPIC), (READ, sources.HANDLE_LETTERS), (READ, sources.HANDLE_GROUP)
        ),
        NativeKey.BEGIN_TRANSACTION: _row((WRITE, sources.NATIVE_ID)),
        NativeKey.CHANGE_TRANSACTION: _row(
            (WRITE, sources.HANDLE_ID),
            (WRITE, sources.NATIVE_TOPIC_IF_ANY),
            _create(sources.NATIVE_MADE),
            (READ, sources.OTHER_TOPIC),
            (READ, sources.OTHER_GROUP),
        ),
        NativeKey.END_TRANSACTION: _row((WRITE, sources.NATIVE_ID_OR_HANDLE)),
        NativeKey.OPEN_PRODUCER: _row((WRITE, sources.PRODUCER)),
        NativeKey.NUMBERED_PUT: _row(
            (WRITE, sources.HANDLE_PRODUCER), (WRITE, sources.NATIVE_TOPIC), _create(sources.NATIVE_MADE)
        ),
        NativeKey.STATISTICS: _row((DESCRIBE, CLUSTER)),
        NativeKey.SEE_CLUSTER: _row((DESCRIBE, CLUSTER)),
        NativeKey.JOIN_SHARD: REPLICAS,
        NativeKey.LIST_STATE: REPLICAS,
        NativeKey.FETCH_STATE: REPLICAS,
        NativeKey.FETCH_SHARD: REPLICAS,
        NativeKey.HAND_OVER_SHARD: EVERYTHING,
        NativeKey.LIST_COPY: EVERYTHING,
        NativeKey.DIGEST_RECORDS: EVERYTHING,
        NativeKey.COMMIT_BATCH: EVERYTHING,
        NativeKey.RECOVER: EVERYTHING,
        NativeKey.OPEN_QUEUE: _row(
            (READ, sources.QUEUE),
            (WRITE, sources.QUEUE),
            _create(sources.QUEUE_OPENED),
            *_set_letters(sources.QUEUE_LETTERS),
        ),
        NativeKey.USE_QUEUE: _row(
            (WRITE, sources.QUEUE_PUT), (READ, sources.QUEUE_GOT), (DESCRIBE, sources.QUEUE_SEEN)
        ),
    }
)

_TOPIC: Final = "/v1/topics/{topic}"
_GROUP: Final = "/v1/topics/{topic}/groups/{group}"
_READS_PATH: Final = _row((READ, sources.PATH_TOPIC))
_USES_PATH: Final = _row((READ, sources.PATH_TOPIC), (READ, sources.PATH_GROUP))

HTTP: Final[Mapping[str, NeedsRow]] = MappingProxyType(
    {
        "GET /": _row(shows=SHOWN_BOTH),
        "GET /healthz": FREE,
        "GET /readyz": FREE,
        "GET /openapi.json": FREE,
        "GET /metrics": _row((DESCRIBE, CLUSTER)),
        "GET /v1/statistics": _row((DESCRIBE, CLUSTER)),
        "GET /v1/topics": _row(shows=SHOWN_TOPICS),
        "POST /v1/topics": _row(_create(sources.BODY_TOPIC), *_set_letters(sources.CREATION_LETTERS)),
        f"GET {_TOPIC}": _row((DESCRIBE, sources.PATH_TOPIC), shows=SHOWN_GROUPS),
        f"PATCH {_TOPIC}": _row(
            (ALTER, sources.PATH_TOPIC), (ALTER_CONFIGS, sources.PATH_TOPIC), *_set_letters(sources.CHANGE_LETTERS)
        ),
        f"DELETE {_TOPIC}": _row((DELETE, sources.PATH_TOPIC)),
        f"POST {_TOPIC}/messages": _row((WRITE, sources.PATH_TOPIC), _create(sources.PATH_MADE)),
        f"GET {_TOPIC}/messages": _READS_PATH,
        f"GET {_TOPIC}/messages/{{partition}}/{{number}}": _READS_PATH,
        f"GET {_TOPIC}/scheduled": _READS_PATH,
        f"DELETE {_TOPIC}/scheduled/{{id}}": _row((WRITE, sources.PATH_TOPIC)),
        "GET /v1/groups": _row(shows=SHOWN_BOTH),
        f"GET {_TOPIC}/groups": _row((DESCRIBE, sources.PATH_TOPIC), shows=SHOWN_GROUPS),
        f"GET {_GROUP}": _row((DESCRIBE, sources.PATH_TOPIC), (DESCRIBE, sources.PATH_GROUP)),
        f"PUT {_GROUP}": _row(*_USES_PATH.needs, (ALTER_CONFIGS, sources.PATH_CHANGED_GROUP)),
        f"DELETE {_GROUP}": _row(
            Need(READ, sources.PATH_TOPIC, (ALTER, sources.PATH_TOPIC)),
            Need(DELETE, sources.PATH_GROUP, (ALTER, sources.PATH_TOPIC)),
        ),
        f"POST {_GROUP}/take": _USES_PATH,
        f"POST {_GROUP}/ack": _USES_PATH,
        f"POST {_GROUP}/nack": _USES_PATH,
        f"POST {_GROUP}/reject": _USES_PATH,
        f"POST {_GROUP}/extend": _USES_PATH,
        f"GET {_GROUP}/dead": _row(
            (READ, sources.PATH_TOPIC), (READ, sources.PATH_LETTERS), (DESCRIBE, sources.PATH_GROUP)
        ),
        f"POST {_GROUP}/dead/redrive": _row(
            (WRITE, sources.PATH_TOPIC), (READ, sources.PATH_LETTERS), (READ, sources.PATH_GROUP)
        ),
    }
)
"""By method and path, as in `gateway/route_table.py`."""
