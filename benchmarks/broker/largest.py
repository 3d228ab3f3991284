"""The largest requests that a broker takes, for each API key and each HTTP route."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tests.support.message_values import encode_request
from warren.gateway.http.counts import Counts
from warren.gateway.http.limits import HTTP_BODY_SIZE_MAX
from warren.gateway.route_table import routes_of
from warren.gateway.server import HTTP_ELEMENTS_MAX
from warren.protocol.api_keys import APIS, Api, ApiKey
from warren.protocol.kafka_schemas import GROUP_MESSAGES, SASL_MESSAGES
from warren.protocol.limits import FETCH_PARTITIONS_MAX, PRODUCE_PARTITIONS_MAX, REQUEST_ARRAY_COUNT_MAX
from warren.protocol.native.records import pack, wire_record
from warren.protocol.native_schemas import NATIVE_MESSAGES, NATIVE_RECORDS_MAX, NativeKey
from warren.protocol.primitives import FIXED_FORMATS, REQUEST_ELEMENTS_MAX
from warren.protocol.schema_codec import CONTROL_SIZE_MAX
from warren.protocol.schemas import DEFAULTS, STRUCT, Field, MessageSchema, kafka_message
from warren.storage.format.columns import Batch

WIDE: Final = "wide"
TAGGED: Final = "tagged"
BOMB: Final = "bomb"
SMALL: Final = "small-{}"
STREAM, WORK, TRANSACTION, PRODUCER, QUEUE = range(1, 6)
"""Handles that are open in the session of the requests."""
FETCH_SIZE: Final = 50 << 20
LATEST: Final = -1

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
"""Values that have to make sense for the request to be carried out."""


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


def requests() -> Iterator[Asked]:
    """The largest requests of every API key: with many rows, and with few rows of many partitions each."""
    for api in APIS.values():
        special = SPECIAL.get(api.key)
        if special is not None:
            for what, values in special():
                yield Asked(api, api.last, what, encode_request(api.key, api.last, values))
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
    """As many rows as go into a request."""
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
        found = [each for each in field.fields if version in each.versions]
        return {each.name: _value(each, version, counts, place) for each in found}
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


def _produce() -> Iterator[tuple[str, Any]]:
    parts = [{"index": number, "records": None} for number in range(PRODUCE_PARTITIONS_MAX)]
    yield "partitions", {"acks": -1, "topic_data": [{"topic_id": bytes(16), "partition_data": parts}]}


def _fetch() -> Iterator[tuple[str, Any]]:
    parts = [{"partition": number, "partition_max_bytes": FETCH_SIZE} for number in range(FETCH_PARTITIONS_MAX)]
    yield "partitions", {"max_bytes": FETCH_SIZE, "topics": [{"topic_id": bytes(16), "partitions": parts}]}


def _read() -> Iterator[tuple[str, Any]]:
    limits = {"limit": 65_536, "bytes_max": 0, "wait_ms": 0}
    yield "a tag that no message has", {"topic": TAGGED, "positions": [_at(0)], "tag": "none", **limits}
    yield "many messages", {"topic": WIDE, "positions": [_at(0)], **limits}
    yield "one that unpacks to much", {"topic": BOMB, "positions": [_at(0)], **limits}
    positions = [_at(partition) for partition in range(100)]
    yield "backwards", {"topic": TAGGED, "positions": positions[:1], "is_backwards": True, **limits}


def _at(partition: int) -> dict[str, int]:
    return {"partition": partition, "number": 0}


def _append() -> Iterator[tuple[str, Any]]:
    (packed,) = pack(Batch([b"x" * 100]))
    records = [wire_record(0, packed)] * NATIVE_RECORDS_MAX
    yield "records", {"topic": SMALL.format(0), "marker": b"m", "records": records}
    many = [wire_record(0, each) for each in pack(Batch([b"x" * 20] * 400_000))]
    yield "messages", {"topic": SMALL.format(0), "marker": b"n", "records": many}


def _park() -> Iterator[tuple[str, Any]]:
    (packed,) = pack(Batch([b"x"]))
    due = {"due": 3_600_000_000, "is_delay": True, "partition": 0}
    yield "records", {"topic": SMALL.format(1), **due, "records": [wire_record(0, packed)] * 1000}


def _handled(key: NativeKey, handle: int, **values: Any) -> Iterator[tuple[str, Any]]:
    places = {name: list(range(65_536)) for name in ("partitions", "numbers", "attempts")}
    wants_places = key in (NativeKey.SETTLE, NativeKey.REDRIVE)
    yield "handle", {"handle": handle, **({"places": places} if wants_places else {}), **values}


SPECIAL: Final[Mapping[int, Any]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    NativeKey.READ: _read,
    NativeKey.APPEND: _append,
    NativeKey.PARK: _park,
    # The topics that other requests need stay.
    ApiKey.DELETE_TOPICS: lambda: iter([("rows", {"topics": [{"name": f"u{n}"} for n in range(10_000)]})]),
    NativeKey.DELETE_TOPIC: lambda: iter([("", {"topic": "unknown"})]),
    # A session is open already: another one would leave its handles behind.
    NativeKey.OPEN_SESSION: lambda: iter(()),
    NativeKey.SCAN: lambda: iter([("a tag that no message has", {"topic": TAGGED, "end": -1, "tag": "none"})]),
    NativeKey.READ_GROUP: lambda: _handled(NativeKey.READ_GROUP, STREAM, limit=65_536),
    NativeKey.TAKE: lambda: _handled(NativeKey.TAKE, WORK, limit=65_536),
    NativeKey.SETTLE: lambda: _handled(NativeKey.SETTLE, WORK, action="ack"),
    NativeKey.REDRIVE: lambda: _handled(NativeKey.REDRIVE, WORK, limit=1000),
    NativeKey.COMMIT_GROUP: lambda: _handled(NativeKey.COMMIT_GROUP, STREAM, positions=None),
    NativeKey.SEEK_GROUP: lambda: _handled(NativeKey.SEEK_GROUP, STREAM, to="start", partition=-1),
    NativeKey.DESCRIBE_GROUP: lambda: _handled(NativeKey.DESCRIBE_GROUP, WORK),
}


# --- HTTP ---


class HttpAsked(NamedTuple):
    """One request over HTTP."""

    method: str
    path: str
    route: str
    body: bytes | None


def http_requests() -> Iterator[HttpAsked]:
    """Every route, with the largest body that it takes, and with one that is nothing but brackets."""

    async def nothing(asked: Any) -> Any:
        raise AssertionError

    words = {"topic": WIDE, "group": "stream", "partition": "0", "number": "0", "id": "none"}
    for route in routes_of(nothing, Counts()).routes:
        path = route.path.format(**words)
        if route.method == "DELETE":
            path = path.replace(WIDE, "unknown")
        if route.path.endswith("/messages") and route.method == "GET":
            path = path.replace(WIDE, TAGGED) + "?tag=none&partition=0"
        if route.body is None:
            yield HttpAsked(route.method, path, f"{route.method} {route.path}", None)
            continue
        count = HTTP_ELEMENTS_MAX
        brackets = b"[" + b",".join([b"[]"] * (HTTP_BODY_SIZE_MAX // 3 - 1)) + b"]"
        values = json.dumps([1] * count).encode()
        messages = json.dumps({"messages": [{"body": "x" * 3000, "tag": "t"}] * 1000}).encode()
        for body in (brackets, values, *((messages,) if route.path.endswith("/messages") else ())):
            yield HttpAsked(route.method, path, f"{route.method} {route.path}", body)
