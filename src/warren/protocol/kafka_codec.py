"""Requests and responses of every API key and version as objects and as bytes, by the descriptions of their fields.

Nothing but MalformedRequest comes of bytes that are not right, and no count or size in them takes memory before the
bytes that it speaks of were seen to be there. A request with too many elements is refused by the count that it names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from warren.config import ANSWER_SIZE_MAX, CONTROL_SIZE_MAX, FRAME_SIZE_MAX, REQUEST_ARRAY_COUNT_MAX
from warren.errors import MalformedRequest
from warren.protocol.api import served
from warren.protocol.codec import (
    FIXED_FORMATS,
    UNREADABLE,
    Buffer,
    Out,
    Read,
    Write,
    array_reader,
    array_writer,
    bytes_reader,
    bytes_writer,
    compact_size,
    fixed,
    fixed_array_reader,
    fixed_reader,
    fixed_writer,
    read_compact_size,
    read_size16,
    read_size32,
    read_tag_count,
    read_varint,
    records_writer,
    size16,
    size32,
    text_reader,
    text_writer,
    varint,
)
from warren.protocol.group_schemas import GROUP_MESSAGES
from warren.protocol.own_schemas import CARRYING, OWN_MESSAGES
from warren.protocol.sasl_schemas import SASL_MESSAGES
from warren.protocol.schemas import DEFAULTS, STRUCT, Field, Message, kafka_message

REQUEST: Final = "Request"
RESPONSE: Final = "Response"
"""How the names of messages end."""


class Fields:
    """The fields of a message, or of a struct in it, as attributes. What its version does not carry has its default."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fields) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


Values = Mapping[str, Any]
"""The fields of a message to be written, by name; those of structs within it in the same form. A missing field has its
default, and one that the version does not carry is left out."""


def decode_request(api_key: int, version: int, body: memoryview | bytes) -> Fields:
    """The request in `body`. UnsupportedRequest or MalformedRequest where there is none."""
    size_max = FRAME_SIZE_MAX if api_key in CARRYING else CONTROL_SIZE_MAX
    return _decode(f"{served(api_key, version).name}{REQUEST}", version, body, size_max)


def decode_response(api_key: int, version: int, body: memoryview | bytes) -> Fields:
    """The response in `body`, for clients."""
    return _decode(f"{served(api_key, version).name}{RESPONSE}", version, body, ANSWER_SIZE_MAX)


def encode_response(api_key: int, version: int, values: Values) -> list[Buffer]:
    """The body of a response, as buffers to send one behind the other: record batches in it are not copied.

    ValueError where `values` names a field that no version has.
    """
    return _encode(f"{served(api_key, version).name}{RESPONSE}", version, values)


def encode_request(api_key: int, version: int, values: Values) -> bytes:
    """The body of a request, for clients."""
    return b"".join(_encode(f"{served(api_key, version).name}{REQUEST}", version, values))


def _decode(name: str, version: int, body: memoryview | bytes, size_max: int) -> Fields:
    what = f"{name} of version {version}"
    if len(body) > size_max:
        raise MalformedRequest(what, f"{len(body)} bytes are over the limit of {size_max}")
    try:
        found, _ = _message_reader(name, version)(memoryview(body), 0)
    except UNREADABLE as error:
        raise MalformedRequest(what, str(error)) from error
    assert isinstance(found, Fields)
    return found


def _encode(name: str, version: int, values: Values) -> list[Buffer]:
    out = Out()
    _message_writer(name, version)(out, values)
    return out.buffers()


def message_of(name: str) -> Message:
    """The request or response of this name, of Kafka's or of our own."""
    return GROUP_MESSAGES.get(name) or OWN_MESSAGES.get(name) or SASL_MESSAGES.get(name) or kafka_message(name)


@functools.cache
def _message_reader(name: str, version: int) -> Read:
    message = message_of(name)
    return _struct_reader(message.name, message.fields, _Form.of(message, version))


@functools.cache
def _message_writer(name: str, version: int) -> Write:
    message = message_of(name)
    return _struct_writer(message.name, message.fields, _Form.of(message, version))


class _Form(NamedTuple):
    """How a version of a message is laid out."""

    version: int
    is_flexible: bool
    count_max: int | None
    """The most elements of an array that has no limit of its own: only requests have one, since any client sends
    them."""

    @classmethod
    def of(cls, message: Message, version: int) -> _Form:
        is_request = message.name.endswith(REQUEST)
        return cls(version, version in message.flexible, REQUEST_ARRAY_COUNT_MAX if is_request else None)

    def plain(self, fields: Sequence[Field]) -> list[Field]:
        """The fields that stand one behind the other."""
        return [field for field in fields if self.version in field.versions and not self._is_tagged(field)]

    def tagged(self, fields: Sequence[Field]) -> dict[int, Field]:
        """The fields that stand at the end, each after its tag, where they are there."""
        there = {field.tag or 0: field for field in fields if self._is_tagged(field) and self.version in field.versions}
        return dict(sorted(there.items()))

    def _is_tagged(self, field: Field) -> bool:
        return field.tag is not None and self.is_flexible


# --- Reading ---


def _struct_reader(name: str, fields: Sequence[Field], form: _Form) -> Read:
    kind = type(name, (Fields,), {field.name: field.default for field in fields})
    steps = _steps(form.plain(fields), form)
    read_tags = _tags_reader(form.tagged(fields), form) if form.is_flexible else None

    def read(data: memoryview, position: int) -> tuple[Fields, int]:
        found = kind()
        values = vars(found)
        for names, read_values in steps:
            value, position = read_values(data, position)
            if isinstance(names, str):
                values[names] = value
            else:
                values.update(zip(names, value, strict=True))
        if read_tags is not None:
            position = read_tags(values, data, position)
        return found, position

    return read


def _steps(fields: Sequence[Field], form: _Form) -> list[tuple[str | tuple[str, ...], Read]]:
    """The fields in the order in which they stand; those of fixed size that are neighbours are read together."""
    steps: list[tuple[str | tuple[str, ...], Read]] = []
    run: list[Field] = []
    for field in [*fields, None]:
        if field is not None and field.kind in FIXED_FORMATS and not field.is_array:
            run.append(field)
            continue
        if run:
            steps.append((tuple(one.name for one in run), _run_reader([one.kind for one in run])))
            run = []
        if field is not None:
            steps.append((field.name, _field_reader(field, form)))
    return steps


def _run_reader(kinds: Sequence[str]) -> Read:
    layout = fixed(kinds)

    def read(data: memoryview, position: int) -> tuple[tuple[Any, ...], int]:
        return layout.unpack_from(data, position), position + layout.size

    return read


def _tags_reader(fields: Mapping[int, Field], form: _Form) -> Any:
    known = {tag: (field.name, _field_reader(field, form, is_tagged=True)) for tag, field in fields.items()}

    def read(values: dict[str, Any], data: memoryview, position: int) -> int:
        count, position = read_tag_count(data, position)
        for _ in range(count):
            tag, position = read_varint(data, position)
            size, position = read_varint(data, position)
            end = position + size
            if end > len(data):
                raise ValueError("a tagged field passes the end")
            if tag in known:
                name, read_value = known[tag]
                values[name], _ = read_value(data[:end], position)
            position = end
        return position

    return read


def _field_reader(field: Field, form: _Form, *, is_tagged: bool = False) -> Read:
    is_nullable = form.version in field.nullable
    read_size = read_compact_size if form.is_flexible else read_size32
    count_max = form.count_max if field.count_max is None else field.count_max
    if field.is_array and field.kind in FIXED_FORMATS:
        return fixed_array_reader(field.kind, read_size, is_nullable=is_nullable, count_max=count_max)
    if field.is_array:
        element = field._replace(is_array=False)
        read_element = _value_reader(element, form, is_nullable=False)
        # Answers may be longer than requests: they come from a broker that the client chose.
        weigh = _weigher(field) if form.count_max is not None else None
        return array_reader(read_element, read_size, is_nullable=is_nullable, count_max=count_max, weigh=weigh)
    if field.kind == STRUCT and is_nullable and not is_tagged:
        return _nullable_reader(_value_reader(field, form, is_nullable=False))
    return _value_reader(field, form, is_nullable=is_nullable)


def _weigher(field: Field) -> Callable[[Fields], int] | None:
    """Counts the elements of all arrays within an element of this array; None if there is no array in it."""
    arrays = [(each.name, _weigher(each)) for each in field.fields if each.is_array]
    if not arrays:
        return None

    def weigh(element: Fields) -> int:
        weight, values = 0, vars(element)
        for name, weigh_inner in arrays:
            inner = values.get(name)
            if inner:
                weight += len(inner)
                if weigh_inner is not None:
                    weight += sum(map(weigh_inner, inner))
        return weight

    return weigh


def _value_reader(field: Field, form: _Form, *, is_nullable: bool) -> Read:
    if field.kind == STRUCT:
        return _struct_reader(field.name, field.fields, form)
    if field.kind == "string":
        return text_reader(read_compact_size if form.is_flexible else read_size16, is_nullable=is_nullable)
    if field.kind in ("bytes", "records"):
        # Records are much, and stay where they lie.
        is_records = field.kind == "records"
        read_size = read_compact_size if form.is_flexible else read_size32
        return bytes_reader(read_size, is_nullable=is_nullable or is_records, is_view=is_records)
    return fixed_reader(field.kind)


def _nullable_reader(read_struct: Read) -> Read:
    def read(data: memoryview, position: int) -> tuple[Any, int]:
        if data[position] == 0xFF:
            return None, position + 1
        return read_struct(data, position + 1)

    return read


# --- Writing ---


def _struct_writer(name: str, fields: Sequence[Field], form: _Form) -> Write:
    known = {field.name for field in fields}
    steps = [(field.name, field.default, _field_writer(field, form)) for field in form.plain(fields)]
    tagged = [
        (tag, field.name, field.default, _field_writer(field, form, is_tagged=True))
        for tag, field in form.tagged(fields).items()
    ]

    def write(out: bytearray, given: Values | Fields) -> None:
        values = vars(given) if isinstance(given, Fields) else given
        if not values.keys() <= known:
            raise ValueError(f"{name} has no field {', '.join(sorted(values.keys() - known))}")
        for name_, default, write_value in steps:
            write_value(out, values.get(name_, default))
        if form.is_flexible:
            there = [(tag, values[key], put) for tag, key, default, put in tagged if _is_told(values.get(key), default)]
            out += varint(len(there))
            for tag, value, write_value in there:
                field_out = bytearray()
                write_value(field_out, value)
                out += varint(tag) + varint(len(field_out)) + field_out

    return write


def _is_told(value: Any, default: Any) -> bool:
    """Whether a tagged field is written: not where it has its default."""
    return value is not None and value != default and (default != () or len(value) > 0)


def _field_writer(field: Field, form: _Form, *, is_tagged: bool = False) -> Write:
    is_nullable = form.version in field.nullable
    size = compact_size if form.is_flexible else size32
    if field.is_array:
        write = array_writer(_value_writer(field._replace(is_array=False), form), size)
    elif field.kind == STRUCT and is_nullable and not is_tagged:
        return _nullable_writer(_value_writer(field, form))
    else:
        write = _value_writer(field, form)
    if is_nullable or field.kind == "records":
        return write
    # Where a version knows no null, the empty value stands for it.
    return _filled_writer(write, () if field.is_array else DEFAULTS[field.kind] if field.kind != STRUCT else {})


def _value_writer(field: Field, form: _Form) -> Write:
    if field.kind == STRUCT:
        return _struct_writer(field.name, field.fields, form)
    if field.kind == "string":
        return text_writer(compact_size if form.is_flexible else size16)
    if field.kind == "bytes":
        return bytes_writer(compact_size if form.is_flexible else size32)
    if field.kind == "records":
        return records_writer(compact_size if form.is_flexible else size32)
    return fixed_writer(field.kind)


def _filled_writer(write_value: Write, empty: Any) -> Write:
    def write(out: bytearray, value: Any) -> None:
        write_value(out, empty if value is None else value)

    return write


def _nullable_writer(write_struct: Write) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0xFF)
        else:
            out.append(1)
            write_struct(out, value)

    return write
