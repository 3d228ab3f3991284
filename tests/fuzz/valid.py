"""A valid request of every key in every version, which names topics, groups and members that may exist."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.support.kafka_batches import batch_of
from tests.support.message_values import encode_request
from tests.support.protocol_values import message_named
from warren.protocol.api_keys import APIS, Api
from warren.protocol.headers import Request, request_frame
from warren.protocol.native.records import pack, wire_record
from warren.protocol.schemas import STRUCT, Field
from warren.protocol.wire_struct import WireStruct, fields_of
from warren.storage.format.columns import Batch

TOPICS: Final = ("fuzz-a", "fuzz-b", "fuzz-c")
WITNESS_TOPIC: Final = "witness"
GROUPS: Final = ("fuzz-stream", "fuzz-queue", "fuzz-share")
SUBSCRIPTION: Final = b"\0\0\0\0\0\1\0\6fuzz-a\xff\xff\xff\xff"
HOSTILE_TEXTS: Final = ("", ".", "..", "../../etc/passwd", "/", "a" * 300, "ä\0☃", "\r\nx: y", "${jndi:x}", "%s%n")
TEXTS: Final[Mapping[str, Sequence[str]]] = {
    "group": GROUPS,
    "group_id": GROUPS,
    "transactional_id": ("fuzz-tx", "fuzz-tx-2"),
    "v3_and_below_transactional_id": ("fuzz-tx", "fuzz-tx-2"),
    "mechanism": ("PLAIN", "SCRAM-SHA-256", "GSSAPI"),
    "protocol_type": ("consumer",),
    "protocol_name": ("range",),
    "mode": ("stream", "queue"),
    "action": ("ack", "nack", "extend", "commit", "abort", "prepare", "put", "get", "done", "list", "size"),
    "to": ("first", "end", "time", "number"),
    "resource_name": (*TOPICS, "0", "kafka-cluster"),
    "principal": ("User:ann", "User:*"),
    "host": ("*",),
    "value": ("1", "-1", "os", "commit", "1048576", "none"),
    "server_assignor": ("uniform", "range"),
}
NUMBERS: Final[Mapping[str, Sequence[int]]] = {
    "acks": (-1, 1, 0),
    "num_partitions": (1, 2),
    "count": (1, 2, 3),
    "replication_factor": (1, -1),
    "max_wait_ms": (0, 5),
    "wait_ms": (0, 5),
    "min_bytes": (0, 1),
    "max_bytes": (1 << 20, 1, 0),
    "bytes_max": (1 << 20, 1),
    "partition_max_bytes": (1 << 20, 1),
    "session_timeout_ms": (6000,),
    "rebalance_timeout_ms": (50,),
    "timeout_ms": (1000, 0),
    "transaction_timeout_ms": (1000,),
    "resource_type": (2, 3, 4, 32),
    "operation": (1, 2, 3, 4),
    "permission_type": (2, 3),
    "partition": (0, 1, 2, -1),
    "partition_index": (0, 1, 2),
    "index": (0, 1, 2),
    "member_epoch": (0, 1, -1),
    "share_session_epoch": (0, 1, -1),
    "config_operation": (0, 1, 2, 3),
    "handle": (1, 2, 3),
    "answered_below": (0,),
}
ODD_NUMBERS: Final = (0, 1, -1, 2, 100, 1 << 40, (1 << 63) - 1, -(1 << 63))
LEARNED_MAX: Final = 20


class Knowledge:
    """Values of the answers by the names of their fields: ids of members, producers and topics, epochs, numbers."""

    def __init__(self) -> None:
        self._values: dict[str, list[Any]] = {}

    def learn(self, answer: WireStruct) -> None:
        if WITNESS_TOPIC in [value for value in fields_of(answer).values() if isinstance(value, str)]:
            # Each client may delete the topics of the other one.
            return
        for name, value in fields_of(answer).items():
            if isinstance(value, WireStruct):
                self.learn(value)
            elif isinstance(value, list):
                for one in value[:LEARNED_MAX]:
                    if isinstance(one, WireStruct):
                        self.learn(one)
            elif isinstance(value, int | str) or (isinstance(value, bytes) and len(value) == 16):
                self._values.setdefault(name, []).append(value)
                del self._values[name][:-LEARNED_MAX]

    def find(self, name: str, kind: str, chance: random.Random) -> Any:
        """Returns a value of this name and kind from an earlier answer, or None if there was none."""
        kind_of_value = str if kind == "string" else bytes if kind == "uuid" else int
        values = [value for value in self._values.get(name, ()) if isinstance(value, kind_of_value)]
        return chance.choice(values) if values else None


def values_for(fields: Sequence[Field], version: int, chance: random.Random, knowledge: Knowledge) -> dict[str, Any]:
    """A value for each field that the version carries."""
    return {field.name: _value(field, version, chance, knowledge) for field in fields if version in field.versions}


def _value(field: Field, version: int, chance: random.Random, knowledge: Knowledge) -> Any:
    if version in field.nullable and chance.random() < 0.15:
        return None
    if field.is_array:
        one = field._replace(is_array=False, nullable=field.nullable._replace(first=0, last=-1))
        return [_value(one, version, chance, knowledge) for _ in range(chance.choice((1, 1, 1, 2, 0)))]
    if field.kind == STRUCT:
        if {one.name for one in field.fields} == {"partition", "message_count", "checksum", "payload"}:
            return _packed(chance)
        return values_for(field.fields, version, chance, knowledge)
    if field.name not in NUMBERS and chance.random() < 0.8:
        value = knowledge.find(field.name, field.kind, chance)
        if value is not None and _fits(field, value):
            return value
    return _primitive(field, chance)


def _primitive(field: Field, chance: random.Random) -> Any:
    match field.kind:
        case "bool":
            return chance.random() < 0.5
        case "uuid":
            return chance.choice((bytes(16), chance.randbytes(16)))
        case "float64":
            return chance.choice((0.0, 1.0, 30.0, -1.0, float("nan"), float("inf"), 1e300))
        case "string":
            return chance.choice(HOSTILE_TEXTS if chance.random() < 0.05 else TEXTS.get(field.name, TOPICS))
        case "records":
            return batch_of([(b"k", b"v%d" % number, []) for number in range(3)], compression=chance.randrange(5))
        case "bytes":
            return chance.choice((SUBSCRIPTION, b"", b"\0ann\0wrong", chance.randbytes(20)))
    if field.name == "call_number":
        # A number identifies one call: a call with a used number is not carried out.
        return chance.randrange(1 << 40)
    odd = [number for number in ODD_NUMBERS if _fits(field, number)]
    if field.name in NUMBERS:
        return chance.choice(NUMBERS[field.name] if chance.random() < 0.95 else odd)
    return chance.choice((0, 0, 1, *odd))


def _fits(field: Field, value: Any) -> bool:
    bits = {"int8": 7, "int16": 15, "uint16": 15, "int32": 31, "int64": 63}.get(field.kind)
    return bits is None or -(1 << bits) <= value < 1 << bits


def _packed(chance: random.Random) -> dict[str, Any]:
    """Returns a record in the form of our own calls."""
    [packed] = pack(Batch([b"a", b"b", b"c"]))
    return fields_of(wire_record(chance.choice((0, 1)), packed))


def valid_request(api: Api, version: int, chance: random.Random, knowledge: Knowledge) -> bytes:
    """The body of a request."""
    fields = message_named(f"{api.name}Request").fields
    return encode_request(api.key, version, values_for(fields, version, chance, knowledge))


def framed(api_key: int, version: int, body: bytes, correlation_id: int = 1, client_id: str | None = "fuzz") -> bytes:
    """Returns the request as it is in a frame, without its size."""
    api = APIS.get(api_key)
    is_flexible = api is not None and api.is_flexible(version)
    return request_frame(
        Request(api_key, version, correlation_id, client_id, memoryview(body)), is_flexible=is_flexible
    )
