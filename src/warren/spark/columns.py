"""The columns of a message as Spark knows them, and the batches of a scan made into those that a query asks for."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from warren.errors import BadColumn, MalformedValue
from warren.message import NO_CORR_OFFSET
from warren.spark.nulls import nulls_where_empty, nulls_where_equal
from warren.storage.arrow import SCHEMA

HEADER_FIELDS: Final = (StructField("key", StringType()), StructField("value", BinaryType()))


class MessageColumn(NamedTuple):
    """The type of a column, the column of a scan that it is made of ("" for none), and whether it may be null."""

    kind: DataType
    scanned: str
    is_nullable: bool = False


MESSAGE_COLUMNS: Final[Mapping[str, MessageColumn]] = MappingProxyType(
    {
        "topic": MessageColumn(StringType(), ""),
        "partition": MessageColumn(IntegerType(), ""),
        "offset": MessageColumn(LongType(), "number"),
        "timestamp": MessageColumn(TimestampType(), "timestamp"),
        "key": MessageColumn(BinaryType(), "key", is_nullable=True),
        "value": MessageColumn(BinaryType(), "body"),
        "id": MessageColumn(StringType(), "id", is_nullable=True),
        "tag": MessageColumn(StringType(), "tag", is_nullable=True),
        "corr_offset": MessageColumn(LongType(), "corr_offset", is_nullable=True),
        "byte_offset": MessageColumn(LongType(), "offset"),
        "headers": MessageColumn(ArrayType(StructType(list(HEADER_FIELDS))), "headers", is_nullable=True),
    }
)
"""What a query may ask for by name, in the order in which it comes where the query does not."""
MADE_COLUMNS: Final = frozenset(("id", "tag", "corr_offset", "headers"))
"""What a scan gives otherwise than Spark wants it: without nulls."""
BYTES_AS_TEXT: Final = ("key", "value")
"""What may also be asked for as a string: whoever does so knows that it is text."""


def message_schema(*, include_headers: bool, value_as_text: bool = False) -> StructType:
    """The schema of a query that gives none. Every field may be null: Spark compares that, too."""
    kinds = {name: column.kind for name, column in MESSAGE_COLUMNS.items() if include_headers or name != "headers"}
    if value_as_text:
        kinds["value"] = StringType()
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def is_message_column(field: StructField) -> bool:
    """Whether a field has the name and a type of a column of the message."""
    column = MESSAGE_COLUMNS.get(field.name.lower())
    return column is not None and _fits(field, column)


def _fits(field: StructField, column: MessageColumn) -> bool:
    as_text = field.name.lower() in BYTES_AS_TEXT and field.dataType == StringType()
    return as_text or _nullable(field.dataType) == _nullable(column.kind)


def _nullable(kind: DataType) -> str:
    """The type without what it says of nulls, which people leave out or not."""
    return kind.simpleString()


def checked_column(field: StructField) -> str:
    """The name of the message's column that the field is; BadColumn where it is none, or has another type."""
    name = field.name.lower()
    column = MESSAGE_COLUMNS.get(name)
    if column is None:
        near = difflib.get_close_matches(name, MESSAGE_COLUMNS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"the columns are {', '.join(MESSAGE_COLUMNS)}"
        raise BadColumn(field.name, f"a message has none of that name; {hint} Fields of the value need a valueFormat")
    if not _fits(field, column):
        also = " or string" if name in BYTES_AS_TEXT else ""
        raise BadColumn(
            field.name, f"it is {column.kind.simpleString()}{also}, and not {field.dataType.simpleString()}"
        )
    if column.is_nullable and not field.nullable:
        raise BadColumn(field.name, "it is null in messages that have none; leave out NOT NULL")
    return name


class Origin:
    """Where rows come from, and the two columns that tell it: made once, and cut to the length that is needed."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic, self.partition = topic, partition
        self._topics, self._partitions = pa.array([], pa.string()), pa.array([], pa.int32())

    def topics(self, count: int) -> pa.Array:
        if len(self._topics) < count:
            self._topics = pa.repeat(pa.scalar(self.topic, pa.string()), count)
        return self._topics.slice(0, count)

    def partitions(self, count: int) -> pa.Array:
        if len(self._partitions) < count:
            self._partitions = pa.repeat(pa.scalar(self.partition, pa.int32()), count)
        return self._partitions.slice(0, count)


class Projection(Protocol):
    """What of the messages a query wants. `scanned` are the columns of a scan that `batch` needs for it."""

    @property
    def scanned(self) -> Sequence[str]: ...
    def batch(self, origin: Origin, rows: pa.RecordBatch) -> pa.RecordBatch: ...


class MessageProjection:
    """Columns of the message, any of them, in any order."""

    def __init__(self, schema: StructType) -> None:
        self._names = [checked_column(field) for field in schema.fields]
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._given_names, self._kinds = self._schema.names, self._schema.types
        self.scanned = scanned_columns(schema.fields)
        given = zip(self.scanned, self._given_names, strict=False)
        as_scanned = [SCHEMA.field(name).with_name(given_name) for name, given_name in given]
        self._is_renamed_only = pa.schema(as_scanned) == self._schema and MADE_COLUMNS.isdisjoint(self._names)

    def batch(self, origin: Origin, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as the query wants them."""
        if self._is_renamed_only:
            return rows.rename_columns(self._given_names)
        named = zip(self._names, self._kinds, strict=True)
        arrays = [message_array(name, kind, origin, rows) for name, kind in named]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def scanned_columns(fields: Sequence[StructField]) -> list[str]:
    """The columns of a scan that columns of the message are made of, each once, and at least one."""
    names = [field.name.lower() for field in fields]
    wanted = [MESSAGE_COLUMNS[name].scanned for name in names if MESSAGE_COLUMNS[name].scanned]
    is_text = any(
        name in BYTES_AS_TEXT and field.dataType == StringType() for name, field in zip(names, fields, strict=True)
    )
    # The number tells which message is to blame where bytes are no text, and how many there are.
    return list(dict.fromkeys([*wanted, *(["number"] if is_text or not wanted else [])]))


def message_array(name: str, kind: pa.DataType, origin: Origin, rows: pa.RecordBatch) -> pa.Array:
    """One column of the message, for all rows."""
    if name == "topic":
        return origin.topics(len(rows))
    if name == "partition":
        return origin.partitions(len(rows))
    array = rows.column(MESSAGE_COLUMNS[name].scanned)
    if name in ("id", "tag"):
        return nulls_where_empty(array)
    if name == "corr_offset":
        return nulls_where_equal(array, NO_CORR_OFFSET)
    if name == "headers":
        return _listed_headers(array, kind)
    return array if array.type == kind else _text(array, kind, origin, rows, name)


def _listed_headers(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Maps as lists of pairs, over the same bytes; null for none, as in Kafka."""
    pairs = pa.StructArray.from_arrays([array.keys, array.items], fields=list(kind.value_type))
    lists = pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[pairs])
    return nulls_where_empty(lists)


def _text(array: pa.Array, kind: pa.DataType, origin: Origin, rows: pa.RecordBatch, name: str) -> pa.Array:
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        row = next(row for row in range(len(array)) if not _is_text(array[row].as_py()))
        number = rows.column("number")[row].as_py()
        reason = f"cannot be read as a string, because its {name} is not UTF-8; ask for it as binary"
        raise MalformedValue(origin.topic, origin.partition, number, reason) from None


def _is_text(value: bytes | None) -> bool:
    try:
        return value is None or bool(value.decode()) or True
    except UnicodeDecodeError:
        return False
