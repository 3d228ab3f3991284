"""Requests and responses of every API key from plain dictionaries, for tests that generate or name fields."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from tools.message_classes import BY_HAND, by_hand_source
from warren.protocol.api_keys import served
from warren.protocol.native_schemas import NATIVE_MESSAGES
from warren.protocol.primitives import Buffer
from warren.protocol.schema_codec import REQUEST, RESPONSE, message_buffers, read_request, read_response
from warren.protocol.wire_struct import WireStruct

Fields = Any
"""A request or response of a class that the test does not name."""
Values = Mapping[str, Any]
"""The fields of a message by name; those of structs within it in the same form. A missing field has its default."""


def decode_request(api_key: int, version: int, body: memoryview | bytes) -> Fields:
    """Returns the request in `body`. Raises UnsupportedRequest or MalformedRequest if it cannot be read."""
    return read_request(_class(api_key, version, REQUEST), version, body)


def decode_response(api_key: int, version: int, body: memoryview | bytes) -> Fields:
    """Returns the response in `body`."""
    return read_response(_class(api_key, version, RESPONSE), version, body)


def encode_request(api_key: int, version: int, values: Values | WireStruct) -> bytes:
    """Returns the body of a request."""
    return b"".join(message_buffers(_message(_class(api_key, version, REQUEST), values), version))


def encode_response(api_key: int, version: int, values: Values | WireStruct) -> list[Buffer]:
    """Returns the body of a response, as buffers to send one after the other."""
    return message_buffers(_message(_class(api_key, version, RESPONSE), values), version)


def struct_of(kind: type[WireStruct], values: Values) -> WireStruct:
    """Returns the struct with these values. Raises TypeError if it has no field of one of the names."""
    return kind(**{name: _value(kind.structs.get(name), value) for name, value in values.items()})


def _message(kind: type[WireStruct], values: Values | WireStruct) -> WireStruct:
    return values if isinstance(values, WireStruct) else struct_of(kind, values)


def _value(kind: type[WireStruct] | None, value: Any) -> Any:
    if kind is None or value is None or isinstance(value, WireStruct):
        return value
    if isinstance(value, Mapping):
        return struct_of(kind, value)
    return [_value(kind, each) for each in value]


def _class(api_key: int, version: int, end: str) -> type[WireStruct]:
    api = served(api_key, version).name
    name = f"{api}{end}"
    if api in BY_HAND:
        return _classes_by_hand()[name]
    module = "native_messages" if name in NATIVE_MESSAGES else "kafka_messages"
    kind: type[WireStruct] = getattr(import_module(f"warren.protocol.{module}"), name)
    return kind


@functools.cache
def _classes_by_hand() -> dict[str, type[WireStruct]]:
    """Returns the classes of the messages that the broker decodes and encodes by hand, made from the schemas."""
    names: dict[str, Any] = {"__name__": "classes_by_hand"}
    exec(by_hand_source(), names)
    return names
