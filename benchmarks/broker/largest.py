"""The largest requests that a broker accepts, for each API key and each HTTP route."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tests.support.kafka_batches import batch_of
from tests.support.message_values import encode_request
from warren.gateway.http.counts import Counts
from warren.gateway.http.limits import HTTP_BODY_SIZE_MAX
from warren.gateway.route_table import routes_of
from warren.gateway.server import HTTP_ELEMENTS_MAX
from warren.limits import PARTITIONS_MAX
from warren.protocol.api_keys import APIS, Api, ApiKey
from warren.protocol.kafka.record_batch import KAFKA_BATCH_COUNT_MAX
from warren.protocol.kafka_schemas import GROUP_MESSAGES, SASL_MESSAGES
from warren.protocol.limits import REQUEST_ARRAY_COUNT_MAX
from warren.protocol.native.records import pack, wire_record
from warren.protocol.native_schemas import NATIVE_MESSAGES, NATIVE_RECORDS_MAX, NativeKey
from warren.protocol.primitives import FIXED_FORMATS, REQUEST_ELEMENTS_MAX
from warren.protocol.schema_codec import CONTROL_SIZE_MAX
from warren.protocol.schemas import DEFAULTS, STRUCT, Field, MessageSchema, kafka_message
from warren.storage.format.columns import Batch
from warren.storage.format.limits import BLOCK_SIZE_DEFAULT

WIDE: Final = "wide"
TAGGED: Final = "tagged"
BOMB: Final = "bomb"
CROWD: Final = "crowd"
VARIED: Final = "varied"
UNPACKED: Final = (
    ("one that unpacks to much", BOMB),
    ("one of many messages", CROWD),
    ("one of many messages that differ", VARIED),
)
"""The topics with one batch that unpacks to much, and its description."""
SMALL: Final = "small-{}"
STREAM, WORK, TRANSACTION, PRODUCER, QUEUE, ALL_STREAM, ALL_WORK = range(1, 8)
STREAMS: Final = {name: 8 + place for place, (_, name) in enumerate(UNPACKED)}
WORKS: Final = {name: 8 + len(STREAMS) + place for place, (_, name) in enumerate(UNPACKED)}
"""Handles that are open in the session of the requests."""
TAGGED_COUNT: Final = 120
"""How many messages of 1 MiB there are."""
FETCH_SIZE: Final = 50 << 20
LATEST: Final = -1
MAX_TIMESTAMP: Final = -3
ZSTD: Final = 4
"""The number of the compression in the attributes of Kafka's batches."""
BOMB_SIZE: Final = 120 << 20
"""The unpacked size of a compressed batch of the largest kind: a little less than the default of message_size_max."""
CROWD_COUNT: Final = KAFKA_BATCH_COUNT_MAX - 1
NAMED: Final[Mapping[int, int]] = {ApiKey.PRODUCE: 12, ApiKey.FETCH: 12}
"""The last version of a request that names its topics. Later ones have ids, which differ from store to store."""

FIXED_FIELDS: Final[Mapping[str, Any]] = {
    "allow_auto_topic_creation": False,
    "validate_only": True,
    "acks": -1,
    "num_partitions": 1,
    "replication_factor": 1,
    "timestamp": LATEST,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "max_wait_ms": 0,
    "min_bytes": 0,
    "max_bytes": FETCH_SIZE,
    "partition_max_bytes": FETCH_SIZE,
    "session_epoch": -1,
    "resource_type": 2,
    "protocol_type": "consumer",
    "generation_id_or_member_epoch": -1,
    "generation_id": -1,
    "must_exist": True,
    "is_described": True,
    "is_standing_wanted": True,
    "limit": 65_536,
    "wait_ms": 0,
    "partition": 0,
    "start": 0,
    "end": -1,
    "due": 3_600_000_000,
    "is_delay": True,
    "sequence": -1,
    "mode": "stream",
    "to": "start",
    "action": "",
    "mechanism": "PLAIN",
    "group": "",
}
"""Values that must be valid for the request to be carried out."""


Special = Callable[[int], Iterator[tuple[str, Any]]]
"""Builds the requests of one key that are large in a special way, given the number of partitions."""


class Asked(NamedTuple):
    """One request over Kafka's framing. `what` says how it is large."""

    api: Api
    version: int
    what: str
    body: bytes


def described(api: Api) -> MessageSchema:
    """The fields of a request."""
    name = f"{api.name}Request"
    return NATIVE_MESSAGES.get(name) or GROUP_MESSAGES.get(name) or SASL_MESSAGES.get(name) or kafka_message(name)


def bomb() -> bytes:
    """A batch of one message, small as it is sent, that unpacks to BOMB_SIZE."""
    return batch_of([(None, bytes(BOMB_SIZE), [])], compression=ZSTD)


def crowd() -> bytes:
    """Returns a batch with the largest number of messages, which unpacks to about BOMB_SIZE."""
    row = None, b"x" * (BOMB_SIZE // CROWD_COUNT - 12), ()
    return batch_of(itertools.repeat(row, CROWD_COUNT), compression=ZSTD)


def varied() -> bytes:
    """A batch of as many messages, each with a size, a tag and an id of its own."""
    rows = (
        (None, b"x" * (40 + number * 7 % 31), [("warren.tag", b"%d" % (number % 5)), ("warren.id", b"%d" % number)])
        for number in range(CROWD_COUNT)
    )
    return batch_of(rows, compression=ZSTD)


MADE: Final[Mapping[str, Callable[[], bytes]]] = {BOMB: bomb, CROWD: crowd, VARIED: varied}
"""What makes the batch of each of these topics."""


def wide_topics(partitions: int) -> dict[str, int]:
    """The names of topics that have this many partitions together, each with as many as a topic may have."""
    counts = [min(PARTITIONS_MAX, partitions - start) for start in range(0, partitions, PARTITIONS_MAX)]
    return {WIDE if not place else f"{WIDE}-{place}": count for place, count in enumerate(counts)}


def requests(partitions: int) -> Iterator[Asked]:
    """The largest requests of every API key: with many rows, with few rows of many partitions each, and with much work.

    `partitions` is how many partitions the topics of `wide_topics` have.
    """
    for api in APIS.values():
        special, version = SPECIAL.get(api.key), NAMED.get(api.key, api.last)
        if special is not None:
            for what, values in special(partitions):
                yield Asked(api, version, what, encode_request(api.key, version, values))
        if special is not None and api.key not in ROWS_TOO:
            continue
        shapes = {
            "rows": (REQUEST_ARRAY_COUNT_MAX, max(1, REQUEST_ELEMENTS_MAX // REQUEST_ARRAY_COUNT_MAX)),
            "deep": (REQUEST_ELEMENTS_MAX // REQUEST_ARRAY_COUNT_MAX, REQUEST_ARRAY_COUNT_MAX),
        }
        bodies = {what: _fitting(api, *counts) for what, counts in shapes.items()}
        yield Asked(api, api.last, "rows", bodies["rows"])
        if bodies["deep"] != bodies["rows"]:
            yield Asked(api, api.last, "deep", bodies["deep"])


def _fitting(api: Api, outer: int, inner: int) -> bytes:
    """Returns as many rows as fit into a request."""
    fields = described(api).fields
    while True:
        values = {each.name: _value(each, api.last, (outer, inner), 0) for each in fields if api.last in each.versions}
        body = encode_request(api.key, api.last, values)
        if len(body) <= CONTROL_SIZE_MAX:
            return body
        outer, inner = max(1, outer * 3 // 4), max(1, inner if outer > inner else inner * 3 // 4)


def _value(field: Field, version: int, counts: tuple[int, int], place: int) -> Any:
    if field.is_array:
        count = min(counts[0], field.count_max or counts[0])
        element = field._replace(is_array=False)
        return [_value(element, version, (counts[1], 1), number) for number in range(count)]
    if field.kind == STRUCT:
        fields = [each for each in field.fields if version in each.versions]
        return {each.name: _value(each, version, counts, place) for each in fields}
    fixed = FIXED_FIELDS.get(field.name)
    if fixed is not None and isinstance(fixed, str) == (field.kind == "string") and not (fixed == 0 and place):
        return fixed
    if field.kind == "string":
        return _text(field.name, place)
    if field.kind == "uuid":
        return place.to_bytes(16, "big")
    if field.kind == "bool" or field.kind not in FIXED_FORMATS:
        return DEFAULTS[field.kind]
    return place % 128 if field.kind == "int8" else place


def _text(name: str, place: int) -> str:
    if name in ("topic", "name") and place == 0:
        return WIDE
    return f"{name[0]}{place}"


# --- Requests that are large in a way of their own ---


def _produce(partitions: int) -> Iterator[tuple[str, Any]]:
    tiny = batch_of([(None, b"x", ())])
    wide = {name: dict.fromkeys(range(count), tiny) for name, count in wide_topics(partitions).items()}
    yield "partitions that are empty", produced(wide)
    yield "partitions", produced(wide)
    for place, (what, name) in enumerate(UNPACKED):
        yield what, produced({SMALL.format(5 + place): {0: MADE[name]()}})
    large = batch_of([(None, os.urandom(BLOCK_SIZE_DEFAULT - (1 << 20)), ())])
    yield "one that is large", produced({SMALL.format(4): {0: large}})


def produced(topics: Mapping[str, Mapping[int, bytes]]) -> dict[str, Any]:
    data = [
        {"name": name, "partition_data": [{"index": number, "records": batch} for number, batch in parts.items()]}
        for name, parts in topics.items()
    ]
    return {"acks": -1, "timeout_ms": 30_000, "topic_data": data}


def _fetch(partitions: int) -> Iterator[tuple[str, Any]]:
    yield "partitions", fetched(wide_topics(partitions))
    for what, name in (*UNPACKED, ("large ones", TAGGED)):
        yield what, fetched({name: 1})


def fetched(topics: Mapping[str, int]) -> dict[str, Any]:
    rows = [
        {
            "topic": name,
            "partitions": [{"partition": number, "partition_max_bytes": FETCH_SIZE} for number in range(count)],
        }
        for name, count in topics.items()
    ]
    return {"max_bytes": FETCH_SIZE, "session_epoch": -1, "topics": rows}


def _list_offsets(partitions: int) -> Iterator[tuple[str, Any]]:
    for what, names in (
        *((f"largest time of {what}", {name: 1}) for what, name in UNPACKED),
        ("largest time of partitions", wide_topics(partitions)),
    ):
        partitions_by_topic = {
            name: [{"partition_index": number, "timestamp": MAX_TIMESTAMP} for number in range(count)]
            for name, count in names.items()
        }
        yield what, {"topics": [{"name": name, "partitions": parts} for name, parts in partitions_by_topic.items()]}


def _read(_: int) -> Iterator[tuple[str, Any]]:
    limits = {"limit": 65_536, "bytes_max": 0, "wait_ms": 0}
    yield "a tag that no message has", {"topic": TAGGED, "positions": [_at(0)], "tag": "none", **limits}
    yield "many messages", {"topic": WIDE, "positions": [_at(0)], **limits}
    yield "partitions", {"topic": WIDE, "positions": [_at(number) for number in range(PARTITIONS_MAX)], **limits}
    yield "large ones", {"topic": TAGGED, "positions": [_at(0)], **limits}
    for what, name in UNPACKED:
        yield what, {"topic": name, "positions": [_at(0)], **limits}
        yield f"{what}, backwards", {"topic": name, "positions": [_at(1)], "is_backwards": True, **limits}
        yield f"{what}, a tag that none has", {"topic": name, "positions": [_at(0)], "tag": "none", **limits}
    yield "backwards", {"topic": TAGGED, "positions": [_at(TAGGED_COUNT)], "is_backwards": True, **limits}


def _at(partition: int) -> dict[str, int]:
    return {"partition": partition, "number": 0}


def _scan(_: int) -> Iterator[tuple[str, Any]]:
    yield "a tag that no message has", {"topic": TAGGED, "end": -1, "tag": "none"}
    for what, name in (*UNPACKED, ("large ones", TAGGED)):
        yield what, {"topic": name, "end": -1}


def _append(_: int) -> Iterator[tuple[str, Any]]:
    (packed,) = pack(Batch([b"x" * 100]))
    records = [wire_record(0, packed)] * NATIVE_RECORDS_MAX
    yield "records", {"topic": SMALL.format(0), "marker": b"m", "records": records}
    many = [wire_record(0, each) for each in pack(Batch([b"x" * 20] * 400_000))]
    yield "messages", {"topic": SMALL.format(0), "marker": b"n", "records": many}


def _park(_: int) -> Iterator[tuple[str, Any]]:
    (packed,) = pack(Batch([b"x"]))
    due = {"due": 3_600_000_000, "is_delay": True, "partition": 0}
    yield "records", {"topic": SMALL.format(1), **due, "records": [wire_record(0, packed)] * 1000}


def _handled(key: NativeKey, handle: int, **values: Any) -> Special:
    """The request `key` for one handle."""
    places = {name: list(range(65_536)) for name in ("partitions", "numbers", "attempts")}
    wants_places = key in (NativeKey.SETTLE, NativeKey.REDRIVE)
    fields = {"handle": handle, **({"places": places} if wants_places else {}), **values}
    return lambda _: iter([("handle", fields)])


def _of_groups(filtered: int, unfiltered: int, unpacked: Mapping[str, int]) -> Special:
    """A request for the next messages of a group with a filter, of large ones, and of batches that unpack to much."""
    handles = {"a tag that no message has": filtered, "large ones": unfiltered}
    handles |= {what: unpacked[name] for what, name in UNPACKED}
    return lambda _: ((what, {"handle": handle, "limit": 65_536}) for what, handle in handles.items())


SPECIAL: Final[Mapping[int, Special]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    NativeKey.READ: _read,
    NativeKey.APPEND: _append,
    NativeKey.PARK: _park,
    # The topics that other requests need are kept.
    ApiKey.DELETE_TOPICS: lambda _: iter([("rows", {"topics": [{"name": f"u{n}"} for n in range(10_000)]})]),
    NativeKey.DELETE_TOPIC: lambda _: iter([("", {"topic": "unknown"})]),
    # A session is open already: another one would drop its handles.
    NativeKey.OPEN_SESSION: lambda _: iter(()),
    ApiKey.LIST_OFFSETS: _list_offsets,
    NativeKey.SCAN: _scan,
    NativeKey.READ_GROUP: _of_groups(STREAM, ALL_STREAM, STREAMS),
    NativeKey.TAKE: _of_groups(WORK, ALL_WORK, WORKS),
    NativeKey.SETTLE: _handled(NativeKey.SETTLE, WORK, action="ack"),
    NativeKey.REDRIVE: _handled(NativeKey.REDRIVE, WORK, limit=1000),
    NativeKey.COMMIT_GROUP: _handled(NativeKey.COMMIT_GROUP, STREAM, positions=None),
    NativeKey.SEEK_GROUP: _handled(NativeKey.SEEK_GROUP, STREAM, to="start", partition=-1),
    NativeKey.DESCRIBE_GROUP: _handled(NativeKey.DESCRIBE_GROUP, WORK),
}
ROWS_TOO: Final = frozenset((ApiKey.LIST_OFFSETS,))
"""Keys with special requests that are also sent with many rows."""


# --- HTTP ---


class HttpAsked(NamedTuple):
    """One request over HTTP."""

    method: str
    path: str
    route: str
    body: bytes | None


def http_requests() -> Iterator[HttpAsked]:
    """Every route, with the largest body that it accepts, and with one that has only brackets."""

    async def nothing(request: Any) -> Any:
        raise AssertionError

    words = {"topic": WIDE, "group": "stream", "partition": "0", "number": "0", "id": "none"}
    for route in routes_of(nothing, Counts()).routes:
        path = route.path.format(**words)
        if route.method == "DELETE":
            path = path.replace(WIDE, "unknown")
        if route.path.endswith("/messages") and route.method == "GET":
            path = path.replace(WIDE, TAGGED) + "?tag=none&partition=0"
            for _, name in UNPACKED:
                of_name = path.replace(TAGGED, name).partition("?")[0] + "?partition=0"
                yield HttpAsked(route.method, of_name, f"{route.method} {route.path} {name}", None)
        if route.body is None:
            yield HttpAsked(route.method, path, f"{route.method} {route.path}", None)
            continue
        count = HTTP_ELEMENTS_MAX
        brackets = b"[" + b",".join([b"[]"] * (HTTP_BODY_SIZE_MAX // 3 - 1)) + b"]"
        values = json.dumps([1] * count).encode()
        messages = json.dumps({"messages": [{"body": "x" * 3000, "tag": "t"}] * 1000}).encode()
        for body in (brackets, values, *((messages,) if route.path.endswith("/messages") else ())):
            yield HttpAsked(route.method, path, f"{route.method} {route.path}", body)
