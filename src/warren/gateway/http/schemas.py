"""Schemas of JSON: each checks a value and describes itself to OpenAPI, so that both always agree.

Decision 0028 says why these are our own and not msgspec's.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from warren.errors import BadInput
from warren.settings import Count, Flag, Kind, OneOf, OrNone, Parsed, Seconds, unknown

Schema = dict[str, Any]
BASE64: Final = "base64"
NUMBER_MAX: Final = (1 << 63) - 1


class Shape(Protocol):
    """The values that are accepted in one place."""

    def schema(self) -> Schema:
        """Returns the JSON Schema."""
        ...

    def take(self, value: Any, where: str) -> Any:
        """Returns the value as Warren stores it. Raises BadInput, which names `where`, for any other value."""
        ...


class Plain(Shape, Protocol):
    """A shape that can also be written in the path or the query of a URL."""

    def read(self, text: str, where: str) -> Any:
        """Returns the value that a text stands for."""
        ...


class Text(NamedTuple):
    """Text of at most `size_max` bytes; OpenAPI counts characters."""

    size_max: int
    size_min: int = 0
    pattern: str = ""
    is_nullable: bool = False

    def schema(self) -> Schema:
        schema: Schema = {"type": ["string", "null"] if self.is_nullable else "string", "maxLength": self.size_max}
        if self.size_min:
            schema["minLength"] = self.size_min
        if self.pattern:
            schema["pattern"] = self.pattern
        return schema

    def take(self, value: Any, where: str) -> str | None:
        if value is None and self.is_nullable:
            return None
        if not isinstance(value, str):
            raise BadInput(f"{where}: expected text, not {_excerpt(value)}")
        return self.read(value, where)

    def read(self, text: str, where: str) -> str:
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise BadInput(f"{where}: the text is not Unicode") from None
        if not self.size_min <= size <= self.size_max:
            raise BadInput(f"{where}: {size} bytes; expected {self.size_min} to {self.size_max}")
        if self.pattern and not re.search(self.pattern, text):
            raise BadInput(f"{where}: {_excerpt(text)} does not match {self.pattern}")
        return text


class Value(NamedTuple):
    """A value of one of the kinds of `warren.settings`: a number, a flag, a word, or the value of a setting."""

    kind: Kind[Any]

    def schema(self) -> Schema:
        return _schema(self.kind)

    def take(self, value: Any, where: str) -> Any:
        kind = self.kind.kind if isinstance(self.kind, OrNone) and value is not None else self.kind
        # JSON has no difference between 1 and 1.0.
        if isinstance(value, float) and isinstance(kind, Count) and value.is_integer():
            value = int(value)
        try:
            return kind.check(value)
        except BadInput as error:
            # A value is shown as JSON. For a text that was parsed, the error of the parser says more than the expected
            # kind.
            is_parsed = isinstance(kind, Parsed) and isinstance(value, str)
            reason = str(error) if is_parsed else f"expected {kind.expected}, not {_excerpt(value)}"
            raise BadInput(f"{where}: {reason}") from None

    def read(self, text: str, where: str) -> Any:
        """Returns the value of a text in a URL. It is the same value as in JSON."""
        value: Any = text
        if isinstance(self.kind, Count) and re.fullmatch(r"-?[0-9]{1,20}", text):
            value = int(text)
        elif isinstance(self.kind, Seconds):
            with suppress(ValueError):
                value = float(text)
        elif isinstance(self.kind, Flag):
            value = {"true": True, "false": False}.get(text, text)
        return self.take(value, where)


NUMBER: Final = Value(Count(0, NUMBER_MAX))


def _schema(kind: Kind[Any]) -> Schema:
    match kind:
        case OrNone():
            schema = _schema(kind.kind)
            choices = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
            return {**schema, "type": [schema["type"], "null"], **choices}
        case Count():
            return {"type": "integer", "minimum": kind.least, "maximum": kind.most}
        case Seconds():
            least = {"exclusiveMinimum" if kind.is_above else "minimum": kind.least}
            return {"type": "number", **least, "maximum": kind.most}
        case Flag():
            return {"type": "boolean"}
        case OneOf():
            return {"type": "string", "enum": list(kind.words)}
        case Parsed():
            pattern = {"pattern": kind.pattern} if kind.pattern else {}
            return {"type": "string", "maxLength": kind.size_max, **pattern}
    raise AssertionError(f"{kind} cannot be described")


class Moment(NamedTuple):
    """A time in ISO 8601. A time without a zone is UTC."""

    def schema(self) -> Schema:
        return {"type": "string", "format": "date-time"}

    def take(self, value: Any, where: str) -> datetime:
        return self.read(value if isinstance(value, str) else "", where)

    def read(self, text: str, where: str) -> datetime:
        try:
            time = datetime.fromisoformat(text)
            return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            raise BadInput(f"{where}: expected a time such as 2026-03-01T12:00:00Z, not {_excerpt(text)}") from None


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
            data = value.encode() if isinstance(value, str) else _decoded(value, where)
        except UnicodeEncodeError:
            raise BadInput(f"{where}: the text is not Unicode; send it as base64") from None
        if len(data) > self.size_max:
            raise BadInput(f"{where}: {len(data)} bytes; at most {self.size_max} are accepted")
        return bytes(data)


def _decoded(value: Any, where: str) -> bytes:
    if not isinstance(value, dict) or list(value) != [BASE64] or not isinstance(value[BASE64], str):
        raise BadInput(f'{where}: expected text, or {{"base64": …}}, not {_excerpt(value)}')
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
            raise BadInput(f"{where}: expected a list, not {_excerpt(value)}")
        if not self.least <= len(value) <= self.most:
            raise BadInput(f"{where}: {len(value)} entries; expected {self.least} to {self.most}")
        return [self.of.take(each, f"{where}[{row}]") for row, each in enumerate(value)]


class Mapped(NamedTuple):
    """An object with arbitrary names and values of one shape."""

    of: Shape
    most: int

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": self.of.schema(), "maxProperties": self.most}

    def take(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise BadInput(f"{where}: expected an object, not {_excerpt(value)}")
        if len(value) > self.most:
            raise BadInput(f"{where}: {len(value)} entries; at most {self.most} are accepted")
        return {name: self.of.take(each, f"{where}.{name[:50]}") for name, each in value.items()}


class Fields:
    """An object with these fields and no others. The `required` ones must be present."""

    def __init__(self, fields: Mapping[str, Shape], required: Sequence[str] = ()) -> None:
        self.fields, self.required = MappingProxyType(dict(fields)), tuple(required)

    def schema(self) -> Schema:
        properties = {name: shape.schema() for name, shape in self.fields.items()}
        schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return {**schema, "required": list(self.required)} if self.required else schema

    def take(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise BadInput(f"{where}: expected an object, not {_excerpt(value)}")
        # Unknown names are reported first: a missing field is often one with a typing error in its name.
        for name in value:
            if name not in self.fields:
                raise BadInput(f"{where}: {unknown('field', name, self.fields)}")
        for name in self.required:
            if name not in value:
                raise BadInput(f"{where}: {name} is missing")
        return {name: self.fields[name].take(each, f"{where}.{name}") for name, each in value.items()}


def _excerpt(value: Any) -> str:
    """Returns the value as JSON, shortened."""
    # A text with half of a surrogate pair could not be written to a log.
    text = json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()
    return text if len(text) <= 50 else f"{text[:50]}…"
