"""Values for every field of a message, generated from a seed, and the classes of another codec to compare with."""

from __future__ import annotations

import importlib
import random
import string
from collections.abc import Iterator, Sequence
from typing import Any

from warren.protocol.api_keys import APIS, Api
from warren.protocol.kafka_schemas import GROUP_MESSAGES
from warren.protocol.native_schemas import NATIVE_MESSAGES
from warren.protocol.primitives import FIXED_FORMATS
from warren.protocol.schemas import STRUCT, Field, MessageSchema, kafka_message

SIZES = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}
KAFKA_MODULES = ["admin", "consumer", "metadata", "producer", "sasl"]


DESCRIBED_HERE = {**GROUP_MESSAGES, **NATIVE_MESSAGES}


def message_named(name: str) -> MessageSchema:
    return DESCRIBED_HERE.get(name) or kafka_message(name)


def every_version() -> Iterator[tuple[Api, int]]:
    for api in APIS.values():
        for version in range(api.first, api.last + 1):
            yield api, version


def made_up(fields: Sequence[Field], version: int, seed: int) -> dict[str, Any]:
    """Returns a value for each field that the version carries.

    Each seed gives others, and some seeds give null if possible.
    """
    chance = random.Random(seed)
    return {field.name: _value(field, version, chance) for field in fields if version in field.versions}


def _value(field: Field, version: int, chance: random.Random) -> Any:
    if version in field.nullable and chance.random() < 0.4:
        return None
    if field.is_array:
        element = field._replace(is_array=False, nullable=field.nullable._replace(first=0, last=-1))
        return [_value(element, version, chance) for _ in range(chance.choice([0, 1, 3]))]
    if field.kind == STRUCT:
        return made_up(field.fields, version, chance.randrange(1 << 30))
    if field.kind == "bool":
        return chance.random() < 0.5
    if field.kind == "uuid":
        return chance.randbytes(16)
    if field.kind == "float64":
        return chance.uniform(-9, 9)
    if field.kind in FIXED_FORMATS:
        # Not after the year 2004, in ms, because kio makes dates of some.
        return chance.randrange(0, 1 << min(SIZES[field.kind] - 1, 40))
    if field.kind == "string":
        return "".join(chance.choices(string.ascii_letters + "äß☃", k=chance.choice([0, 1, 20, 200])))
    return chance.randbytes(chance.choice([0, 1, 40, 300]))


def kafka_class(name: str) -> Any:
    """Returns the class of kafka-python with this name; None if it does not exist."""
    for module in KAFKA_MODULES:
        message_class = getattr(importlib.import_module(f"kafka.protocol.{module}"), name, None)
        if message_class is not None:
            return message_class
    return None
