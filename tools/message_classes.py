"""Writes a class for every request and response, and for every struct in them, as the schemas describe them.

Run by `make messages`. Produce and Fetch have no classes, because they are encoded by hand (`BY_HAND`). The classes are
plain code with slots and not dataclasses, because making 250 dataclasses would take a process about 0.1 s whenever it
starts.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from warren.protocol.api_keys import APIS
from warren.protocol.kafka_schemas import SHARED_STRUCTS as KAFKA_SHARED
from warren.protocol.native_schemas import NATIVE_MESSAGES
from warren.protocol.native_schemas import SHARED_STRUCTS as NATIVE_SHARED
from warren.protocol.primitives import NO_UUID
from warren.protocol.schema_codec import REQUEST, RESPONSE, message_of
from warren.protocol.schemas import NEVER, STRUCT, VERSION_LAST, Field, MessageSchema

PROTOCOL: Final = Path(__file__).parent.parent / "src/warren/protocol"
TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "string": "str",
        "bytes": "bytes",
        "records": "Buffer | Sequence[Buffer]",
        "uuid": "bytes",
        "bool": "bool",
        "float64": "float",
    }
)
"""The Python types of the kinds that are not integers."""
STRUCT_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "responses": "Result",
        "v3_and_below_topics": "Topic",
        "results_by_topic_v3_and_below": "Topic",
        "results_by_partition": "Partition",
        "entities": "Entity",
        "entries": "Entry",
        "acknowledgement_batches": "Acknowledgement",
        "forgotten_topics_data": "ForgottenTopic",
        "topic_data": "Topic",
        "partition_data": "Partition",
        "partition_responses": "Partition",
    }
)
"""The name of a struct whose field has no regular singular, or repeats the name of its message."""
BY_HAND: Final = frozenset({"Produce", "Fetch"})
"""The APIs that `protocol/kafka` decodes and encodes by hand, because they carry messages. No class is written."""
STRUCT_BASE: Final = "WireStruct"
NATIVE_RESPONSE_BASE: Final = "NativeResponse"
REQUEST_BASE: Final = "WireRequest"
REQUEST_BASES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "NumberedRequest": frozenset(("call_number", "answered_below")),
        "WaitingRequest": frozenset(("wait_ms",)),
    }
)
"""The base classes of the requests that have all of these fields."""
BASES: Final = (NATIVE_RESPONSE_BASE, *REQUEST_BASES, REQUEST_BASE, STRUCT_BASE)
HEAD: Final = '''"""{title}

Written by `make messages`, so change the schemas and not this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from warren.protocol.primitives import {primitives}
from warren.protocol.wire_struct import {bases}
'''


class Class:
    """One class to be written: its name, what it stands for, its fields, and the classes of those that are structs.

    If it is a request, `api_key` is what it asks for.
    """

    def __init__(
        self, name: str, promise: str, fields: Sequence[Field], structs: Mapping[str, str], api_key: int | None = None
    ) -> None:
        self.name, self.promise, self.fields, self.structs, self.api_key = name, promise, fields, structs, api_key

    def source(self) -> str:
        """Returns the class as Python, which `ruff format` makes regular."""
        lines = [f"class {self.name}({self._bases()}):", f'    """{self.promise}"""', ""]
        slots = ", ".join(repr(each.name) for each in self.fields)
        lines.append(f"    __slots__ = ({slots}{',' if len(self.fields) == 1 else ''})")
        if self.api_key is not None:
            lines += [f"    api_key = {self.api_key}", f"    response = {self._response()}"]
        if self.structs:
            pairs = ", ".join(f"{field!r}: {name}" for field, name in self.structs.items())
            lines.append(f"    structs: ClassVar[Mapping[str, type[WireStruct]]] = {{{pairs}}}")
        if self.fields:
            lines += ["", "    def __init__(self"]
            lines += [f"        {self._parameter(each)}" for each in self.fields]
            lines.append("    ) -> None:")
            lines += [f"        self.{each.name} = {self._value(each)}" for each in self.fields]
        return "\n".join(lines)

    def _bases(self) -> str:
        if self.api_key is None:
            is_native = self.name in NATIVE_MESSAGES
            return NATIVE_RESPONSE_BASE if is_native else STRUCT_BASE
        names = {each.name for each in self.fields}
        bases = [base for base, fields in REQUEST_BASES.items() if names >= fields] or [REQUEST_BASE]
        return ", ".join(f"{base}[{self._response()}]" for base in bases)

    def _response(self) -> str:
        return f"{self.name.removesuffix(REQUEST)}{RESPONSE}"

    def _parameter(self, field: Field) -> str:
        kind = self.structs.get(field.name) or TYPES.get(field.kind, "int")
        if field.is_array:
            kind = f"Sequence[{kind}]"
        if field.default is None or field.nullable != NEVER:
            kind += " | None"
        default = "NO_UUID" if field.default == NO_UUID else repr(field.default)
        first, last = field.versions
        until = "+" if last == VERSION_LAST else f" to {last}"
        comment = "" if first == 0 and last == VERSION_LAST else f"  # version {first}{until if last > first else ''}"
        return f", {field.name}: {kind} = {default}{comment}"

    def _value(self, field: Field) -> str:
        if is_filled(field):
            return f"{self.structs[field.name]}() if {field.name} is None else {field.name}"
        return field.name


def is_filled(field: Field) -> bool:
    """Returns whether the field is a struct that always exists: an empty one stands for None."""
    return field.kind == STRUCT and not field.is_array and field.nullable == NEVER and field.tag is None


class Module:
    """The classes of some messages, each after those that it uses."""

    def __init__(self, shared: Mapping[str, tuple[Field, ...]]) -> None:
        self._shared = {fields: name for name, fields in shared.items()}
        self._classes: dict[str, Class] = {}

    def add_api(self, name: str, api_key: int) -> None:
        """Adds the classes of the response and the request of an API, and those of their structs."""
        # The request names the class of its response, which therefore comes first.
        self._add_message(message_of(f"{name}{RESPONSE}"))
        self._add_message(message_of(f"{name}{REQUEST}"), api_key)

    def _add_message(self, message: MessageSchema, api_key: int | None = None) -> None:
        self._add(message.name, f"{_titled(message)}.", message.fields, message.name, api_key)

    def _add(self, name: str, promise: str, fields: Sequence[Field], message: str, api_key: int | None = None) -> None:
        structs = {each.name: self._struct(each, name, message) for each in fields if each.kind == STRUCT}
        self._classes[name] = Class(name, promise, fields, structs, api_key)

    def _struct(self, field: Field, parent: str, message: str) -> str:
        """Returns the name of the class of a field. Structs of a message that are alike are one class."""
        shared = self._shared.get(field.fields)
        name = shared or message + _title_of(field.name)
        if name in self._classes:
            if tuple(self._classes[name].fields) == field.fields:
                return name
            name = parent + _title_of(field.name)
        assert name not in self._classes
        promise = "A part of several messages." if shared else f"The field `{field.name}` of a {parent}."
        if not shared and field.is_array:
            promise = f"One of the `{field.name}` of a {parent}."
        self._add(name, promise, field.fields, message if shared is None else name)
        return name

    def source(self, title: str) -> str:
        """Returns the whole module, not formatted."""
        body = "\n\n\n".join(each.source() for each in self._classes.values())
        primitives = ", ".join(name for name in ("NO_UUID", "Buffer") if name in body)
        bases = ", ".join(name for name in BASES if f"({name}" in body or f", {name}[" in body)
        return f"{HEAD.format(title=title, primitives=primitives, bases=bases)}\n\n{body}\n"


def _titled(message: MessageSchema) -> str:
    kind = REQUEST if message.name.endswith(REQUEST) else RESPONSE
    return f"The {kind.lower()} of {message.name.removesuffix(kind)}"


def _title_of(field: str) -> str:
    if field in STRUCT_NAMES:
        return STRUCT_NAMES[field]
    return field.title().replace("_", "").removesuffix("s")


def formatted(source: str) -> str:
    """Returns the source as `ruff format` writes it."""
    command = [sys.executable, "-m", "ruff", "format", "--line-length=120", "--target-version=py311", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def modules() -> Iterator[tuple[Path, str]]:
    """Yields each module that is written, and its source."""
    kafka, native = Module(KAFKA_SHARED), Module(NATIVE_SHARED)
    for api in APIS.values():
        if api.name not in BY_HAND:
            module = native if f"{api.name}{REQUEST}" in NATIVE_MESSAGES else kafka
            module.add_api(api.name, api.key)
    yield PROTOCOL / "kafka_messages.py", formatted(kafka.source("Kafka's requests and responses."))
    yield PROTOCOL / "native_messages.py", formatted(native.source("The requests and responses of our own."))


def by_hand_source() -> str:
    """Returns the classes that are not written, for tests that compare the codecs by hand with the schemas."""
    module = Module(KAFKA_SHARED)
    for api in APIS.values():
        if api.name in BY_HAND:
            module.add_api(api.name, api.key)
    return module.source("Kafka's requests and responses that are encoded by hand.")


if __name__ == "__main__":
    for path, source in modules():
        path.write_text(source)
