"""Shapes of JSON: each says in one place what is taken, and what OpenAPI tells of it."""

from __future__ import annotations

import base64
import binascii
import difflib
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from warren.errors import BadInput

Schema = dict[str, Any]
BASE64: Final = "base64"


class Shape(Protocol):
    """What a value may be."""

    def schema(self) -> Schema:
        """As JSON Schema."""
        ...

    def take(self, value: Any, where: str) -> Any:
        """The value as Warren has it; BadInput, which says where, for anything else."""
        ...


class Plain(Shape, Protocol):
    """A shape that can also stand in the query of an address."""

    def read(self, text: str, where: str) -> Any:
        """The value that a text stands for."""
        ...


class Text(NamedTuple):
    """Text of at most `size_max` bytes, where OpenAPI counts characters; one of `choices` where there are some."""

    size_max: int
    size_min: int = 0
    pattern: str = ""
    choices: tuple[str, ...] = ()
    is_nullable: bool = False

    def schema(self) -> Schema:
        found: Schema = {"type": ["string", "null"] if self.is_nullable else "string"}
        if self.choices:
            return {**found, "enum": list(self.choices)}
        found["maxLength"] = self.size_max
        if self.size_min:
            found["minLength"] = self.size_min
        if self.pattern:
            found["pattern"] = self.pattern
        return found

    def take(self, value: Any, where: str) -> str | None:
        if value is None and self.is_nullable:
            return None
        if not isinstance(value, str):
            raise BadInput(f"{where}: expected text, not {_named(value)}")
        return self.read(value, where)

    def read(self, text: str, where: str) -> str:
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise BadInput(f"{where}: text that is no Unicode") from None
        if self.choices and text not in self.choices:
            raise BadInput(f"{where}: expected {' or '.join(self.choices)}, not {text[:50]!r}")
        if not self.size_min <= size <= self.size_max:
            raise BadInput(f"{where}: {size} bytes; expected {self.size_min} to {self.size_max}")
        if self.pattern and not re.search(self.pattern, text):
            raise BadInput(f"{where}: {text[:50]!r} does not match {self.pattern}")
        return text


class Whole(NamedTuple):
    """A whole number from `least` to `most`."""

    least: int
    most: int
    is_nullable: bool = False

    def schema(self) -> Schema:
        kind = ["integer", "null"] if self.is_nullable else "integer"
        return {"type": kind, "minimum": self.least, "maximum": self.most}

    def take(self, value: Any, where: str) -> int | None:
        if value is None and self.is_nullable:
            return None
        # JSON knows no difference between 1 and 1.0.
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not self.least <= value <= self.most:
            raise BadInput(f"{where}: expected a whole number from {self.least} to {self.most}, not {_named(value)}")
        return value

    def read(self, text: str, where: str) -> int | None:
        if not re.fullmatch(r"-?[0-9]{1,20}", text):
            raise BadInput(f"{where}: expected a whole number, not {text[:50]!r}")
        return self.take(int(text), where)


class Seconds(NamedTuple):
    """Seconds from 0 to `most`, or from `least` on."""

    most: float
    least: float = 0.0
    is_nullable: bool = False

    def schema(self) -> Schema:
        kind = ["number", "null"] if self.is_nullable else "number"
        return {"type": kind, "minimum": self.least, "maximum": self.most}

    def take(self, value: Any, where: str) -> float | None:
        if value is None and self.is_nullable:
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or not self.least <= value <= self.most:
            raise BadInput(f"{where}: expected seconds from {self.least:g} to {self.most:g}, not {_named(value)}")
        return float(value)

    def read(self, text: str, where: str) -> float | None:
        try:
            return self.take(float(text), where)
        except ValueError:
            raise BadInput(f"{where}: expected seconds from {self.least:g} to {self.most:g}") from None


class Truth(NamedTuple):
    """True or false."""

    def schema(self) -> Schema:
        return {"type": "boolean"}

    def take(self, value: Any, where: str) -> bool:
        if not isinstance(value, bool):
            raise BadInput(f"{where}: expected true or false, not {_named(value)}")
        return value

    def read(self, text: str, where: str) -> bool:
        if text not in ("true", "false"):
            raise BadInput(f"{where}: expected true or false, not {text[:50]!r}")
        return text == "true"


class Moment(NamedTuple):
    """A time as ISO 8601 has it; without a zone it is UTC."""

    def schema(self) -> Schema:
        return {"type": "string", "format": "date-time"}

    def take(self, value: Any, where: str) -> datetime:
        return self.read(value if isinstance(value, str) else "", where)

    def read(self, text: str, where: str) -> datetime:
        try:
            found = datetime.fromisoformat(text)
            return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            raise BadInput(f"{where}: expected a time such as 2026-03-01T12:00:00Z, not {text[:50]!r}") from None


class Bytes(NamedTuple):
    """Bytes: text stands for its UTF-8, and `{"base64": …}` for any bytes."""

    size_max: int
    is_nullable: bool = False

    def schema(self) -> Schema:
        coded = {
            "type": "object",
            "properties": {BASE64: {"type": "string", "contentEncoding": BASE64, "pattern": "^[A-Za-z0-9+/]*={0,2}$"}},
            "required": [BASE64],
            "additionalProperties": False,
        }
        return {"anyOf": [{"type": "string"}, coded, *([{"type": "null"}] if self.is_nullable else [])]}

    def take(self, value: Any, where: str) -> bytes | None:
        if value is None and self.is_nullable:
            return None
        try:
            found = value.encode() if isinstance(value, str) else _decoded(value, where)
        except UnicodeEncodeError:
            raise BadInput(f"{where}: text that is no Unicode; give it as base64") from None
        if len(found) > self.size_max:
            raise BadInput(f"{where}: {len(found)} bytes; at most {self.size_max} are taken")
        return bytes(found)


def _decoded(value: Any, where: str) -> bytes:
    if not isinstance(value, dict) or list(value) != [BASE64] or not isinstance(value[BASE64], str):
        raise BadInput(f'{where}: expected text, or {{"base64": …}}, not {_named(value)}')
    try:
        return base64.b64decode(value[BASE64], validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadInput(f"{where}: not base64: {error}") from None


class Listed(NamedTuple):
    """A list of one shape."""

    of: Shape
    most: int
    least: int = 0

    def schema(self) -> Schema:
        return {"type": "array", "items": self.of.schema(), "minItems": self.least, "maxItems": self.most}

    def take(self, value: Any, where: str) -> list[Any]:
        if not isinstance(value, list):
            raise BadInput(f"{where}: expected a list, not {_named(value)}")
        if not self.least <= len(value) <= self.most:
            raise BadInput(f"{where}: {len(value)} entries; expected {self.least} to {self.most}")
        return [self.of.take(each, f"{where}[{row}]") for row, each in enumerate(value)]


class Mapped(NamedTuple):
    """An object with any names, and values of one shape."""

    of: Shape
    most: int

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": self.of.schema(), "maxProperties": self.most}

    def take(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise BadInput(f"{where}: expected an object, not {_named(value)}")
        if len(value) > self.most:
            raise BadInput(f"{where}: {len(value)} entries; at most {self.most} are taken")
        return {name: self.of.take(each, f"{where}.{name[:50]}") for name, each in value.items()}


class Fields:
    """An object with these fields; those that are `required` must be there, and no others may be."""

    def __init__(self, fields: Mapping[str, Shape], required: Sequence[str] = ()) -> None:
        self.fields, self.required = MappingProxyType(dict(fields)), tuple(required)

    def schema(self) -> Schema:
        properties = {name: shape.schema() for name, shape in self.fields.items()}
        found: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return {**found, "required": list(self.required)} if self.required else found

    def take(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise BadInput(f"{where}: expected an object, not {_named(value)}")
        for name in self.required:
            if name not in value:
                raise BadInput(f"{where}: {name} is missing")
        for name in value:
            if name not in self.fields:
                near = difflib.get_close_matches(name[:50], self.fields, 1, cutoff=0.5)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.fields)}"
                raise BadInput(f"{where}: there is no {name[:50]!r}; {hint}")
        return {name: self.fields[name].take(each, f"{where}.{name}") for name, each in value.items()}


def _named(value: Any) -> str:
    """What a value is, in few words."""
    text = "null" if value is None else repr(value)
    return text if len(text) <= 50 else f"{text[:50]}…"
