"""The fields of each request and response in every version: from Kafka's descriptions and from Warren's own."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from warren.errors import KafkaMissing
from warren.protocol.primitives import FIXED_FORMATS, NO_UUID

VERSION_LAST: Final = 32_767
STRUCT: Final = "struct"
COMMENT: Final = re.compile(r"^\s*//.*$", re.MULTILINE)
DEFAULTS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(FIXED_FORMATS, 0),
    "bool": False,
    "float64": 0.0,
    "uuid": NO_UUID,
    "string": "",
    "bytes": b"",
    "records": None,
    STRUCT: None,
}


class Versions(NamedTuple):
    """A range of versions, both ends included; empty if the last comes before the first."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parses `3`, `3+`, `3-9` or `none`."""
        if text == "none":
            return NEVER
        first, plus, last = re.fullmatch(r"(\d+)(\+?)(?:-(\d+))?", text).groups()  # type: ignore[union-attr]
        return cls(int(first), VERSION_LAST if plus else int(last or first))


ALWAYS: Final = Versions(0, VERSION_LAST)
NEVER: Final = Versions(0, -1)


class Field(NamedTuple):
    """One field. `kind` is a primitive type or STRUCT, which has its own fields.

    A field that a message does not carry, because of its version or because it is tagged, has its default. An array of
    more than `count_max` elements is refused before the first of them is read.
    """

    name: str
    kind: str
    is_array: bool = False
    versions: Versions = ALWAYS
    nullable: Versions = NEVER
    default: Any = None
    tag: int | None = None
    fields: tuple[Field, ...] = ()
    count_max: int | None = None


class MessageSchema(NamedTuple):
    """A request or a response: its fields, and the versions in which sizes are varints and fields may be tagged."""

    name: str
    flexible: Versions
    fields: tuple[Field, ...]


def field(
    name: str,
    kind: str,
    *fields: Field,
    versions: str = "0+",
    nullable: str = "none",
    default: Any = None,
    tag: int | None = None,
    count_max: int | None = None,
) -> Field:
    """Returns a field in the notation of Kafka's descriptions: `[]int32` is an array of int32, `[]` one of `fields`."""
    is_array = kind.startswith("[]")
    kind = STRUCT if fields else kind.removeprefix("[]")
    if default is None and nullable == "none":
        default = () if is_array else DEFAULTS[kind]
    ranges = Versions.parse(versions), Versions.parse(nullable)
    return Field(name, kind, is_array, *ranges, default, tag, tuple(fields), count_max)


@functools.cache
def kafka_message(name: str) -> MessageSchema:
    """Returns the schema of the message that Kafka calls `name`, from the descriptions that kafka-python ships."""
    described = json.loads(COMMENT.sub("", _description(name)))
    structs = {one["name"]: one["fields"] for one in described.get("commonStructs", ())}
    return MessageSchema(name, Versions.parse(described["flexibleVersions"]), _fields(described["fields"], structs))


def _description(name: str) -> str:
    # Found without importing the package, which would import its whole client.
    package = find_spec("kafka")
    for folder in package.submodule_search_locations or () if package is not None else ():
        path = Path(folder, "protocol", "schemas", "resources", f"{name}.json")
        if path.exists():
            return path.read_text("utf-8")
    raise KafkaMissing(name)


Described = Mapping[str, Any]


def _fields(described: Sequence[Described], structs: Mapping[str, Sequence[Described]]) -> tuple[Field, ...]:
    return tuple(_field(one, structs) for one in described)


def _field(described: Described, structs: Mapping[str, Sequence[Described]]) -> Field:
    kind = described["type"].removeprefix("[]")
    is_array = kind != described["type"]
    fields = _fields(described.get("fields") or structs.get(kind, ()), structs)
    kind = STRUCT if fields else kind
    return Field(
        _snake_case(described["name"]),
        kind,
        is_array,
        Versions.parse(described["versions"]),
        Versions.parse(described.get("nullableVersions", "none")),
        _default(kind, is_array, described.get("default")),
        described.get("tag"),
        fields,
    )


def _default(kind: str, is_array: bool, text: Any) -> Any:
    if text is None or text == "":
        return () if is_array else DEFAULTS[kind]
    if text == "null":
        return None
    if kind == "bool":
        return text in (True, "true")
    if kind in FIXED_FORMATS:
        return int(str(text), 0)
    return text


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
