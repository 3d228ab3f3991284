"""Encodes and decodes the requests and responses of every API key and version, by the descriptions of their fields.

Wrong bytes raise only MalformedRequest, and a count or size in them allocates no memory before the bytes that it
announces have arrived. A request with too many elements is refused by its count alone. The classes of the objects are
made from the same descriptions (`wire_struct.py` says how).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple, TypeVar

from warren.errors import MalformedRequest
from warren.protocol.kafka_schemas import GROUP_MESSAGES, SASL_MESSAGES
from warren.protocol.limits import ANSWER_SIZE_MAX, FRAME_SIZE_MAX, REQUEST_ARRAY_COUNT_MAX
from warren.protocol.native_schemas import CARRYING, NATIVE_MESSAGES
from warren.protocol.primitives import (
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
from warren.protocol.schemas import DEFAULTS, STRUCT, Field, MessageSchema, kafka_message
from warren.protocol.wire_struct import WireStruct

REQUEST: Final = "Request"
RESPONSE: Final = "Response"
"""The endings of the names of messages."""
CONTROL_SIZE_MAX: Final = 2 << 20
"""The largest request that carries no records. Decoded, it may take a hundred times as much memory."""
NO_TAGS: Final = b"\0"
CARRYING_NAMES: Final = frozenset(f"{key.title}{REQUEST}" for key in CARRYING)

AnyStruct = TypeVar("AnyStruct", bound=WireStruct)


def read_request(kind: type[AnyStruct], version: int, body: memoryview | bytes) -> AnyStruct:
    """Returns the request in `body`, of a version that is served. Raises MalformedRequest if it cannot be read."""
    return _decode(kind, version, body, FRAME_SIZE_MAX if kind.__name__ in CARRYING_NAMES else CONTROL_SIZE_MAX)


def read_response(kind: type[AnyStruct], version: int, body: memoryview | bytes) -> AnyStruct:
    """Returns the response in `body`, for clients. Raises MalformedRequest if it cannot be read."""
    return _decode(kind, version, body, ANSWER_SIZE_MAX)


def message_buffers(message: WireStruct, version: int) -> list[Buffer]:
    """Returns the body of a message as consecutive buffers. Record batches in it are not copied."""
    out = Out()
    _message_writer(type(message), version)(out, message)
    return out.buffers()


def _decode(kind: type[AnyStruct], version: int, body: memoryview | bytes, size_max: int) -> AnyStruct:
    if len(body) > size_max:
        raise MalformedRequest(_title(kind, version), f"{len(body)} bytes are over the limit of {size_max}")
    try:
        message, _ = _message_reader(kind, version)(memoryview(body), 0)
    except UNREADABLE as error:
        raise MalformedRequest(_title(kind, version), str(error)) from error
    assert isinstance(message, kind)
    return message


def _title(kind: type[WireStruct], version: int) -> str:
    return f"{kind.__name__} of version {version}"


def message_of(name: str) -> MessageSchema:
    """Returns the schema of a request or response, of Kafka's or of Warren's own protocol."""
    return GROUP_MESSAGES.get(name) or NATIVE_MESSAGES.get(name) or SASL_MESSAGES.get(name) or kafka_message(name)


def _reader_of(kind: type[WireStruct], version: int) -> Read:
    message = message_of(kind.__name__)
    return _struct_reader(kind, message.fields, _Form.of(message, version))


def _writer_of(kind: type[WireStruct], version: int) -> Write:
    message = message_of(kind.__name__)
    return _struct_writer(kind, message.fields, _Form.of(message, version))


# With a separate type, because mypy believes that a class is not hashable if its instances are not.
_message_reader: Final[Callable[[type[WireStruct], int], Read]] = functools.cache(_reader_of)  # type: ignore[assignment]
_message_writer: Final[Callable[[type[WireStruct], int], Write]] = functools.cache(_writer_of)  # type: ignore[assignment]


class _Form(NamedTuple):
    """The layout of one version of a message."""

    version: int
    is_flexible: bool
    count_max: int | None
    """The largest number of elements of an array that has no own limit; None for responses, which
    come from a broker.
    """

    @classmethod
    def of(cls, message: MessageSchema, version: int) -> _Form:
        is_request = message.name.endswith(REQUEST)
        return cls(version, version in message.flexible, REQUEST_ARRAY_COUNT_MAX if is_request else None)

    def plain(self, fields: Sequence[Field]) -> list[Field]:
        """Returns the fields that are always present, in their order."""
        return [field for field in fields if self.version in field.versions and not self._is_tagged(field)]

    def tagged(self, fields: Sequence[Field]) -> dict[int, Field]:
        """Returns the optional fields at the end, by tag."""
        there = {field.tag or 0: field for field in fields if self._is_tagged(field) and self.version in field.versions}
        return dict(sorted(there.items()))

    def _is_tagged(self, field: Field) -> bool:
        return field.tag is not None and self.is_flexible


# --- Reading ---


def _struct_reader(kind: type[WireStruct], fields: Sequence[Field], form: _Form) -> Read:
    plain = form.plain(fields)
    steps = _steps(kind, plain, form)
    read_tags = _tags_reader(kind, form.tagged(fields), form) if form.is_flexible else None
    made = _maker(kind, fields, plain)

    def read(data: memoryview, position: int) -> tuple[WireStruct, int]:
        values: list[Any] = []
        for is_run, read_value in steps:
            value, position = read_value(data, position)
            if is_run:
                values += value
            else:
                values.append(value)
        struct = made(values)
        if read_tags is None:
            return struct, position
        # Most messages have no tagged fields. One byte says so.
        if data[position] == 0:
            return struct, position + 1
        return struct, read_tags(struct, data, position)

    return read


def _maker(
    kind: type[WireStruct], fields: Sequence[Field], plain: Sequence[Field]
) -> Callable[[list[Any]], WireStruct]:
    """Returns a function that makes a struct of the values of `plain`. The other fields get their defaults."""
    if list(fields[: len(plain)]) == list(plain):
        return lambda values: kind(*values)
    # The fields of a class have one order for all versions, so the values are moved to their positions.
    absent = [each for each in fields if each not in plain]
    defaults = [each.default for each in absent]
    positions = {each.name: position for position, each in enumerate([*plain, *absent])}
    in_order = itemgetter(*(positions[each.name] for each in fields))
    return lambda values: kind(*in_order(values + defaults))


def _steps(kind: type[WireStruct], fields: Sequence[Field], form: _Form) -> list[tuple[bool, Read]]:
    """Returns the steps that read the fields in order. A step may read several adjacent fields of
    fixed size together.
    """
    steps: list[tuple[bool, Read]] = []
    for run in _runs(fields):
        if len(run) > 1:
            steps.append((True, _run_reader([each.kind for each in run])))
        else:
            steps.append((False, _field_reader(kind, run[0], form)))
    return steps


def _runs(fields: Sequence[Field]) -> list[list[Field]]:
    """Returns the fields in their order, with neighbours of fixed size in one list."""
    runs: list[list[Field]] = []
    for each in fields:
        if runs and _is_fixed(each) and _is_fixed(runs[-1][-1]):
            runs[-1].append(each)
        else:
            runs.append([each])
    return runs


def _is_fixed(field: Field) -> bool:
    return field.kind in FIXED_FORMATS and not field.is_array


def _run_reader(kinds: Sequence[str]) -> Read:
    layout = fixed(kinds)

    def read(data: memoryview, position: int) -> tuple[tuple[Any, ...], int]:
        return layout.unpack_from(data, position), position + layout.size

    return read


def _tags_reader(
    kind: type[WireStruct], fields: Mapping[int, Field], form: _Form
) -> Callable[[WireStruct, memoryview, int], int]:
    readers = {tag: (field.name, _field_reader(kind, field, form, is_tagged=True)) for tag, field in fields.items()}

    def read(struct: WireStruct, data: memoryview, position: int) -> int:
        count, position = read_tag_count(data, position)
        for _ in range(count):
            tag, position = read_varint(data, position)
            size, position = read_varint(data, position)
            end = position + size
            if end > len(data):
                raise ValueError("a tagged field exceeds the end")
            if tag in readers:
                name, read_value = readers[tag]
                value, _ = read_value(data[:end], position)
                setattr(struct, name, value)
            position = end
        return position

    return read


def _field_reader(kind: type[WireStruct], field: Field, form: _Form, *, is_tagged: bool = False) -> Read:
    is_nullable = form.version in field.nullable
    read_size = read_compact_size if form.is_flexible else read_size32
    count_max = form.count_max if field.count_max is None else field.count_max
    if field.is_array and field.kind in FIXED_FORMATS:
        return fixed_array_reader(field.kind, read_size, is_nullable=is_nullable, count_max=count_max)
    if field.is_array:
        element = field._replace(is_array=False)
        read_element = _value_reader(kind, element, form, is_nullable=False)
        # Answers may be longer than requests, because the client trusts the broker that it chose.
        weigh = _weigher(field) if form.count_max is not None else None
        return array_reader(read_element, read_size, is_nullable=is_nullable, count_max=count_max, weigh=weigh)
    if field.kind == STRUCT and is_nullable and not is_tagged:
        return _nullable_reader(_value_reader(kind, field, form, is_nullable=False))
    return _value_reader(kind, field, form, is_nullable=is_nullable)


def _weigher(field: Field) -> Callable[[WireStruct], int] | None:
    """Returns a function that counts the elements of all arrays within an element; None if it has no array."""
    arrays = [(attrgetter(each.name), _weigher(each)) for each in field.fields if each.is_array]
    if not arrays:
        return None

    def weigh(element: WireStruct) -> int:
        weight = 0
        for inner_of, weigh_inner in arrays:
            inner = inner_of(element)
            if inner:
                weight += len(inner)
                if weigh_inner is not None:
                    weight += sum(map(weigh_inner, inner))
        return weight

    return weigh


def _value_reader(kind: type[WireStruct], field: Field, form: _Form, *, is_nullable: bool) -> Read:
    if field.kind == STRUCT:
        return _struct_reader(kind.structs[field.name], field.fields, form)
    if field.kind == "string":
        return text_reader(read_compact_size if form.is_flexible else read_size16, is_nullable=is_nullable)
    if field.kind in ("bytes", "records"):
        # Records are large, so they are not copied.
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


def _struct_writer(kind: type[WireStruct], fields: Sequence[Field], form: _Form) -> Write:
    steps = [
        (attrgetter(*(each.name for each in run)), _run_writer(kind, run, form)) for run in _runs(form.plain(fields))
    ]
    tagged = form.tagged(fields)
    write_tags = _tags_writer(kind, tagged, form) if tagged else None

    def write(out: bytearray, struct: WireStruct) -> None:
        if struct.__class__ is not kind:
            raise ValueError(f"a {type(struct).__name__} where a {kind.__name__} is expected")
        for value_of, write_value in steps:
            write_value(out, value_of(struct))
        if write_tags is not None:
            write_tags(out, struct)
        elif form.is_flexible:
            out += NO_TAGS

    return write


def _run_writer(kind: type[WireStruct], run: Sequence[Field], form: _Form) -> Write:
    if len(run) == 1:
        return _field_writer(kind, run[0], form)
    pack = fixed([each.kind for each in run]).pack

    def write(out: bytearray, values: tuple[Any, ...]) -> None:
        out += pack(*values)

    return write


def _tags_writer(kind: type[WireStruct], fields: Mapping[int, Field], form: _Form) -> Write:
    tagged = [
        (tag, attrgetter(field.name), field.default, _field_writer(kind, field, form, is_tagged=True))
        for tag, field in fields.items()
    ]

    def write(out: bytearray, struct: WireStruct) -> None:
        values = [
            (tag, value, write_value)
            for tag, value_of, default, write_value in tagged
            if _differs(value := value_of(struct), default)
        ]
        out += varint(len(values))
        for tag, value, write_value in values:
            field_out = bytearray()
            write_value(field_out, value)
            out += varint(tag) + varint(len(field_out)) + field_out

    return write


def _differs(value: Any, default: Any) -> bool:
    """Returns whether a tagged field is written. It is not if it has its default."""
    return value is not None and value != default and (default != () or len(value) > 0)


def _field_writer(kind: type[WireStruct], field: Field, form: _Form, *, is_tagged: bool = False) -> Write:
    is_nullable = form.version in field.nullable
    size = compact_size if form.is_flexible else size32
    if field.is_array:
        write = array_writer(_value_writer(kind, field._replace(is_array=False), form), size)
    elif field.kind == STRUCT and is_nullable and not is_tagged:
        return _nullable_writer(_value_writer(kind, field, form))
    else:
        write = _value_writer(kind, field, form)
    if is_nullable or field.kind == "records" or _is_fixed(field):
        return write
    # If a version has no null, the empty value is written instead.
    if field.is_array:
        return _filled_writer(write, ())
    return _filled_writer(write, kind.structs[field.name]() if field.kind == STRUCT else DEFAULTS[field.kind])


def _value_writer(kind: type[WireStruct], field: Field, form: _Form) -> Write:
    if field.kind == STRUCT:
        return _struct_writer(kind.structs[field.name], field.fields, form)
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
